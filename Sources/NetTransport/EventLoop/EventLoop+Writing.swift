// Sends bytes: the bytes for a connection are collected in one block and sent at the end of the
// turn by one system call. epoll watches for writability only while the kernel's buffer is full.
import BrokerTerms
import COpenSSL
import CLinuxShims
import Glibc

/// How bytes are treated if their connection reads too slowly.
public enum Traffic: Hashable, Sendable {
    /// Refused, and counted, if more than the connection's `outgoingMaximum` would wait, or more
    /// than its share while all connections together hold `outgoingTotalMaximum`.
    case droppable
    /// The same with a part of `outgoingMaximum`, so it is refused before the rest.
    case droppedFirst
    /// The same with a multiple of `outgoingMaximum`, so it is refused after the rest.
    case droppedLast
    /// The stream is invalid without it: the connection is closed if more than the configured
    /// `outgoingHardMaximum` would wait. While all connections together hold
    /// `outgoingTotalMaximum`, those that hold the most are closed, and before them those that have
    /// not logged in.
    case required
}

extension EventLoop {
    /// Appends bytes that are sent at the end of this turn. False if they were refused: the
    /// connection is not open, or its limit is reached (see ``Traffic``).
    @inlinable
    public mutating func append(
        _ bytes: UnsafeRawBufferPointer, to connection: ConnectionID, _ traffic: Traffic
    ) -> Bool {
        guard let target = reserve(bytes.count, for: connection, traffic) else { return false }
        if let source = bytes.baseAddress {
            target.copyMemory(from: source, byteCount: bytes.count)
        }
        commit(bytes.count, for: connection)
        return true
    }

    /// Reserves `byteCount` bytes after the unsent bytes, for encoders that write in place. Nil if
    /// `append` would return false. Write, then call ``commit(_:for:)``; any other call in between
    /// invalidates the pointer. Bytes that are not committed are not sent.
    @inlinable
    public mutating func reserve(
        _ byteCount: Int, for connection: ConnectionID, _ traffic: Traffic
    ) -> UnsafeMutableRawPointer? {
        guard let slot = slot(of: connection), slots[slot].phase == .open else { return nil }
        let maximum = outgoingMaximum(slot, traffic)
        let end = Int(slots[slot].outgoingEnd)
        if slots[slot].outgoingByteCount + byteCount <= maximum,
            end + byteCount <= Int(slots[slot].outgoingCapacity),
            let block = slots[slot].outgoing
        {
            return block + end
        }
        return makeRoom(byteCount, for: slot, traffic: traffic)
    }

    /// The number of waiting bytes above which a connection's traffic is refused.
    @inlinable @inline(__always)
    func outgoingMaximum(_ slot: Int, _ traffic: Traffic) -> Int {
        switch traffic {
        case .droppable: Int(slots[slot].outgoingMaximum)
        case .required: configuration.outgoingHardMaximum
        case .droppedFirst:
            Int(slots[slot].outgoingMaximum) / TransportLimits.droppedFirstDivisor
        case .droppedLast:
            min(
                Int(slots[slot].outgoingMaximum) * TransportLimits.droppedLastFactor,
                configuration.outgoingHardMaximum)
        }
    }

    /// Appends the first `byteCount` bytes of the space last reserved for the connection.
    @inlinable
    public mutating func commit(_ byteCount: Int, for connection: ConnectionID) {
        let slot = connection.slot
        let end = Int(slots[slot].outgoingEnd) + byteCount
        precondition(
            slots[slot].generation == connection.generation
                && end <= Int(slots[slot].outgoingCapacity),
            "commit of \(byteCount) bytes exceeds the reserved space of connection \(connection)")
        slots[slot].outgoingEnd = UInt32(truncatingIfNeeded: end)
        if !slots[slot].flags.contains(.sendPending) {
            set(.sendPending, slot)
            toSend.append(slot)
        }
    }

    /// The number of unsent bytes; 0 for a closed connection.
    @inlinable
    public func outgoingByteCount(of connection: ConnectionID) -> Int {
        guard let slot = slot(of: connection) else { return 0 }
        if slots[slot].flags.contains(.framed) { return framedOutgoingByteCount(slot) }
        return slots[slot].outgoingByteCount
    }

    /// Whether bytes wait because the peer does not read; ``LoopHandler/outgoingDrained(_:in:)``
    /// reports when they are sent.
    public func isSendBlocked(_ connection: ConnectionID) -> Bool {
        guard let slot = slot(of: connection) else { return false }
        return slots[slot].flags.contains(.sendBlocked)
    }

    /// Sets the number of waiting bytes above which this connection's droppable traffic is refused;
    /// at most the configured `outgoingHardMaximum`.
    public mutating func setOutgoingMaximum(_ byteCount: Int, for connection: ConnectionID) {
        precondition(
            byteCount <= configuration.outgoingHardMaximum,
            "\(byteCount) exceeds outgoingHardMaximum \(configuration.outgoingHardMaximum)")
        guard let slot = slot(of: connection) else { return }
        slots[slot].outgoingMaximum = UInt32(byteCount)
    }

    // MARK: - Blocks

    /// The slow path of `reserve`: refuses above the limit, or takes a larger block.
    @usableFromInline
    mutating func makeRoom(
        _ byteCount: Int, for slot: Int, traffic: Traffic
    ) -> UnsafeMutableRawPointer? {
        let waiting = slots[slot].outgoingByteCount
        if waiting + byteCount > outgoingMaximum(slot, traffic) {
            if traffic == .required {
                finishClose(slot, .outgoingOverflow)
            } else {
                countDrop(traffic)
            }
            return nil
        }
        guard let old = slots[slot].outgoing else {
            let isFramed = slots[slot].flags.contains(.framed)
            let wanted = max(
                byteCount + (isFramed ? FrameState.roomByteCount : 0),
                1 << Int(slots[slot].outgoingBits))
            guard isWithinTotal(wanted, for: slot, traffic: traffic) else { return nil }
            let (block, capacity) = pool.take(wanted)
            slots[slot].outgoing = block
            setCapacity(capacity, slot)
            if isFramed { openFirstFrame(slot) }
            return block + Int(slots[slot].outgoingEnd)
        }
        let start = Int(slots[slot].outgoingStart)
        let oldCapacity = Int(slots[slot].outgoingCapacity)
        // Moving the bytes to the front pays only if it frees at least half: otherwise the block of
        // a slow reader would be moved again and again.
        if waiting + byteCount <= oldCapacity / 2 {
            old.copyMemory(from: old + start, byteCount: waiting)
        } else {
            let wanted = max(waiting + byteCount, 2 * oldCapacity)
            guard isWithinTotal(wanted, for: slot, traffic: traffic) else { return nil }
            let (block, capacity) = pool.take(wanted)
            block.copyMemory(from: old + start, byteCount: waiting)
            pool.giveBack(old, capacity: oldCapacity)
            slots[slot].outgoing = block
            setCapacity(capacity, slot)
        }
        slots[slot].outgoingStart = 0
        slots[slot].outgoingEnd = UInt32(waiting)
        return slots[slot].outgoing! + waiting
    }

    /// Whether a connection may have a block of this size within the total of all connections. A
    /// block of `outgoingShare` is always allowed. For larger ones, connections with larger blocks
    /// are closed, and first of all those that have not logged in, unless it is one of them.
    private mutating func isWithinTotal(
        _ byteCount: Int, for slot: Int, traffic: Traffic
    ) -> Bool {
        if byteCount <= TransportLimits.outgoingShare { return true }
        let maximum = configuration.outgoingTotalMaximum
        let isPending = details[slot].isPending
        while outgoingHeld + byteCount - Int(slots[slot].outgoingCapacity) > maximum {
            if !isPending, pendingHeld > 0,
                let stranger = largestHolder(above: TransportLimits.outgoingShare, pending: true)
            {
                finishClose(stranger, .outgoingOverflow)
                continue
            }
            if traffic != .required {
                countDrop(traffic)
                return false
            }
            guard let largest = largestHolder(above: byteCount, pending: isPending) else {
                finishClose(slot, .outgoingOverflow)
                return false
            }
            finishClose(largest, .outgoingOverflow)
        }
        return true
    }

    private mutating func countDrop(_ traffic: Traffic) {
        switch traffic {
        case .droppedFirst: counters.dropsFirst += 1
        case .droppable: counters.drops += 1
        case .droppedLast: counters.dropsLast += 1
        case .required: break
        }
    }

    /// The connection with the largest block, of those that have not logged in or of all, if that
    /// is larger than `byteCount`. The search visits all connections; its caller frees a block each
    /// time.
    private func largestHolder(above byteCount: Int, pending isPending: Bool) -> Int? {
        var largest: Int?
        var most = UInt32(clamping: byteCount)
        for slot in 0..<slotsTouched
        where slots[slot].outgoingCapacity > most && (!isPending || details[slot].isPending) {
            most = slots[slot].outgoingCapacity
            largest = slot
        }
        return largest
    }

    /// What a connection adds to ``pendingHeld``.
    func pendingShare(of slot: Int) -> Int {
        let capacity = Int(slots[slot].outgoingCapacity)
        return details[slot].isPending && capacity > TransportLimits.outgoingShare ? capacity : 0
    }

    private mutating func setCapacity(_ capacity: Int, _ slot: Int) {
        outgoingHeld += capacity - Int(slots[slot].outgoingCapacity)
        pendingHeld -= pendingShare(of: slot)
        slots[slot].outgoingCapacity = UInt32(capacity)
        pendingHeld += pendingShare(of: slot)
    }

    mutating func releaseOutgoing(_ slot: Int) {
        guard let block = slots[slot].outgoing else { return }
        // The next block begins with the size of this one, up to a full TLS record.
        let used = max(1, Int(slots[slot].outgoingEnd))
        let bits = Int.bitWidth - (used - 1).leadingZeroBitCount
        slots[slot].outgoingBits = UInt8(min(bits, 14))
        pool.giveBack(block, capacity: Int(slots[slot].outgoingCapacity))
        slots[slot].outgoing = nil
        slots[slot].outgoingStart = 0
        slots[slot].outgoingEnd = 0
        setCapacity(0, slot)
    }

    // MARK: - Sending

    /// Whether connections wait that earlier turns had no time for.
    @usableFromInline
    var hasLateSends: Bool { lateSent < toSendLate.count }

    /// Sends for the connections on the lists, each once, within the limit of a turn. New ones come
    /// first: the answer for one client does not wait behind a message for ten thousand others. The
    /// arena is free after this.
    @usableFromInline
    mutating func flushAll() {
        forgetSent()
        let lateEnd = min(toSendLate.count, configuration.sendsPerTurn)
        sendNew()
        while lateSent < lateEnd {
            sendListed(Int(toSendLate.slots[lateSent]))
            lateSent += 1
        }
        arenaUsed = 0
    }

    private mutating func sendNew() {
        var end = min(toSend.count, configuration.sendsPerTurn)
        // A slot is on the list twice if its connection was closed and another one came.
        if toSendLate.count + toSend.count - end > configuration.connectionsMaximum {
            end = toSend.count
        }
        for index in 0..<end { sendListed(Int(toSend.slots[index])) }
        for index in end..<toSend.count { toSendLate.append(Int(toSend.slots[index])) }
        toSend.count = 0
    }

    /// Removes the connections from the late list that have been sent to.
    private mutating func forgetSent() {
        guard lateSent > 0 else { return }
        let count = toSendLate.count - lateSent
        toSendLate.slots.update(from: toSendLate.slots + lateSent, count: count)
        toSendLate.count = count
        lateSent = 0
    }

    private mutating func sendListed(_ slot: Int) {
        switch slots[slot].phase {
        case .open, .flushing: send(slot)
        case .free, .connecting, .awaitingHeader, .handshaking, .draining, .dead: return
        }
    }

    /// Sends the unsent bytes until the kernel's buffer is full.
    mutating func send(_ slot: Int) {
        if slots[slot].flags.contains(.framed) { closeFrame(slot) }
        if slots[slot].outgoingByteCount > 0 {
            let sent = slots[slot].tls == nil ? sendPlain(slot) : sendTLS(slot)
            guard slots[slot].phase == .open || slots[slot].phase == .flushing else { return }
            // Not `+=`, because of the compiler: see `set(_:_:)`.
            slots[slot].outgoingStart = slots[slot].outgoingStart + UInt32(sent)
        }
        guard slots[slot].outgoingByteCount == 0 else {
            counters.shortWrites += 1
            set(.sendBlocked, slot)
            updateInterest(slot)
            if slots[slot].flags.contains(.framed) { openFrame(slot) }
            return
        }
        clear([.sendPending, .sendBlocked], slot)
        releaseOutgoing(slot)
        if slots[slot].phase == .flushing {
            shutDown(slot)
        } else {
            updateInterest(slot)
        }
    }

    private mutating func sendPlain(_ slot: Int) -> Int {
        guard let block = slots[slot].outgoing else {
            preconditionFailure("slot \(slot) has no outgoing block")
        }
        let source = block + Int(slots[slot].outgoingStart)
        while true {
            let count = Glibc.send(
                slots[slot].descriptor, source, slots[slot].outgoingByteCount,
                Int32(MSG_NOSIGNAL))
            if count >= 0 {
                counters.sends += 1
                counters.bytesSent += UInt64(count)
                return count
            }
            switch errno {
            case EAGAIN, ENOBUFS: return 0
            case EINTR: continue
            default:
                failSystem(slot, errno)
                return 0
            }
        }
    }

    /// Sends everything in as few records as TLS allows (16 KiB each), until the kernel's buffer is
    /// full.
    private mutating func sendTLS(_ slot: Int) -> Int {
        guard let block = slots[slot].outgoing, let session = slots[slot].tls else {
            preconditionFailure("slot \(slot) has no outgoing block or no TLS session")
        }
        let source = block + Int(slots[slot].outgoingStart)
        let total = slots[slot].outgoingByteCount
        var sent = 0
        while sent < total {
            let count = SSL_write(session, source + sent, Int32(total - sent))
            guard count > 0 else {
                switch SSL_get_error(session, count) {
                case SSL_ERROR_WANT_WRITE: break
                case SSL_ERROR_WANT_READ: set(.writeWaitsForRead, slot)
                case let error: failTLS(slot, error)
                }
                break
            }
            counters.sends += 1
            counters.bytesSent += UInt64(count)
            sent += Int(count)
        }
        return sent
    }

    /// The kernel's buffer has space again.
    mutating func becameWritable<Handler: LoopHandler & ~Copyable>(
        _ slot: Int, _ handler: inout Handler
    ) {
        if slots[slot].flags.contains(.readWaitsForWrite) {
            clear(.readWaitsForWrite, slot)
            listForReading(slot)
        }
        guard slots[slot].flags.contains(.sendBlocked) else {
            updateInterest(slot)
            return
        }
        sendBlocked(slot, &handler)
    }

    /// Sends bytes that were blocked, and notifies the handler if all are sent.
    mutating func sendBlocked<Handler: LoopHandler & ~Copyable>(
        _ slot: Int, _ handler: inout Handler
    ) {
        send(slot)
        if slots[slot].phase == .open, !slots[slot].flags.contains(.sendBlocked) {
            handler.outgoingDrained(name(of: slot), in: &self)
        }
    }

    // MARK: - epoll

    /// Registers a new connection. If the kernel has no memory for it, the connection is closed
    /// with that reason.
    mutating func register(_ slot: Int, _ interest: ConnectionSlot.Interest) {
        slots[slot].interest = interest
        if !tellEpoll(slot, EPOLL_CTL_ADD) { failSystem(slot, errno) }
    }

    /// Makes epoll watch for `interest`; no system call if it does already.
    mutating func watch(_ slot: Int, _ interest: ConnectionSlot.Interest) {
        guard slots[slot].interest != interest else { return }
        slots[slot].interest = interest
        counters.interestChanges += 1
        // Changing a registered descriptor cannot fail.
        precondition(tellEpoll(slot, EPOLL_CTL_MOD), "epoll_ctl: \(systemErrorText(errno))")
    }

    /// Makes epoll watch for what an open or flushing connection waits for.
    mutating func updateInterest(_ slot: Int) {
        let flags = slots[slot].flags
        let input =
            slots[slot].phase == .open && !flags.contains(.readPaused)
            || flags.contains(.writeWaitsForRead)
        let output =
            flags.contains(.sendBlocked) && !flags.contains(.writeWaitsForRead)
            || flags.contains(.readWaitsForWrite)
        switch (input, output) {
        case (true, true): watch(slot, .both)
        case (true, false): watch(slot, .input)
        case (false, true): watch(slot, .output)
        case (false, false): watch(slot, .nothing)
        }
    }

    private func tellEpoll(_ slot: Int, _ operation: Int32) -> Bool {
        let events: UInt32 =
            switch slots[slot].interest {
            case .nothing: 0
            case .input: EPOLLIN.rawValue
            case .output: EPOLLOUT.rawValue
            case .both: EPOLLIN.rawValue | EPOLLOUT.rawValue
            }
        return linux_epoll_set(
            epoll, operation, slots[slot].descriptor, events, name(of: slot).rawValue) == 0
    }
}

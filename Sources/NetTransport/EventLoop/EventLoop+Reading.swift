// Receives bytes. They are read into the turn's arena, behind the bytes that the connection has
// kept of an incomplete packet, so that every packet is contiguous.
import BrokerTerms
import COpenSSL
import CLinuxShims
import Glibc
import Primitives

/// Why reading from a connection is paused. Reading resumes when the last reason ends.
public struct ReadPause: OptionSet, Hashable, Sendable {
    public let rawValue: UInt8

    public init(rawValue: UInt8) { self.rawValue = rawValue }

    /// The reason of handlers that need only one.
    public static var handler: ReadPause { ReadPause(rawValue: 1 << 0) }
    /// Its login has no reply yet.
    public static var login: ReadPause { ReadPause(rawValue: 1 << 1) }
    /// It exceeds its rate.
    public static var rate: ReadPause { ReadPause(rawValue: 1 << 2) }
    /// Its earlier requests wait for their share of the processor.
    public static var budget: ReadPause { ReadPause(rawValue: 1 << 3) }
    /// Too many of its requests have no reply yet.
    public static var answers: ReadPause { ReadPause(rawValue: 1 << 4) }
}

extension EventLoop {
    /// Stops `received` for this connection until ``resumeReading(_:from:)`` with the same reason;
    /// unconsumed bytes are kept, and the kernel's full buffer slows the peer down.
    public mutating func pauseReading(
        _ connection: ConnectionID, for reason: ReadPause = .handler
    ) {
        guard let slot = slot(of: connection) else { return }
        slots[slot].readPauses = slots[slot].readPauses.union(reason)
        set(.readPaused, slot)
    }

    /// Ends a pause. After the last one, reading continues where ``pauseReading(_:for:)`` stopped
    /// it, with the kept bytes in the next turn.
    public mutating func resumeReading(
        _ connection: ConnectionID, from reason: ReadPause = .handler
    ) {
        guard let slot = slot(of: connection), slots[slot].flags.contains(.readPaused) else {
            return
        }
        slots[slot].readPauses = slots[slot].readPauses.subtracting(reason)
        guard slots[slot].readPauses.isEmpty else { return }
        clear(.readPaused, slot)
        guard slots[slot].phase == .open else { return }
        if slots[slot].kept != nil { set(.showKept, slot) }
        listForReading(slot)
        updateInterest(slot)
    }

    /// Sets the largest packet (unconsumed bytes) of this connection, up to the configured maximum.
    /// A larger one closes it with `packetTooLarge`.
    public mutating func setPacketMaximum(_ byteCount: Int, for connection: ConnectionID) {
        precondition(
            byteCount <= configuration.packetMaximum,
            "\(byteCount) exceeds packetMaximum \(configuration.packetMaximum)")
        guard let slot = slot(of: connection) else { return }
        (details + slot).pointee.packetMaximum = byteCount
    }

    /// Bytes that the turn's arena can still take.
    public var arenaRoom: Int { arenaMemory.count - arenaUsed }

    /// Copies bytes to the end of the turn's arena, where they are valid as long as those of the
    /// connections. Within `received`, at most ``TransportLimits/arenaAdditionMaximum`` in total.
    public mutating func appendToArena(_ bytes: UnsafeRawBufferPointer) -> ByteRange {
        precondition(
            arenaMemory.count - arenaUsed >= bytes.count,
            "the arena has no space for \(bytes.count) bytes")
        let range = takeArena(bytes.count)
        UnsafeMutableRawBufferPointer(rebasing: arenaMemory[Int(range.offset)...])
            .copyMemory(from: bytes)
        return range
    }

    // MARK: - Reading

    mutating func listForReading(_ slot: Int) {
        guard !slots[slot].flags.contains(.readListed) else { return }
        set(.readListed, slot)
        toRead.append(slot)
    }

    /// Reads the connections whose bytes epoll does not report: bytes in OpenSSL's or kept buffers.
    @usableFromInline
    mutating func readListed<Handler: LoopHandler & ~Copyable>(_ handler: inout Handler) {
        guard toRead.count > 0 else { return }
        swap(&toRead, &readingNow)
        for index in 0..<readingNow.count {
            let slot = Int(readingNow.slots[index])
            // A slot whose connection was closed since, and that may have a new one, does not have
            // the flag.
            guard slots[slot].flags.contains(.readListed) else { continue }
            clear(.readListed, slot)
            if slots[slot].phase == .open { read(slot, &handler) }
        }
        readingNow.count = 0
    }

    /// Lists a connection for reading if OpenSSL holds some of its bytes: epoll does not know.
    mutating func listPending(_ slot: Int) {
        if let session = slots[slot].tls, SSL_has_pending(session) == 1 { listForReading(slot) }
    }

    mutating func becameReadable<Handler: LoopHandler & ~Copyable>(
        _ slot: Int, signals: UInt32, _ handler: inout Handler
    ) {
        guard slots[slot].phase == .open else { return }
        if slots[slot].flags.contains(.readPaused) {
            if signals & (EPOLLERR.rawValue | EPOLLHUP.rawValue) != 0 {
                // epoll always reports it: ignoring it would spin.
                closeAfterFailure(slot)
            } else {
                updateInterest(slot)
            }
            return
        }
        if slots[slot].flags.contains(.writeWaitsForRead) {
            clear(.writeWaitsForRead, slot)
            sendBlocked(slot, &handler)
        }
        guard slots[slot].phase == .open else { return }
        read(slot, &handler)
    }

    /// Reads one burst and passes it to the handler.
    private mutating func read<Handler: LoopHandler & ~Copyable>(
        _ slot: Int, _ handler: inout Handler
    ) {
        guard !slots[slot].flags.contains(.readPaused) else { return }
        let keptCount = slots[slot].kept == nil ? 0 : details[slot].keptCount
        let needed =
            keptCount + TransportLimits.burstMaximum + TransportLimits.arenaAdditionMaximum
        if arenaMemory.count - arenaUsed < needed {
            counters.arenaFills += 1
            endTurn(&handler)
            // The handler may have closed or paused it just now.
            guard slots[slot].phase == .open, !slots[slot].flags.contains(.readPaused) else {
                return
            }
        }
        if slots[slot].flags.contains(.framed) {
            readFrames(slot, &handler)
            return
        }
        guard let bytes = receive(slot) else { return }
        let connection = name(of: slot)
        let consumption = handler.received(bytes, from: connection, in: &self)
        guard self.slot(of: connection) != nil, slots[slot].phase == .open else { return }
        keepRest(slot, of: bytes, consumption)
    }

    /// Reads one burst into the arena, kept bytes first. Nil if there is nothing (new) to pass on.
    private mutating func receive(_ slot: Int) -> ByteRange? {
        if slots[slot].kept == nil {
            let count = receiveBurst(slot, into: arenaMemory.baseAddress! + arenaUsed)
            guard count > 0 else { return nil }
            return takeArena(count)
        }
        let keptCount = details[slot].keptCount
        let base = arenaMemory.baseAddress! + arenaUsed
        var count = 0
        if slots[slot].flags.contains(.showKept) {
            // No bytes are added: a handler that pauses repeatedly must not collect more and more.
            clear(.showKept, slot)
            listPending(slot)
        } else if keptCount < details[slot].keptAwaited {
            return receiveAwaited(slot)
        } else {
            count = receiveBurst(slot, into: base + keptCount)
            guard count > 0 else { return nil }
        }
        guard let kept = slots[slot].kept else {
            preconditionFailure("slot \(slot) has no kept block")
        }
        base.copyMemory(from: kept, byteCount: keptCount)
        return takeArena(keptCount + count)
    }

    /// Appends to a packet whose length is known, without copying it through the arena until it is
    /// complete.
    private mutating func receiveAwaited(_ slot: Int) -> ByteRange? {
        let keptCount = details[slot].keptCount
        growKept(slot, to: keptCount + TransportLimits.burstMaximum)
        guard let kept = slots[slot].kept else {
            preconditionFailure("slot \(slot) has no kept block")
        }
        let count = receiveBurst(slot, into: kept + keptCount)
        guard count > 0 else { return nil }
        // Not `+=`, because of the compiler: see `set(_:_:)`.
        (details + slot).pointee.keptCount = keptCount + count
        guard details[slot].keptCount >= details[slot].keptAwaited else { return nil }
        let range = takeArena(details[slot].keptCount)
        (arenaMemory.baseAddress! + Int(range.offset)).copyMemory(
            from: kept, byteCount: Int(range.count))
        return range
    }

    mutating func takeArena(_ byteCount: Int) -> ByteRange {
        let range = ByteRange(offset: arenaUsed, count: byteCount)
        arenaUsed += byteCount
        return range
    }

    /// Keeps the bytes that the handler did not consume.
    ///
    /// - Parameter undecoded: bytes at the end that the handler was not shown, because they are not
    ///   a whole frame.
    mutating func keepRest(
        _ slot: Int, of bytes: ByteRange, _ consumption: Consumption, undecoded: Int = 0
    ) {
        let rest = Int(bytes.count) - consumption.consumed
        precondition(
            consumption.consumed >= 0 && rest >= 0,
            "consumed \(consumption.consumed) of \(bytes.count) bytes")
        guard rest > 0 else {
            releaseKept(slot)
            return
        }
        let isPaused = slots[slot].flags.contains(.readPaused)
        let maximum = details[slot].packetMaximum
        guard isPaused || max(rest - undecoded, consumption.awaited) <= maximum else {
            close(slot, .packetTooLarge, afterFlush: true)
            return
        }
        (details + slot).pointee.keptCount = 0
        growKept(slot, to: rest)
        guard let kept = slots[slot].kept else {
            preconditionFailure("slot \(slot) has no kept block")
        }
        kept.copyMemory(
            from: arenaMemory.baseAddress! + Int(bytes.offset) + consumption.consumed,
            byteCount: rest)
        (details + slot).pointee.keptCount = rest
        (details + slot).pointee.keptAwaited = consumption.awaited
    }

    mutating func growKept(_ slot: Int, to byteCount: Int) {
        guard slots[slot].kept == nil || details[slot].keptCapacity < byteCount else { return }
        let (block, capacity) = pool.take(byteCount)
        if let old = slots[slot].kept {
            block.copyMemory(from: old, byteCount: details[slot].keptCount)
            pool.giveBack(old, capacity: details[slot].keptCapacity)
        }
        slots[slot].kept = block
        (details + slot).pointee.keptCapacity = capacity
    }

    mutating func releaseKept(_ slot: Int) {
        guard let kept = slots[slot].kept else { return }
        pool.giveBack(kept, capacity: details[slot].keptCapacity)
        slots[slot].kept = nil
        (details + slot).pointee.keptCount = 0
        (details + slot).pointee.keptCapacity = 0
        (details + slot).pointee.keptAwaited = 0
    }

    // MARK: - The socket

    /// Reads at most ``TransportLimits/burstMaximum`` bytes. 0: nothing now, or the connection was
    /// closed.
    mutating func receiveBurst(_ slot: Int, into target: UnsafeMutableRawPointer) -> Int {
        let count =
            slots[slot].tls == nil
            ? receivePlain(slot, into: target) : receiveTLS(slot, into: target)
        if count > 0 {
            slots[slot].lastActivity = now
            counters.bytesReceived += UInt64(count)
        }
        return count
    }

    private mutating func receivePlain(_ slot: Int, into target: UnsafeMutableRawPointer) -> Int {
        while true {
            let count = recv(slots[slot].descriptor, target, TransportLimits.burstMaximum, 0)
            if count > 0 {
                counters.receives += 1
                return count
            }
            if count == 0 {
                close(slot, .peerClosed, afterFlush: true)
                return 0
            }
            if errno == EAGAIN { return 0 }
            if errno == EINTR { continue }
            failSystem(slot, errno)
            return 0
        }
    }

    /// Reads record after record. epoll does not know the bytes that remain in OpenSSL when the
    /// burst is full: the connection is put on a list.
    private mutating func receiveTLS(_ slot: Int, into target: UnsafeMutableRawPointer) -> Int {
        guard let session = slots[slot].tls else { preconditionFailure("slot \(slot) has no TLS") }
        controlRecords.begin()
        var total = 0
        while total < TransportLimits.burstMaximum {
            let count = SSL_read(
                session, target + total, Int32(TransportLimits.burstMaximum - total))
            guard count > 0 else {
                let error = SSL_get_error(session, count)
                // The bytes before an end or an error are passed on first; the error occurs again
                // in the next turn.
                if total > 0, error != SSL_ERROR_WANT_READ, error != SSL_ERROR_WANT_WRITE {
                    ERR_clear_error()
                    listForReading(slot)
                    return total
                }
                stopReadingTLS(slot, error)
                return total
            }
            counters.receives += 1
            total += Int(count)
            if SSL_has_pending(session) == 0 { return total }
        }
        listForReading(slot)
        return total
    }

    private mutating func stopReadingTLS(_ slot: Int, _ error: Int32) {
        switch error {
        case SSL_ERROR_WANT_READ:
            return
        case SSL_ERROR_WANT_WRITE:
            set(.readWaitsForWrite, slot)
            updateInterest(slot)
        case SSL_ERROR_ZERO_RETURN:
            close(slot, .peerClosed, afterFlush: true)
        default:
            failTLS(slot, error)
        }
    }
}

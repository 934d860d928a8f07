// Closes connections and notifies the handler.
import BrokerTerms
import COpenSSL
import CLinuxShims
import Glibc
import WireFormat

extension EventLoop {
    /// Closes a connection. `closed` follows, once, in a later turn.
    ///
    /// With `afterFlush`, the unsent bytes are sent first, then TLS and TCP are shut down in order,
    /// for at most the configured linger time; without it, the connection is closed immediately. In
    /// both cases no more bytes are received or accepted for it.
    public mutating func close(_ connection: ConnectionID, afterFlush: Bool) {
        guard let slot = slot(of: connection) else { return }
        close(slot, .closedByHandler, afterFlush: afterFlush)
    }

    /// The reason of a closed connection as text (of errno, OpenSSL or the certificate), during the
    /// handler's `closed`; empty if the cause is sufficient.
    public func closeDetail(of connection: ConnectionID) -> String {
        let slot = connection.slot
        guard slot < slotsTouched, slots[slot].generation == connection.generation else {
            return ""
        }
        if details[slot].cause == .webSocketFault {
            return (frames + slot).pointee.fault.text.description
        }
        if case .failed(let fault) = details[slot].proxyState { return fault.text.description }
        if details[slot].systemError != 0 { return systemErrorText(details[slot].systemError) }
        if details[slot].verification != Int16(X509_V_OK) {
            let reason = X509_verify_cert_error_string(Int(details[slot].verification))
            return "certificate: " + String(cString: reason!)
        }
        guard details[slot].tlsError != 0 else { return "" }
        let text = OpenSSLFailure(code: UInt(details[slot].tlsError)).text
        guard let identity = failedIdentities[slot] else { return text }
        return identity.hasKey
            ? "\(text), with the pre-shared identity \"\(identity.name)\""
            : "no pre-shared key has the identity \"\(identity.name)\""
    }

    // MARK: - Steps

    mutating func close(_ slot: Int, _ cause: TransportCloseCause, afterFlush: Bool) {
        guard slots[slot].phase == .open, afterFlush else {
            if slots[slot].phase == .flushing || slots[slot].phase == .draining, afterFlush {
                return
            }
            finishClose(slot, cause)
            return
        }
        if slots[slot].flags.contains(.framed) {
            appendClose(slot, cause)
            guard slots[slot].phase == .open else { return }
        }
        // A closing connection does not count as pending.
        settlePending(slot)
        slots[slot].phase = .flushing
        details[slot].cause = cause
        releaseKept(slot)
        startTimer(.linger, slot, milliseconds: configuration.lingerMilliseconds)
        if cause == .peerClosed, slots[slot].flags.isDisjoint(with: [.sendPending, .sendBlocked]) {
            // The peer has closed, and there are no unsent bytes.
            shutDown(slot)
            return
        }
        if !slots[slot].flags.contains(.sendPending) {
            set(.sendPending, slot)
            toSend.append(slot)
        }
    }

    /// An event for a connection whose last bytes are being sent.
    mutating func continueFlushing(_ slot: Int, _ signals: UInt32) {
        if signals & (EPOLLERR.rawValue | EPOLLHUP.rawValue) != 0 {
            finishClose(slot, details[slot].cause)
        } else if slots[slot].flags.contains(.sendBlocked) {
            clear(.writeWaitsForRead, slot)
            send(slot)
        } else {
            // Input of a closing connection is ignored until the unsent bytes are sent.
            updateInterest(slot)
        }
    }

    /// Shuts down TLS and TCP after all bytes are sent, and waits until the peer closes. Closing
    /// with unread input would reset the connection and could discard bytes that the peer has not
    /// read.
    mutating func shutDown(_ slot: Int) {
        if let session = slots[slot].tls, details[slot].tlsError == 0 {
            let result = SSL_shutdown(session)
            if result < 0, SSL_get_error(session, result) == SSL_ERROR_WANT_WRITE {
                set([.sendPending, .sendBlocked], slot)
                updateInterest(slot)
                return
            }
            ERR_clear_error()
        }
        guard details[slot].cause != .peerClosed,
            shutdown(slots[slot].descriptor, Int32(SHUT_WR)) == 0
        else {
            finishClose(slot, details[slot].cause)
            return
        }
        slots[slot].phase = .draining
        watch(slot, .input)
    }

    /// Discards the input of a closing connection, and closes it when the peer has closed.
    mutating func discardInput(_ slot: Int) {
        let (block, capacity) = pool.take(16 * 1024)
        defer { pool.giveBack(block, capacity: capacity) }
        let count = recv(slots[slot].descriptor, block, capacity, 0)
        if count > 0 || (count < 0 && (errno == EAGAIN || errno == EINTR)) { return }
        finishClose(slot, details[slot].cause)
    }

    /// A system call on the socket failed.
    mutating func failSystem(_ slot: Int, _ errno: Int32) {
        precondition(
            errno != EBADF && errno != EFAULT,
            "invalid descriptor or buffer: \(systemErrorText(errno))")
        details[slot].systemError = errno
        finishClose(slot, .networkFailure)
    }

    /// epoll reports an error or the end of both directions on a socket that is not being read.
    mutating func closeAfterFailure(_ slot: Int) {
        var failure: Int32 = 0
        var size = socklen_t(MemoryLayout<Int32>.size)
        getsockopt(slots[slot].descriptor, SOL_SOCKET, SO_ERROR, &failure, &size)
        if failure == 0 {
            finishClose(slot, .peerClosed)
        } else {
            failSystem(slot, failure)
        }
    }

    /// OpenSSL failed on a connection. Its alert to the peer is already written; the socket is shut
    /// down in order so that the peer can read it.
    mutating func failTLS(_ slot: Int, _ error: Int32) {
        let systemError = errno
        let isEnded = slots[slot].tls.map(ControlRecordBound.hasEnded) ?? false
        let failure = OpenSSLFailure.take()
        if error == SSL_ERROR_SYSCALL, !isEnded {
            if systemError == 0 {
                finishClose(slot, .peerClosed)
            } else {
                failSystem(slot, systemError)
            }
            return
        }
        if slots[slot].phase == .handshaking, details[slot].isPending, hasReceivedNothing(slot) {
            // A check whether the port is open: the peer closed without a byte.
            finishClose(slot, .peerClosed)
            return
        }
        (details + slot).pointee.tlsError = Int(failure.code)
        // A failed handshake does not count as pending.
        settlePending(slot)
        if let session = slots[slot].tls {
            details[slot].verification = Int16(clamping: SSL_get_verify_result(session))
            failedIdentities[slot] = PreSharedKeys.presentedIdentity(of: session)
        }
        details[slot].cause = .tlsFailure
        releaseKept(slot)
        guard shutdown(slots[slot].descriptor, Int32(SHUT_WR)) == 0 else {
            finishClose(slot, .tlsFailure)
            return
        }
        slots[slot].phase = .draining
        startTimer(.linger, slot, milliseconds: configuration.lingerMilliseconds)
        watch(slot, .input)
    }

    /// Whether no byte of a TLS handshake has arrived.
    private func hasReceivedNothing(_ slot: Int) -> Bool {
        guard let session = slots[slot].tls, let input = SSL_get_rbio(session) else { return false }
        return BIO_number_read(input) == 0
    }

    /// Closes the socket and frees everything except the slot, which is freed after the handler's
    /// `closed`.
    mutating func finishClose(_ slot: Int, _ cause: TransportCloseCause) {
        precondition(
            slots[slot].phase != .dead && slots[slot].phase != .free,
            "slot \(slot) is closed in phase \(slots[slot].phase)")
        details[slot].cause = cause
        cancelTimer(slot)
        settlePending(slot)
        switch details[slot].counting {
        case .nothing: break
        case .connection: configuration.connectionLimiter?.leave(nil)
        case .address: configuration.connectionLimiter?.leave(details[slot].peer)
        }
        if case .listener(let tag) = details[slot].origin {
            listeners.first { $0.listener.tag == tag }?.listener.openConnections.leave()
        }
        releaseKept(slot)
        releaseOutgoing(slot)
        EventLoop.freeSession(slots[slot].tls)
        slots[slot].tls = nil
        // Closing removes the descriptor from epoll: it is the only one of its socket.
        Glibc.close(slots[slot].descriptor)
        slots[slot].descriptor = -1
        slots[slot].phase = .dead
        counters[closed: cause] += 1
        dead.append(slot)
    }

    static func freeSession(_ session: OpaquePointer?) {
        guard let session else { return }
        SSL_free(session)
    }

    // MARK: - Notifying

    /// Calls the handler's `closed` for all closed connections, and frees their slots.
    @usableFromInline
    mutating func tellClosed<Handler: LoopHandler & ~Copyable>(_ handler: inout Handler) {
        // `closed` may close other connections, which are appended to the list.
        var index = 0
        while index < dead.count {
            let slot = Int(dead.slots[index])
            handler.closed(name(of: slot), details[slot].cause, in: &self)
            index += 1
        }
        for index in 0..<dead.count { releaseSlot(Int(dead.slots[index])) }
        dead.count = 0
    }

    /// Begins a requested stop: closes the listeners, calls `stopping`, and closes the connections.
    @usableFromInline
    mutating func stopIfRequested<Handler: LoopHandler & ~Copyable>(_ handler: inout Handler) {
        guard !isStopping, handle.isStopRequested else { return }
        isStopping = true
        closeListeners()
        handler.stopping(in: &self)
        for slot in 0..<slotsTouched {
            switch slots[slot].phase {
            case .connecting, .awaitingHeader, .handshaking: finishClose(slot, .loopStopped)
            case .open: close(slot, .loopStopped, afterFlush: true)
            case .free, .flushing, .draining, .dead: continue
            }
        }
    }
}

// Listeners of a loop, accepting, and the server's half of setting a connection up.
import COpenSSL
import CLinuxShims
import Glibc
import Primitives

/// A listener's place in a loop.
struct ListenerSeat {
    let listener: Listener
    /// Not nil while accepting is impossible and epoll does not watch it.
    var restsUntil: Instant?
}

extension EventLoop {
    /// Accepts from `listener` from now on. Several loops may share one: the kernel wakes one of
    /// them for each connection (EPOLLEXCLUSIVE).
    public mutating func listen(on listener: Listener) throws(TransportError) {
        listeners.append(ListenerSeat(listener: listener, restsUntil: nil))
        guard watch(listeners.count - 1) else {
            throw .system(
                call: "epoll_ctl", subject: listener.address.description, errno: errno)
        }
    }

    private func watch(_ index: Int) -> Bool {
        linux_epoll_set(
            epoll, EPOLL_CTL_ADD, listeners[index].listener.descriptor,
            EPOLLIN.rawValue | EPOLLEXCLUSIVE.rawValue,
            ConnectionID(lane: 0, slot: index, generation: 0).rawValue) == 0
    }

    /// Accepts what waits, up to the turn's share.
    mutating func accept<Handler: LoopHandler & ~Copyable>(
        from index: Int, _ handler: inout Handler
    ) {
        guard index < listeners.count, listeners[index].restsUntil == nil else { return }
        for _ in 0..<configuration.acceptsPerTurn {
            if pendingCount >= configuration.pendingMaximum {
                rest(index)
                return
            }
            var storage = sockaddr_storage()
            var size = socklen_t(MemoryLayout<sockaddr_storage>.size)
            let descriptor = linux_accept(
                listeners[index].listener.descriptor, &storage, &size)
            guard descriptor >= 0 else {
                switch errno {
                case EAGAIN:
                    return
                case EMFILE, ENFILE, ENOMEM, ENOBUFS:
                    rest(index)
                    return
                default:
                    // The peer gave up between its connect and our accept (ECONNABORTED and the
                    // network errors that accept(2) passes on): its own affair.
                    continue
                }
            }
            counters.accepted += 1
            let peer = SocketAddress(storage: storage)
            if let slot = setUpAccepted(descriptor, peer, listeners[index].listener) {
                handler.opened(name(of: slot), details[slot].origin, in: &self)
            }
        }
    }

    /// Gives an accepted socket its slot. The slot, if it is open already: a plain connection.
    private mutating func setUpAccepted(
        _ descriptor: Int32, _ peer: SocketAddress, _ listener: Listener
    ) -> Int? {
        if let census = configuration.census, !census.enter(peer) {
            Glibc.close(descriptor)
            counters.refusedByAddress += 1
            return nil
        }
        let session = listener.tls.map { $0.makeSession(descriptor: descriptor) }
        if case .some(.none) = session {
            configuration.census?.leave(peer)
            Glibc.close(descriptor)
            counters.refusedByMaximum += 1
            return nil
        }
        guard let slot = takeSlot() else {
            EventLoop.freeSession(session ?? nil)
            configuration.census?.leave(peer)
            Glibc.close(descriptor)
            counters.refusedByMaximum += 1
            return nil
        }
        slots[slot].descriptor = descriptor
        slots[slot].tls = session ?? nil
        slots[slot].phase = listener.tls == nil ? .open : .handshaking
        details[slot].origin = .listener(tag: listener.tag)
        details[slot].peer = peer
        details[slot].isCounted = configuration.census != nil
        details[slot].isPending = true
        pendingCount += 1
        configureSocket(slot)
        startTimer(.authentication, slot, milliseconds: configuration.authenticationMilliseconds)
        register(slot, .input)
        guard slots[slot].phase == .open else { return nil }
        counters.opened += 1
        return slot
    }

    /// Low latency on the socket; buffers are the kernel's business unless configured.
    mutating func configureSocket(_ slot: Int) {
        let descriptor = slots[slot].descriptor
        if details[slot].peer != .local {
            setOption(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, to: 1)
        }
        if let bytes = configuration.kernelSendBufferBytes {
            setOption(descriptor, SOL_SOCKET, SO_SNDBUF, to: bytes)
        }
    }

    /// An option that a fresh socket of ours cannot refuse.
    private func setOption(_ descriptor: Int32, _ level: Int32, _ name: Int32, to value: Int32) {
        var value = value
        let result = setsockopt(
            descriptor, level, name, &value, socklen_t(MemoryLayout<Int32>.size))
        // A connection that was reset before we got here answers EINVAL; reading will tell.
        precondition(result == 0 || errno == EINVAL, "setsockopt: \(systemErrorText(errno))")
    }

    /// Goes on with a TLS handshake, if the turn still has handshakes to give; else epoll, being
    /// level-triggered, reports the connection again in the next turn.
    mutating func handshake<Handler: LoopHandler & ~Copyable>(
        _ slot: Int, _ handler: inout Handler
    ) {
        guard handshakesLeft > 0 else { return }
        handshakesLeft -= 1
        if advanceHandshake(slot) {
            handler.opened(name(of: slot), details[slot].origin, in: &self)
        }
    }

    /// One step of a handshake, either end. True when it is done.
    mutating func advanceHandshake(_ slot: Int) -> Bool {
        guard let session = slots[slot].tls else {
            preconditionFailure("a plain connection shakes no hands")
        }
        let result = SSL_do_handshake(session)
        guard result == 1 else {
            switch SSL_get_error(session, result) {
            case SSL_ERROR_WANT_READ: watch(slot, .input)
            case SSL_ERROR_WANT_WRITE: watch(slot, .output)
            case let error: failTLS(slot, error)
            }
            return false
        }
        counters.handshakesCompleted += 1
        if SSL_session_reused(session) == 1 { counters.handshakesResumed += 1 }
        becomeOpen(slot)
        // The peer's first bytes may have come along with the end of its handshake.
        if SSL_has_pending(session) == 1 { listForReading(slot) }
        return true
    }

    /// A connection is ready for bytes. Our own connects have no deadline from here on; accepted
    /// ones keep theirs until the handler has authenticated them.
    mutating func becomeOpen(_ slot: Int) {
        slots[slot].phase = .open
        slots[slot].lastActivity = now
        if details[slot].timer == .connect { cancelTimer(slot) }
        counters.opened += 1
        watch(slot, .input)
    }

    // MARK: - Exhaustion

    /// Takes a listener out of epoll for a while: its connections wait in the kernel, and a loop
    /// that cannot accept does not spin on them.
    private mutating func rest(_ index: Int) {
        counters.acceptPauses += 1
        linux_epoll_remove(epoll, listeners[index].listener.descriptor)
        listeners[index].restsUntil = now.advanced(
            byMilliseconds: configuration.acceptPauseMilliseconds)
    }

    /// Watches the listeners again whose rest is over.
    mutating func wakeListeners() {
        for index in listeners.indices {
            guard let end = listeners[index].restsUntil, now >= end else { continue }
            // Where even this fails for lack of memory, the listener rests once more.
            listeners[index].restsUntil =
                watch(index)
                ? nil : now.advanced(byMilliseconds: configuration.acceptPauseMilliseconds)
        }
    }

    /// Lets go of all listeners; a socket closes with its last loop.
    mutating func closeListeners() {
        for seat in listeners where seat.restsUntil == nil {
            linux_epoll_remove(epoll, seat.listener.descriptor)
        }
        listeners.removeAll()
    }
}

// Listeners of a loop: accepting connections and TLS handshakes.
import BrokerTerms
import COpenSSL
import CLinuxShims
import Glibc
import Primitives

/// The state of a listener in a loop.
struct ListenerState {
    let listener: Listener
    /// Set while accepting is paused: epoll does not watch the listener, and its connections wait
    /// in the kernel in order of arrival.
    var rest: Rest?

    enum Rest {
        /// Descriptors or memory are exhausted.
        case exhausted(until: Instant)
        /// Too many connections have not logged in. The next search for silent ones is due then.
        case crowded(nextLook: Instant)

        /// The time of the next attempt.
        var end: Instant {
            switch self {
            case .exhausted(let end), .crowded(let end): end
            }
        }
    }
}

/// The refusal of an accepted socket.
private struct AcceptRefusal: Error {
    let cause: RefusalCause
}

extension EventLoop {
    /// Accepts from `listener` from now on. Several loops may share one: the kernel wakes one of
    /// them for each connection (EPOLLEXCLUSIVE).
    public mutating func listen(on listener: Listener) throws(TransportError) {
        listeners.append(ListenerState(listener: listener, rest: nil))
        guard watch(listeners.count - 1) else {
            throw .system(
                call: "epoll_ctl", subject: listener.address.description, errno: errno)
        }
    }

    private func watch(_ index: Int) -> Bool {
        linux_epoll_set(
            epoll, EPOLL_CTL_ADD, listeners[index].listener.descriptor,
            EPOLLIN.rawValue | EPOLLEXCLUSIVE.rawValue,
            ConnectionID(loop: 0, slot: index, generation: 0).rawValue) == 0
    }

    /// Accepts waiting connections, up to the limit of a turn.
    mutating func accept<Handler: LoopHandler & ~Copyable>(
        from index: Int, _ handler: inout Handler
    ) {
        guard index < listeners.count, listeners[index].rest == nil else { return }
        for _ in 0..<configuration.acceptsPerTurn {
            if isCrowded(listeners[index].listener) {
                // Silent connections may stay while no other connection waits to be accepted.
                if isAwaited(listeners[index].listener) {
                    rest(index, .crowded(nextLook: now))
                }
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
                    rest(index, .exhausted(until: pauseEnd))
                    return
                default:
                    // The peer gave up between its connect and our accept (ECONNABORTED and the
                    // network errors that accept(2) passes on).
                    continue
                }
            }
            counters.accepted += 1
            let peer = SocketAddress(storage: storage)
            do throws(AcceptRefusal) {
                let slot = try setUpAccepted(descriptor, from: peer, on: listeners[index].listener)
                guard slots[slot].phase == .open else { continue }
                counters.opened += 1
                handler.opened(name(of: slot), details[slot].origin, in: &self)
            } catch {
                Glibc.close(descriptor)
                turnAway(peer, cause: error.cause, &handler)
            }
        }
    }

    /// Counts a refused connection and notifies the handler.
    private mutating func turnAway<Handler: LoopHandler & ~Copyable>(
        _ peer: SocketAddress, cause: RefusalCause, _ handler: inout Handler
    ) {
        switch cause {
        case .address: counters.refusedByAddress += 1
        case .total, .memory: counters.refusedByMaximum += 1
        }
        handler.turnedAway(peer, cause, in: &self)
    }

    /// Gives an accepted socket its slot; a plain connection is open already.
    private mutating func setUpAccepted(
        _ descriptor: Int32, from peer: SocketAddress, on listener: Listener
    ) throws(AcceptRefusal) -> Int {
        let role = listener.role(of: peer)
        let counted = role == .client ? peer : nil
        if let cause = configuration.connectionLimiter?.enter(counted) {
            throw AcceptRefusal(cause: cause)
        }
        let session = listener.tls.map { $0.makeSession(descriptor: descriptor) }
        if case .some(.none) = session {
            configuration.connectionLimiter?.leave(counted)
            throw AcceptRefusal(cause: .memory)
        }
        guard let slot = takeSlot() else {
            EventLoop.freeSession(session ?? nil)
            configuration.connectionLimiter?.leave(counted)
            throw AcceptRefusal(cause: .total)
        }
        slots[slot].descriptor = descriptor
        slots[slot].tls = session ?? nil
        if let session = slots[slot].tls { controlRecords.watch(session) }
        slots[slot].phase =
            role == .proxy ? .awaitingHeader : listener.tls == nil ? .open : .handshaking
        details[slot].origin = .listener(tag: listener.tag)
        details[slot].peer = peer
        if configuration.connectionLimiter != nil {
            details[slot].counting = role == .client ? .address : .connection
        }
        details[slot].isPending = true
        listener.openConnections.enter()
        pendingCount += 1
        if listener.tls != nil { handshakingCount += 1 }
        configureSocket(slot)
        startTimer(.authentication, slot, milliseconds: configuration.authenticationMilliseconds)
        register(slot, .input)
        return slot
    }

    /// Sets the socket's options: no delay, and the send buffer if configured.
    mutating func configureSocket(_ slot: Int) {
        let descriptor = slots[slot].descriptor
        if details[slot].peer != .local {
            setOption(descriptor, level: Int32(IPPROTO_TCP), name: TCP_NODELAY, to: 1)
        }
        if let bytes = configuration.kernelSendBufferBytes {
            setOption(descriptor, level: SOL_SOCKET, name: SO_SNDBUF, to: bytes)
        }
    }

    /// Enables TCP keep-alive, so that the kernel detects a lost peer.
    func probePeer(_ slot: Int) {
        if details[slot].peer == .local { return }
        let descriptor = slots[slot].descriptor
        setOption(descriptor, level: SOL_SOCKET, name: SO_KEEPALIVE, to: 1)
        setOption(
            descriptor, level: Int32(IPPROTO_TCP), name: TCP_KEEPIDLE,
            to: TransportLimits.probeIdleSeconds)
        setOption(
            descriptor, level: Int32(IPPROTO_TCP), name: TCP_KEEPINTVL,
            to: TransportLimits.probeIntervalSeconds)
        setOption(
            descriptor, level: Int32(IPPROTO_TCP), name: TCP_KEEPCNT, to: TransportLimits.probeCount
        )
    }

    /// Sets an option that a new socket cannot refuse.
    private func setOption(_ descriptor: Int32, level: Int32, name: Int32, to value: Int32) {
        var value = value
        let result = setsockopt(
            descriptor, level, name, &value, socklen_t(MemoryLayout<Int32>.size))
        // A connection that was already reset returns EINVAL; reading reports the reset.
        precondition(result == 0 || errno == EINVAL, "setsockopt: \(systemErrorText(errno))")
    }

    /// Continues a TLS handshake, if the turn has not reached its limit of handshakes; otherwise
    /// epoll, which is level-triggered, reports the connection again in the next turn.
    mutating func handshake<Handler: LoopHandler & ~Copyable>(
        _ slot: Int, _ handler: inout Handler
    ) {
        // A client that waits for its handshake does not count as silent.
        slots[slot].lastActivity = now
        guard handshakesLeft > 0 else { return }
        handshakesLeft -= 1
        if advanceHandshake(slot) {
            handler.opened(name(of: slot), details[slot].origin, in: &self)
        }
    }

    /// One step of a handshake, as client or server. True when it is complete.
    mutating func advanceHandshake(_ slot: Int) -> Bool {
        guard let session = slots[slot].tls else {
            preconditionFailure("slot \(slot) has no TLS")
        }
        controlRecords.begin()
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
        // The peer's first bytes may have arrived with the end of its handshake.
        if SSL_has_pending(session) == 1 { listForReading(slot) }
        return true
    }

    /// A connection is open. Outgoing connections have no deadline from here on; accepted ones keep
    /// theirs until the handler has authenticated them.
    mutating func becomeOpen(_ slot: Int) {
        if details[slot].isPending { settleHandshake(slot) }
        slots[slot].phase = .open
        slots[slot].lastActivity = now
        if details[slot].timer == .connect { cancelTimer(slot) }
        counters.opened += 1
        watch(slot, .input)
    }

    // MARK: - Pausing

    /// Removes a listener from epoll for a while. Its connections wait in the kernel, and the loop
    /// does not spin on a listener that cannot accept.
    private mutating func rest(_ index: Int, _ rest: ListenerState.Rest) {
        counters.acceptPauses += 1
        linux_epoll_remove(epoll, listeners[index].listener.descriptor)
        listeners[index].rest = rest
    }

    private var pauseEnd: Instant {
        now.advanced(byMilliseconds: configuration.acceptPauseMilliseconds)
    }

    /// Whether the limit of pending logins is reached.
    public var isCrowded: Bool { pendingCount >= configuration.pendingMaximum }

    /// Whether the limit of pending logins or handshakes is reached.
    private func isCrowded(_ listener: Listener) -> Bool {
        isCrowded
            || (listener.tls != nil && handshakingCount >= configuration.handshakesMaximum)
    }

    /// Whether a connection waits to be accepted.
    private func isAwaited(_ listener: Listener) -> Bool {
        var question = pollfd(fd: listener.descriptor, events: Int16(POLLIN), revents: 0)
        return poll(&question, 1, 0) == 1
    }

    /// Watches the listeners again whose pause has ended.
    mutating func wakeListeners<Handler: LoopHandler & ~Copyable>(_ handler: inout Handler) {
        for index in listeners.indices {
            switch listeners[index].rest {
            case nil:
                continue
            case .exhausted(let end):
                if now < end { continue }
            case .crowded(let nextLook):
                if isCrowded(listeners[index].listener), now >= nextLook {
                    listeners[index].rest = .crowded(nextLook: pauseEnd)
                    sendSilentAway(&handler)
                }
                if isCrowded(listeners[index].listener) { continue }
            }
            // If even this fails for lack of memory, the listener pauses again.
            listeners[index].rest = watch(index) ? nil : .exhausted(until: pauseEnd)
        }
    }

    /// Closes silent connections that have not logged in, while others wait to be accepted.
    /// Otherwise a few thousand silent connections would block all clients until the deadline.
    private mutating func sendSilentAway<Handler: LoopHandler & ~Copyable>(
        _ handler: inout Handler
    ) {
        for slot in 0..<slotsTouched where details[slot].isPending {
            let patience = slots[slot].lastActivity.advanced(
                byMilliseconds: configuration.crowdedSilenceMilliseconds)
            // A paused connection waits for the reply to its login.
            if patience > now || slots[slot].flags.contains(.readPaused) { continue }
            switch slots[slot].phase {
            case .awaitingHeader:
                failHeader(slot, .late)
            case .handshaking:
                finishClose(slot, .handshakeTimeout)
            case .open:
                cancelTimer(slot)
                settlePending(slot)
                handler.deadlineReached(.authentication, name(of: slot), in: &self)
            case .free, .connecting, .flushing, .draining, .dead:
                continue
            }
        }
    }

    /// Releases all listeners. A socket closes when its last loop releases it.
    mutating func closeListeners() {
        for state in listeners where state.rest == nil {
            linux_epoll_remove(epoll, state.listener.descriptor)
        }
        listeners.removeAll()
    }
}

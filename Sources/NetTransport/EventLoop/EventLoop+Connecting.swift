// Outgoing connections: the SDK's, the bridge's, the load harness's.
import BrokerTerms
import COpenSSL
import CLinuxShims
import Glibc

extension EventLoop {
    /// Begins a connect. `opened` follows, or `closed` with the cause. Throws only if the connect
    /// could not begin.
    ///
    /// - Parameters:
    ///   - address: the server's address; resolve names with ``Resolver``.
    ///   - source: the local address to connect from; its port is usually 0.
    ///   - tls: nil for a plain connection.
    ///   - serverName: the host name or numeric address that the server's certificate must contain;
    ///     nil for the address itself.
    ///   - ticket: an earlier session of the same server, to save work in the handshake.
    public mutating func connect(
        to address: SocketAddress, from source: SocketAddress? = nil,
        tls: ClientTLSContext? = nil, serverName: String? = nil,
        resuming ticket: TLSSessionTicket? = nil
    ) throws(TransportError) -> ConnectionID {
        guard !isStopping else { throw .loopStopping }
        let socket = try OpenDescriptor(family: address.familyCode)
        if let source {
            // Lets the kernel choose the port at connect time, for one source by many targets.
            try socket.setOption(Int32(IPPROTO_IP), IP_BIND_ADDRESS_NO_PORT, to: 1)
            guard source.withSockaddr({ bind(socket.number, $0, $1) }) == 0 else {
                throw .system(call: "bind", subject: source.description, errno: errno)
            }
        }
        try checkRoom()
        let begun = address.withSockaddr { Glibc.connect(socket.number, $0, $1) }
        guard begun == 0 || errno == EINPROGRESS else {
            throw .system(call: "connect", subject: address.description, errno: errno)
        }
        let session = try tls?.makeSession(
            descriptor: socket.number, serverName: serverName ?? address.host, resuming: ticket)
        return begin(socket.release(), peer: address, session: session)
    }

    /// Takes over a stream socket that is already connected, such as one end of a pair. It must be
    /// non-blocking; the loop owns it from here on. `opened` follows.
    public mutating func adopt(socket: Int32) throws(TransportError) -> ConnectionID {
        do throws(TransportError) {
            try checkRoom()
        } catch {
            Glibc.close(socket)
            throw error
        }
        return begin(socket, peer: .local, session: nil)
    }

    private func checkRoom() throws(TransportError) {
        guard connectionCount < configuration.connectionsMaximum else {
            throw .connectionsMaximumReached(configuration.connectionsMaximum)
        }
    }

    private mutating func begin(
        _ socket: Int32, peer: SocketAddress, session: OpaquePointer?
    ) -> ConnectionID {
        guard let slot = takeSlot() else {
            preconditionFailure("no free slot: \(connectionCount) connections")
        }
        slots[slot].descriptor = socket
        slots[slot].tls = session
        if let session { controlRecords.watch(session) }
        slots[slot].phase = .connecting
        details[slot].origin = .connect
        details[slot].peer = peer
        configureSocket(slot)
        startTimer(.connect, slot, milliseconds: configuration.connectMilliseconds)
        register(slot, .output)
        counters.connectsBegun += 1
        return name(of: slot)
    }

    /// Handles the result of a connect. True if the connection is open: it has no TLS, or its
    /// handshake completed in this step.
    mutating func finishConnect(_ slot: Int) -> Bool {
        var failure: Int32 = 0
        var size = socklen_t(MemoryLayout<Int32>.size)
        getsockopt(slots[slot].descriptor, SOL_SOCKET, SO_ERROR, &failure, &size)
        guard failure == 0 else {
            details[slot].systemError = failure
            finishClose(slot, .networkFailure)
            return false
        }
        guard slots[slot].tls != nil else {
            becomeOpen(slot)
            return true
        }
        slots[slot].phase = .handshaking
        return advanceHandshake(slot)
    }

    /// The ticket for resuming this session; nil until the server has sent one (in TLS 1.3 with or
    /// after the first bytes).
    public func sessionTicket(of connection: ConnectionID) -> TLSSessionTicket? {
        guard let slot = slot(of: connection), let session = slots[slot].tls,
            let ticket = SSL_get1_session(session)
        else { return nil }
        guard SSL_SESSION_is_resumable(ticket) == 1 else {
            SSL_SESSION_free(ticket)
            return nil
        }
        return TLSSessionTicket(adopting: ticket)
    }
}

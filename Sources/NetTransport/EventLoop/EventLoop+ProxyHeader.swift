// Connections that proxies pass on: the PROXY header before TLS, and clients that requests name.
//
// A header is read with MSG_PEEK, so that the kernel keeps what follows it: OpenSSL reads the rest
// from the socket. Bytes of an incomplete header all belong to it. They are taken and kept, so that
// epoll reports the socket again when there are more, and not before.
import BrokerTerms
import Glibc
import Primitives
import WireFormat

extension EventLoop {
    /// Reads the PROXY header of a connection as far as it has arrived.
    mutating func readHeader<Handler: LoopHandler & ~Copyable>(
        _ slot: Int, _ handler: inout Handler
    ) {
        let keptCount = slots[slot].kept == nil ? 0 : details[slot].keptCount
        let maximum = WireLimits.proxyHeaderByteCountMaximum
        // The arena is empty in the next turn, in which epoll reports the connection again.
        guard arenaMemory.count - arenaUsed >= maximum else { return }
        let base = arenaMemory.baseAddress! + arenaUsed
        if let kept = slots[slot].kept { base.copyMemory(from: kept, byteCount: keptCount) }
        let peeked = recv(
            slots[slot].descriptor, base + keptCount, maximum - keptCount, Int32(MSG_PEEK))
        guard peeked > 0 else {
            stopReadingHeader(slot, result: peeked, keptCount: keptCount)
            return
        }
        slots[slot].lastActivity = now
        let byteCount = keptCount + peeked
        do throws(ProxyHeaderFault) {
            switch try ProxyHeader.parse(
                arena.bytes.extracting(arenaUsed..<arenaUsed + byteCount))
            {
            case .incomplete:
                guard take(peeked, of: slot) else { return }
                growKept(slot, to: byteCount)
                slots[slot].kept?.copyMemory(from: base, byteCount: byteCount)
                (details + slot).pointee.keptCount = byteCount
            case .header(let header, let headerByteCount):
                guard take(headerByteCount - keptCount, of: slot) else { return }
                releaseKept(slot)
                counters.proxyHeaders += 1
                pass(header, of: slot, &handler)
            }
        } catch {
            failHeader(slot, error)
        }
    }

    /// The read of a header found no bytes.
    private mutating func stopReadingHeader(_ slot: Int, result: Int, keptCount: Int) {
        if result < 0 {
            if errno != EAGAIN && errno != EINTR { failSystem(slot, errno) }
        } else if keptCount > 0 {
            failHeader(slot, .ended)
        } else {
            // A load balancer checks whether the port is open.
            finishClose(slot, .peerClosed)
        }
    }

    /// Takes bytes that were peeked from the socket, without copying them again (MSG_TRUNC,
    /// tcp(7)). False if the connection was lost since.
    private mutating func take(_ byteCount: Int, of slot: Int) -> Bool {
        let count = recv(slots[slot].descriptor, nil, byteCount, Int32(MSG_TRUNC))
        if count == byteCount { return true }
        failSystem(slot, count < 0 ? errno : ECONNRESET)
        return false
    }

    /// Lets a connection go on whose header is read.
    private mutating func pass<Handler: LoopHandler & ~Copyable>(
        _ header: ProxyHeader, of slot: Int, _ handler: inout Handler
    ) {
        if case .client(let address, let port) = header {
            details[slot].peer = SocketAddress(address, port: port)
            details[slot].proxyState = .named
        }
        let peer = details[slot].peer
        if !isForwarder(slot), !countForAddress(slot, peer) {
            handler.turnedAway(peer, .address, in: &self)
            // The handler may have closed it.
            if slots[slot].phase == .awaitingHeader { finishClose(slot, .refused) }
            return
        }
        if slots[slot].tls != nil {
            slots[slot].phase = .handshaking
        } else {
            becomeOpen(slot)
            handler.opened(name(of: slot), details[slot].origin, in: &self)
        }
    }

    /// Whether the requests of a connection may be those of several clients.
    private func isForwarder(_ slot: Int) -> Bool {
        guard case .listener(let tag) = details[slot].origin,
            let address = details[slot].peer.ipAddress,
            let state = listeners.first(where: { $0.listener.tag == tag })
        else { return false }
        return state.listener.proxies.requests.contain(address)
    }

    /// Counts a connection for an address. Returns false, and counts the refusal, if the address
    /// has as many as it may.
    private mutating func countForAddress(_ slot: Int, _ peer: SocketAddress) -> Bool {
        guard details[slot].counting == .connection,
            let limiter = configuration.connectionLimiter
        else { return true }
        guard limiter.assign(peer) else {
            counters.refusedByAddress += 1
            return false
        }
        details[slot].counting = .address
        return true
    }

    /// Closes a connection for a fault of its PROXY header.
    mutating func failHeader(_ slot: Int, _ fault: ProxyHeaderFault) {
        details[slot].proxyState = .failed(fault)
        finishClose(slot, .proxyHeaderFault)
    }

    // MARK: - Clients that requests name

    /// Gives an open connection of a forwarder (``ProxyNetworks/requests``) to one client, whose
    /// address a request named: it is the peer from now on. Returns false, and counts the refusal,
    /// if the address has as many connections as it may.
    ///
    /// - Parameter peer: the client; the peer that the connection has, if no request named one.
    public mutating func namePeer(
        _ peer: SocketAddress, of connection: ConnectionID
    ) -> Bool {
        guard let slot = slot(of: connection) else { return true }
        let old = details[slot].peer
        precondition(
            peer == old || details[slot].counting != .address, "\(connection) is that of \(old)")
        guard countForAddress(slot, peer) else { return false }
        guard peer != old else { return true }
        details[slot].peer = peer
        details[slot].proxyState = .named
        return true
    }
}

// The clients of requests that reverse proxies pass on: X-Forwarded-For, which is believed from
// peers in the networks that the listener names, and from nobody else.

import BrokerTerms
import Dialects
import NetTransport
import Primitives
import WireFormat

extension WebConnections {
    /// The client that a request names; nil if there is none, or the connection's peer is no
    /// reverse proxy.
    func client(
        of head: HTTPRequestHead, _ bytes: RawSpan, from connection: ConnectionID,
        in loop: borrowing some BrokerLoop & ~Copyable
    ) -> SocketAddress? {
        guard !head.forwardedFor.isEmpty, let networks = forwarders(of: connection, in: loop)
        else { return nil }
        let finding = ForwardedClient.find(in: head.forwardedFor, of: bytes, behind: networks)
        // The request is served: a proxy that writes other names would otherwise serve nobody.
        if finding.isMalformed { services.listeners.countMalformedClient() }
        return finding.client.map { SocketAddress($0.address, port: $0.port) }
    }

    /// The networks of reverse proxies, if the connection's peer is in one.
    private func forwarders(
        of connection: ConnectionID, in loop: borrowing some BrokerLoop & ~Copyable
    ) -> [IPNetwork]? {
        guard let networks = connections[connection]?.terms.forwarders, !networks.isEmpty,
            let peer = loop.peer(of: connection).ipAddress, networks.contain(peer)
        else { return nil }
        return networks
    }

    /// Whose request it is.
    func peer(
        of request: WebRequest, on connection: ConnectionID,
        in loop: borrowing some BrokerLoop & ~Copyable
    ) -> SocketAddress {
        request.client ?? loop.peer(of: connection)
    }

    /// From now on the connection counts for the client that the request names, if it is of a
    /// reverse proxy. Returns false, after a response, if the client's address has as many connections as
    /// it may.
    mutating func admits(
        _ request: WebRequest, on connection: ConnectionID,
        in loop: inout some BrokerLoop & ~Copyable
    ) -> Bool {
        guard forwarders(of: connection, in: loop) != nil else { return true }
        let peer = peer(of: request, on: connection, in: loop)
        guard !loop.namePeer(peer, of: connection) else { return true }
        log.write(
            .warning, .connectionRefused,
            fields: ["address": .text("\(peer)"), "cause": .text("\(RefusalCause.address)")])
        var response = HTTPResponse.problem(
            .tooManyRequests, "too many connections from this address", reason: .quotaExceeded)
        response.closes = true
        respond(response, to: request.answer, of: connection, in: &loop)
        return false
    }
}

extension WebConnections.Answer {
    /// After which the connection ends; no request is known.
    static var last: Self { Self(isHead: false, closes: true, client: nil, cors: nil) }

    /// The same, with content, and the connection ends after it.
    var closing: Self {
        Self(isHead: false, closes: true, client: client, cors: cors)
    }
}

// The interface of one client to the loop that transports its bytes, so that a test or a fuzzer can
// act as the network, the broker and the clock.

import BrokerTerms
import NetTransport
import Primitives

protocol ClientTransport: ~Copyable {
    var now: Instant { get }
    /// Begins a connect; the session gets `opened` or `closed`.
    mutating func dial(
        _ address: SocketAddress, _ tls: ClientTLSContext?, serverName: String,
        resuming ticket: TLSSessionTicket?
    ) throws(TransportError) -> ConnectionID
    /// Appends outgoing bytes. False if the connection is no longer open.
    mutating func append(_ bytes: UnsafeRawBufferPointer, to connection: ConnectionID) -> Bool
    func outgoingByteCount(of connection: ConnectionID) -> Int
    mutating func close(_ connection: ConnectionID, afterFlush: Bool)
    func sessionTicket(of connection: ConnectionID) -> TLSSessionTicket?
}

extension EventLoop: ClientTransport {
    mutating func dial(
        _ address: SocketAddress, _ tls: ClientTLSContext?, serverName: String,
        resuming ticket: TLSSessionTicket?
    ) throws(TransportError) -> ConnectionID {
        try connect(to: address, tls: tls, serverName: serverName, resuming: ticket)
    }

    mutating func append(_ bytes: UnsafeRawBufferPointer, to connection: ConnectionID) -> Bool {
        append(bytes, to: connection, .required)
    }
}

// Where connections come from, as their event loops tell the thread of the administration.

import BrokerTerms
import NetTransport
import Primitives

/// What an event loop knows of a connection.
struct ConnectionPlace: Sendable {
    let peer: SocketAddress
    /// The index of the terms of its listener.
    let terms: UInt8
    /// When its last bytes arrived.
    let lastReceived: Instant
}

extension SharedBroker {
    /// The places of connections. Those that have closed are not in the result. Only one thread at
    /// a time may call it.
    func places(of connections: [ConnectionID]) -> [ConnectionID: ConnectionPlace] {
        let loops = connections.reduce(into: UInt64(0)) { $0 |= 1 << UInt64($1.loop) }
        return places.ask(connections, of: loops, in: loopHandles).reduce(into: [:]) {
            $0.merge($1) { $1 }
        }
    }
}

// Resolves host names outside of the event loop, because the system's resolver blocks: while one
// name server does not answer, the loop continues with everything else.

import NetTransport
import Threads

/// The resolver's result. A success has at least one address.
package typealias NameLookupResult = Result<[SocketAddress], TransportError>

/// A short-lived thread for each name.
package enum NameLookup {
    /// Begins a lookup.
    ///
    /// - Parameter completion: called on the thread of the lookup; on the calling one if the system
    ///   cannot create a thread.
    package static func begin(
        _ server: ServerAddress, completion: @escaping @Sendable (NameLookupResult) -> Void
    ) {
        let isStarted = Thread.detach(name: "martlet-lookup") {
            completion(
                Result { () throws(TransportError) in
                    try Resolver.resolve(host: server.host, port: server.port)
                })
        }
        if !isStarted {
            let fault = TransportError.address(server.host, detail: "no thread to look it up")
            completion(.failure(fault))
        }
    }
}

/// The running lookups of a client's event loop. Used on the background thread only.
struct NameResolution: ~Copyable {
    private let loop: ClientLoop
    private var waiting: [ServerAddress: [UInt64]] = [:]

    init(_ loop: ClientLoop) {
        self.loop = loop
    }

    /// Resolves an address for a client; the result is the command `resolved`.
    mutating func resolve(_ server: ServerAddress, for client: UInt64) {
        let isUnderWay = waiting[server] != nil
        waiting[server, default: []].append(client)
        guard !isUnderWay else { return }
        let loop = loop
        NameLookup.begin(server) { loop.post(.resolved(server, $0)) }
    }

    /// The clients that waited for an address.
    mutating func takeWaiting(_ server: ServerAddress) -> [UInt64] {
        waiting.removeValue(forKey: server) ?? []
    }
}

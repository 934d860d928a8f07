// Looks up host names beside the event loop, because the system's resolver blocks: one short-lived
// thread for each name that somebody waits for.

import NetTransport
import Threads

/// Lookups under way. Used on the background thread only.
struct NameResolution: ~Copyable {
    private let loop: ClientLoop
    private var waiting: [ServerAddress: [UInt64]] = [:]

    init(_ loop: ClientLoop) {
        self.loop = loop
    }

    /// Looks an address up for a client; `resolved` comes as a command.
    mutating func resolve(_ server: ServerAddress, for client: UInt64) {
        let isUnderWay = waiting[server] != nil
        waiting[server, default: []].append(client)
        guard !isUnderWay else { return }
        let loop = loop
        let isStarted = Thread.detach(name: "martlet-lookup") {
            let result = Result { () throws(TransportError) in
                try Resolver.resolve(host: server.host, port: server.port)
            }
            loop.post(.resolved(server, result))
        }
        if !isStarted {
            let fault = TransportError.address(server.host, detail: "no thread to look it up")
            loop.post(.resolved(server, .failure(fault)))
        }
    }

    /// The clients that waited for an address.
    mutating func takeWaiting(_ server: ServerAddress) -> [UInt64] {
        waiting.removeValue(forKey: server) ?? []
    }
}

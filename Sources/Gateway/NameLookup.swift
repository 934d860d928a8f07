// Looks host names up beside the loop, because the system's resolver blocks: while one name server
// is silent, all other lines and the broker go on.

import MartletClient
import NetTransport
import Threads

/// Lookups under way, and those that are done. The loop begins them, and takes what is done when it
/// is woken.
final class NameLookup: Sendable {
    typealias Outcome = Result<SocketAddress, TransportError>

    private struct State {
        var underWay: Set<ServerAddress> = []
        var done: [(server: ServerAddress, outcome: Outcome)] = []
    }

    private let state = Locked(State())

    /// Looks an address up, unless that is under way.
    func begin(_ server: ServerAddress, waking handle: LoopHandle) {
        guard state.withLock({ $0.underWay.insert(server).inserted }) else { return }
        let isStarted = Thread.detach(name: "lookup") {
            self.end(server, Self.outcome(server))
            handle.wake()
        }
        if !isStarted {
            end(server, .failure(.address(server.host, detail: "no thread to look it up")))
            handle.wake()
        }
    }

    /// What was found since the last call.
    func takeDone() -> [(server: ServerAddress, outcome: Outcome)] {
        state.withLock { state in
            defer { state.done = [] }
            return state.done
        }
    }

    private func end(_ server: ServerAddress, _ outcome: Outcome) {
        state.withLock { state in
            state.underWay.remove(server)
            state.done.append((server, outcome))
        }
    }

    private static func outcome(_ server: ServerAddress) -> Outcome {
        do throws(TransportError) {
            // The resolver gives at least one.
            return .success(try Resolver.resolve(host: server.host, port: server.port)[0])
        } catch {
            return .failure(error)
        }
    }
}

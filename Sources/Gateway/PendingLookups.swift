// The gateway's name lookups: the loop begins them, and takes what is done when it is woken.

import MartletClient
import NetTransport
import Threads

/// Lookups under way, and those that are done.
final class PendingLookups: Sendable {
    private struct State {
        var underWay: Set<ServerAddress> = []
        var done: [(server: ServerAddress, result: NameLookupResult)] = []
    }

    private let state = Locked(State())

    /// Looks an address up, unless that is under way.
    func begin(_ server: ServerAddress, waking handle: LoopHandle) {
        guard state.withLock({ $0.underWay.insert(server).inserted }) else { return }
        NameLookup.begin(server) { result in
            self.state.withLock { state in
                state.underWay.remove(server)
                state.done.append((server, result))
            }
            handle.wake()
        }
    }

    /// What was found since the last call.
    func takeDone() -> [(server: ServerAddress, result: NameLookupResult)] {
        state.withLock { state in
            defer { state.done = [] }
            return state.done
        }
    }
}

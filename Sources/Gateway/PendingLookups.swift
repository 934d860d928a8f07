// The gateway's name lookups: the loop starts them, and reads the results when it is woken.

import MartletClient
import NetTransport
import Threads

/// Running and completed lookups.
final class PendingLookups: Sendable {
    private struct State {
        var underWay: Set<ServerAddress> = []
        var done: [(server: ServerAddress, result: NameLookupResult)] = []
    }

    private let state = Locked(State())

    /// Looks an address up, unless a lookup of it is running.
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

    /// The results since the last call.
    func takeDone() -> [(server: ServerAddress, result: NameLookupResult)] {
        state.withLock { state in
            defer { state.done = [] }
            return state.done
        }
    }
}

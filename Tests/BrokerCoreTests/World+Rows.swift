// What the rows of the store must say when nothing is under way: what a broker that starts from
// them would know, and nothing that it would have to remove.

import Primitives

@testable import BrokerCore

extension World {
    /// The broker is asked to stop, and starts again.
    func stop() {
        settle()
        broker.prepareToStop()
        settle()
        crash()
    }

    /// A broker as it would start from the store now.
    func restarted() -> Broker {
        var copy = Broker(limits: limits, loopCount: 2, at: now)
        let state = store.restore(into: &copy)
        // The store is this broker's own: a row it cannot read is a fault of the test.
        try! copy.finishRestoring(state, newEpochSeed: 1, at: now)
        return copy
    }

    /// Holds the store's rows of exchanges against those of the broker.
    func checkRows() {
        // It reads the whole store: a test of large numbers does without.
        guard broker.registry.users.count < 50 else { return }
        let copy = restarted()
        precondition(copy.counters.rowsRepaired == 0, "a row whose session is gone")
        for session in broker.sessions.places
        where broker.sessions.contains(session) && broker.sessions[session].isPersistent {
            let identifier = broker.sessions[session].identifier
            guard
                let stored = copy.sessions.places.first(where: {
                    copy.sessions.contains($0) && copy.sessions[$0].identifier == identifier
                })
            else { preconditionFailure("a session that is not stored") }
            guard broker.sessions[session].dialect.isMQTT else { continue }
            precondition(
                copy.exchanges(of: stored) == broker.exchanges(of: session),
                "the identifiers of QoS 2 that are stored are those that are in use")
        }
    }
}

extension Broker {
    /// The identifiers of QoS 2 publications that were taken and not released.
    fileprivate func exchanges(of session: Index<Session>) -> Set<UInt16> {
        var found: Set<UInt16> = []
        sessions[session].book.value.identifiers.forEach { identifier, state in
            if case .answered(let reason) = state, reason.isFailure { return }
            found.insert(identifier)
        }
        return found
    }
}

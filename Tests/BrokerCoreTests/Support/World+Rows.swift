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

    /// Changes what the store holds behind the broker's back.
    func rewriteRows(of table: RecordTable, _ change: (inout [UInt8]) -> Void) {
        settle()
        var rows = StoredRows(table: table)
        _ = store.restore(into: &rows)
        var batch = StoreBatch()
        batch.moment = now
        for row in rows.changes {
            var row = row
            change(&row.value!)
            batch.records.append(row)
        }
        var result = StoreResult()
        store.carryOut(batch, into: &result)
    }

    /// Holds the store's rows of exchanges against those of the broker.
    func checkRows() {
        // It reads the whole store: a test of large numbers does without.
        guard broker.registry.users.count < 50 else { return }
        let copy = restarted()
        precondition(copy.counters.rowsRepaired == 0, "a row whose session is gone")
        let (numbers, stored) = (broker.shareNumbers, copy.shareNumbers)
        precondition(
            stored.allSatisfy { numbers[$0.key] == $0.value },
            "shares have the numbers \(numbers), and stored are \(stored)")
        for session in broker.sessions.places
        where broker.sessions.contains(session) && broker.sessions[session].isPersistent {
            let identifier = broker.sessions[session].identifier
            guard
                let stored = copy.sessions.places.first(where: {
                    copy.sessions.contains($0) && copy.sessions[$0].identifier == identifier
                })
            else { preconditionFailure("a session that is not stored") }
            guard broker.sessions[session].dialect.isMQTT else { continue }
            // One that is under way may be stored before it is answered: a refusal of its row, or a
            // receiver in memory that has not acknowledged it, decides its answer later.
            let inStore = copy.exchanges(of: stored, isAnswered: true)
            let answered = broker.exchanges(of: session, isAnswered: true)
            let underWay = broker.exchanges(of: session, isAnswered: false)
            precondition(
                answered.isSubset(of: inStore) && inStore.isSubset(of: answered.union(underWay)),
                "the identifiers of QoS 2 that are stored are \(inStore), those answered "
                    + "\(answered), and those under way \(underWay)")
        }
    }
}

/// The rows of one table.
private struct StoredRows: StoreVisitor {
    let table: RecordTable
    var changes: [RecordChange] = []

    mutating func visitRecord(
        table: RecordTable, key: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer
    ) {
        guard table == self.table else { return }
        changes.append(RecordChange(table: table, key: Array(key), value: Array(value)))
    }

    mutating func visitQueue(_ outline: QueueOutline) {}
}

extension Broker {
    /// The number of each share, by its app and its filter.
    fileprivate var shareNumbers: [[UInt8]: UInt16] {
        var numbers: [[UInt8]: UInt16] = [:]
        for audience in routing.audiences.places
        where routing.audiences.contains(audience) && routing.audiences[audience].share != 0 {
            let user = sessions[routing.audiences[audience].subscribers[0].session].user
            numbers[
                registry.apps[registry.users[user].app].name + routing.audiences[audience].filter] =
                routing.audiences[audience].share
        }
        return numbers
    }

    /// The identifiers of QoS 2 publications that were taken and not released.
    fileprivate func exchanges(of session: Index<Session>, isAnswered: Bool) -> Set<UInt16> {
        var found: Set<UInt16> = []
        sessions[session].senderState.value.identifiers.forEach { identifier, state in
            switch state {
            case .underWay: if !isAnswered { found.insert(identifier) }
            case .answered(let reason):
                if isAnswered, !reason.isFailure { found.insert(identifier) }
            }
        }
        return found
    }
}

extension World {
    /// Puts users into a group as a restart does, without a word: for tests that need many.
    func addMembers(_ names: [String], to group: String) {
        let app = broker.app(named: World.app)!
        let index = Array(group.utf8).withUnsafeBytes {
            broker.registry.apps[app].groups.value(for: $0)!
        }
        for name in names {
            addUser(name)
            broker.addMember(broker.user(named: Array(name.utf8), app: app)!, to: index)
        }
    }
}

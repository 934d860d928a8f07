// The rows of a tracked send. The first one, with the names of its receivers, is written once; what
// changes later is in a second one, which is short: a list of 256 receivers may have 512 facts.
//
//     app, reference             the send, and its state when it was accepted
//     app, reference, 0          its state, once it has changed
//     app, reference, member     what is known of a member of its group

import BrokerTerms
import Primitives

extension Records {
    /// The longest rows of a tracked send.
    static func trackedSendPageByteCount(app: [UInt8], receiverByteCount: Int) -> Int {
        // Fixed fields, a key, ids, and what a sender tells about a recall take 450 bytes; so do a
        // receipt that waits with the longest device and text.
        RecordChange.pageByteCount(key: 9 + app.count, value: 450 + receiverByteCount)
            + RecordChange.pageByteCount(
                key: 10 + app.count,
                value: 450 * (1 + CoreLimits.untoldReceiptsMaximum) + receiverByteCount / 2)
    }

    /// A member's row follows that of its send.
    static func key(ofMember user: [UInt8], tracked reference: UInt64, app: [UInt8]) -> [UInt8] {
        key(ofTracked: reference, app: app) + user
    }

    static func key(ofTracked reference: UInt64, app: [UInt8]) -> [UInt8] {
        RecordKey.name(app: app, RecordKey.number(reference))
    }

    /// No name of a member has the byte 0.
    static func key(ofTrackedState reference: UInt64, app: [UInt8]) -> [UInt8] {
        key(ofTracked: reference, app: app) + [0]
    }
}

extension Broker {
    /// The row that a batch has of a tracked send: the first one if the send is new, that of its
    /// state otherwise.
    func row(
        ofTracked index: Index<TrackedSend>, untold: [Receipt], state: TrackedSend.RevisionState
    ) -> RecordChange {
        // The send is used in place: a copy would retain each of its lists.
        let app = registry.apps[tracking.sends[index].app].name
        let reference = tracking.sends[index].reference
        guard tracking.sends[index].isNew else {
            var row = RecordWriter(version: 1, byteCount: 192)
            tracking.sends[index].writeState(untold: untold, state, to: &row) {
                Array(registry.users[$0].name)
            }
            return RecordChange(
                table: .trackedSends, key: Records.key(ofTrackedState: reference, app: app),
                value: row.bytes)
        }
        // One to a group with numbered joins has their last number.
        var row = RecordWriter(
            version: tracking.sends[index].joinedThrough == 0 ? 2 : 3, byteCount: 320)
        tracking.sends[index].write(to: &row) { Array(registry.users[$0].name) }
        tracking.sends[index].writeState(untold: untold, state, to: &row) {
            Array(registry.users[$0].name)
        }
        return RecordChange(
            table: .trackedSends, key: Records.key(ofTracked: reference, app: app),
            value: row.bytes)
    }

    // MARK: - Restore

    /// Restores one row. The rows of its users have been restored before.
    mutating func restoreTracked(_ key: [UInt8], _ value: [UInt8]) throws(RestoreError) {
        guard let appCount = key.first, key.count >= 1 + Int(appCount) + 8,
            let app = app(named: Array(key[1..<1 + Int(appCount)]))
        else { throw .danglingRecord(.trackedSends, key: key) }
        let end = 1 + Int(appCount) + 8
        if key.count > end {
            // A send that was taken back left rows of its members, in earlier versions.
            guard
                let index = tracking.find(
                    RecordKey.readNumber(key, at: 1 + Int(appCount)), ofApp: app)
            else { return commits.noteStray(.trackedSends, key: key) }
            if key.count == end + 1, key[end] == 0 {
                try restore(stateOf: index, key, value)
            } else {
                try restore(memberOf: index, named: Array(key[end...]), key, value)
            }
            return
        }
        let version: UInt8 = value.first.map { (1...3).contains($0) ? $0 : 2 } ?? 2
        var row = try RecordReader(value, version: version, table: .trackedSends, key: key)
        let sender = user(try row.readString(), app: app)
        let (session, number) = (try row.read(UInt64.self), try row.read(UInt64.self))
        let messageIdentifier = try row.readString()
        let asks = SendAsks(rawValue: try row.read(UInt8.self))
        guard let grade = Grade(rawValue: try row.read(UInt8.self)),
            let targetKind = TrackedSend.TargetKind(rawValue: try row.read(UInt8.self))
        else { throw .unreadableRecord(.trackedSends, key: key) }
        let address = try row.readString()
        let accepted = try row.read(UInt64.self)
        let deadline = Instant(milliseconds: try row.read(UInt64.self))
        var send = TrackedSend(
            reference: RecordKey.readNumber(key, at: 1 + Int(appCount)), app: app, sender: sender,
            session: session, number: number, messageIdentifier: messageIdentifier, asks: asks,
            grade: grade, targetKind: targetKind, address: address,
            acceptedUnixMilliseconds: accepted, deadline: deadline)
        send.isNew = false
        send.memberCount = try row.read(UInt32.self)
        if version == 1 {
            try restoreFirstVersion(of: &send, from: &row, key)
        } else {
            send.collapseKey = try row.readString()
            for _ in 0..<(try row.read(UInt16.self)) {
                send.receivers.append(
                    TrackedSend.Receiver(user: user(try row.readString(), app: app)))
            }
            if version == 3 { send.joinedThrough = try row.read(UInt32.self) }
            try restore(stateOf: &send, from: &row, key)
        }
        if send.joinedThrough != 0, let group = group(of: send) {
            groupTable.noteJoins(through: send.joinedThrough, of: group)
        }
        let index = tracking.insert(send)
        if send.revisionState != .none { tracking.decide(.recalled, of: index) }
    }

    /// The rest of a row of version 1, which does not contain the stored message.
    private mutating func restoreFirstVersion(
        of send: inout TrackedSend, from row: inout RecordReader, _ key: [UInt8]
    ) throws(RestoreError) {
        send.counts = try row.readCounts()
        send.toldCounts = try row.readCounts()
        for _ in 0..<(try row.read(UInt16.self)) {
            let user = user(try row.readString(), app: send.app)
            send.receivers.append(
                TrackedSend.Receiver(
                    user: user, facts: TrackedSend.Facts(rawValue: try row.read(UInt8.self))))
        }
        send.untold = try readReceipts(from: &row, app: send.app, key)
        send.marks = .isOld
    }

    private mutating func restore(
        stateOf index: Index<TrackedSend>, _ key: [UInt8], _ value: [UInt8]
    ) throws(RestoreError) {
        var row = try RecordReader(value, version: 1, table: .trackedSends, key: key)
        // Its places in the tables depend on its state.
        var send = tracking.remove(index)
        try restore(stateOf: &send, from: &row, key)
        send.hasStateRow = true
        let index = tracking.insert(send)
        if send.revisionState != .none { tracking.decide(.recalled, of: index) }
    }

    private mutating func restore(
        stateOf send: inout TrackedSend, from row: inout RecordReader, _ key: [UInt8]
    ) throws(RestoreError) {
        send.counts = try row.readCounts()
        send.toldCounts = try row.readCounts()
        let facts = try row.readString()
        guard facts.count == send.receivers.count else {
            throw .unreadableRecord(.trackedSends, key: key)
        }
        for (position, known) in facts.enumerated() {
            send.receivers[position].facts = TrackedSend.Facts(rawValue: known)
        }
        send.untold = try readReceipts(from: &row, app: send.app, key)
        send.stored = try row.read(UInt64.self)
        send.marks = TrackedSend.Marks(rawValue: try row.read(UInt8.self))
        guard let state = TrackedSend.RevisionState(rawValue: try row.read(UInt8.self)) else {
            throw .unreadableRecord(.trackedSends, key: key)
        }
        send.revisionState = state
        send.withdrawnCount = try row.read(UInt32.self)
        send.lateCount = try row.read(UInt32.self)
        send.detail = try row.readString()
        send.collapses = try row.read(UInt64.self)
        // Earlier versions do not tell them.
        guard !row.isAtEnd else { return }
        send.keptNumber = try row.read(UInt64.self)
        send.blockByteCount = try row.read(UInt32.self)
    }

    private mutating func readReceipts(
        from row: inout RecordReader, app: Index<App>, _ key: [UInt8]
    ) throws(RestoreError) -> [Receipt] {
        var receipts: [Receipt] = []
        for _ in 0..<(try row.read(UInt16.self)) {
            guard let kind = Receipt.Kind(rawValue: try row.read(UInt8.self)) else {
                throw .unreadableRecord(.trackedSends, key: key)
            }
            let user = user(try row.readString(), app: app)
            let device = try row.readString()
            var receipt = Receipt(
                kind: kind, user: user, device: device,
                unixMilliseconds: try row.read(UInt64.self))
            receipt.code = try row.read(UInt8.self)
            receipt.text = try row.readString()
            receipts.append(receipt)
        }
        return receipts
    }

    /// The user of a row, which may have been deleted since.
    private mutating func user(_ name: [UInt8], app: Index<App>) -> Index<User> {
        self.user(named: name, app: app) ?? deletedUser(named: name, app: app)
    }

    private mutating func restore(
        memberOf index: Index<TrackedSend>, named name: [UInt8], _ key: [UInt8], _ value: [UInt8]
    ) throws(RestoreError) {
        var row = try RecordReader(value, version: 1, table: .trackedSends, key: key)
        guard let user = user(named: name, app: tracking.sends[index].app) else {
            return commits.noteStray(.trackedSends, key: key)
        }
        let facts = TrackedSend.Facts(rawValue: try row.read(UInt8.self))
        tracking.restore(facts, ofMember: user, of: index)
    }
}

extension TrackedSend {
    /// Writes what does not change.
    fileprivate func write(to row: inout RecordWriter, name: (Index<User>) -> [UInt8]) {
        row.write(name(sender))
        row.write(session >= TrackedSends.memorySessions ? 0 : session)
        row.write(number)
        row.write(messageIdentifier)
        row.write(asks.rawValue)
        row.write(grade.rawValue)
        row.write(targetKind.rawValue)
        row.write(address)
        row.write(acceptedUnixMilliseconds)
        row.write(deadline.milliseconds)
        row.write(memberCount)
        row.write(collapseKey)
        row.write(UInt16(receivers.count))
        for receiver in receivers { row.write(name(receiver.user)) }
        if joinedThrough != 0 { row.write(joinedThrough) }
    }

    fileprivate func writeState(
        untold: [Receipt], _ state: RevisionState, to row: inout RecordWriter,
        name: (Index<User>) -> [UInt8]
    ) {
        row.write(counts)
        row.write(toldCounts)
        row.write(receivers.map(\.facts.rawValue))
        row.write(UInt16(untold.count))
        for receipt in untold {
            row.write(receipt.kind.rawValue)
            row.write(name(receipt.user))
            row.write(receipt.device)
            row.write(receipt.unixMilliseconds)
            row.write(receipt.code)
            row.write(receipt.text)
        }
        row.write(stored)
        row.write(marks.rawValue)
        row.write(state.rawValue)
        row.write(withdrawnCount)
        row.write(lateCount)
        row.write(detail)
        row.write(collapses)
        row.write(keptNumber)
        row.write(blockByteCount)
    }
}

extension RecordWriter {
    fileprivate mutating func write(_ counts: TrackedSend.Counts) {
        write(counts.delivered)
        write(counts.applied)
        write(counts.failed)
    }
}

extension RecordReader {
    fileprivate mutating func readCounts() throws(RestoreError) -> TrackedSend.Counts {
        TrackedSend.Counts(
            delivered: try read(UInt32.self), applied: try read(UInt32.self),
            failed: try read(UInt32.self))
    }
}

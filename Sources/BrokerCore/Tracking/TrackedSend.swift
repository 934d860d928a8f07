// A send that has a reference: what the broker knows of it until its deadline, so that receipts are
// told and its sender can still change it.

import BrokerTerms
import Primitives

/// A send with a reference.
struct TrackedSend {
    /// How it was addressed. Raw values are on disk.
    enum TargetKind: UInt8 {
        /// A user, or a list of users.
        case users = 0
        case group = 2
        case everybody = 3
        case topic = 4
    }

    /// What is known of one receiver's copy. On disk.
    struct Facts: OptionSet, Hashable {
        var rawValue: UInt8

        /// A device has acknowledged it.
        static let delivered = Facts(rawValue: 1)
        /// The receiver has told that it applied it, or why not.
        static let applied = Facts(rawValue: 2)
        /// That it was delivered is not told, because the store had no room for the receipt.
        static let postponed = Facts(rawValue: 4)
    }

    /// A user that the send named.
    struct Receiver {
        let user: Index<User>
        var facts: Facts = []
    }

    /// Members of a group, by what is known of them.
    struct Counts: Hashable {
        var delivered: UInt32 = 0
        var applied: UInt32 = 0
        /// Of these, the ones who told a failure.
        var failed: UInt32 = 0

        subscript(fact: Facts) -> UInt32 {
            get { fact == .delivered ? delivered : applied }
            set { if fact == .delivered { delivered = newValue } else { applied = newValue } }
        }
    }

    /// Unique in the broker, and told in the app only.
    let reference: UInt64
    let app: Index<App>
    let sender: Index<User>
    /// What identifies the sender's session, and its outbox number; 0 for a send over the HTTP API.
    let session: UInt64
    let number: UInt64
    /// The application's id; empty for none.
    let messageIdentifier: [UInt8]
    let asks: SendAsks
    let grade: Grade
    let targetKind: TargetKind
    /// The group or the topic; empty for others.
    let address: [UInt8]
    let acceptedUnixMilliseconds: UInt64
    /// When its message expires, in broker time.
    let deadline: Instant
    /// The receivers that the send named, in their order; empty for other targets.
    var receivers: [Receiver] = []
    /// Members of the group but the sender, when the send was accepted.
    var memberCount: UInt32 = 0
    var counts = Counts()
    /// The counts that the last receipt of a group told.
    var toldCounts = Counts()
    /// What is known of members of a group: of those with several devices, which must not count
    /// twice, and of those that told something.
    var members: [Index<User>: Facts] = [:]
    /// Receipts that are due and not stored, in the order of their facts.
    var untold: [Receipt] = []
    /// Receipts in the pending or the in-flight batch, by their numbers.
    var underWay: [(number: UInt64, receipt: Receipt)] = []

    /// The timer that ends it.
    var token = TimerWheel.Token.none
    /// The timer of the next receipt.
    var paceToken = TimerWheel.Token.none
    /// Whether its row is to be written with the pending batch.
    var isChanged = false
}

/// A receipt for the sender of a message.
struct Receipt: Hashable {
    /// Raw values are on disk and on the wire.
    enum Kind: UInt8 {
        case delivered = 1
        case applied = 2
        /// How many members of a group.
        case counts = 3
    }

    let kind: Kind
    /// Whose device acknowledged, or who told.
    let user: Index<User>
    let device: [UInt8]
    let unixMilliseconds: UInt64
    /// The receiver's own code, with ``Kind/applied``: 0 for done, from 0x80 on a failure.
    var code: UInt8 = 0
    var text: [UInt8] = []

    /// The most bytes that it takes in the row of its send: a user of at most 64 bytes, a time, a
    /// kind, a code, and lengths.
    var rowByteCount: Int { 80 + device.count + text.count }
}

extension Records {
    /// The longest row of a tracked send.
    static func trackedSendPageByteCount(app: [UInt8], receiverByteCount: Int) -> Int {
        // Two receipts that wait, with the longest device and text, beside the fixed fields.
        RecordChange.pageByteCount(key: 9 + app.count, value: 900 + receiverByteCount)
    }

    /// A member's row follows that of its send.
    static func key(ofMember user: [UInt8], tracked reference: UInt64, app: [UInt8]) -> [UInt8] {
        key(ofTracked: reference, app: app) + user
    }

    static func key(ofTracked reference: UInt64, app: [UInt8]) -> [UInt8] {
        RecordKey.name(app: app, RecordKey.number(reference))
    }
}

extension Broker {
    /// The row of a tracked send. Ranges of receivers may be long, so it is written once for each
    /// batch.
    func row(ofTracked index: Index<TrackedSend>, untold: [Receipt]) -> RecordChange {
        let send = tracking.sends[index]
        var row = RecordWriter(version: 1)
        row.write(Array(registry.users[send.sender].name))
        row.write(send.session >= TrackedSends.memorySessions ? 0 : send.session)
        row.write(send.number)
        row.write(send.messageIdentifier)
        row.write(send.asks.rawValue)
        row.write(send.grade.rawValue)
        row.write(send.targetKind.rawValue)
        row.write(send.address)
        row.write(send.acceptedUnixMilliseconds)
        row.write(send.deadline.milliseconds)
        row.write(send.memberCount)
        for counts in [send.counts, send.toldCounts] {
            row.write(counts.delivered)
            row.write(counts.applied)
            row.write(counts.failed)
        }
        row.write(UInt16(send.receivers.count))
        for receiver in send.receivers {
            row.write(Array(registry.users[receiver.user].name))
            row.write(receiver.facts.rawValue)
        }
        row.write(UInt16(untold.count))
        for receipt in untold {
            row.write(receipt.kind.rawValue)
            row.write(Array(registry.users[receipt.user].name))
            row.write(receipt.device)
            row.write(receipt.unixMilliseconds)
            row.write(receipt.code)
            row.write(receipt.text)
        }
        return RecordChange(
            table: .trackedSends,
            key: Records.key(ofTracked: send.reference, app: registry.apps[send.app].name),
            value: row.bytes)
    }

    /// Restores one row. The rows of its users have been restored before.
    mutating func restoreTracked(_ key: [UInt8], _ value: [UInt8]) throws(RestoreError) {
        guard let appCount = key.first, key.count >= 1 + Int(appCount) + 8,
            let app = app(named: Array(key[1..<1 + Int(appCount)]))
        else { throw .danglingRecord(.trackedSends, key: key) }
        let end = 1 + Int(appCount) + 8
        if key.count > end {
            try restoreMember(named: Array(key[end...]), app: app, key, value)
            return
        }
        var row = try RecordReader(value, version: 1, table: .trackedSends, key: key)
        func user(_ name: [UInt8]) throws(RestoreError) -> Index<User> {
            guard let user = self.user(named: name, app: app) else {
                throw .danglingRecord(.trackedSends, key: key)
            }
            return user
        }
        let sender = try user(try row.readString())
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
        send.memberCount = try row.read(UInt32.self)
        send.counts = try row.readCounts()
        send.toldCounts = try row.readCounts()
        for _ in 0..<(try row.read(UInt16.self)) {
            let user = try user(try row.readString())
            send.receivers.append(
                TrackedSend.Receiver(
                    user: user, facts: TrackedSend.Facts(rawValue: try row.read(UInt8.self))))
        }
        for _ in 0..<(try row.read(UInt16.self)) {
            guard let kind = Receipt.Kind(rawValue: try row.read(UInt8.self)) else {
                throw .unreadableRecord(.trackedSends, key: key)
            }
            let user = try user(try row.readString())
            let device = try row.readString()
            var receipt = Receipt(
                kind: kind, user: user, device: device,
                unixMilliseconds: try row.read(UInt64.self))
            receipt.code = try row.read(UInt8.self)
            receipt.text = try row.readString()
            send.untold.append(receipt)
        }
        _ = tracking.insert(send)
    }

    private mutating func restoreMember(
        named name: [UInt8], app: Index<App>, _ key: [UInt8], _ value: [UInt8]
    ) throws(RestoreError) {
        var row = try RecordReader(value, version: 1, table: .trackedSends, key: key)
        let reference = RecordKey.readNumber(key, at: key.count - name.count - 8)
        guard let index = tracking.find(reference, ofApp: app),
            let user = user(named: name, app: app)
        else { throw .danglingRecord(.trackedSends, key: key) }
        let facts = TrackedSend.Facts(rawValue: try row.read(UInt8.self))
        tracking.restore(facts, ofMember: user, of: index)
    }
}

extension RecordReader {
    fileprivate mutating func readCounts() throws(RestoreError) -> TrackedSend.Counts {
        TrackedSend.Counts(
            delivered: try read(UInt32.self), applied: try read(UInt32.self),
            failed: try read(UInt32.self))
    }
}

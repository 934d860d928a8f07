// The sends of all apps that have a reference.
//
// It owns the sends and finds them by their reference, by their sender and the application's id,
// and by the session and number of the send. It refers to apps and users by index, and sees no
// messages.
//
// It also numbers the receipts that are in a batch.
//
// Invariants: a reference is unique; the counts of an app and of a user are those of their sends;
// a send of an application's id is the latest one.

import Primitives

/// The sends that have a reference.
struct TrackedSends: ~Copyable {
    private struct ApplicationKey: Hashable {
        let sender: Index<User>
        let messageIdentifier: [UInt8]
    }

    private struct SendKey: Hashable, BitwiseCopyable {
        let session: UInt64
        let number: UInt64
    }

    var sends = Slab<TrackedSend>()
    private var byReference: [UInt64: Index<TrackedSend>] = [:]
    private var byApplication: [ApplicationKey: Index<TrackedSend>] = [:]
    private var bySend: [SendKey: Index<TrackedSend>] = [:]
    private var countsOfApps: [Index<App>: Int] = [:]
    private var countsOfUsers: [Index<User>: Int] = [:]
    /// Those whose rows are to be written.
    private(set) var changed: [Index<TrackedSend>] = []

    /// The sends of receipts that are in the pending or the in-flight batch, by their numbers.
    private var receipts: [UInt64: Handle<TrackedSend>] = [:]
    private var lastReceipt = TrackedSends.receiptNumbers
    /// Set in the numbers of receipts, so that no other message of the broker has them.
    static let receiptNumbers: UInt64 = 1 << 63
    /// Set in what identifies a session that is not stored.
    static let memorySessions: UInt64 = 1 << 63
    /// What is known of members of groups, of all sends.
    private(set) var memberFactCount = 0
    /// Users that have messages whose delivery is to be told, with their number.
    private var awaited: [Index<User>: Int] = [:]
    /// Sends to groups whose delivery is to be told.
    private var awaitedGroupCount = 0
    /// Sessions whose clients have told that they have messages up to a number, which are not read
    /// from the store yet.
    var resumed: [Index<Session>: UInt64] = [:]

    var count: Int { sends.count }

    @inline(__always)
    var isEmpty: Bool { sends.count == 0 }

    func count(ofApp app: Index<App>) -> Int { countsOfApps[app] ?? 0 }

    func count(ofUser user: Index<User>) -> Int { countsOfUsers[user] ?? 0 }

    func find(_ reference: UInt64, ofApp app: Index<App>) -> Index<TrackedSend>? {
        guard let index = byReference[reference], sends[index].app == app else { return nil }
        return index
    }

    /// The same of any app.
    func find(_ reference: UInt64) -> Index<TrackedSend>? { byReference[reference] }

    /// The latest send of a user with an application's id.
    func find(
        sentBy user: Index<User>, messageIdentifier: some Collection<UInt8>
    ) -> Index<TrackedSend>? {
        byApplication[
            ApplicationKey(sender: user, messageIdentifier: Array(messageIdentifier))]
    }

    /// The reference of a session's send; 0 for none.
    func reference(ofSession session: UInt64, number: UInt64) -> UInt64 {
        bySend[SendKey(session: session, number: number)].map { sends[$0].reference } ?? 0
    }

    mutating func insert(_ send: TrackedSend) -> Index<TrackedSend> {
        let index = sends.insert(send).index
        byReference[send.reference] = index
        if !send.messageIdentifier.isEmpty {
            byApplication[
                ApplicationKey(sender: send.sender, messageIdentifier: send.messageIdentifier)] =
                index
        }
        if send.session != 0 {
            bySend[SendKey(session: send.session, number: send.number)] = index
        }
        countsOfApps[send.app, default: 0] += 1
        countsOfUsers[send.sender, default: 0] += 1
        awaitDelivery(of: index, by: 1)
        return index
    }

    /// Removes a send and returns it.
    mutating func remove(_ index: Index<TrackedSend>) -> TrackedSend {
        if sends[index].isChanged { changed.removeAll { $0 == index } }
        awaitDelivery(of: index, by: -1)
        memberFactCount -= sends[index].members.count
        for (number, _) in sends[index].underWay { receipts[number] = nil }
        let send = sends.remove(index)
        byReference[send.reference] = nil
        let application = ApplicationKey(
            sender: send.sender, messageIdentifier: send.messageIdentifier)
        if byApplication[application] == index { byApplication[application] = nil }
        let key = SendKey(session: send.session, number: send.number)
        if bySend[key] == index { bySend[key] = nil }
        Self.subtract(&countsOfApps, send.app)
        Self.subtract(&countsOfUsers, send.sender)
        return send
    }

    private static func subtract<Key>(_ counts: inout [Key: Int], _ key: Key) {
        let count = counts[key] ?? 0
        counts[key] = count > 1 ? count - 1 : nil
    }

    /// Notes that the row of a send is to be written with the pending batch.
    mutating func noteChange(of index: Index<TrackedSend>) {
        guard !sends[index].isChanged else { return }
        sends[index].isChanged = true
        changed.append(index)
    }

    /// Removes and returns the sends whose rows are to be written.
    mutating func takeChanged() -> [Index<TrackedSend>] {
        defer { changed.removeAll(keepingCapacity: true) }
        for index in changed { sends[index].isChanged = false }
        return changed
    }

    // MARK: - Facts

    /// Notes a fact about one receiver. Returns false if it is no receiver, or if the fact is
    /// known.
    ///
    /// - Parameter remembers: whether the fact of a member of a group may be told again.
    mutating func note(
        _ fact: TrackedSend.Facts, by user: Index<User>, of index: Index<TrackedSend>,
        remembers: Bool
    ) -> Bool {
        switch sends[index].targetKind {
        case .users:
            guard let position = sends[index].receivers.firstIndex(where: { $0.user == user }),
                !sends[index].receivers[position].facts.contains(fact)
            else { return false }
            sends[index].receivers[position].facts.insert(fact)
            if fact == .delivered, sends[index].asks.contains(.delivered) {
                count(awaited: user, by: -1)
            }
        case .group:
            let known = sends[index].members[user]
            guard user != sends[index].sender, known?.contains(fact) != true else { return false }
            // Members that joined meanwhile are no receivers.
            let count = sends[index].counts[fact]
            guard count < sends[index].memberCount else { return false }
            sends[index].counts[fact] = count + 1
            if remembers || known != nil {
                if known == nil { memberFactCount += 1 }
                sends[index].members[user, default: []].insert(fact)
            }
        case .everybody, .topic: return false
        }
        return true
    }

    /// Whether what a user told can be noted without remembering one more member of a group.
    func remembers(_ user: Index<User>, of index: Index<TrackedSend>) -> Bool {
        sends[index].members[user] != nil
    }

    /// Notes that a receiver has the message, and that the receipt is made later.
    mutating func postpone(_ receipt: Receipt, of index: Index<TrackedSend>) {
        guard let position = sends[index].receivers.firstIndex(where: { $0.user == receipt.user })
        else { return }
        sends[index].receivers[position].facts.insert(.postponed)
    }

    mutating func restore(
        _ facts: TrackedSend.Facts, ofMember user: Index<User>, of index: Index<TrackedSend>
    ) {
        if sends[index].members.updateValue(facts, forKey: user) == nil { memberFactCount += 1 }
    }

    /// Removes what is known of some members, and returns their users.
    mutating func takeMembers(of index: Index<TrackedSend>, countMaximum: Int) -> [Index<User>] {
        let users = Array(sends[index].members.keys.prefix(countMaximum))
        for user in users { sends[index].members[user] = nil }
        memberFactCount -= users.count
        return users
    }

    // MARK: - Deliveries that are to be told

    /// Whether a user may have messages whose delivery is to be told.
    func mayAwaitDelivery(to user: Index<User>) -> Bool {
        awaitedGroupCount > 0 || awaited[user] != nil
    }

    private mutating func awaitDelivery(of index: Index<TrackedSend>, by change: Int) {
        guard sends[index].asks.contains(.delivered) else { return }
        if sends[index].targetKind == .group { awaitedGroupCount += change }
        for position in sends[index].receivers.indices
        where !sends[index].receivers[position].facts.contains(.delivered) {
            count(awaited: sends[index].receivers[position].user, by: change)
        }
    }

    private mutating func count(awaited user: Index<User>, by change: Int) {
        let count = (awaited[user] ?? 0) + change
        awaited[user] = count > 0 ? count : nil
    }

    // MARK: - Receipts under way

    /// Notes that a receipt is in the pending batch, and returns its number.
    mutating func begin(_ receipt: Receipt, of index: Index<TrackedSend>) -> UInt64 {
        lastReceipt += 1
        receipts[lastReceipt] = sends.handle(index)
        sends[index].underWay.append((lastReceipt, receipt))
        return lastReceipt
    }

    /// Ends a receipt that is stored or was refused. Nil if its send has ended.
    @discardableResult
    mutating func end(_ number: UInt64) -> (send: Handle<TrackedSend>, receipt: Receipt)? {
        guard let send = receipts.removeValue(forKey: number), sends.contains(send),
            let position = sends[send.index].underWay.firstIndex(where: { $0.number == number })
        else { return nil }
        return (send, sends[send.index].underWay.remove(at: position).receipt)
    }

    func checkInvariants() {
        precondition(
            byReference.count == sends.count,
            "\(byReference.count) references of \(sends.count) sends")
        precondition(
            countsOfApps.values.reduce(0, +) == sends.count
                && countsOfUsers.values.reduce(0, +) == sends.count,
            "the counts of \(sends.count) sends")
        precondition(
            receipts.values.allSatisfy { sends.contains($0) },
            "\(receipts.count) receipts are under way")
        for index in changed {
            precondition(sends[index].isChanged, "send \(index.place) is in the list of changes")
        }
    }
}

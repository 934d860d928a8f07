// The sends of all apps that have a reference.
//
// It owns the sends and finds them by their reference, by their sender and the application's id,
// and by the session and number of the send, and has the recalls, replacements and collapses that
// are under way. It refers to apps and users by index, and to messages by their ids, and by their
// index until they are stored; it reads none.
//
// It also numbers the receipts that are in a batch.
//
// Sends of which everything is told are settled: they make room for later ones of their user, or
// of their app, the oldest first. One that is being recalled is not settled until that ends.
//
// Invariants: a reference is unique; the counts of an app and of a user are those of their sends;
// a send of an application's id is the latest one; a settled send is in the lists of its user and
// of its app.

import Primitives

/// The sends that have a reference.
struct TrackedSends: ~Copyable {
    private struct ApplicationKey: Hashable {
        let sender: Index<User>
        let messageIdentifier: [UInt8]
    }

    private struct CollapseKey: Hashable {
        let sender: Index<User>
        let key: [UInt8]
        let group: [UInt8]
        let receivers: [Index<User>]

        init(_ send: TrackedSend) {
            sender = send.sender
            key = send.collapseKey
            group = send.address
            // A list in another order has the same receivers.
            receivers = send.receivers.map(\.user).sorted { $0.place < $1.place }
        }
    }

    private struct SendKey: Hashable, BitwiseCopyable {
        let session: UInt64
        let number: UInt64
    }

    var sends = Slab<TrackedSend>()
    private var byReference: [UInt64: Index<TrackedSend>] = [:]
    private var byApplication: [ApplicationKey: Index<TrackedSend>] = [:]
    private var bySend: [SendKey: Index<TrackedSend>] = [:]
    /// The latest send with a key to the same receivers.
    private var byCollapseKey: [CollapseKey: Index<TrackedSend>] = [:]
    /// Recalls, replacements and collapses under way.
    var revisions = Slab<Revision>()
    /// Receivers of all of them.
    private var revisionUserCount = 0
    /// Bytes of the new contents of all of them.
    private var revisionContentBytes = 0
    private var revisionsOfApps: [Index<App>: Int] = [:]
    private var revisionsOfUsers: [Index<User>: Int] = [:]
    /// Sends that a later one of their batch has superseded, until the batch is committed.
    var superseded: [SupersededSend] = []
    /// Sends whose copies are not simply delivered when they are loaded, by the ids of their stored
    /// messages.
    private(set) var revised: [UInt64: Index<TrackedSend>] = [:]
    private var countsOfApps: [Index<App>: Int] = [:]
    private var countsOfUsers: [Index<User>: Int] = [:]
    private var settledOfApps: [Index<App>: SettledSends] = [:]
    private var settledOfUsers: [Index<User>: SettledSends] = [:]
    /// Those whose rows are to be written, and some that have ended.
    private(set) var changed: [Handle<TrackedSend>] = []

    /// The sends of receipts that are in the pending or the in-flight batch, by their numbers.
    private var receipts: [UInt64: Handle<TrackedSend>] = [:]
    private var lastReceipt = TrackedSends.receiptNumbers
    /// Set in the numbers of receipts, so that no other message of the broker has them.
    static let receiptNumbers: UInt64 = 1 << 63
    /// Set in what identifies a session that is not stored.
    static let memorySessions: UInt64 = 1 << 63
    /// Members of groups of whom something is known, by the app and by the sender of the message.
    private var membersOfApps: [Index<App>: Int] = [:]
    private var membersOfUsers: [Index<User>: Int] = [:]
    /// Users that have messages whose delivery is to be told, with their number.
    private var awaited: [Index<User>: Int] = [:]
    /// Sends to groups of an app whose delivery is to be told.
    private var awaitedGroups: [Index<App>: Int] = [:]
    /// The number that the last settled send got.
    private var lastSettled: UInt64 = 0
    /// Sessions whose clients have told that they have messages up to a number, which are not read
    /// from the store yet.
    var resumed: [Index<Session>: UInt64] = [:]
    /// Those of these sessions that end when this is read: the number up to which it is.
    var ending: [Index<Session>: UInt64] = [:]

    var count: Int { sends.count }

    @inline(__always)
    var isEmpty: Bool { sends.count == 0 }

    func count(ofApp app: Index<App>) -> Int { countsOfApps[app] ?? 0 }

    func count(ofUser user: Index<User>) -> Int { countsOfUsers[user] ?? 0 }

    /// Those of an app, or of a user, that do not make room for others.
    func unsettledCount(ofApp app: Index<App>) -> Int {
        count(ofApp: app) - (settledOfApps[app]?.count ?? 0)
    }

    func unsettledCount(ofUser user: Index<User>) -> Int {
        count(ofUser: user) - (settledOfUsers[user]?.count ?? 0)
    }

    /// Members of groups that are remembered for the messages of an app, or of one of its users.
    func memberCount(ofApp app: Index<App>) -> Int { membersOfApps[app] ?? 0 }

    func memberCount(ofUser user: Index<User>) -> Int { membersOfUsers[user] ?? 0 }

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

    /// The earlier send whose place a send with a key takes.
    func find(collapsedBy send: TrackedSend) -> Index<TrackedSend>? {
        byCollapseKey[CollapseKey(send)]
    }

    /// The reference of a session's send; 0 for none.
    func reference(ofSession session: UInt64, number: UInt64) -> UInt64 {
        bySend[SendKey(session: session, number: number)].map { sends[$0].reference } ?? 0
    }

    mutating func insert(_ send: TrackedSend) -> Index<TrackedSend> {
        let index = sends.insert(send).index
        byReference[send.reference] = index
        if !send.messageIdentifier.isEmpty {
            let key = ApplicationKey(
                sender: send.sender, messageIdentifier: send.messageIdentifier)
            if isLater(send, than: byApplication[key]) { byApplication[key] = index }
        }
        if send.session != 0 {
            bySend[SendKey(session: send.session, number: send.number)] = index
        }
        if !send.collapseKey.isEmpty {
            let key = CollapseKey(send)
            if isLater(send, than: byCollapseKey[key]) { byCollapseKey[key] = index }
        }
        countsOfApps[send.app, default: 0] += 1
        countsOfUsers[send.sender, default: 0] += 1
        awaitDelivery(of: index, by: 1)
        return index
    }

    /// Whether a send was accepted after another one. Those that are restored come in the order of
    /// their references, which is that of their times within some milliseconds, and none across a
    /// clock that was set.
    private func isLater(_ send: TrackedSend, than other: Index<TrackedSend>?) -> Bool {
        guard let other, send.batch == 0 else { return true }
        let (time, otherTime) = (
            send.acceptedUnixMilliseconds, sends[other].acceptedUnixMilliseconds
        )
        return time == otherTime ? send.stored > sends[other].stored : time > otherTime
    }

    /// Removes a send and returns it.
    mutating func remove(_ index: Index<TrackedSend>) -> TrackedSend {
        awaitDelivery(of: index, by: -1)
        countMembers(of: index, by: -sends[index].members.count)
        for (number, _) in sends[index].underWay { receipts[number] = nil }
        let send = sends.remove(index)
        byReference[send.reference] = nil
        let application = ApplicationKey(
            sender: send.sender, messageIdentifier: send.messageIdentifier)
        if byApplication[application] == index { byApplication[application] = nil }
        if !send.collapseKey.isEmpty {
            let key = CollapseKey(send)
            if byCollapseKey[key] == index { byCollapseKey[key] = nil }
        }
        if send.fate != nil { revised[send.stored] = nil }
        let key = SendKey(session: send.session, number: send.number)
        if bySend[key] == index { bySend[key] = nil }
        Self.subtract(&countsOfApps, send.app)
        Self.subtract(&countsOfUsers, send.sender)
        if send.isSettled { noteEnd(ofSettled: send.app, send.sender) }
        return send
    }

    /// Counts members of a group of whom something is known.
    private mutating func countMembers(of index: Index<TrackedSend>, by change: Int) {
        guard change != 0 else { return }
        Self.add(change, to: &membersOfApps, sends[index].app)
        Self.add(change, to: &membersOfUsers, sends[index].sender)
    }

    private static func add<Key>(_ change: Int, to counts: inout [Key: Int], _ key: Key) {
        let count = (counts[key] ?? 0) + change
        counts[key] = count > 0 ? count : nil
    }

    private mutating func noteEnd(ofSettled app: Index<App>, _ sender: Index<User>) {
        Self.noteEnd(in: &settledOfApps, of: app, sends)
        Self.noteEnd(in: &settledOfUsers, of: sender, sends)
    }

    private static func noteEnd<Key>(
        in lists: inout [Key: SettledSends], of key: Key, _ sends: borrowing Slab<TrackedSend>
    ) {
        lists[key]!.noteEnd(sends)
        if lists[key]!.count == 0 { lists[key] = nil }
    }

    // MARK: - Room

    /// Notes that nothing is left to tell of a send.
    mutating func settle(_ index: Index<TrackedSend>) {
        guard !sends[index].isSettled else { return }
        lastSettled += 1
        sends[index].settledNumber = lastSettled
        let settled = SettledSends.Entry(send: sends.handle(index), number: lastSettled)
        settledOfApps[sends[index].app, default: SettledSends()].append(settled)
        settledOfUsers[sends[index].sender, default: SettledSends()].append(settled)
    }

    /// Notes that a send makes no room, because a recall of it begins.
    private mutating func unsettle(_ index: Index<TrackedSend>) {
        guard sends[index].isSettled else { return }
        sends[index].settledNumber = 0
        noteEnd(ofSettled: sends[index].app, sends[index].sender)
    }

    /// The settled send that makes room for one more of a user: its oldest one if the user is at
    /// its limit, or that of the app.
    func oldestSettled(ofUser user: Index<User>) -> Index<TrackedSend>? {
        settledOfUsers[user]?.oldest
    }

    func oldestSettled(ofApp app: Index<App>) -> Index<TrackedSend>? {
        settledOfApps[app]?.oldest
    }

    private static func subtract<Key>(_ counts: inout [Key: Int], _ key: Key) {
        let count = counts[key] ?? 0
        counts[key] = count > 1 ? count - 1 : nil
    }

    /// Notes that the row of a send is to be written with the pending batch.
    mutating func noteChange(of index: Index<TrackedSend>) {
        guard !sends[index].isChanged else { return }
        sends[index].isChanged = true
        changed.append(sends.handle(index))
    }

    /// Notes that the pending batch has a row of a send.
    mutating func noteWritten(_ index: Index<TrackedSend>) {
        sends[index].hasStateRow = sends[index].hasStateRow || !sends[index].isNew
        sends[index].isNew = false
    }

    /// Removes and returns the sends whose rows are to be written.
    mutating func takeChanged() -> [Index<TrackedSend>] {
        defer { changed.removeAll(keepingCapacity: true) }
        let current = changed.filter { sends.contains($0) }.map(\.index)
        for index in current { sends[index].isChanged = false }
        return current
    }

    // MARK: - Revisions

    /// Sets the id of the stored message of a send.
    mutating func identify(_ index: Index<TrackedSend>, as stored: UInt64) {
        sends[index].stored = stored
        if stored != 0, sends[index].fate != nil { revised[stored] = index }
    }

    /// What happens to a copy of a stored message that is loaded; nil if it is delivered.
    func fate(ofStored message: UInt64) -> StoredFate? {
        revised[message].flatMap { sends[$0].fate }
    }

    /// Decides what happens to the copies of a send that are loaded from now on; nil for nothing.
    mutating func decide(_ fate: StoredFate?, of index: Index<TrackedSend>) {
        sends[index].fate = fate
        if sends[index].stored != 0 {
            revised[sends[index].stored] = fate == nil ? nil : index
        }
    }

    /// The limit that does not allow one more recall, replacement or collapse.
    ///
    /// - Parameters:
    ///   - userMaximum: those that one user may have.
    ///   - byteCount: of its new content.
    func limitOfRevisions(
        by user: Index<User>, ofApp app: Index<App>, userMaximum: Int,
        contentByteCount byteCount: Int = 0
    ) -> LimitName {
        if revisionsOfUsers[user] ?? 0 >= userMaximum {
            return .revisionsOfUser
        }
        if revisionsOfApps[app] ?? 0 >= CoreLimits.revisionsPerAppMaximum {
            return .revisionsOfApp
        }
        let isFull =
            revisions.count >= CoreLimits.revisionsMaximum
            || revisionUserCount >= CoreLimits.revisionUsersMaximum
            || byteCount > 0
                && revisionContentBytes + byteCount > CoreLimits.revisionContentBytesMaximum
        return isFull ? .revisions : .none
    }

    /// Begins a recall, a replacement or a collapse.
    mutating func insert(_ revision: Revision) -> Index<Revision> {
        let (send, count) = (revision.send, revision.users.count)
        let index = revisions.insert(revision).index
        sends[send].revision = index
        unsettle(send)
        revisionUserCount += count
        revisionContentBytes += revision.content.count
        revisionsOfApps[sends[send].app, default: 0] += 1
        revisionsOfUsers[sends[send].sender, default: 0] += 1
        return index
    }

    /// Ends a recall, a replacement or a collapse. The send may be settled again.
    mutating func remove(revision index: Index<Revision>) -> Revision {
        let revision = revisions.remove(index)
        revisionUserCount -= revision.users.count
        revisionContentBytes -= revision.content.count
        Self.subtract(&revisionsOfApps, sends[revision.send].app)
        Self.subtract(&revisionsOfUsers, sends[revision.send].sender)
        sends[revision.send].revision = nil
        return revision
    }

    /// Makes a send the latest with its key again: the newer one was taken back.
    mutating func noteLatest(_ index: Index<TrackedSend>) {
        let key = CollapseKey(sends[index])
        if !key.key.isEmpty, byCollapseKey[key] == nil { byCollapseKey[key] = index }
    }

    /// Notes that copies stay in the queues of a user who did not take the message that takes the
    /// place of a send.
    mutating func noteStaying(_ index: Index<TrackedSend>, of user: Index<User>) {
        if let position = sends[index].receivers.firstIndex(where: { $0.user == user }) {
            sends[index].receivers[position].facts.insert(.stays)
        } else if sends[index].targetKind == .group {
            let known = sends[index].members[user] ?? []
            restore(known.union(.stays), ofMember: user, of: index)
        } else {
            return
        }
        sends[index].marks.insert(.hasStays)
    }

    /// Whether copies stay in the queues of a user.
    func stays(_ index: Index<TrackedSend>, of user: Index<User>) -> Bool {
        guard sends[index].marks.contains(.hasStays) else { return false }
        if let receiver = sends[index].receivers.first(where: { $0.user == user }) {
            return receiver.facts.contains(.stays)
        }
        return sends[index].members[user]?.contains(.stays) == true
    }

    /// Forgets for whom copies stay.
    mutating func clearStaying(of index: Index<TrackedSend>) {
        guard sends[index].marks.contains(.hasStays) else { return }
        sends[index].marks.remove(.hasStays)
        for position in sends[index].receivers.indices {
            sends[index].receivers[position].facts.remove(.stays)
        }
        for (user, facts) in sends[index].members where facts.contains(.stays) {
            sends[index].members[user] = facts.subtracting(.stays)
        }
    }

    /// Notes that a message was withdrawn from all queues of a user that the send named.
    mutating func noteWithdrawn(_ index: Index<TrackedSend>, of user: Index<User>) {
        guard let position = sends[index].receivers.firstIndex(where: { $0.user == user }) else {
            return
        }
        sends[index].receivers[position].facts.insert(.withdrawn)
    }

    /// Whether a message was withdrawn from all queues of a user that the send named.
    func isWithdrawn(_ index: Index<TrackedSend>, of user: Index<User>) -> Bool {
        sends[index].receivers.contains { $0.user == user && $0.facts.contains(.withdrawn) }
    }

    /// Notes that a device of a user has been sent a message, or may have been. Returns false if
    /// that is known.
    mutating func noteSent(_ index: Index<TrackedSend>, to user: Index<User>) -> Bool {
        if let position = sends[index].receivers.firstIndex(where: { $0.user == user }) {
            return sends[index].receivers[position].facts.insert(.sent).inserted
        }
        guard sends[index].targetKind == .group else { return false }
        if sends[index].members[user] == nil { countMembers(of: index, by: 1) }
        return sends[index].members[user, default: []].insert(.sent).inserted
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
                if known == nil { countMembers(of: index, by: 1) }
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

    /// Whether a fact about one receiver is known.
    func knows(
        _ fact: TrackedSend.Facts, by user: Index<User>, of index: Index<TrackedSend>
    ) -> Bool {
        let facts =
            sends[index].targetKind == .group
            ? sends[index].members[user]
            : sends[index].receivers.first { $0.user == user }?.facts
        return facts?.contains(fact) == true
    }

    mutating func noteFailure(of index: Index<TrackedSend>) { sends[index].noteFailure() }

    mutating func noteSuccess(of index: Index<TrackedSend>) { sends[index].noteSuccess() }

    /// Notes that a receiver has the message, and that the receipt is made later.
    mutating func postpone(_ receipt: Receipt, of index: Index<TrackedSend>) {
        guard let position = sends[index].receivers.firstIndex(where: { $0.user == receipt.user })
        else { return }
        sends[index].receivers[position].facts.insert(.postponed)
    }

    mutating func restore(
        _ facts: TrackedSend.Facts, ofMember user: Index<User>, of index: Index<TrackedSend>
    ) {
        if sends[index].members.updateValue(facts, forKey: user) == nil {
            countMembers(of: index, by: 1)
        }
    }

    /// Removes what is known of some members, and returns their users.
    mutating func takeMembers(of index: Index<TrackedSend>, countMaximum: Int) -> [Index<User>] {
        let users = Array(sends[index].members.keys.prefix(countMaximum))
        for user in users { sends[index].members[user] = nil }
        countMembers(of: index, by: -users.count)
        return users
    }

    // MARK: - Deliveries that are to be told

    /// Whether a user may have messages whose delivery is to be told.
    func mayAwaitDelivery(to user: Index<User>) -> Bool {
        awaited[user] != nil
    }

    /// Whether members of the groups of an app may have such messages. Who left a group may still
    /// have its messages.
    func mayAwaitDelivery(toGroupsOf app: Index<App>) -> Bool { awaitedGroups[app] != nil }

    private mutating func awaitDelivery(of index: Index<TrackedSend>, by change: Int) {
        guard sends[index].asks.contains(.delivered) else { return }
        if sends[index].targetKind == .group {
            Self.add(change, to: &awaitedGroups, sends[index].app)
        }
        for position in sends[index].receivers.indices
        where !sends[index].receivers[position].facts.contains(.delivered) {
            count(awaited: sends[index].receivers[position].user, by: change)
        }
    }

    private mutating func count(awaited user: Index<User>, by change: Int) {
        Self.add(change, to: &awaited, user)
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
        let settledCount = sends.places.count { sends.contains($0) && sends[$0].isSettled }
        for lists in [
            settledOfApps.values.map(\.count), settledOfUsers.values.map(\.count),
        ] {
            expect(lists.reduce(0, +), equals: settledCount, "settled sends in the lists")
        }
        let members = sends.places.reduce(0) {
            $0 + (sends.contains($1) ? sends[$1].members.count : 0)
        }
        expect(membersOfApps.values.reduce(0, +), equals: members, "members known, by app")
        expect(membersOfUsers.values.reduce(0, +), equals: members, "members known, by sender")
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
        for index in revisions.places where revisions.contains(index) {
            precondition(
                sends[revisions[index].send].revision == index,
                "revision \(index.place) of send \(revisions[index].send.place)")
        }
        expect(
            revisionsOfUsers.values.reduce(0, +), equals: revisions.count,
            "recalls, replacements and collapses, by sender")
        for (stored, index) in revised {
            precondition(
                sends[index].stored == stored && sends[index].fate != nil,
                "message \(stored) has a fate, and send \(index.place) has none")
        }
        for send in changed where sends.contains(send) {
            precondition(
                sends[send.index].isChanged, "send \(send.index.place) is in the list of changes")
        }
    }
}

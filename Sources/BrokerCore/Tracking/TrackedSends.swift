// The sends of all apps that have a reference.
//
// It owns the sends and finds them by their reference, by their sender and the application's id, and
// by the session and number of the send. It refers to apps and users by index, and sees no messages.
//
// Invariants: a reference is unique; the counts of an app and of a user are those of
// their sends; a send of an application's id is the latest one.

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
        return index
    }

    /// Removes a send and returns it.
    mutating func remove(_ index: Index<TrackedSend>) -> TrackedSend {
        if sends[index].isChanged { changed.removeAll { $0 == index } }
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

    func checkInvariants() {
        precondition(
            byReference.count == sends.count,
            "\(byReference.count) references of \(sends.count) sends")
        precondition(
            countsOfApps.values.reduce(0, +) == sends.count
                && countsOfUsers.values.reduce(0, +) == sends.count,
            "the counts of \(sends.count) sends")
        for index in changed {
            precondition(sends[index].isChanged, "send \(index.place) is in the list of changes")
        }
    }
}

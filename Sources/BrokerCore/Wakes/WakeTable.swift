// The users with wake targets: their targets, and whether the relay was asked to wake them. It
// knows users by their index, and no session and no message.
//
// Invariants: a user has at most one entry; an entry without targets rests until the end of its
// interval, so that to remove the last target and to set it again makes no request early; a user
// has at most `CoreLimits.wakeTargetsMaximum` targets, in the order of their ids.

import Primitives

/// A user who has wake targets.
struct WakeUser: Sendable {
    let user: Index<User>
    /// In the order of their ids.
    fileprivate(set) var targets: [WakeTarget] = []
    /// Whether the relay was told that the user should be woken, and not the end of it.
    var wasAsked = false
    /// Whether a message waits for which the relay was not asked.
    var isDue = false
    /// What the store has of these two.
    var stored: WakeMarks?
    /// Whether the store refused to write them, so that it has older ones or none.
    fileprivate(set) var isRowRefused = false
    /// The newest of the messages that wait for the next request; nil if it is not known.
    fileprivate var news: WakeNews?
    /// The count of the table's revisions when the news were kept.
    fileprivate var newsGeneration: UInt32 = 0
    /// The latest end of a message that waits, or has waited since the user was there.
    fileprivate(set) var deadline: Instant?
    /// The stamp of the last message that was looked at: several sessions of a user get it.
    var stamp: UInt64 = 0
    /// Messages since the user was there that are in no queue: its devices find them in the
    /// history, or they were transient.
    var unqueuedCount: UInt32 = 0
    /// The targets that a request or a test has named. The relay is told when one is removed: a
    /// request waits with it for as long as the destination fails.
    private(set) var named: [UInt64] = []
    /// Until the next request.
    var token = TimerWheel.Token.none
    /// Whether the token is of the time that a device has to come back: a message does not wait
    /// for its end.
    var isGrace = false
    /// Whether a deadline will look whether something waits.
    var isCheckDue = false
    /// Whether the user has no targets, and the interval after its last request has not ended.
    fileprivate(set) var isResting = false

    init(user: Index<User>) { self.user = user }

    /// Notes that a request or a test names targets.
    mutating func name(_ targets: [WakeTarget]) {
        for target in targets where !named.contains(target.identifier) {
            named.append(target.identifier)
        }
    }

    /// Forgets that a target was named. Returns whether it was.
    mutating func forgetNamed(_ identifier: UInt64) -> Bool {
        guard let position = named.firstIndex(of: identifier) else { return false }
        named.remove(at: position)
        return true
    }

    /// Those whose devices have not logged out.
    var awakeTargets: [WakeTarget] { targets.filter { !$0.isSilent } }
}

/// What a row says about the requests for a user.
struct WakeMarks: OptionSet, Hashable {
    var rawValue: UInt8
    static let asked = WakeMarks(rawValue: 1)
    static let due = WakeMarks(rawValue: 2)
}

/// The users with wake targets.
struct WakeTable: ~Copyable {
    private(set) var users = Slab<WakeUser>()
    private var indexes: [Index<User>: Index<WakeUser>] = [:]
    private var restingCount = 0
    /// What the sender of the message that is being routed gave for those who are woken.
    var push: [UInt8] = []
    /// The last message of which news were made, and how many users were woken at once for it.
    private var newest: (stamp: UInt64, news: WakeNews)?
    private(set) var wokenCount = 0
    /// Users whose news are in memory until the next request.
    private(set) var heldCount = 0
    /// References of messages that were recalled, replaced or collapsed since news are in memory,
    /// and how often there were too many of them.
    private var revised: Set<UInt64> = []
    private var generation: UInt32 = 0
    /// Users whose rows are not committed, with the batch of the row, in the order of the batches.
    private var underWay: [(user: Index<User>, batch: UInt64)] = []

    /// Whether no user has targets: all that a message tests.
    @inline(__always)
    var isEmpty: Bool { users.count == 0 }

    /// Users with targets.
    var count: Int { users.count - restingCount }

    /// The entry of a user with targets.
    func index(of user: Index<User>) -> Index<WakeUser>? {
        indexes[user].flatMap { users[$0].isResting ? nil : $0 }
    }

    /// The entry of a user without targets whose interval has not ended.
    func restingIndex(of user: Index<User>) -> Index<WakeUser>? {
        indexes[user].flatMap { users[$0].isResting ? $0 : nil }
    }

    subscript(index: Index<WakeUser>) -> WakeUser {
        get { users[index] }
        _modify { yield &users[index] }
    }

    // MARK: - Targets

    mutating func entry(of user: Index<User>) -> Index<WakeUser> {
        if let index = indexes[user] { return index }
        let index = users.insert(WakeUser(user: user)).index
        indexes[user] = index
        return index
    }

    /// Adds a target, or changes the one that has its id.
    mutating func set(_ target: WakeTarget, of index: Index<WakeUser>) {
        endRest(of: index)
        if let position = users[index].targets.firstIndex(where: {
            $0.identifier == target.identifier
        }) {
            users[index].targets[position] = target
        } else {
            users[index].targets.append(target)
        }
        let count = users[index].targets.count
        precondition(
            count <= CoreLimits.wakeTargetsMaximum, "\(count) wake targets of one user")
    }

    /// Removes a target. Returns false if the user has none of this id.
    mutating func remove(_ identifier: UInt64, of index: Index<WakeUser>) -> Bool {
        let before = users[index].targets.count
        users[index].targets.removeAll { $0.identifier == identifier }
        return users[index].targets.count < before
    }

    /// Sets whether the device of a target has logged out.
    mutating func setSilent(_ isSilent: Bool, targetAt position: Int, of index: Index<WakeUser>) {
        users[index].targets[position].isSilent = isSilent
    }

    /// Keeps a user without targets until the deadline that it has.
    mutating func rest(_ index: Index<WakeUser>) {
        let count = users[index].targets.count
        precondition(count == 0, "a user with \(count) wake targets rests")
        users[index].isResting = true
        restingCount += 1
    }

    private mutating func endRest(of index: Index<WakeUser>) {
        guard users[index].isResting else { return }
        users[index].isResting = false
        restingCount -= 1
    }

    /// Removes a user without targets, who has no deadline.
    mutating func remove(_ index: Index<WakeUser>) {
        let count = users[index].targets.count
        precondition(count == 0, "a user with \(count) wake targets is removed")
        endRest(of: index)
        indexes[users[index].user] = nil
        users.remove(index)
    }

    // MARK: - Rows

    /// Whether a row is on its way to the store.
    var awaitsCommit: Bool { !underWay.isEmpty }

    /// Notes that a batch writes what a user's row says.
    mutating func noteRow(_ marks: WakeMarks, of index: Index<WakeUser>, batch: UInt64) {
        users[index].stored = marks
        users[index].isRowRefused = false
        underWay.append((users[index].user, batch))
    }

    /// The end of a commit. A row that the store refused is written again at the next change.
    mutating func settleRows(batch: UInt64, isStored: Bool) {
        let end = underWay.firstIndex { $0.batch > batch } ?? underWay.count
        if !isStored {
            for row in underWay[..<end] {
                if let index = indexes[row.user] { users[index].isRowRefused = true }
            }
        }
        underWay.removeFirst(end)
    }

    /// Notes that the row of a user is deleted.
    mutating func noteNoRow(of index: Index<WakeUser>) {
        users[index].stored = nil
        users[index].isRowRefused = false
    }

    // MARK: - Messages

    /// Forgets what the sender of a message gave: it is routed.
    @inline(__always)
    mutating func forgetPush() {
        if !push.isEmpty { push = [] }
    }

    /// The news of a message, made once for all its receivers.
    ///
    /// - Parameter make: makes them; only for the first receiver.
    mutating func news(ofMessage stamp: UInt64, _ make: () -> WakeNews) -> WakeNews {
        if let newest, newest.stamp == stamp { return newest.news }
        let news = make()
        newest = (stamp, news)
        wokenCount = 0
        return news
    }

    /// Whether one more user may be woken at once for the message of which news were made last.
    mutating func takesWake() -> Bool {
        wokenCount += 1
        return wokenCount <= CoreLimits.wakesPerMessageMaximum
    }

    /// Whether the news of one more user may be in memory until the next request.
    var takesNews: Bool { heldCount < CoreLimits.wakeNewsMaximum }

    /// Keeps news for the next request; nil forgets them.
    mutating func hold(_ news: WakeNews?, of index: Index<WakeUser>) {
        heldCount += (news == nil ? 0 : 1) - (users[index].news == nil ? 0 : 1)
        users[index].news = news
        users[index].newsGeneration = generation
        if heldCount == 0, !revised.isEmpty { revised = [] }
    }

    /// Whether news of a user are in memory.
    func holdsNews(of index: Index<WakeUser>) -> Bool { users[index].news != nil }

    /// What the next request tells of the newest message; nil if it is not known, has expired, or
    /// was recalled, replaced or collapsed.
    func currentNews(of index: Index<WakeUser>, at now: Instant) -> WakeNews? {
        guard let news = users[index].news, users[index].newsGeneration == generation,
            news.deadline > now, news.reference == 0 || !revised.contains(news.reference)
        else { return nil }
        return news
    }

    /// Notes that a message is recalled, replaced or collapsed.
    mutating func noteRevision(of reference: UInt64) {
        guard heldCount > 0 else { return }
        if revised.count == CoreLimits.wakeRevisionsMaximum {
            revised = []
            generation &+= 1
        }
        revised.insert(reference)
    }

    /// Notes when a message that waits expires: a request holds as long as one of its messages.
    mutating func noteDeadline(_ deadline: Instant, of index: Index<WakeUser>) {
        users[index].deadline = users[index].deadline.map { max($0, deadline) } ?? deadline
    }

    /// Notes that nothing waits for a user any more.
    mutating func forgetDeadline(of index: Index<WakeUser>) { users[index].deadline = nil }

    func checkInvariants() {
        precondition(
            indexes.count == users.count, "\(indexes.count) of \(users.count) users are found")
        var (heldCount, restingCount) = (0, 0)
        for index in users.places where users.contains(index) {
            precondition(
                indexes[users[index].user] == index, "user \(users[index].user) is not found")
            let rests = users[index].isResting
            precondition(
                users[index].targets.isEmpty == rests,
                "user \(users[index].user) has \(users[index].targets.count) wake targets")
            precondition(
                !rests || users[index].token != .none && !users[index].isDue,
                "user \(users[index].user) has no wake target, and no interval to wait for")
            restingCount += rests ? 1 : 0
            heldCount += users[index].news == nil ? 0 : 1
        }
        precondition(
            restingCount == self.restingCount,
            "\(restingCount) users rest, not \(self.restingCount)")
        precondition(
            heldCount == self.heldCount, "news of \(heldCount) users, not \(self.heldCount)")
    }
}

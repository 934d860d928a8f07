// A session: one device of one user, with its inbox, its outbox and its subscriptions. It outlives
// connections and, if it is persistent, the broker. Most devices are not connected: state that only
// a connected device needs is in a ``ConnectedSession``.

import Primitives

/// A numbered queue of messages for one receiver: a session, or a user whose messages wait offline.
/// The store has a copy. It contains numbers and sums, never the messages.
struct Inbox {
    let queue: QueueID
    /// The number that the next message gets.
    var nextNumber: UInt64 = 1
    /// All numbers up to here are acknowledged.
    var acknowledgedThrough: UInt64 = 0
    /// Bytes of the entries in memory and on disk.
    private(set) var byteCount: UInt64 = 0
    /// Number of entries in memory and on disk.
    private(set) var count: UInt32 = 0
    /// Number of messages that the queue refused or dropped because it was full, since the broker
    /// started.
    var overflowCount = SaturatingCount()

    init(queue: QueueID) { self.queue = queue }

    /// Whether a number was assigned and is not acknowledged.
    var hasUnacknowledged: Bool { acknowledgedThrough + 1 < nextNumber }

    /// Counts a new message and returns its number.
    mutating func add(byteCount: UInt32) -> UInt64 {
        count += 1
        self.byteCount += UInt64(byteCount)
        nextNumber += 1
        return nextNumber - 1
    }

    /// Subtracts entries that left the queue. Returns the bytes that were subtracted.
    @discardableResult
    mutating func subtract(count: UInt64, byteCount: UInt64) -> UInt64 {
        precondition(
            count <= self.count && byteCount <= self.byteCount,
            "\(count) messages of \(byteCount) bytes, and the inbox has \(self.count) "
                + "of \(self.byteCount)"
        )
        self.count -= UInt32(count)
        // The size of a damaged entry is not known. When the queue is empty, its bytes are set to
        // 0.
        let subtracted = self.count == 0 ? self.byteCount : byteCount
        self.byteCount -= subtracted
        return subtracted
    }

    /// Adds the entries of a queue that is moved to the end of this one, and reserves numbers for
    /// entries that are being moved into that queue.
    mutating func append(_ other: Inbox, expecting expectedCount: UInt64) {
        count += other.count
        byteCount += other.byteCount
        nextNumber += UInt64(other.count) + expectedCount
        overflowCount += other.overflowCount
    }

    /// Adds entries that already have numbers.
    mutating func countIn(_ tally: QueueTally) {
        count += UInt32(tally.count)
        byteCount += tally.byteCount
    }

    /// Sets the counts that the store has read.
    mutating func restore(_ tally: QueueTally, lastNumber: UInt64) {
        count = UInt32(tally.count)
        byteCount = tally.byteCount
        nextNumber = max(nextNumber, lastNumber + 1)
    }
}

/// One device of one user. It takes 224 bytes, because a broker has millions of sessions without a
/// connection; the order of its properties avoids padding.
struct Session: ~Copyable {
    // The next properties are read for every durable delivery.
    var inbox: Inbox
    /// The highest number that may be assigned; the store has reserved the numbers up to here.
    var reservedThrough: UInt64 = 0
    /// The highest number whose reservation was requested.
    var reservationRequested: UInt64 = 0
    /// The state that exists while the session is connected; nil without a connection.
    @Packed var connected: Index<ConnectedSession>? = nil
    let user: Index<User>
    /// The rows that must be written with the pending batch.
    var dirty: DirtyRecords = []
    var dialect: SessionDialect
    /// Facts about the session.
    private var marks: SessionMarks = []
    /// Whether the session receives the messages of its user: always in MRT, and in MQTT while it
    /// subscribes to the user's address.
    var receivesUserMessages: Bool
    /// Seconds that the session outlives its connection; `UInt32.max` for no limit.
    var expirySeconds: UInt32
    /// The highest number that may have been delivered on an earlier connection.
    var sentThrough: UInt64 = 0

    // The next properties are read less often.
    /// Durable identifier, unique in the store; 0 for a session that is not persistent.
    let identifier: UInt64
    let device: Name
    var epoch: UInt64
    /// The id of the first stored message to its user that the session received; it received all
    /// later ones too. 0 if it missed none.
    var receivesSince: UInt64 = 0
    /// The batch that created or changed the session or its will. The client is told after its
    /// commit.
    var decisiveBatch: UInt64 = 0
    var expiryToken = TimerWheel.Token.none
    /// Time at which the last connection ended; `.never` while there is one.
    var disconnected = Instant.never
    /// The next session of the same user; nil for the last.
    @Packed var nextOfUser: Index<Session>? = nil
    /// The first subscription of the session's chain; nil if there is none.
    @Packed var firstSubscription: Index<Subscription>? = nil
    /// Number of subscriptions that the client made.
    var filterCount: UInt32 = 0
    /// Its will; nil if there is none.
    @Packed var will: Index<Will>? = nil

    // The next properties belong to the session as a sender.
    var outboxEpoch: UInt64 = 0
    var resultsSeenThrough: UInt64 = 0
    /// A durable send up to this number without a record may have been delivered: by an earlier
    /// process, or by this one before its receiver was lost.
    var unknownThrough: UInt64 = 0
    /// A send of grade *once* up to this number without a record may have been delivered: the
    /// record ended with an earlier session, or is missing in a restored backup.
    var unknownOnceThrough: UInt64 = 0
    var outbox = Outbox()
    /// The number of the last send in MQTT, where the broker assigns the numbers.
    var lastSendNumber: UInt64 = 0
    /// Further state of the sender. It is absent, and takes no memory, for nearly every session.
    var senderState = Rare<SenderState>()

    init(
        identifier: UInt64, user: Index<User>, device: Name, dialect: SessionDialect, epoch: UInt64,
        inbox: Inbox, expirySeconds: UInt32
    ) {
        self.identifier = identifier
        self.user = user
        self.device = device
        self.dialect = dialect
        self.epoch = epoch
        self.inbox = inbox
        self.expirySeconds = expirySeconds
        receivesUserMessages = !dialect.isMQTT
    }

    /// Whether the sender has connected since the broker started.
    var hasConnectedSinceStart: Bool {
        get { marks.contains(.hasConnected) }
        set { marks.set(.hasConnected, to: newValue) }
    }

    /// Whether the session was restored from a backup and its sender has not connected since. Its
    /// sends after the backup are not known.
    var isFromBackup: Bool {
        get { marks.contains(.isFromBackup) }
        set { marks.set(.isFromBackup, to: newValue) }
    }

    /// Whether messages that history keeps for its user are not queued for it, until its next login
    /// says otherwise. Changed by ``Broker/setPulling(_:of:)``.
    var pulls: Bool {
        get { marks.contains(.pulls) }
        set { marks.set(.pulls, to: newValue) }
    }

    /// Whether the session was connected when a broker died, and its client has not been back. Then
    /// ``disconnected`` is the time of the restart, not that of a loss, and after another restart
    /// the client has time to return again.
    var isLossAssumed: Bool {
        get { marks.contains(.isLossAssumed) }
        set { marks.set(.isLossAssumed, to: newValue) }
    }

    /// ``disconnected`` and ``isLossAssumed`` as a row has them. A broker that does not know the
    /// bit reads a time in the future, and takes its own start for it.
    var disconnectedRow: UInt64 {
        get { disconnected.milliseconds | (isLossAssumed ? Self.assumedBit : 0) }
        set {
            isLossAssumed = newValue != .max && newValue & Self.assumedBit != 0
            disconnected = Instant(
                milliseconds: isLossAssumed ? newValue & ~Self.assumedBit : newValue)
        }
    }

    private static let assumedBit: UInt64 = 1 << 63

    /// Where the import of a session from another broker goes on: how many messages of the source
    /// earlier pieces had, taken or not. Nil if no import has begun it, or the import has ended.
    /// Clients of MQTT have no outbox epoch, whose place in the row it has.
    var importPosition: UInt64? {
        get {
            dialect.isMQTT && outboxEpoch != 0 && outboxEpoch != .max ? outboxEpoch - 1 : nil
        }
        set {
            precondition(dialect.isMQTT, "an import into a session of \(dialect)")
            outboxEpoch = newValue.map { $0 + 1 } ?? 0
        }
    }

    /// Ends an import: it is complete, or its client has come. Returns whether there was one.
    mutating func endImport() -> Bool {
        guard importPosition != nil else { return false }
        outboxEpoch = .max
        return true
    }

    /// Whether an import has ended.
    var hasEndedImport: Bool { dialect.isMQTT && outboxEpoch == .max }

    /// Whether an import has brought a part of it, and no subscriptions yet. Its client has to
    /// wait: it would take the session for complete, and subscribe to nothing.
    var isBeingImported: Bool { importPosition != nil && filterCount == 0 }

    /// Whether the session is in the store.
    @inline(__always)
    var isPersistent: Bool { identifier != 0 }

    var isConnected: Bool { connected != nil }
}

private struct SessionMarks: OptionSet {
    var rawValue: UInt8
    static let hasConnected = SessionMarks(rawValue: 1 << 0)
    static let isFromBackup = SessionMarks(rawValue: 1 << 1)
    static let pulls = SessionMarks(rawValue: 1 << 2)
    static let isLossAssumed = SessionMarks(rawValue: 1 << 3)

    mutating func set(_ mark: SessionMarks, to isSet: Bool) {
        if isSet { insert(mark) } else { remove(mark) }
    }
}

/// The rows of a session that differ from the stored ones.
struct DirtyRecords: OptionSet {
    var rawValue: UInt8
    static let session = DirtyRecords(rawValue: 1 << 0)
    static let outbox = DirtyRecords(rawValue: 1 << 1)
    /// The outbox row contains a send that is accepted with the same batch, or not at all.
    static let send = DirtyRecords(rawValue: 1 << 2)
}

/// A user of an app, with or without sessions.
struct User: ~Copyable {
    let app: Index<App>
    /// The user of the app that became known next; nil for the last.
    @Packed var nextOfApp: Index<User>? = nil
    var name: Name
    /// The first of the user's chained sessions; nil if there is none. A user has few devices.
    @Packed var firstSession: Index<Session>? = nil
    /// The queue of messages that wait while no persistent session receives them; nil if there is
    /// none.
    @Packed var offlineQueue: Index<Inbox>? = nil
    /// The first of the user's chained tokens; nil if there is none.
    @Packed var firstToken: Index<Token>? = nil
    var tokenCount: UInt32 = 0
    /// The user's memberships in groups.
    var memberships: [Index<Membership>] = []
    /// Time at which the last connection ended, in Unix milliseconds; 0 if it is not known.
    var lastSeenUnixMilliseconds: UInt64 = 0
    /// The stamp of the last send that was routed to this user: a list may name a user twice.
    var routedStamp: UInt64 = 0

    init(app: Index<App>, name: Name) {
        self.app = app
        self.name = name
    }
}

/// A tenant. The ids of different apps are independent.
struct App: ~Copyable {
    let name: [UInt8]
    /// At most ``CoreLimits/appKeysMaximum``.
    var keys: [Handle<AppKeyTable.Entry>] = []
    /// Whether the app's row contains its default key, which has no row of its own then: a row of
    /// an earlier version, in a store that had no room for another one.
    var rowContainsKey = false
    var sessionCount = 0
    /// Those of them that are connected.
    var connectionCount = 0
    /// Whether it is being deleted: it admits nobody, and its users send nothing.
    var isBeingDeleted = false
    /// Whether it was deleted. Its place is not used again.
    var isDeleted = false
    /// Whether the queues of its users are over the quota.
    var isOverQuota = false
    /// The rights of its users whose credential has none.
    var rights: Rights
    /// By name.
    var users = IndexTable<User>()
    /// The first and the last of the chain of users, in the order in which they became known.
    @Packed var firstUser: Index<User>? = nil
    @Packed var lastUser: Index<User>? = nil
    /// The tokens of its users, in no order.
    var tokens: [Index<Token>] = []
    var groups = ByteKeyTable<Group>()
    /// Bytes of the groups' lists and texts.
    var groupByteCount = 0
    /// The receivers of broadcasts.
    let broadcastAudience: Index<Audience>
    var topics: TopicTree<Audience>
    /// Number of address filters in the tree. While it is 0, no send looks for them.
    var addressCount = 0
    /// Number of filters that begin with `$SYS`.
    var systemCount = 0
    /// Number of filters of presence. While it is 0, logins are not published.
    var presenceFilterCount = 0
    /// Number of filters of read marks. While it is 0, marks are not published.
    var unreadFilterCount = 0
    var retained = RetainedTree<Retained>()
    /// Bytes of its retained messages, without those of the tree.
    var retainedByteCount = 0
    /// Filters of shared subscriptions. Each leads to its shares.
    var shares = TopicTree<ShareSet>()
    /// The topics that have history.
    var historyTopics = FilterSet()
    /// The topics whose publications a moderator decides on.
    var moderatedTopics = FilterSet()
    var shareCount = 0
    /// The numbers of its shares, with the number of shares that have each. More than one share has
    /// a number only if the store is of an earlier version, in which a number was a hash of 16
    /// bits: entries of two shares with the same hash cannot be distinguished, so both keep it
    /// until one has no members.
    var shareNumbers: [UInt16: UInt16] = [:]

    init(name: [UInt8], rights: Rights, broadcastAudience: Index<Audience>) {
        self.name = name
        self.rights = rights
        self.broadcastAudience = broadcastAudience
        topics = TopicTree<Audience>()
    }
}

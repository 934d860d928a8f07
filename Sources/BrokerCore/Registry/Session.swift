// A session: one device of one user, with its inbox, its outbox and its subscriptions. It outlives
// connections and, when it is persistent, the broker. Most devices are not connected: state that
// only a connected device needs is in a ``ConnectedSession``.

import Primitives

/// A numbered queue of messages for one receiver: the part of a session, or of a user who has none,
/// that the store mirrors. It holds numbers and sums, never the messages.
struct Inbox {
    let queue: QueueID
    /// The number of the next message.
    var nextNumber: UInt64 = 1
    /// Everything up to here was acknowledged.
    var acknowledgedThrough: UInt64 = 0
    /// Bytes waiting, in memory and on disk.
    private(set) var byteCount: UInt64 = 0
    /// Entries waiting, in memory and on disk.
    private(set) var count: UInt32 = 0
    /// Messages that the queue's policy dropped since the broker started.
    var droppedCount = SaturatingCount()

    init(queue: QueueID) { self.queue = queue }

    /// Whether a number was given and not acknowledged.
    var hasUnacknowledged: Bool { acknowledgedThrough + 1 < nextNumber }

    /// Counts a new message and returns its number.
    mutating func add(byteCount: UInt32) -> UInt64 {
        count += 1
        self.byteCount += UInt64(byteCount)
        nextNumber += 1
        return nextNumber - 1
    }

    /// Counts messages out again.
    mutating func subtract(count: UInt64, byteCount: UInt64) {
        precondition(
            count <= self.count && byteCount <= self.byteCount,
            "\(count) messages of \(byteCount) bytes, and the inbox has \(self.count) "
                + "of \(self.byteCount)"
        )
        self.count -= UInt32(count)
        // The size of a damaged entry is not known: an empty queue ends what it left over.
        self.byteCount = self.count == 0 ? 0 : self.byteCount - byteCount
    }

    /// Counts in all entries of a queue that is moved behind this one, and leaves numbers for those
    /// that are on their way into that.
    mutating func append(_ other: Inbox, expecting expectedCount: UInt64) {
        count += other.count
        byteCount += other.byteCount
        nextNumber += UInt64(other.count) + expectedCount
        droppedCount += other.droppedCount
    }

    /// Counts in entries that have their numbers.
    mutating func countIn(_ tally: QueueTally) {
        count += UInt32(tally.count)
        byteCount += tally.byteCount
    }

    /// Takes over what the store says is in the queue.
    mutating func restore(_ tally: QueueTally, lastNumber: UInt64) {
        count = UInt32(tally.count)
        byteCount = tally.byteCount
        nextNumber = max(nextNumber, lastNumber + 1)
    }
}

/// One device of one user: 224 bytes, of which millions may sleep. Fields stand in an order that
/// leaves no gaps.
struct Session: ~Copyable {
    // Read for every durable delivery.
    var inbox: Inbox
    /// Numbers up to here may be used: they are reserved in the store.
    var reservedThrough: UInt64 = 0
    /// Numbers up to here have been asked to be reserved.
    var reservationRequested: UInt64 = 0
    /// Index of the half that exists while the session is connected; `Slab.none` without.
    @Packed var connected: Index<ConnectedSession>? = nil
    let user: Index<User>
    /// Which table rows must be written with the pending batch.
    var dirty: DirtyRecords = []
    var dialect: SessionDialect
    /// What is known of its sender.
    private var senderMarks: SenderMarks = []
    /// Whether what is sent to its user comes here: in MRT always, in MQTT while it subscribes to
    /// it.
    var receivesUserMessages: Bool
    /// How long it outlives its connection; `UInt32.max` for ever.
    var expirySeconds: UInt32
    /// Numbers up to here may have been delivered on an earlier connection.
    var sentThrough: UInt64 = 0

    // The rest.
    /// Durable name; 0 for a session that is not persistent.
    let identifier: UInt64
    let device: Name
    var epoch: UInt64
    /// The first stored message that its user was sent while it was listening: it was given that
    /// and all that follow. 0 where it has heard all there is.
    var hearsSince: UInt64 = 0
    /// The batch that made or changed the session, or its will: no client is told of it before.
    var decisiveBatch: UInt64 = 0
    var expiryToken = TimerWheel.Token.none
    /// When the last connection ended; `.never` while there is one.
    var disconnected = Instant.never
    /// The next session of the same user; `Slab.none` for the last.
    @Packed var nextOfUser: Index<Session>? = nil
    /// The first of its subscriptions, which are chained; `Slab.none` without any.
    @Packed var firstSubscription: Index<Subscription>? = nil
    /// Subscriptions that the client asked for.
    var filterCount: UInt32 = 0
    /// Its will; `Slab.none` for none.
    @Packed var will: Index<Will>? = nil

    // The sender's half.
    var outboxEpoch: UInt64 = 0
    var resultsSeenThrough: UInt64 = 0
    /// An unknown durable send up to this number may have been delivered by an earlier broker, or
    /// by this one before its receiver was lost.
    var doubtfulThrough: UInt64 = 0
    /// An unknown send of grade *once* up to this number may have been delivered: its record ended
    /// with an earlier session, or is missing from a restored backup.
    var forgottenThrough: UInt64 = 0
    var outbox = Outbox()
    /// The number of the last send in MQTT, where the broker counts.
    var lastSendNumber: UInt64 = 0
    /// What else is known of what it sends; without memory of its own in nearly every case.
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
        get { senderMarks.contains(.hasConnected) }
        set { senderMarks.set(.hasConnected, to: newValue) }
    }

    /// Whether it came with a restored backup and its sender has not been back since: what that
    /// sent after the backup was made is not known.
    var isFromBackup: Bool {
        get { senderMarks.contains(.isFromBackup) }
        set { senderMarks.set(.isFromBackup, to: newValue) }
    }

    /// Whether it is in the store.
    @inline(__always)
    var isPersistent: Bool { identifier != 0 }

    var isConnected: Bool { connected != nil }
}

/// What is known of a session's sender.
private struct SenderMarks: OptionSet {
    var rawValue: UInt8
    static let hasConnected = SenderMarks(rawValue: 1 << 0)
    static let isFromBackup = SenderMarks(rawValue: 1 << 1)

    mutating func set(_ mark: SenderMarks, to isSet: Bool) {
        if isSet { insert(mark) } else { remove(mark) }
    }
}

/// Rows of a session that differ from what is stored.
struct DirtyRecords: OptionSet {
    var rawValue: UInt8
    static let session = DirtyRecords(rawValue: 1 << 0)
    static let outbox = DirtyRecords(rawValue: 1 << 1)
    /// The outbox row tells of a send that is accepted with this very batch, or not at all.
    static let send = DirtyRecords(rawValue: 1 << 2)
}

/// A user that an app knows, with or without sessions.
struct User: ~Copyable {
    let app: Index<App>
    let name: Name
    /// The first of the user's sessions, which are chained; a user's devices are few.
    @Packed var firstSession: Index<Session>? = nil
    /// Index of what waits while the user has no persistent session; `Slab.none` where nothing
    /// does.
    @Packed var offlineQueue: Index<Inbox>? = nil
    /// The groups it is in, as memberships by index.
    var memberships: [Index<Membership>] = []
    /// When the last connection went away, in Unix milliseconds; 0 when that is not known.
    var lastSeenUnixMilliseconds: UInt64 = 0
    /// The send that was routed to this user last: a list may name a user twice.
    var routedStamp: UInt64 = 0

    init(app: Index<App>, name: Name) {
        self.app = app
        self.name = name
    }
}

/// A tenant: ids of different apps never meet.
struct App: ~Copyable {
    let name: [UInt8]
    /// SHA-256 of the app key, for development logins; nil where they are turned off.
    var keyDigest: Digest?
    var sessionCount = 0
    /// Set while more waits for its users than may.
    var isOverQuota = false
    /// What its users may do unless their credential says otherwise.
    var rights: Rights
    /// By name.
    var users = IndexTable<User>()
    var groups = ByteKeyTable<Group>()
    /// Memory of the groups' lists and texts.
    var groupByteCount = 0
    /// Who receives broadcasts.
    let broadcastAudience: Index<Audience>
    var topics: TopicTree<Audience>
    /// Filters in the tree that begin with `$`: without any, no send looks for them.
    var addressCount = 0
    /// Filters that begin with `$SYS`.
    var systemCount = 0
    /// Filters of presence. While there are none, logins are not published.
    var presenceFilterCount = 0
    var retained = RetainedTree<Retained>()
    /// Bytes of its retained messages, without the tree.
    var retainedByteCount = 0
    /// Filters of shared subscriptions, each leading to its shares.
    var shares = TopicTree<ShareSet>()
    var shareCount = 0
    /// The numbers of its shares, each with how many have it. That is one, except of shares in a
    /// store of an earlier version, whose number was a hash of 16 bits: entries of two shares with
    /// the same hash cannot be told apart, so that both keep it until one has no members.
    var shareNumbers: [UInt16: UInt16] = [:]

    init(name: [UInt8], keyDigest: Digest?, rights: Rights, broadcastAudience: Index<Audience>) {
        self.name = name
        self.keyDigest = keyDigest
        self.rights = rights
        self.broadcastAudience = broadcastAudience
        topics = TopicTree<Audience>()
    }
}

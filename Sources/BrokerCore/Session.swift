// A session: one device of one user, with its inbox, its outbox and its subscriptions. It outlives
// connections and, when it is persistent, the broker.

import Primitives

/// One numbered message on its way to a connected session.
struct WindowEntry: BitwiseCopyable {
    var number: UInt64
    /// Index of the message in memory.
    var message: UInt32
    /// Place in the entries of the batch that stores it, while that batch is `Message.batch`.
    var batchEntry: UInt32
    var byteCount: UInt32
    var state: EntryState
    /// The store refused it: it lives here only.
    var isUnstored = false
}

/// What a sender is told of one of its sends, kept until it says it has seen it.
struct OutboxEntry {
    var number: UInt64
    /// Whether `reason` is final; before that the send's commit is under way.
    var isComplete = false
    var grade: Grade
    var reason = ReasonCode.sent
    var refusedCount: UInt32 = 0
    /// Named refusals; empty in nearly every case, and then without memory of its own.
    var refusals: [Refusal] = []
}

/// A numbered queue of messages for one receiver: the part of a session, or of a user who has none,
/// that the store mirrors. It holds numbers and sums, never the messages.
struct Inbox {
    var queue: QueueID
    /// The number of the next message.
    var nextNumber: UInt64 = 1
    /// Entries and bytes waiting, in memory and on disk.
    var count: UInt64 = 0
    var byteCount: UInt64 = 0

    /// Counts a new message and returns its number.
    mutating func add(byteCount: UInt32) -> UInt64 {
        count += 1
        self.byteCount += UInt64(byteCount)
        nextNumber += 1
        return nextNumber - 1
    }

    /// Counts messages out again.
    mutating func subtract(count: UInt64, byteCount: UInt64) {
        precondition(count <= self.count && byteCount <= self.byteCount, "an inbox below empty")
        self.count -= count
        // The size of a damaged entry is not known: an empty queue ends what it left over.
        self.byteCount = self.count == 0 ? 0 : self.byteCount - byteCount
    }
}

/// One device of one user.
struct Session: ~Copyable {
    // Hot: read for every delivery.
    /// The live connection, or `.none`.
    var connection = ConnectionID.none
    /// Whether the connection has been told that it is accepted; nothing is delivered before.
    var isConfirmed = false
    var isPersistent: Bool
    var dialect: SessionDialect
    var inbox: Inbox
    /// Numbers up to here may be used: they are reserved in the store.
    var reservedThrough: UInt64 = 0
    /// Numbers up to here are in the window or acknowledged; the rest of the queue is on disk only.
    var loadedThrough: UInt64 = 0
    /// Entries of the queue that are not in the window.
    var backlogCount: UInt64 = 0
    var window = Ring<WindowEntry>()
    /// Bytes of the messages in the window.
    var windowByteCount = 0
    /// Entries from the front of the window that have been delivered on this connection.
    var sentCount = 0
    /// Unacknowledged deliveries that the client takes at a time.
    var windowMaximum = 1
    /// The highest number delivered on this connection.
    var sentThrough: UInt64 = 0
    /// Everything up to here was acknowledged.
    var acknowledgedThrough: UInt64 = 0
    var isLoading = false
    /// The gathering batch that already has an acknowledgement of this queue, and where.
    var acknowledgementBatch: UInt64 = 0
    var acknowledgementIndex = 0

    // Cold.
    /// Durable name; 0 for a session that is not persistent.
    let identifier: UInt64
    let user: UInt32
    let device: [UInt8]
    var epoch: UInt64
    var cookie: UInt64 = 0
    var expirySeconds: UInt32
    /// When it ends unless a connection comes; `.never` while connected.
    var expiry = Instant.never
    var expiryToken: TimerWheel.Token?
    /// When the last connection went away.
    var disconnected = Instant(milliseconds: 0)
    var keepAliveSeconds: UInt32 = 0
    var connectedUnixMilliseconds: UInt64 = 0
    /// Whether the session was there before its present connection.
    var isPresent = false
    /// Numbers up to here have been asked to be reserved.
    var reservationRequested: UInt64 = 0
    /// Which table rows must be written with the gathering batch.
    var dirty: DirtyRecords = []
    /// Rises with every attachment, so that a load for an earlier one is recognised.
    var attachment: UInt32 = 0
    /// Subscriptions by index into the slab of subscriptions, the automatic ones first.
    var subscriptions: [UInt32] = []
    var filterCount: UInt32 = 0
    /// How often it has been taken over lately.
    var takeovers = TakeoverCount()
    /// Its will; `Slab.none` for none.
    var will = Slab<Will>.none

    /// What the live connection was let in with; `none` while there is no connection.
    var access = Slab<Access>.none

    // The sender's half.
    var outboxEpoch: UInt64 = 0
    var resultsSeenThrough: UInt64 = 0
    /// The highest outbox number that came before this broker started, as far as the sender said:
    /// an unknown number up to here may have been delivered by an earlier broker.
    var outboxDoubtfulThrough: UInt64 = 0
    /// Whether the sender has connected since the broker started.
    var hasConnectedSinceStart = false
    var outbox: [OutboxEntry] = []

    init(
        identifier: UInt64, user: UInt32, device: [UInt8], dialect: SessionDialect, epoch: UInt64,
        queue: QueueID, expirySeconds: UInt32
    ) {
        self.identifier = identifier
        self.user = user
        self.device = device
        self.dialect = dialect
        self.epoch = epoch
        self.expirySeconds = expirySeconds
        isPersistent = expirySeconds > 0
        inbox = Inbox(queue: queue)
    }

    var isConnected: Bool { connection != .none }

    /// Place of an outbox number among the remembered results. Numbers rise nearly always, so the
    /// walk from the end is short; the send window bounds it.
    func outboxPosition(_ number: UInt64) -> Int? {
        var position = outbox.count - 1
        while position >= 0 && outbox[position].number > number { position -= 1 }
        return position >= 0 && outbox[position].number == number ? position : nil
    }
}

/// Counts takeovers of a session within a minute: two devices that bear one name take turns for as
/// long as they live, and are stopped.
struct TakeoverCount {
    /// Takeovers within ``windowMilliseconds`` that are let through: a person who moves from device
    /// to device does not reach it.
    static let maximum = 5
    static let windowMilliseconds: UInt64 = 60_000

    private var count = 0
    private var start = Instant(milliseconds: 0)

    /// Counts one more; gives the seconds to wait where that is too many.
    mutating func add(at now: Instant) -> UInt32? {
        let passed = now.milliseconds(since: start)
        if passed >= Self.windowMilliseconds {
            start = now
            count = 0
        }
        guard count < Self.maximum else {
            return UInt32((Self.windowMilliseconds - passed) / 1000 + 1)
        }
        count += 1
        return nil
    }
}

/// Rows of a session that differ from what is stored.
struct DirtyRecords: OptionSet {
    var rawValue: UInt8
    static let session = DirtyRecords(rawValue: 1 << 0)
    static let outbox = DirtyRecords(rawValue: 1 << 1)
}

/// Somebody known to an app, with or without sessions.
struct User: ~Copyable {
    let app: UInt32
    let name: [UInt8]
    /// Sessions by index; a user's devices are few.
    var sessions: [UInt32] = []
    /// The groups it is in, as memberships by index.
    var memberships: [UInt32] = []
    /// Who receives what is sent to this user.
    let audience: UInt32
    /// When the last connection went away, in Unix milliseconds; 0 when that is not known.
    var lastSeenUnixMilliseconds: UInt64 = 0
    /// What waits while no session receives this user's mail.
    var mailbox: Inbox?

    init(app: UInt32, name: [UInt8], audience: UInt32) {
        self.app = app
        self.name = name
        self.audience = audience
    }
}

/// A tenant: ids of different apps never meet.
struct App: ~Copyable {
    let name: [UInt8]
    /// SHA-256 of the app key, for development logins; nil where they are turned off.
    var keyDigest: Digest?
    /// What its users may do unless their credential says otherwise.
    var rights: Rights
    var users = ByteKeyTable()
    var groups = ByteKeyTable()
    /// Who receives broadcasts.
    let broadcastAudience: UInt32
    var topics: TopicTree

    init(name: [UInt8], keyDigest: Digest?, rights: Rights, broadcastAudience: UInt32) {
        self.name = name
        self.keyDigest = keyDigest
        self.rights = rights
        self.broadcastAudience = broadcastAudience
        topics = TopicTree()
    }
}

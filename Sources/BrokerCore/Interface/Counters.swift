// What the core counts. Everything that is refused, dropped or expired moves one of these, so that
// nothing is lost in silence.

/// Totals since the broker started.
public struct Counters: Hashable, Sendable {
    public var connectsAccepted: UInt64 = 0
    public var connectsRefused: UInt64 = 0
    /// Those among them for which there was no room: sessions, users, or the store (0x97).
    public var connectsOverQuota: UInt64 = 0
    /// Those among them whose device was logged in by somebody else too often (0x9F).
    public var connectsDamped: UInt64 = 0
    public var takeovers: UInt64 = 0
    /// MQTT logins that had to wait before they took a session over.
    public var connectsDelayed: UInt64 = 0
    /// Times that an MQTT client was not read from because it had too many answers to come.
    public var readingPauses: UInt64 = 0
    /// New credentials of connected clients that were worth nothing.
    public var credentialsRefused: UInt64 = 0
    /// Sends, single receivers, subscriptions and queries that no right allowed.
    public var rightsRefusals: UInt64 = 0
    public var sessionsCreated: UInt64 = 0
    public var sessionsExpired: UInt64 = 0
    public var sendsAccepted: UInt64 = 0
    public var sendsRefused: UInt64 = 0
    /// Those among them that came while too much waited for its commit (0x97).
    public var sendsOverUncommitted: UInt64 = 0
    /// Sends that were recognised as resends and not delivered again.
    public var sendsRepeated: UInt64 = 0
    /// Sends accepted although an earlier broker may have delivered them.
    public var possibleDuplicates: UInt64 = 0
    /// Single receivers refused within a send.
    public var receiversRefused: UInt64 = 0
    public var deliveries: UInt64 = 0
    /// Requests about groups and wills that were refused, and those that no dialect knows.
    public var requestsRefused: UInt64 = 0
    /// Those among them for which there was no room: groups, members, or the store (0x97).
    public var requestsOverQuota: UInt64 = 0
    public var subscriptionsRefused: UInt64 = 0
    /// Those among them for which a session had no room (0x97).
    public var subscriptionsOverQuota: UInt64 = 0
    /// Joins and leaves that were not told since the group is large.
    public var groupEventsSkipped: UInt64 = 0
    public var willsSent: UInt64 = 0
    /// Wills that were due and that no right allowed any more, or whose credential was withdrawn.
    public var willsRefused: UInt64 = 0
    /// Messages of shared subscriptions that moved from a session that left to another one.
    public var sharesHandedOver: UInt64 = 0
    /// Devices that came or went and were told to who subscribes to it.
    public var presenceEvents: UInt64 = 0
    public var acknowledgements: UInt64 = 0
    /// Stored deliveries that expired before their receiver took them.
    public var expired: UInt64 = 0
    /// Waiting messages discarded with a session that a client wanted gone.
    public var discarded: UInt64 = 0
    /// Copies of sends that a queue at its limit refused, of which the sender was told.
    public var queueRefused: UInt64 = 0
    /// Dropped by a queue's policy `oldest` or `newest`.
    public var queueDropped: UInt64 = 0
    /// Deliveries that were larger than their receiver takes.
    public var oversizeDropped: UInt64 = 0
    /// Of ``queueRefused``: by the queue of a session that is not persistent.
    public var memoryQueueRefused: UInt64 = 0
    public var protocolErrors: UInt64 = 0
    /// Sender times that differed too much and were replaced.
    public var senderClocksRejected: UInt64 = 0
    public var batchesCommitted: UInt64 = 0
    public var messagesStored: UInt64 = 0
    public var entriesStored: UInt64 = 0
    /// Entries that every receiver acknowledged before they were written.
    public var entriesElided: UInt64 = 0
    /// Messages taken back since the store had no room for them, from senders who were told.
    public var sendsTakenBack: UInt64 = 0
    /// Batches whose sends the store had no room for.
    public var batchesRefused: UInt64 = 0
    /// Stored entries that failed their checksum and were set aside.
    public var damagedEntries: UInt64 = 0
    /// Entries that a queue counted and the store did not have. The count is corrected.
    public var missingEntries: UInt64 = 0
    /// Rows that the start found without the session they belong to, and removed.
    public var rowsRepaired: UInt64 = 0

    public init() {}
}

/// What there is at the moment.
public struct Gauges: Hashable, Sendable {
    public var apps: Int
    public var users: Int
    public var sessions: Int
    public var groups: Int
    public var wills: Int
    public var connections: Int
    /// Filters of all sessions; what every session receives by itself is not counted.
    public var subscriptions: Int
    /// Filters that are shared, each counted once for each name.
    public var sharedSubscriptions: Int
    /// Retained messages of all apps.
    public var retainedMessages: Int
    public var retainedBytes: Int
    public var tokens: Int
    public var messagesInMemory: Int
    /// Memory of former messages that is kept for the next ones.
    public var spareBytes: Int
    /// Bytes of the messages that sessions in memory hold.
    public var memoryQueueBytes: Int
    public var queuedMessages: UInt64
    public var queuedBytes: UInt64
    public var isStoreFull: Bool
    /// Bytes of the store in use after the last commit, and the limit above which sends are
    /// refused; 0 before the first commit.
    public var storeUsedBytes: UInt64
    public var storeLimitBytes: UInt64
}

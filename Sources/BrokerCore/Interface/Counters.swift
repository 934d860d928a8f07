// The counters of the core. Everything that is refused, dropped or expired increments one of these
// counters. The runtime's table of statistics has a row for each.

/// Totals since the broker started.
public struct Counters: Hashable, Sendable {
    public var connectsAccepted: UInt64 = 0
    public var connectsRefused: UInt64 = 0
    /// Of these: because of a limit on sessions, users or the store (0x97).
    public var connectsOverQuota: UInt64 = 0
    /// Of these: because the device logged in too often (0x9F).
    public var connectsDamped: UInt64 = 0
    public var takeovers: UInt64 = 0
    /// MQTT logins that waited before they took a session over.
    public var connectsDelayed: UInt64 = 0
    /// Times that reading from an MQTT client stopped because of too many publications without an
    /// answer.
    public var readingPauses: UInt64 = 0
    /// New credentials of connected clients that were invalid.
    public var credentialsRefused: UInt64 = 0
    /// Sends, single receivers, subscriptions, queries and logins of app keys and sensors that no
    /// right allowed.
    public var rightsRefusals: UInt64 = 0
    /// Users that tokens and registrations did not make because of a limit (0x97). Logins are in
    /// ``connectsOverQuota``.
    public var usersRefused: UInt64 = 0
    public var sessionsCreated: UInt64 = 0
    public var sessionsExpired: UInt64 = 0
    public var sendsAccepted: UInt64 = 0
    public var sendsRefused: UInt64 = 0
    /// Of these: because too many bytes waited for their commit (0x97).
    public var sendsOverUncommitted: UInt64 = 0
    /// Sends that were recognised as resends and not delivered again.
    public var sendsRepeated: UInt64 = 0
    /// Sends that were not made because of their key: it was used for another send, its first send
    /// was under way, or the user or the app had too many.
    public var sendKeysRefused: UInt64 = 0
    /// Sends that have a reference.
    public var sendsTracked: UInt64 = 0
    /// Receipts to the senders of messages.
    public var receiptsSent: UInt64 = 0
    /// Receipts that had to wait because a queue or the store was full.
    public var receiptsDelayed: UInt64 = 0
    /// Deliveries to members of groups that no receipt counts, because too many members are
    /// remembered.
    public var membersUncounted: UInt64 = 0
    /// Sends with a collapse key that were refused because the earlier message could not give way
    /// now, and those that left the earlier one, because too many members did not take them.
    public var collapsesRefused: UInt64 = 0
    public var collapsesSkipped: UInt64 = 0
    /// Members of groups who could not tell what they did with a message, because too many are
    /// remembered.
    public var membersRefused: UInt64 = 0
    /// Sends that asked for a reference or for receipts and were refused, because their user or app
    /// has too many.
    public var trackedRefused: UInt64 = 0
    /// Messages that their senders recalled or replaced, and those that gave way to a newer one
    /// with the same key.
    public var messagesRecalled: UInt64 = 0
    public var messagesReplaced: UInt64 = 0
    public var messagesCollapsed: UInt64 = 0
    /// Copies that were taken out of queues by recalls and collapse keys.
    public var copiesWithdrawn: UInt64 = 0
    /// Late receivers that were told of a recall or a change, and times at which a store without
    /// room delayed that.
    public var revisionsTold: UInt64 = 0
    public var revisionsDelayed: UInt64 = 0
    /// Sends accepted although an earlier broker may have delivered them.
    public var possibleDuplicates: UInt64 = 0
    /// Single receivers refused within a send.
    public var receiversRefused: UInt64 = 0
    public var deliveries: UInt64 = 0
    /// Requests that MQTT clients made by publications, refused and repeated ones included.
    public var requestsPublished: UInt64 = 0
    /// Requests about groups and wills that were refused, and those of unknown operations.
    public var requestsRefused: UInt64 = 0
    /// Of these: because of a limit on groups, members or the store (0x97).
    public var requestsOverQuota: UInt64 = 0
    public var subscriptionsRefused: UInt64 = 0
    /// Of these: because of a limit of the session (0x97).
    public var subscriptionsOverQuota: UInt64 = 0
    /// Joins and leaves that were not reported to the members, because the group is large.
    public var groupEventsSkipped: UInt64 = 0
    /// Notices that devices got because their users became members of groups, or left them.
    public var groupNotices: UInt64 = 0
    public var willsSent: UInt64 = 0
    /// Wills that were due and were not sent, because no right allowed them any more, their
    /// credential was revoked, or their app is moderated.
    public var willsRefused: UInt64 = 0
    /// Messages of shared subscriptions that moved from an ended or disconnected session to another
    /// one.
    public var sharesHandedOver: UInt64 = 0
    /// Connections and disconnections published to presence subscribers.
    public var presenceEvents: UInt64 = 0
    /// Read marks published to the devices of their users.
    public var unreadEvents: UInt64 = 0
    /// Requests to relays to wake users, messages that waited for the next request, and those of
    /// them that it does not describe, because too many were waiting.
    public var wakesRequested: UInt64 = 0
    public var wakesJoined: UInt64 = 0
    public var wakesShortened: UInt64 = 0
    /// Requests that relays were told to forget.
    public var wakesWithdrawn: UInt64 = 0
    /// Texts for relays that no queue took, or whose user is not known.
    public var wakesLost: UInt64 = 0
    /// Entries of the log of wake-ups that relays reported, and those that made room for newer
    /// ones.
    public var wakeReports: UInt64 = 0
    public var wakeReportsDropped: UInt64 = 0
    /// Events of the broker that were told, and those that no queue took.
    public var brokerEventsTold: UInt64 = 0
    public var brokerEventsLost: UInt64 = 0
    /// Questions to moderators, and messages on which nobody decided in time or was asked.
    public var questionsAsked: UInt64 = 0
    public var moderatorSilences: UInt64 = 0
    /// Messages that moderators refused, and those that they changed.
    public var messagesRefusedByModerator: UInt64 = 0
    public var messagesRewritten: UInt64 = 0
    /// Verdicts on messages that wait for none, and those that were refused.
    public var verdictsLate: UInt64 = 0
    public var verdictsRefused: UInt64 = 0
    /// Messages that were refused because too many wait for verdicts.
    public var heldOverLimit: UInt64 = 0
    /// Messages that were forgotten with their connections before a verdict.
    public var heldForgotten: UInt64 = 0
    public var acknowledgements: UInt64 = 0
    /// Stored deliveries that expired before they were acknowledged.
    public var expired: UInt64 = 0
    /// Waiting messages discarded with a session that its client ended.
    public var discarded: UInt64 = 0
    /// Messages for one receiver that its full queue refused. The sender gets the reason.
    public var queueRefused: UInt64 = 0
    /// Messages that a full queue dropped by its policy `oldest` or `newest`.
    public var queueDropped: UInt64 = 0
    /// Deliveries that exceeded the maximum packet size of their receiver.
    public var oversizeDropped: UInt64 = 0
    /// Of ``queueRefused``: by the queue of a session that is not persistent.
    public var memoryQueueRefused: UInt64 = 0
    public var protocolErrors: UInt64 = 0
    /// Sender times that differed too much and were replaced.
    public var senderClocksRejected: UInt64 = 0
    public var batchesCommitted: UInt64 = 0
    /// Messages that were kept in conversations, once for each conversation.
    public var messagesKept: UInt64 = 0
    /// Copies of kept messages that were not queued, because their devices read the history.
    public var messagesPulled: UInt64 = 0
    /// Kept messages that newer ones of their conversation replaced because of a limit.
    public var historyDropped: UInt64 = 0
    /// Messages that were to be kept by default, and for which a conversation had no room.
    public var historyRefused: UInt64 = 0
    /// Kept messages that became too old.
    public var historyExpired: UInt64 = 0
    public var messagesStored: UInt64 = 0
    public var entriesStored: UInt64 = 0
    /// Entries that every receiver acknowledged before they were written.
    public var entriesElided: UInt64 = 0
    /// Messages taken back because the store was full. Their senders got the reason.
    public var sendsTakenBack: UInt64 = 0
    /// Batches whose sends were refused because the store was full.
    public var batchesRefused: UInt64 = 0
    /// Stored entries that failed their checksum and were set aside.
    public var damagedEntries: UInt64 = 0
    /// Entries that a queue counted and the store did not contain. The count is corrected.
    public var missingEntries: UInt64 = 0
    /// Rows of sessions and memberships that do not exist, which the start removed.
    public var rowsRepaired: UInt64 = 0

    public init() {}
}

/// Current numbers and sizes.
public struct Gauges: Hashable, Sendable {
    public var apps: Int
    public var users: Int
    public var sessions: Int
    public var groups: Int
    public var wills: Int
    public var connections: Int
    /// Filters of all sessions; implicit subscriptions are not counted.
    public var subscriptions: Int
    /// Filters that are shared, each counted once for each name.
    public var sharedSubscriptions: Int
    /// Retained messages of all apps.
    public var retainedMessages: Int
    public var retainedBytes: Int
    public var tokens: Int
    /// Keys of sends that are remembered, of all apps.
    public var sendKeys: Int
    /// Sends with a reference whose messages have not expired, of all apps.
    public var trackedSends: Int
    /// Users with wake targets.
    public var wakeUsers: Int
    /// Messages that wait for verdicts of moderators.
    public var heldMessages: Int
    public var conversations: Int
    /// Those of them that are of topics.
    public var keptTopics: Int
    /// Kept messages of all conversations.
    public var keptMessages: UInt64
    public var messagesInMemory: Int
    /// Freed memory of messages that is kept for reuse.
    public var spareBytes: Int
    /// Bytes of the messages of sessions that are not persistent.
    public var memoryQueueBytes: Int
    /// Entries of the queues that the store has: of persistent sessions, of users without one, and
    /// of shared subscriptions.
    public var queuedMessages: UInt64
    public var queuedBytes: UInt64
    public var isStoreFull: Bool
    /// Bytes of the store in use after the last commit, and the limit above which sends are
    /// refused; 0 before the first commit.
    public var storeUsedBytes: UInt64
    public var storeLimitBytes: UInt64
}

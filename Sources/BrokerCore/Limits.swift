// The limits of the core, each with its reason. What exceeds a limit is refused with a reason code
// and counted, so that no peer can make the broker grow without bound.

import Primitives

/// The core's configurable limits. Defaults suit a fleet of small devices on one gateway-class
/// machine.
public struct CoreLimits: Sendable {
    /// Expiry of sessions that request none (7 days).
    public var sessionExpirySecondsDefault: UInt32 = 7 * 86_400
    /// The maximum expiry that a client may request. `UInt32.max` allows sessions that never
    /// expire, because pre-generated tokens are valid for years.
    public var sessionExpirySecondsMaximum: UInt32 = .max
    /// Maximum number of unacknowledged deliveries to one session. It suffices for 600 messages per
    /// second on a link with 100 ms round trip; a device may request fewer.
    public var inboxWindowMaximum: UInt16 = 64
    /// Maximum bytes of unacknowledged deliveries to one session: the memory that a slow reader can
    /// occupy. One message always fits.
    public var inboxWindowBytesMaximum = 262_144
    /// Maximum number of a session's sends whose results have not been seen. The broker remembers
    /// them to recognise resends.
    public var sendWindowMaximum: UInt16 = 64
    /// Maximum number of keys of an app's sends that are remembered: eleven a second for a day.
    /// Each has about 200 bytes of memory and 300 on disk. A send with another key is refused,
    /// because a key that was forgotten would allow a second copy.
    public var sendKeysPerAppMaximum = 1_000_000
    /// Maximum number of them that one user's credentials make, so that no user takes the places of
    /// the others: a message every nine seconds for a day.
    public var sendKeysPerUserMaximum = 10_000
    /// Those of an app that are kept for app keys and operators, who get a place whatever users do:
    /// one a second for a day.
    public var sendKeysReservedPerApp = 100_000
    /// Maximum number of keys that the users of one app have together.
    var sendKeysOfUsersPerAppMaximum: Int {
        max(sendKeysPerAppMaximum - sendKeysReservedPerApp, 0)
    }
    /// Maximum number of an app's sends with a reference, until their messages expire. Each has
    /// about 500 bytes of memory and 300 on disk. A command every six seconds for a week is as
    /// many; more is refused, because a send that was forgotten could tell no receipt.
    public var trackedSendsPerAppMaximum = 100_000
    /// The same for one user: a command each minute for a week, so that one sender does not fill
    /// the app's share.
    public var trackedSendsPerUserMaximum = 10_000
    /// Those of an app that nobody takes who has many, so that some users together cannot take all:
    /// a tenth.
    var trackedSendsOfManyPerAppMaximum: Int {
        trackedSendsPerAppMaximum - trackedSendsPerAppMaximum / 10
    }
    /// As many are few: a hundred users who have no more have room in the last tenth.
    var trackedSendsOfFewMaximum: Int { max(trackedSendsPerAppMaximum / 1_000, 1) }
    /// Maximum number of members of groups that are remembered one by one, of all sends of an app:
    /// ten sends to 100,000 members who all tell what they did. Each has about 40 bytes of memory.
    public var trackedMembersPerAppMaximum = 1_000_000
    /// The same for the sends of one user: two of these.
    public var trackedMembersPerUserMaximum = 200_000
    /// The last tenth is for the sends of users with few, as that of sends is.
    var trackedMembersOfManyPerAppMaximum: Int {
        trackedMembersPerAppMaximum - trackedMembersPerAppMaximum / 10
    }
    var trackedMembersOfFewMaximum: Int { max(trackedMembersPerAppMaximum / 1_000, 1) }
    /// Of these, those whose rows one deadline removes.
    static let trackedMembersPerStepMaximum = 1_000
    /// Maximum number of recalls, replacements and collapses under way: 20 MB, at about 300 bytes
    /// each, besides four for each member of its group and the new content.
    static let revisionsMaximum = 65_536
    /// Those of one app, so that no app takes the room of the others: half of all.
    static let revisionsPerAppMaximum = 32_768
    /// Those of one user's messages: four windows of an MQTT client (``publishWindowMaximum``) that
    /// sends messages with collapse keys only. A collapse takes two commits after its send.
    var revisionsPerUserMaximum = 4_096
    /// Maximum number of receivers of all of them together, four bytes each, when another one
    /// begins: two groups of the largest size.
    static let revisionUsersMaximum = 2_000_000
    /// Maximum bytes of the new contents of all of them: 256 of the largest messages. A content is
    /// in memory three times until it is stored.
    static let revisionContentBytesMaximum = 16 << 20
    /// Members of a group that do not take a message with a collapse key, and for whom the earlier
    /// one stays: as many rows as one step writes for a list.
    static let stayingMembersMaximum = 256
    /// Withdrawals with which a batch is full; a piece may exceed it. Each takes some 20
    /// microseconds of the store's time, so they are 20 ms of a commit. The others wait.
    static let withdrawalsPerBatchMaximum = 1_024
    /// Receivers from whose queues one step takes a message: less than a millisecond, and some 30
    /// ms of the store's time.
    static let revisionUsersPerStepMaximum = 256
    /// Late receivers whom an answer names, and bytes of the answer.
    public static let lateNamesMaximum = 256
    /// Bytes of what a sender tells about a message that it recalls or replaces, as on the wire.
    public static let revisionDetailBytesMaximum = 128
    static let recallAnswerBytesMaximum = 16_384
    /// Entries of a queue that are examined one by one for a message, if they are not in order:
    /// less than a millisecond of the store's time.
    public static let withdrawalScanMaximum = 1_024
    /// The same for all withdrawals of a batch: 10 to 20 ms. Beyond it, the receiver of a message
    /// that is not in its place counts as late.
    public static let withdrawalScansPerBatchMaximum = 65_536
    /// Seconds for which a send with receipts is remembered after its message has expired, because
    /// a receiver that got it in the last second has to apply it.
    static let receiptGraceSeconds: UInt64 = 3_600
    /// Milliseconds between two receipts about a group, and before a receipt that could not be
    /// stored is tried again. A person sees the count grow, and 100,000 members who acknowledge
    /// within a minute make 20 receipts.
    static let receiptMilliseconds: UInt64 = 3_000
    /// How often the interval is doubled while receipts cannot be sent: up to 96 s.
    static let receiptDoublingsMaximum: UInt8 = 5
    /// Receipts of one send to users that wait for room in the sender's queue, each of at most 450
    /// bytes. Beyond them, *delivered* is told later without its device, and *applied* is refused.
    static let untoldReceiptsMaximum = 8
    /// Seconds for which a session that ends waits for what its client has to be read, so that
    /// receipts are made of it: a store takes some milliseconds for a queue. Then it ends without.
    static let endingReadSeconds: UInt64 = 30
    /// The work of a receipt that could not be sent: it was made, and looked for room.
    static let receiptRetryWork = 16
    /// Maximum number of an MQTT client's QoS 1 and 2 publications without an answer. 1,024 of them
    /// in a commit of 100 ms are 10,000 per second from one client. Their entries take 80 KiB;
    /// ``uncommittedBytesMaximum`` limits their messages.
    public var publishWindowMaximum: UInt16 = 1_024
    /// Whether the connection of an MQTT 5 client that exceeds this number is closed
    /// [MQTT-3.3.4-7]. Otherwise the broker stops reading from it until answers have been sent.
    public var enforcesPublishWindow = false
    /// Maximum number of publications of one MQTT session without an answer, or received in QoS 2
    /// and not released, if the window above is not enforced: the number of packet identifiers. An
    /// answered one takes two bytes of memory, or four if a publication of the same page of 64 had
    /// refused receivers; one without an answer takes 40. The time to find one grows with the
    /// logarithm of their number.
    public var unreleasedMaximum = 65_535
    /// Maximum number of messages in a session's queue: the disk space that a forgotten device can
    /// occupy.
    public var queueCountMaximum: UInt32 = 10_000
    /// Maximum bytes in a session's queue: 10,000 messages of 1,600 bytes.
    public var queueBytesMaximum: UInt64 = 16 << 20
    /// Lower bound of ``inheritedCountMaximum``, for operators that allow short queues only. One
    /// transaction moves as many messages in 20 to 40 ms, with little else
    /// (``batchMovesMaximum``).
    public var inheritedCountMinimum: UInt64 = 40_000
    /// Maximum number of messages in a queue that inherits the queues of the user's other sessions;
    /// the rest is discarded with the session that ends. Without it, a client that ends its
    /// sessions one after the other would add a full queue with each. Four full queues.
    var inheritedCountMaximum: UInt64 { max(inheritedCountMinimum, 4 * UInt64(queueCountMaximum)) }
    /// Lower bound of ``inheritedBytesMaximum``: four queues of the default size.
    public var inheritedBytesMinimum: UInt64 = 64 << 20
    /// Maximum bytes of such a queue.
    var inheritedBytesMaximum: UInt64 {
        max(inheritedBytesMinimum, 4 * min(queueBytesMaximum, .max / 4))
    }
    /// Lower bound of ``leftoverCountMaximum``, for operators that allow short queues only: one
    /// queue of the default length.
    public var leftoverCountMinimum: UInt64 = 10_000
    /// Maximum number of messages of shared subscriptions that one user's ended sessions leave
    /// while no member of the share has room: as many as in one session's queue. The rest is
    /// discarded with the session and counted.
    var leftoverCountMaximum: UInt64 { max(leftoverCountMinimum, UInt64(queueCountMaximum)) }
    /// Lower bound of ``leftoverBytesMaximum``: one queue of the default size.
    public var leftoverBytesMinimum: UInt64 = 16 << 20
    /// Maximum bytes of such messages.
    var leftoverBytesMaximum: UInt64 { max(leftoverBytesMinimum, queueBytesMaximum) }
    /// Maximum bytes in the queues of one app. They are summed every ten seconds and not with every
    /// message, so an app may exceed the limit for that long.
    public var queueBytesPerAppMaximum: UInt64 = .max
    /// Maximum bytes of messages and entries that wait for their commit to begin; the commit in
    /// flight may have as many. Nothing else limits a fan-out to sessions that are not connected.
    public var uncommittedBytesMaximum = 256 << 20
    /// Number of changes (entries, rows, removals) with which a batch is full. Further events wait
    /// until it is handed over. Events that ask for little may add as many again, and the event
    /// that reaches the limit may exceed it, such as a message to all sessions. The store writes an
    /// entry into a queue that has no others in 1 to 2 microseconds, so twice the limit takes 35 to
    /// 65 ms. A send waits for three commits at most: the one in flight, the batch that is full,
    /// and its own. With the moved entries and the sync of each, that is below 250 ms; with 100
    /// clients that publish to 63 sessions each, it was 93 to 178 ms. With one page of 4 KiB for
    /// each change, LMDB allocates 64 MiB for changed pages.
    public var batchChangesMaximum = 16_384
    /// Number of changes that deadlines may add to a full batch: 2 ms of its commit. A batch that
    /// is full with moves takes as many moves again for sessions that end by deadline.
    public var deadlineChangesMaximum = 1_024
    /// Maximum number of changes of an event that asks for little. A hundred clients with such
    /// events at once do not fill their reserve of a batch.
    public var smallEventChangesMaximum = 128
    /// Number of entries that the store moves or removes in whole queues with one batch, at 0.5 to
    /// 1 microsecond each. Events that need more wait for the next batch. The event that reaches
    /// the limit may exceed it by one queue, which takes some 30 ms with ``inheritedCountMinimum``.
    public var batchMovesMaximum: UInt64 = 16_384
    /// Bytes of messages and entries with which a batch is full: 30 to 60 ms at the 0.5 to 1 GB/s
    /// of a disk.
    public var batchBytesMaximum = 32 << 20
    /// Age at which a waiting message expires (7 days).
    public var queueAgeSecondsMaximum: UInt64 = 7 * 86_400
    /// What happens to a message for a full queue.
    public var queuePolicy = QueuePolicy.refuse
    /// Maximum number of durable messages in memory for a session that is not persistent and reads
    /// slowly: 15 windows of the default size.
    public var memoryQueueCountMaximum = 1_000
    /// Maximum bytes of the messages of all such sessions; each message counts once. Above it, such
    /// a session has ``inboxWindowBytesMaximum`` like a stored session.
    public var memoryQueueBytesMaximum = 64 << 20
    /// Maximum bytes of the minimal JSON form of a `t`/`b` message.
    public var messageMaximum: UInt32 = 1_024
    /// Maximum bytes of a payload on a plain topic.
    public var payloadMaximum: UInt32 = 262_144
    /// Maximum number of receivers of a list. A packet with that many ids stays below 17 KiB.
    public static let listCountMaximum = 256
    /// Maximum number of filters of one SUBSCRIBE or UNSUBSCRIBE that are handled, because the
    /// filters of one packet are one event, which is not divided. By default a session has at most
    /// ``subscriptionsMaximum`` subscriptions, so one packet can contain all of them.
    public static let filtersPerPacketMaximum = 1_024
    /// Maximum number of subscriptions of one session, so that one client cannot fill the topic
    /// tree.
    public var subscriptionsMaximum: UInt32 = 1_000
    /// Maximum number of levels of a topic or filter. A match visits a node of the tree for each
    /// level. Four times the levels of filters that are always admitted
    /// (``plainFilterLevelsMaximum``).
    public var topicLevelsMaximum = 64
    /// Maximum number of shapes of an app's filters with `+` (see ``FilterShapes``). A topic leads
    /// to at most that many nodes of the tree, and each costs up to 0.2 microseconds. Fleets have
    /// some dozens.
    public var filterShapesMaximum = 4_096
    /// Maximum number of shares (names and filters of shared subscriptions) of one app. A
    /// publication that matches all of them looks at each and is put into a queue for each.
    public var sharesPerAppMaximum = 4_096
    /// Maximum number of shares of one session, so that the 64 sessions of one user cannot have all
    /// shares of an app.
    public var sharesPerSessionMaximum = 50
    /// Maximum number of sessions of all apps. Each takes about 440 bytes of memory together with
    /// its user (docs/operating/sizing.md), and more while it is connected.
    public var sessionsMaximum = 1_000_000
    /// Maximum number of sessions of one app, so that no app takes the room of the others.
    public var sessionsPerAppMaximum = 1_000_000
    /// Maximum number of users of all apps. A token, a registration or a login creates a user.
    /// Where logins may choose user names, this limits a client that invents names.
    public var usersMaximum = 2_000_000
    /// Maximum number of users of one app, so that its keys, which mint tokens for new users, and
    /// its logins do not take the room of the others: as many as its sessions, and half of all.
    public var usersPerAppMaximum = 1_000_000
    /// Maximum bytes of a filter, which is in memory as long as its subscription: 1,000 of them
    /// take 1 MB for one session. Filters in the field are below 200 bytes.
    public var filterBytesMaximum = 1_024
    /// Maximum number of retained messages of one app: ten for each of 10,000 devices. All are in
    /// memory.
    public var retainedPerAppMaximum = 100_000
    /// Maximum bytes of the retained messages of one app, including topics: 670 bytes for each of
    /// ``retainedPerAppMaximum``.
    public var retainedBytesPerAppMaximum = 64 << 20
    /// Maximum number of kept messages of one conversation; the oldest ones make room.
    public var historyCountMaximum: UInt32 = 10_000
    /// Maximum bytes of the kept messages of one conversation: 10,000 messages of 1,600 bytes.
    public var historyBytesMaximum: UInt64 = 16 << 20
    /// Age at which a kept message is removed (30 days).
    public var historyAgeSecondsMaximum: UInt64 = 30 * 86_400
    /// Maximum number of conversations of one app. Each takes about 250 bytes of memory.
    public var conversationsPerAppMaximum = 100_000
    /// Maximum number of topics of one app with kept messages: a tenth of its conversations, so
    /// that devices with topics of their own leave room for users and groups.
    public var historyTopicsPerAppMaximum = 10_000
    /// Maximum bytes of the kept messages of one app. The oldest ones of a conversation make room
    /// for its new ones.
    public var historyBytesPerAppMaximum: UInt64 = 1 << 30
    /// The policy of apps that ``appPolicies`` does not contain.
    public var appPolicy: AppPolicy {
        get { policies.ofOthers }
        set { policies.ofOthers = newValue }
    }
    /// The policies of single apps, by name.
    public var appPolicies: [[UInt8]: AppPolicy] {
        get { policies.byApp }
        set { policies.byApp = newValue }
    }
    /// Whether some app keeps messages by default, which is all that a send tests.
    var someAppKeepsHistory: Bool { policies.keepsHistory }
    /// Whether some app is moderated.
    var hasModeration: Bool { policies.isModerated }
    /// Whether some app is told of events.
    @inline(__always)
    var hasBrokerEvents: Bool { !policies.toldApps.isEmpty }
    /// The apps that are told of events, in the order of their names.
    var appsWithBrokerEvents: [[UInt8]] { policies.toldApps }
    private var policies = AppPolicies()
    /// Maximum number of sessions of one user. Each gets a copy of everything sent to the user, so
    /// a message to 1,000 users causes at most 64,000 deliveries.
    public var sessionsPerUserMaximum = 64
    /// A sender's time is used if it differs from the broker's by at most this, in milliseconds
    /// (exactly 5 s is accepted).
    public var senderClockDifferenceMillisecondsMaximum: UInt64 = 5_000
    /// Maximum number of groups of one app. All are in memory: 100,000 take 30 MB without their
    /// allow lists, titles and metas.
    public var groupsPerAppMaximum = 100_000
    /// Maximum number of groups of one user. A login of the user visits each: as many as the
    /// subscriptions of one session.
    public var groupsPerUserMaximum = 1_000
    /// Maximum bytes of the allow lists, titles and metas of an app's groups: 600 lists of a
    /// thousand long names.
    public var groupBytesPerAppMaximum = 64 << 20
    /// Maximum bytes of the groups that one user owns, so that no user takes the room of the
    /// others.
    public var groupBytesPerUserMaximum = 4 << 20
    /// Maximum number of members of one group: all sessions of a broker with its default limits.
    public var groupMembersMaximum = 1_000_000
    /// Maximum work of one turn of an event loop; the rest of its events waits for the next turn.
    /// The unit is one delivery, which takes 0.1 to 0.3 microseconds including its encoding, so
    /// that a turn stays below 10 ms and its effects below 3 MB.
    public var turnWorkMaximum = 32_768
    /// Maximum work of one connection's events before other connections have had their share of the
    /// turn. A hundred connections with as many events as possible have all had a share after 60
    /// ms.
    public var shareWorkMaximum = 2_048
    /// Maximum number of topics that one piece of a replay visits: some 20 microseconds.
    public var replayStepsMaximum = 512
    /// The maximum keep-alive, in seconds. A lost connection is noticed within 1.5 times this. An
    /// hour and a half suits devices behind NAT with long timeouts.
    public var keepAliveSecondsMaximum: UInt32 = 5_400

    public init() {}

    /// The policy of an app.
    func policy(ofApp name: [UInt8]) -> AppPolicy {
        policies.byApp.isEmpty ? policies.ofOthers : policies.byApp[name] ?? policies.ofOthers
    }

    /// Time that an MQTT login waits if it takes a session over too often. It is well below the 5 s
    /// or more that clients wait for CONNACK, and long enough that two clients which replace each
    /// other cost next to nothing.
    static let takeoverDelayMilliseconds: UInt64 = 2_000
    /// Maximum time that such a login waits for others. It must be handled before the broker closes
    /// its connection because of a missing login.
    static let takeoverWaitMillisecondsMaximum: UInt64 = 8_000
    /// Number of inbox numbers that are reserved in the store at a time, because numbers never go
    /// back. One small row serves that many deliveries; after a crash at most twice as many are
    /// skipped.
    static let numberReservation: UInt64 = 1_024
    /// Maximum number of leftovers of one user's ended sessions: four for each of 64 sessions. Each
    /// has a row, and housekeeping examines it.
    static let leftoversPerUserMaximum = 256
    /// Maximum number of rounds of housekeeping, of ten seconds each, between two walks over a
    /// leftover.
    static let leftoverRoundsMaximum = 7
    /// Maximum bytes of a user's name, as on the wire.
    static let userNameBytesMaximum = 64
    /// Number of identifiers of sessions, queues and other objects that are reserved in the store
    /// at a time.
    static let identifierReservation: UInt64 = 4_096
    /// Maximum bytes of a group's meta.
    public static let groupMetaMaximum = 5_120
    /// Maximum bytes of a group's title. The wire has one byte for its length, and a long name
    /// takes half of that.
    public static let groupTitleMaximum = 128
    /// Maximum number of ids on a group's allow list; one row of the store contains them all.
    public static let groupAllowedMaximum = 1_000
    /// Memory of a name on an allow list besides its bytes: an array and the reference to it.
    static let groupAllowedOverhead = 48
    /// Members that the deletion of a group removes at a time: each is told by a message of its
    /// own, so that all of them are about a millisecond.
    static let groupDeletionSliceCount = 256
    /// Maximum bytes of one answer about groups, so that it does not delay other packets; longer
    /// ones are paged. A client with a smaller maximum gets less.
    public static let groupAnswerMaximum = 16_384
    /// Bytes of a description besides owner, title, meta and members: flags, two lengths of one
    /// byte, the number of members in at most five bytes, and the length of the meta in at most
    /// two.
    static let groupAnswerOverhead = 10
    /// Maximum bytes of a group's meta in the notice of a new member: the notice waits in a queue
    /// of each device. A longer one is left out, and the device asks for it.
    static let groupNoticeMetaMaximum = 512
    /// Maximum number of kept messages from before it joined that a member may ask for: as many as
    /// a conversation can have by configuration.
    public static let backlogMaximum: UInt32 = 1_000_000
    /// Maximum number of members of a group in which joins and leaves are told to all: n joins cost
    /// n² / 2 messages.
    static let groupEventMembersMaximum = 1_000
    /// Maximum bytes of a will's payload, which is in memory as long as the will: the wills of
    /// 100,000 devices take at most 400 MB.
    public static let willPayloadMaximum = 4_096
    /// Seconds after which a will that is due tries again if the store had no room.
    static let willRetrySeconds: UInt64 = 10
    /// Minimum time that devices have to connect after a restart of the broker before their wills
    /// are sent.
    static let restartGraceSeconds: UInt64 = 60
    /// A session that lasts this much longer without the row of its return does not make its client
    /// wait for the row: a broker that crashes at that moment is restarted within a day.
    static let safeExpirySeconds: UInt64 = 86_400
    /// Interval of housekeeping, which sweeps expired messages and writes rows that no client waits
    /// for. A crash can lose the time at which a session was last seen by as much.
    static let housekeepingMilliseconds: UInt64 = 10_000
    /// Number of rounds of housekeeping in which the sweep visits all queues: ten minutes. An
    /// expired message only takes room on the disk, because it is not delivered in any case.
    static let sweepRounds: UInt64 = 60
    /// Minimum and maximum number of entries that one sweep examines. The maximum occupies the
    /// store's only writer for some ten milliseconds.
    static let sweepCountMinimum = 1_024
    static let sweepCountMaximum = 65_536
    /// Time for which the key of a send is remembered: programs that repeat a request for a day,
    /// such as the queues of webhooks, get the first result.
    public static let sendKeySeconds: UInt64 = 86_400
    /// Expired keys that a send with a key removes: more than it adds.
    static let expiredKeysPerSendMaximum = 2
    /// Expired keys that a round of housekeeping removes, some milliseconds of the store's time.
    static let expiredKeysPerRoundMaximum = 1_024
    /// Keys of one app: one for each service of a large back end, and another one for each while it
    /// is replaced.
    public static let appKeysMaximum = 32
    /// Minimum time between two rows with the use of a token or a key. An hour suffices to tell a
    /// token in use from a forgotten one, and a device that reconnects all day costs 24 small rows.
    static let tokenUseSecondsMinimum: UInt64 = 3_600
    /// Maximum bytes of freed message memory that is kept for reuse: the messages of 256 bytes that
    /// arrive at a million per second during a commit of 30 ms.
    static let spareBytesMaximum = 8 << 20
    /// Memory of an entry on its way to the store: 40 bytes in the pending batch, up to twice that
    /// while its array grows, and 48 in the batch for the writer.
    static let uncommittedEntryBytes = 128
    /// Maximum bytes of rows that logins and the revocation of rights may add to a full store, and
    /// that shorter rows may take in one commit before the longer ones are freed. It is a part of
    /// the store's reserve, and suffices for the wills of 20,000 devices of 200 bytes each.
    static let upkeepBytesMaximum = 8 << 20
    /// Maximum bytes of a session's row besides its names, and of the row of its sends.
    static let sessionRowOverhead = 96
    /// Maximum bytes of a retained message's row besides its block: an app's name of at most 64
    /// bytes, the deadline and lengths.
    static let retainedRowOverhead = 96
    /// Bytes of answers or of copied messages that cost as much as one delivery.
    static let bytesPerWork = 256
    /// Bytes of a text to look for: more than any word or id.
    public static let searchByteCountMaximum = 128
    /// Bytes of messages in which a text is looked for that cost as much as one delivery.
    static let searchedBytesPerWork = 128
    /// Bytes of an answer about groups or history that cost as much as one delivery: they are
    /// collected from records all over memory, copied twice, as JSON nearly three times as many,
    /// and requested with six bytes.
    static let answerBytesPerWork = 32
    /// Bytes written to outgoing buffers that cost as much as one delivery.
    static let writtenBytesPerWork = 1_024
    /// Maximum number of rows of QoS 2 publications that one batch deletes with the sessions that
    /// sent them.
    static let pendingDeletionsMaximum = 4_096
    /// Subscribers, or nodes of a tree, that cost as much as one delivery.
    static let looksPerWork = 16
    /// Nodes of a tree of filters that cost a match as much as one delivery: each takes a hash of a
    /// name and a read of memory that is not cached.
    static let nodesPerWork = 2
    /// Comparisons that cost as much as one delivery: of levels and texts of rights with a topic,
    /// at 6 nanoseconds each, or of parts of a pattern with a name, at somewhat more.
    static let comparisonsPerWork = 16
    /// Subscriptions whose rights are checked again at the cost of one delivery, without the
    /// comparisons: 80 nanoseconds each.
    static let authorizedFiltersPerWork = 2
    /// Subscribers of several audiences that are merged at the cost of one delivery.
    static let mergedPerWork = 8
    /// Subscription identifiers that are listed and encoded at the cost of one delivery.
    static let identifiersPerWork = 4
    /// A filter with at most this many `+` and levels is always admitted: all such filters have 832
    /// beginnings.
    static let plainFilterPlusMaximum = 2
    static let plainFilterLevelsMaximum = 16
    /// Bytes of retained messages that are sent to a new subscription before its client must have
    /// read them: the outgoing memory that every connection may have at any time.
    static let replayBytesMaximum = 16_384
    /// Effects whose memory an event loop keeps when they have been carried out: as many as the
    /// work of one turn can make, 3 MB.
    static let loopEffectsMaximum = 40_960
    /// Maximum number of entries and bytes of all loads of one batch: some 30 ms of the store's
    /// time, and 6 ms of the core's when they arrive.
    static let loadsCountMaximum = 16_384
    static let loadsBytesMaximum = 4 << 20
    /// Maximum number of log lines per second about single refused receivers. A fan-out can meet
    /// thousands of full queues; ten lines show the first of them.
    static let receiverNotesPerSecondMaximum = 10
    /// Maximum number of entries and bytes of one load.
    static let loadCountMaximum = 64
    static let loadBytesMaximum = 65_536
    /// Maximum number of entries and bytes that the store reads for one page of a queue: less than
    /// a millisecond of its time, in which no commit is made.
    public static let inspectionCountMaximum = 100
    /// Maximum number of conversations that a page examines for those with unread messages. Each
    /// costs as much as a delivery: its reading and its messages are all over memory.
    static let conversationLooksMaximum = 1_000
    public static let inspectionBytesMaximum = 256 << 10
    /// Maximum number of filters of an app whose topics have history: a publication is compared
    /// with all of them in less than ten microseconds.
    public static let historyFiltersMaximum = 64
    /// Maximum bytes of a topic with history, which is in memory as long as its messages. Topics in
    /// the field are below 200 bytes.
    public static let historyTopicBytesMaximum = 1_024
    /// Maximum number of topics of a page: 500 of 1,024 bytes take 0.5 MB, as JSON up to 3 MB.
    public static let historyTopicsOfPageMaximum = 500
    /// Maximum number of receivers of a page that tells who has a message.
    public static let receiptStatesMaximum = 1_000
    /// Maximum number of conversations of an answer that has their newest messages: as many reads
    /// of the store as a page of history has, all over the disk.
    public static let newestMessagesMaximum = 100
    /// Bytes that one of them is expected to have, for the bounds of a batch.
    static let newestMessageBytes = 1_024
    /// Maximum number of conversations with unread messages that a login counts: more than a
    /// device shows.
    public static let unreadCountMaximum = 50
    /// Pages of ``conversationLooksMaximum`` conversations of a user that a login looks at for
    /// them: a millisecond. The client of a user with more is told of one at least.
    static let unreadPagesMaximum = 10
    /// Maximum number of wake targets of a user: its telephones, tablets and computers, and some
    /// that are not used any more.
    public static let wakeTargetsMaximum = 8
    /// Maximum bytes of the address of a wake target: tokens of push services and URLs in the field
    /// are shorter.
    public static let wakeAddressBytesMaximum = 2_048
    /// Maximum bytes of a template of wake-ups: push services transport 4 KiB, with the values of
    /// its variables.
    public static let wakeTemplateBytesMaximum = 2_048
    /// Maximum number of entries of a user that a relay reported: the last days of one wake-up an
    /// hour, with an entry for the request and one for what came of it.
    public static let wakeReportsOfUserMaximum = 100
    /// Maximum number of entries of the users of one app: about 4 MiB with details of the longest
    /// kind.
    public static let wakeReportsOfAppMaximum = 20_000
    /// The latest time of an entry, in Unix milliseconds: the end of the year 9999.
    static let reportTimeMaximum: UInt64 = 253_402_300_799_999
    /// Maximum bytes of a language tag: RFC 5646 (section 4.4.1) names 35 as enough.
    public static let languageBytesMaximum = 35
    /// Maximum bytes of a text in a request to wake: push services transport 4 KiB in all.
    static let wakeContentBytesMaximum = 2_048
    /// Seconds after a message for which a request to wake is valid: a week.
    static let wakeValiditySeconds: UInt64 = 604_800
    /// Time that a device has to connect again, after its connection was lost with messages that it
    /// has not acknowledged, before the relay is asked to wake it. Changing networks takes less.
    static let wakeGraceSeconds: UInt64 = 10
    /// Length of the intervals in which a user has at most one event of a kind. A queue stays full
    /// for as long as its device is away, and a client that drops connections would fill the
    /// relay's queue.
    static let brokerEventSeconds: UInt64 = 60
    /// Events of the broker that wait for the deadlines of their turn, and events that are told in
    /// an interval: some megabytes of memory. Further ones are lost and counted.
    static let brokerEventsWaitingMaximum = 10_000
    /// Of these, how many are told at a time: each is a message.
    static let brokerEventsPerDeadline = 64
    /// Seconds for which an event of the broker waits for its relay: a week.
    static let brokerEventValiditySeconds: UInt64 = 604_800
    /// Users whom one message wakes in its own turn; the others of a large group follow in later
    /// ones. Each costs a message to the relay, so that all of them are a millisecond.
    static let wakesPerMessageMaximum = 64
    /// Users whose newest message is described in memory until their next request: 16 MiB, with
    /// 16 KiB for the longest push and text. The requests of others tell the count alone.
    static let wakeNewsMaximum = 1_024
    /// Messages that were recalled, replaced or collapsed while users' newest messages are
    /// described in memory: 16 KiB. One more, and requests tell the count alone until the next
    /// message.
    static let wakeRevisionsMaximum = 1_024
    /// Maximum number of devices that are shown of one user: a reply of 4 MiB has room for them.
    public static let describedDevicesMaximum = 1_000
}

/// The settings that can differ from app to app.
public struct AppPolicy: Hashable, Sendable {
    /// Whether an MQTT client that subscribes to a group becomes a member, if the group's owner
    /// allows it.
    public var joinsGroupsBySubscribing = true
    /// Whether a refused publication for which MQTT has no negative answer is acknowledged as if it
    /// had been accepted; otherwise its connection is closed.
    public var acknowledgesRefused = false
    /// Maximum number of takeovers of a session within a minute that are not delayed. A person who
    /// changes devices does not reach it.
    public var takeoversPerMinute = 5
    /// Whether numbered messages to users and groups are kept in history unless their sender says
    /// no.
    public var keepsHistory = false
    /// Filters of the topics whose numbered publications are kept unless their sender says no, at
    /// most ``CoreLimits/historyFiltersMaximum``. Each keeps the rules of MQTT 4.7 and does not
    /// begin with `$`.
    public var historyTopics: [[UInt8]] = []
    /// Whether users may recall and replace their messages.
    public var allowsRecall = true
    /// Whether a user may add others to groups; otherwise they only join by themselves.
    public var addsMembers = true
    /// Whether its users may speak LeanMessage.
    public var opensLeanMessage = false
    /// How users are woken of whom no device is connected; nil if they are not.
    public var wake: WakePolicy?
    /// Which events of the broker it is told; nil for none.
    public var events: BrokerEventPolicy?
    /// Which of its messages a moderator decides on; nil for none.
    public var moderation: ModerationPolicy?

    /// Whether a user gets the app's wake-ups, events or questions: others must not take the name.
    func names(relay user: [UInt8]) -> Bool {
        wake?.relay == user || events?.relay == user || moderation?.moderator == user
    }

    public init() {}

    /// Whether it keeps some messages whose senders do not ask for it.
    fileprivate var isKeeping: Bool { keepsHistory || !historyTopics.isEmpty }
}

/// The policies of all apps. It is a type of its own because Swift does not call the observers of a
/// structure's properties in its initializers, and settings are read in one.
struct AppPolicies: Hashable, Sendable {
    /// That of apps without one of their own.
    var ofOthers = AppPolicy() { didSet { notePolicies() } }
    var byApp: [[UInt8]: AppPolicy] = [:] { didSet { notePolicies() } }
    /// Whether some app keeps messages by default.
    private(set) var keepsHistory = false
    /// The apps that are told of the broker's events.
    private(set) var toldApps: [[UInt8]] = []
    /// Whether some app is moderated.
    private(set) var isModerated = false

    private mutating func notePolicies() {
        toldApps = byApp.filter { $0.value.events != nil }.keys
            .sorted { $0.lexicographicallyPrecedes($1) }
        keepsHistory = ofOthers.isKeeping || byApp.values.contains { $0.isKeeping }
        isModerated =
            ofOthers.moderation != nil || byApp.values.contains { $0.moderation != nil }
    }
}

/// What happens to a message for a queue that is full. Each is counted.
public enum QueuePolicy: String, CaseIterable, Sendable {
    /// The sender gets 0x97 for that receiver; nothing is lost.
    case refuse
    /// The oldest waiting message is removed.
    case oldest
    /// The new message is not queued for that receiver.
    case newest
}

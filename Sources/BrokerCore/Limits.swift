// Every bound of the core, with its reason. What lies past a bound is refused with a reason code
// and counted; nothing here grows because a peer wants it to.

import Primitives

/// The core's configurable limits. Defaults suit a fleet of small devices on one gateway-class
/// machine.
public struct CoreLimits: Sendable {
    /// Sessions that give no expiry live this long after their connection is gone (7 days).
    public var sessionExpirySecondsDefault: UInt32 = 7 * 86_400
    /// The longest expiry a client may ask for; `UInt32.max` allows sessions that never expire,
    /// since pre-generated tokens are valid for years.
    public var sessionExpirySecondsMaximum: UInt32 = .max
    /// Unacknowledged deliveries under way to one session. Enough to fill a link of 100 ms round
    /// trip at 600 messages per second; a device may ask for fewer.
    public var inboxWindowMaximum: UInt16 = 64
    /// Bytes of unacknowledged deliveries under way to one session: what a slow reader can hold of
    /// the broker's memory. One message always fits.
    public var inboxWindowBytesMaximum = 262_144
    /// Sends of one session whose results have not been seen: what the broker remembers to
    /// recognise resends.
    public var sendWindowMaximum: UInt16 = 64
    /// Publications of QoS 1 and 2 that an MQTT client may have unanswered. 1,024 of them in a
    /// commit of 100 ms are 10,000 a second from one client, and their entries are 80 KiB; their
    /// messages come under ``uncommittedBytesMaximum``.
    public var publishWindowMaximum: UInt16 = 1_024
    /// Whether an MQTT 5 client that has more of them unanswered, or not released, is closed
    /// [MQTT-3.3.4-7]; otherwise it is not read from until answers have left.
    public var enforcesPublishWindow = false
    /// Publications of one MQTT session that are not answered, or received in QoS 2 and not
    /// released, where the window above is not enforced: as many as there are packet identifiers.
    /// One that is answered takes two bytes of memory, four where one of the same page of 64 had
    /// receivers that were refused; one that is not takes 40. Either is found in as many steps as
    /// the logarithm of their number.
    public var unreleasedMaximum = 65_535
    /// Messages that wait for one session; the price of a forgotten device in disk space.
    public var queueCountMaximum: UInt32 = 10_000
    /// Bytes that wait for one session.
    public var queueBytesMaximum: UInt64 = 16 << 20
    /// Messages that a session's queue holds at most where it inherits those of the user's others:
    /// what is beyond goes with the session that ends. A client that ends its sessions one after
    /// the other would otherwise pile up a full queue with each. One transaction moves them, in
    /// 20 to 40 ms, and little else (``batchMovesMaximum``); no less than four full queues, however
    /// few the operator lets one hold.
    public var inheritedCountMinimum: UInt64 = 40_000
    var inheritedCountMaximum: UInt64 { max(inheritedCountMinimum, 4 * UInt64(queueCountMaximum)) }
    /// Their bytes.
    public var inheritedBytesMinimum: UInt64 = 64 << 20
    var inheritedBytesMaximum: UInt64 {
        max(inheritedBytesMinimum, 4 * min(queueBytesMaximum, .max / 4))
    }
    /// Messages of shared subscriptions that one user's sessions leave at most when they end and
    /// nobody of the share has room: as many as wait for one session. What is beyond goes with the
    /// session, and is counted as discarded.
    public var leftoverCountMinimum: UInt64 = 10_000
    var leftoverCountMaximum: UInt64 { max(leftoverCountMinimum, UInt64(queueCountMaximum)) }
    /// Their bytes.
    public var leftoverBytesMinimum: UInt64 = 16 << 20
    var leftoverBytesMaximum: UInt64 { max(leftoverBytesMinimum, queueBytesMaximum) }
    /// Bytes that wait for all receivers of one app. Summed up every ten seconds and not kept by
    /// every message, so an app may be above it for that long.
    public var queueBytesPerAppMaximum: UInt64 = .max
    /// Memory of messages and entries that wait for their commit to begin; as much again may be in
    /// the commit under way. Nothing else bounds a fan-out to sessions that are away.
    public var uncommittedBytesMaximum = 256 << 20
    /// Changes (entries, rows, removals) with which a batch is full: further events wait until it
    /// is handed over. Events that ask for little may add as many again, and the event that reaches
    /// the bound may pass it: a message for all sessions. The store puts an entry into a queue of
    /// its own in 1 to 2 microseconds, so that twice as many are 35 to 65 ms. A send waits for
    /// three commits at most: the one in flight, the batch that is full, and its own. With the
    /// entries that are moved, and the sync of each, that is below 250 ms: 93 to 178 ms where 100
    /// clients publish to 63 sessions each. At a page of 4 KiB for each the bound is 64 MiB of
    /// memory that LMDB allocates for changed pages.
    public var batchChangesMaximum = 16_384
    /// Changes that deadlines may add to a batch that is full: 2 ms of its commit. A batch that is
    /// full with moves takes as many moves again for sessions that end by deadline.
    public var deadlineChangesMaximum = 1_024
    /// Changes up to which an event asks for little: a hundred clients that ask for as much at once
    /// do not fill what is left for them in a batch.
    public var smallEventChangesMaximum = 128
    /// Entries that the store moves or removes in whole queues with one batch, from which on events
    /// wait that ask for more: 0.5 to 1 microsecond each. The one that reaches the bound may pass
    /// it by a queue, with ``inheritedCountMinimum`` by some 30 ms.
    public var batchMovesMaximum: UInt64 = 16_384
    /// Bytes of messages and entries of a batch from which on events wait: 30 to 60 ms at the 0.5
    /// to 1 GB/s of a disk.
    public var batchBytesMaximum = 32 << 20
    /// Age at which a waiting message expires (7 days).
    public var queueAgeSecondsMaximum: UInt64 = 7 * 86_400
    /// What happens to a message for a full queue.
    public var queuePolicy = QueuePolicy.refuse
    /// Durable messages held in memory for a session that is not persistent and reads slowly.
    public var memoryQueueCountMaximum = 1_000
    /// Bytes of the messages that all such sessions hold, each message once. Above it a session
    /// holds ``inboxWindowBytesMaximum``, as one that is stored does.
    public var memoryQueueBytesMaximum = 64 << 20
    /// Bytes of the minimal JSON form of a `t`/`b` message.
    public var messageMaximum: UInt32 = 1_024
    /// Bytes of a payload on a plain topic.
    public var payloadMaximum: UInt32 = 262_144
    /// Receivers named in one send (issue of the wire: one packet of ids stays below 17 KiB).
    public static let listCountMaximum = 256
    /// Filters of one SUBSCRIBE or UNSUBSCRIBE that are looked at: those of one packet are one
    /// event, which is taken in one piece. A session has 1,000 subscriptions unless its operator
    /// says otherwise.
    public static let filtersPerPacketMaximum = 1_024
    /// Subscriptions of one session, so that one client cannot fill the topic tree.
    public var subscriptionsMaximum: UInt32 = 1_000
    /// Levels of a topic or filter.
    public var topicLevelsMaximum = 64
    /// Different beginnings of an app's filters with `+`, by where they have it: as many nodes of
    /// the tree a topic leads to at most, of which each costs up to 0.2 microseconds. Fleets have
    /// some dozens.
    public var filterShapesMaximum = 4_096
    /// Names and filters of shared subscriptions of one app: a publication that all of them match
    /// asks each, and is put into a queue for each.
    public var sharesPerAppMaximum = 4_096
    /// The same of one session, so that the 64 sessions of one user do not have all of an app's.
    public var sharesPerSessionMaximum = 50
    /// Sessions of all apps: about 410 bytes of memory each with its user, and more while it is
    /// connected.
    public var sessionsMaximum = 1_000_000
    /// Sessions of one app, so that no app takes the room of the others.
    public var sessionsPerAppMaximum = 1_000_000
    /// Users of all apps who are known: by a token, a registration or a login. Where logins name
    /// users freely, this is what a client that makes up names comes up against.
    public var usersMaximum = 2_000_000
    /// Bytes of a filter, which is kept for as long as its subscription: 1,000 of them are 1 MB of
    /// memory for one session. Filters in the field are below 200.
    public var filterBytesMaximum = 1_024
    /// Retained messages of one app. They are all in memory.
    public var retainedPerAppMaximum = 100_000
    /// Bytes of the retained messages of one app, topics included.
    public var retainedBytesPerAppMaximum = 64 << 20
    /// What holds for apps that ``appPolicies`` does not name.
    public var appPolicy = AppPolicy()
    /// What holds for single apps, by name.
    public var appPolicies: [[UInt8]: AppPolicy] = [:]
    /// Sessions of one user: each is one more copy of everything sent to that user.
    public var sessionsPerUserMaximum = 64
    /// A sender's own time is taken when it differs from the broker's by at most this (exactly
    /// 5 s is still accepted).
    public var senderClockDifferenceMillisecondsMaximum: UInt64 = 5_000
    /// Groups of one app.
    public var groupsPerAppMaximum = 100_000
    /// Groups of one user: each is looked at when the user logs in.
    public var groupsPerUserMaximum = 1_000
    /// Memory of the allow lists, titles and metas of an app's groups: 600 lists of a thousand long
    /// names.
    public var groupBytesPerAppMaximum = 64 << 20
    /// The same of the groups that one user owns, so that no user takes the room of the others.
    public var groupBytesPerUserMaximum = 4 << 20
    /// Members of one group.
    public var groupMembersMaximum = 1_000_000
    /// What one turn of an event loop may cost the core and the loop before the rest of its events
    /// wait for the next one. The unit is one delivery, 0.1 to 0.3 microseconds with what writing
    /// it takes, so that a turn stays below 10 ms; its effects stay below 3 MB.
    public var turnWorkMaximum = 32_768
    /// What one connection's events may cost before others have their share of the turn: a hundred
    /// connections that ask for as much as they can have all had theirs after 60 ms.
    public var shareWorkMaximum = 2_048
    /// Topics looked at in one piece of what a new subscription is sent: some 20 microseconds.
    public var replayStepsMaximum = 512
    /// The longest keep-alive granted: a dead connection is noticed within 1.5 times this. An hour
    /// and a half suits devices behind NAT with long timeouts.
    public var keepAliveSecondsMaximum: UInt32 = 5_400

    public init() {}

    /// What holds for an app.
    func policy(ofApp name: [UInt8]) -> AppPolicy {
        appPolicies.isEmpty ? appPolicy : appPolicies[name] ?? appPolicy
    }

    /// How long an MQTT login waits that takes a session over once too often: well below the time
    /// that clients wait for CONNACK (5 s and more), and enough that two clients which take turns
    /// cost next to nothing.
    static let takeoverHoldMilliseconds: UInt64 = 2_000
    /// The longest that such a login waits behind others. It has to be heard before its connection
    /// counts as one that does not log in.
    static let takeoverWaitMillisecondsMaximum: UInt64 = 8_000
    /// Inbox numbers made durable at a time before they are used (design: numbers never go back).
    /// One small record for so many deliveries; the gap after a crash is at most twice this.
    static let numberReservation: UInt64 = 1_024
    /// Sessions of one user that have ended and left messages of shared subscriptions which nobody
    /// has room for: each has a row and is looked at now and then.
    static let leftoversPerUserMaximum = 256
    /// The most rounds of housekeeping, of ten seconds each, between two looks at what nobody of a
    /// share had room for.
    static let leftoverRoundsMaximum = 7
    /// Bytes of a user's name, as the wire has it.
    static let userNameBytesMaximum = 64
    /// Identifiers of sessions, queues and the like made durable at a time.
    static let identifierReservation: UInt64 = 4_096
    /// Bytes of a group's meta.
    public static let groupMetaMaximum = 5_120
    /// Bytes of a group's title: one length byte on the wire, and half of that is a long name.
    public static let groupTitleMaximum = 128
    /// Ids on a group's allow list; one row of the store holds them all.
    public static let groupAllowedMaximum = 1_000
    /// Memory of a name on an allow list beside its bytes: an array of its own and what points at
    /// it.
    static let groupAllowedOverhead = 48
    /// Bytes of one answer about groups, so that it holds up nothing behind it; more is paged. A
    /// client that takes less is given less.
    public static let groupAnswerMaximum = 16_384
    /// Bytes of a description beside owner, title, meta and members: flags, two lengths of one
    /// byte, the number of members and the length of the meta, at most five and two.
    static let groupAnswerOverhead = 10
    /// Members up to which joins and leaves are told to everybody: n joins cost n² / 2 messages.
    static let groupEventMembersMaximum = 1_000
    /// Bytes of a will's payload: it stays in memory for as long as it is set, beside its session.
    public static let willPayloadMaximum = 4_096
    /// How soon a will that is due looks again whether the store has room.
    static let willRetrySeconds: UInt64 = 10
    /// The shortest time that devices have to come back after a restart of the broker before their
    /// wills are sent.
    static let restartGraceSeconds: UInt64 = 60
    /// A session that would last so long without its return being written does not make its client
    /// wait for that: a broker that dies in the same moment is back within a day.
    static let safeExpirySeconds: UInt64 = 86_400
    /// How often the store is swept for expired messages, and how soon rows that nobody waits for
    /// are written: what a crash may forget of them is when a session was last seen.
    static let housekeepingMilliseconds: UInt64 = 10_000
    /// Housekeeping rounds in which a sweep comes once through all queues: ten minutes, since an
    /// expired message costs room on the disk and is not delivered in any case.
    static let sweepRounds: UInt64 = 60
    /// Entries that one sweep examines at least and at most; the upper bound holds the store's one
    /// writer up for some ten milliseconds.
    static let sweepCountMinimum = 1_024
    static let sweepCountMaximum = 65_536
    /// Seconds between two rows that say a token was used: an hour is enough to tell a token in use
    /// from a forgotten one, and a device that reconnects all day costs 24 small rows.
    static let tokenUseSecondsMinimum: UInt64 = 3_600
    /// Memory of messages that is kept for the next ones: what a million messages of 256 bytes a
    /// second hold while a commit of 30 ms is under way.
    static let spareBytesMaximum = 8 << 20
    /// Memory of an entry on its way to the store: 40 bytes in the batch that gathers, up to twice
    /// that while its array grows, and 48 in what the writer is handed.
    static let uncommittedEntryBytes = 128
    /// Bytes of rows that logins and the withdrawal of rights may add to a full store, and that
    /// shorter rows may take in one commit before the longer ones are given back. A part of the
    /// store's reserve: the wills of 20,000 devices of 200 bytes each.
    static let upkeepBytesMaximum = 8 << 20
    /// Bytes of a session's row beside its names, and of the row of what it has sent, at most.
    static let sessionRowOverhead = 96
    /// Bytes of a retained message's row beside its block: an app's name of at most 64 bytes, the
    /// deadline and lengths.
    static let retainedRowOverhead = 96
    /// Bytes of answers or of copied messages that cost as much as one delivery.
    static let bytesPerWork = 256
    /// Bytes of an answer about groups that cost as much as one delivery: they are gathered from
    /// records all over memory, copied twice and sent to somebody who asked with six bytes.
    static let answerBytesPerWork = 64
    /// Bytes written to outgoing buffers that cost as much as one delivery.
    static let writtenBytesPerWork = 1_024
    /// Rows of QoS 2 publications that one batch deletes with the sessions that sent them.
    static let doomedSendsMaximum = 4_096
    /// Subscribers or nodes of a tree that are looked at for the price of one delivery.
    static let looksPerWork = 16
    /// Nodes of a tree of filters that a match visits for the price of one delivery: names are
    /// hashed there, and memory is read that nobody read lately.
    static let nodesPerWork = 2
    /// Levels and texts of rights that are compared with a topic, or parts of a pattern with a
    /// name, for the price of one delivery: 6 nanoseconds each of a topic, more of a name.
    static let comparisonsPerWork = 16
    /// Subscriptions that are judged again for the price of one delivery, beside what is compared:
    /// 80 nanoseconds each.
    static let judgedFiltersPerWork = 2
    /// Subscribers of several audiences that are merged for the price of one delivery.
    static let mergedPerWork = 8
    /// Subscription identifiers that are listed and written for the price of one delivery.
    static let identifiersPerWork = 4
    /// A filter with so many `+` in so many levels is taken whatever the others of its app are:
    /// there are 832 beginnings of these.
    static let plainFilterPlusMaximum = 2
    static let plainFilterLevelsMaximum = 16
    /// Bytes of retained messages sent to a new subscription before its client has to have read
    /// them: what every connection may hold of outgoing memory, whatever the others do.
    static let replayBytesMaximum = 16_384
    /// Effects whose memory a event loop keeps when it is emptied: what a turn's budget fills, 3
    /// MB.
    static let loopEffectsMaximum = 40_960
    /// Entries and bytes that all loads of one batch bring: some 30 ms of the store's, and 6 ms of
    /// the core's when they come.
    static let loadsCountMaximum = 16_384
    static let loadsBytesMaximum = 4 << 20
    /// Log lines a second about single receivers that were refused. A fan-out may meet thousands of
    /// full queues; ten are enough to see whose they are.
    static let receiverNotesPerSecondMaximum = 10
    /// Entries and bytes that one load brings into memory.
    static let loadCountMaximum = 64
    static let loadBytesMaximum = 65_536
}

/// What one app wants otherwise than another.
public struct AppPolicy: Hashable, Sendable {
    /// Whether an MQTT client joins a group, where its owner lets it, by subscribing to it.
    public var joinsGroupsBySubscribing = true
    /// Whether a publication that is refused, and that MQTT has no negative answer for, is
    /// acknowledged as if it had been taken; otherwise its connection ends.
    public var acknowledgesRefused = false
    /// Takeovers of a session within a minute that are let through at once: a person who moves
    /// from device to device does not reach it.
    public var takeoversPerMinute = 5

    public init() {}
}

/// What happens to a message for a queue at its limit. Each is counted.
public enum QueuePolicy: String, CaseIterable, Sendable {
    /// The sender is told 0x97 for that receiver; nothing is lost.
    case refuse
    /// The oldest waiting message makes room.
    case oldest
    /// The new message is not queued for that receiver.
    case newest
}

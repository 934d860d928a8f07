// Planted bugs. A simulation that never found a bug is no evidence: each of these violates a
// property, and the tests require that it is found within a stated number of seeds.

/// A bug that is planted in a run. The names are those of the command line.
public enum Mutation: String, CaseIterable, Sendable {
    /// The conditions that a run needs for this bug to show.
    public var faults: Faults {
        if isOfCluster { return .cluster }
        // Those of services need runs with them, and the others are searched for without.
        if isOfServices { return .all }
        // The seeds of the other bugs are of runs without topics that have history.
        let faults =
            self == .lostTopicHistory ? .all : faultsWithoutTopics.subtracting(.topicHistory)
        return faults.subtracting([.wakes, .moderation])
    }

    private var faultsWithoutTopics: Faults {
        switch self {
        // If more happens, no early seed shows it.
        case .gatewayEndsWills: .all.subtracting([.rights, .leavers, .siblings, .backups, .rows])
        case .keptRetained: .all.subtracting([.rights, .backups, .rows, .history, .receipts])
        case .keptRefusal: .all.subtracting([.rows, .history, .receipts])
        case .discardedMessages: .all.subtracting([.rows, .receipts, .revisions])
        case .refusedMove:
            .all.subtracting([
                .rows, .backups, .history, .receipts, .revisions, .pulls, .siblings, .rights,
                .repeats, .gateways, .clockSteps,
            ])
        case .forgottenShare: .all.subtracting([.receipts, .revisions])
        case .forgottenDelay:
            .all.subtracting([
                .rows, .backups, .history, .receipts, .revisions, .pulls, .siblings, .rights,
            ])
        // Devices that pull get no copies, which show these bugs too.
        case .lostHistory, .swappedHistory, .skippedPage, .forgottenMark, .ownIsUnread:
            .all.subtracting(.pulls)
        default: .all
        }
    }

    /// Not a bug of the broker: the oracle loses a record, and every run must fail.
    case canary

    // In the store.
    /// A confirmed commit is lost in a crash.
    case lostCommit = "lost-commit"
    /// The core gets the result of a commit before the commit.
    case earlyResult = "early-result"
    /// A crash leaves the messages of a batch, and not the numbers of their sends.
    case tornCommit = "torn-commit"
    /// One entry more is removed than was acknowledged.
    case greedyAcknowledgement = "greedy-acknowledgement"
    /// Some acknowledgements are not carried out.
    case forgottenAcknowledgement = "forgotten-acknowledgement"
    /// Numbers of accepted sends are not stored.
    case forgottenOutbox = "forgotten-outbox"
    /// A stop does not write the results of durable sends.
    case forgottenResults = "forgotten-results"
    case forgottenSubscription = "forgotten-subscription"
    /// The row of a user's offline queue is not written.
    case forgottenQueue = "forgotten-queue"
    /// After a crash the store is in its state of thirty commits ago, without reporting it.
    case oldBackup = "old-backup"
    /// The store's clock is eight days fast: messages expire early.
    case fastClock = "fast-clock"
    /// A load returns the first two messages in the wrong order.
    case swappedLoad = "swapped-load"
    /// A load omits its first message.
    case skippedLoad = "skipped-load"
    /// Messages expire by the wall clock.
    case steppedClock = "stepped-clock"
    /// Reservations of inbox numbers are not stored: a crash reuses numbers.
    case reusedInboxNumber = "reused-inbox-number"
    /// A will's row is never removed.
    case repeatedWill = "repeated-will"
    /// A will that was confirmed is not stored.
    case lostWill = "lost-will"
    /// The end of a membership is not stored.
    case keptMember = "kept-member"
    /// A new membership is not stored.
    case lostMember = "lost-member"

    // Between event loops, core and writer.
    /// The core's effects for a loop from two turns are executed in the wrong order.
    case swappedTurns = "swapped-turns"
    /// Sometimes the writer is not woken for a batch.
    case lostWakeUp = "lost-wake-up"

    // In the core's decisions.
    /// A later number is delivered before one of grade *once*.
    case overtakenOnce = "overtaken-once"
    /// A message of grade *once* is delivered before its commit.
    case hastyOnce = "hasty-once"
    /// A repeated send is treated as accepted although it was refused.
    case rememberedRefusal = "remembered-refusal"
    /// A kicked member of a group loses messages in flight.
    case kickLosesMessages = "kick-loses-messages"
    /// A will is sent at once, whatever its delay.
    case hastyWill = "hasty-will"
    /// A normal disconnection sends the will.
    case keptWill = "kept-will"
    /// More messages are delivered than the client's window allows.
    case ignoredWindow = "ignored-window"
    /// Messages do not expire.
    case forgottenExpiry = "forgotten-expiry"

    // In an event loop.
    /// Sends of one connection are handled in the wrong order.
    case swappedEvents = "swapped-events"
    /// Two deliveries for one connection are sent in the wrong order.
    case swappedDeliveries = "swapped-deliveries"
    /// Deliveries are sent twice.
    case repeatedDelivery = "repeated-delivery"
    /// Sometimes effects of the core are lost.
    case lostEffects = "lost-effects"
    /// A packet without room is omitted, instead of closing its connection.
    case lostDelivery = "lost-delivery"
    /// Results lack the message id.
    case namelessResult = "nameless-result"
    /// The mark of a possible duplicate is lost.
    case unmarkedDuplicate = "unmarked-duplicate"

    /// A turn processes all events, regardless of their cost.
    case ignoredBudget = "ignored-budget"

    // On the wire.
    /// Sometimes bytes are lost, and the connection stays open.
    case lostBytes = "lost-bytes"

    // In a client.
    /// It acknowledges before it has a message.
    case earlyAcknowledgement = "early-acknowledgement"
    /// It has a message before its record is stored.
    case lateRecord = "late-record"
    /// After a loss of power it reuses the numbers of its sends.
    case reusedNumber = "reused-number"
    /// It stores a send after it has transmitted it.
    case lateSendRecord = "late-send-record"

    // In MQTT only.
    /// PUBREC before the commit.
    case hastyReception = "hasty-reception"
    /// Identifiers of QoS 2 that were received are not stored.
    case forgottenIdentifier = "forgotten-identifier"
    /// An identifier of QoS 2 is forgotten with PUBREC, not with PUBREL.
    case earlyForgetting = "early-forgetting"
    /// A repeated QoS 2 publication is treated as a new one.
    case repeatedPublication = "repeated-publication"
    /// The reception of a QoS 2 message is not stored.
    case forgottenReception = "forgotten-reception"
    /// A second delivery is not marked.
    case unflaggedRepetition = "unflagged-repetition"
    /// Acknowledgements of publications are sent in the wrong order.
    case swappedAnswers = "swapped-answers"
    /// Retained messages are not stored.
    case forgottenRetained = "forgotten-retained"
    /// The end of a retained message is not stored.
    case keptRetained = "kept-retained"
    /// Unacknowledged messages of a sharer are lost when it leaves.
    case leaverLosesShare = "leaver-loses-share"
    /// A client processes a QoS 2 message before it has stored its identifier.
    case lateIdentifier = "late-identifier"

    // In rights, and in habits of some runs.
    /// Restricted users may send to everybody, against the rights of their tokens.
    case wideSending = "wide-sending"
    /// They may subscribe to everything.
    case wideSubscribing = "wide-subscribing"
    /// Sometimes a result is sent twice.
    case repeatedResult = "repeated-result"
    /// Identifiers of QoS 2 stay in the store after their release.
    case keptIdentifier = "kept-identifier"
    /// A full store does not report it before it has refused a request.
    case unheededFull = "unheeded-full"
    /// The rows of requests that are refused for lack of space are still written.
    case unaskedRow = "unasked-row"
    /// Messages that move from one queue to another are lost.
    case lostTransfer = "lost-transfer"
    /// The row of an MQTT client's send that a full store refused stays in it.
    case keptRefusal = "kept-refusal"
    /// Unacknowledged messages of a sharer are removed from the store when they move to another
    /// one.
    case lostMove = "lost-move"
    /// As above, when the store has no space.
    case refusedMove = "refused-move"
    /// Stored entries of a shared subscription return with the number of another share.
    case forgottenShare = "forgotten-share"
    /// Messages that a session leaves to another one of its user are discarded.
    case discardedMessages = "discarded-messages"
    /// The record of a restored backup is lost at the next start.
    case forgottenBackup = "forgotten-backup"
    /// A result is sent twice while the store has no space.
    case repeatedRefusal = "repeated-refusal"
    /// The number of refused receivers is not reported.
    case silentRefusal = "silent-refusal"
    /// A will is not checked against its user's rights.
    case uncheckedWill = "unchecked-will"
    /// A client's name is inserted into the patterns of its rights without a check, `$SYS` too.
    case rawNames = "raw-names"
    /// The delay of a will is not stored.
    case forgottenDelay = "forgotten-delay"
    /// A client that was held back is never read from again.
    case deafHost = "deaf-host"

    // In conversations.
    /// Some kept messages are not stored.
    case lostHistory = "lost-history"
    /// Which topics have kept messages is not stored.
    case lostTopicHistory = "lost-topic-history"
    /// Two kept messages of one commit have each other's number.
    case swappedHistory = "swapped-history"
    /// A page lacks its newest message.
    case skippedPage = "skipped-page"
    /// What users have read is not stored.
    case forgottenMark = "forgotten-mark"
    /// The row of a reader does not count its own messages.
    case ownIsUnread = "own-is-unread"

    /// After a restart devices that pull get copies of what is kept.
    case forgottenPull = "forgotten-pull"

    // In groups.
    /// Notices to the devices of new members are not stored.
    case forgottenNotices = "forgotten-notices"

    // In receipts.
    /// Receipts are not stored.
    case lostReceipt = "lost-receipt"
    /// A receipt is from another user.
    case foreignReceipt = "foreign-receipt"
    /// That receipts are told is not stored.
    case forgottenTelling = "forgotten-telling"

    // In recalls and replacements.
    /// The messages to late receivers are not stored.
    case lostRecall = "lost-recall"
    /// New contents are not stored.
    case keptContent = "kept-content"

    /// Some collapse keys are not seen.
    case ignoredKey = "ignored-key"

    // In wake-ups.
    /// Some messages wake nobody.
    case lostWake = "lost-wake"
    /// Some requests to the relay are lost in the store.
    case lostRequest = "lost-request"
    /// Some ends of requests are not told to the relay.
    case keptWake = "kept-wake"
    /// Targets are not stored.
    case forgottenTarget = "forgotten-target"
    /// That the relay was asked is not stored.
    case forgottenAsking = "forgotten-asking"
    /// Templates are not stored.
    case forgottenTemplate = "forgotten-template"
    /// That a device has logged out is not stored.
    case forgottenLogout = "forgotten-logout"
    /// The targets of a device that logs out are not silent.
    case unheededLogout = "unheeded-logout"
    /// Transient messages wake users.
    case transientWake = "transient-wake"
    /// Each second has a request.
    case hastyWake = "hasty-wake"

    // In moderation.
    /// A verdict is taken for one on another message.
    case crossedVerdicts = "crossed-verdicts"
    /// A message that is to be rewritten is delivered as it was sent.
    case keptOriginal = "kept-original"
    /// The sender of a refused message is told that it was sent.
    case hiddenVerdict = "hidden-verdict"
    /// A message that waited when its connection ended is taken for sent when it comes again.
    case lostHeld = "lost-held"
    /// Silence is taken for a verdict.
    case acceptedSilence = "accepted-silence"
    /// Messages to users are delivered without a question.
    case unaskedMessages = "unasked-messages"

    // In the packets of gateways.
    /// Sometimes a packet is sent on another channel of its gateway.
    case crossedChannels = "crossed-channels"
    /// Devices that are lost with their gateway are treated as normally disconnected.
    case gatewayEndsWills = "gateway-ends-wills"

    // In clusters.
    /// The lease is not checked before anything leaves.
    case ignoredLease = "ignored-lease"
    /// The lease runs from the last try of an append.
    case lastTryLease = "last-try-lease"
    /// The lease is measured with a clock that stops while the process is paused.
    case stoppedClock = "stopped-clock"
    /// A fenced primary goes on.
    case ignoredFence = "ignored-fence"
    /// A standby takes over before the lease has ended.
    case hastyTakeover = "hasty-takeover"
    /// A standby takes over behind the log's last record, whatever its store has applied.
    case blindTakeover = "blind-takeover"
    /// The log does not check the expected last sequence.
    case uncheckedAppend = "unchecked-append"
    /// Results leave before their batch is in the log.
    case earlyRelease = "early-release"
    /// A wrong last sequence is taken for an earlier success.
    case believedWrongLast = "believed-wrong-last"
    /// A time-out is taken for a success.
    case believedTimeout = "believed-timeout"
    /// A full log is taken for a success.
    case believedFull = "believed-full"
    /// The results of a batch that a full log has not taken are told.
    case keptResult = "kept-result"
    /// The log loses its last record when all of its servers lose their power.
    case unsyncedLog = "unsynced-log"
    /// A standby sometimes omits a record.
    case skippedRecord = "skipped-record"
    /// A record does not say that sends were refused.
    case unsaidRefusal = "unsaid-refusal"
    /// A record does not say which entries had expired.
    case keptExpired = "kept-expired"
    /// The primary's store commits a batch before it is in the log.
    case earlyCommit = "early-commit"
    /// The sequence is stored before the rows.
    case earlyPosition = "early-position"
    /// The primary's store loses a commit, and goes on.
    case lostLocalCommit = "lost-local-commit"
    /// A copy of a store gets the sequence of a later record.
    case copyWithoutRows = "copy-without-rows"
    /// A standby takes over before its store has applied what it has received.
    case earlyApplied = "early-applied"
    /// The core of a new primary is restored from the store at the start of the process.
    case staleCore = "stale-core"

    /// A standby takes the end of what the log delivers for that of any delivery, although the
    /// log has forgotten its next record.
    case unseenGap = "unseen-gap"
    /// A record has the sends that were refused.
    case encodedRefusal = "encoded-refusal"

    /// Whether it needs a relay or a moderator.
    private var isOfServices: Bool {
        switch self {
        case .lostWake, .lostRequest, .keptWake, .forgottenTarget, .forgottenAsking,
            .forgottenTemplate, .forgottenLogout, .unheededLogout, .transientWake, .hastyWake,
            .crossedVerdicts, .keptOriginal, .hiddenVerdict, .lostHeld, .acceptedSilence,
            .unaskedMessages:
            true
        default: false
        }
    }

    /// Whether it needs a cluster.
    public var isOfCluster: Bool {
        switch self {
        case .ignoredLease, .lastTryLease, .stoppedClock, .ignoredFence, .hastyTakeover,
            .blindTakeover, .uncheckedAppend, .earlyRelease, .believedWrongLast,
            .believedTimeout, .believedFull, .keptResult, .unsyncedLog, .skippedRecord,
            .unsaidRefusal, .keptExpired, .earlyCommit, .earlyPosition,
            .lostLocalCommit, .copyWithoutRows, .earlyApplied, .staleCore, .unseenGap,
            .encodedRefusal:
            true
        default: false
        }
    }

    /// Nodes of a run that shows it.
    public var nodeCount: Int { isOfCluster ? 3 : 1 }
    /// Steps of such a run: those of nodes and their log count too.
    public var stepMaximum: Int { isOfCluster ? 4_000 : SimulationOptions.stepMaximumDefault }
}

// The properties that the oracle checks in a run. docs/TESTING.md uses their names.

import Primitives

/// One property of the broker.
public enum Property: String, CaseIterable, Sendable {
    /// After result 1, every receiver with a persistent session gets the message in the end.
    case acknowledgedIsKept = "acknowledged-is-kept"
    /// Grade *once* arrives once, whatever fails.
    case onceIsOnce = "once-is-once"
    /// Grade *durable* arrives again only after the broker died, and is then marked.
    case secondIsMarked = "second-is-marked"
    /// In MQTT, QoS 1 arrives again only if it was repeated, or is marked as a possible second
    /// delivery.
    case repetitionIsFlagged = "repetition-is-flagged"
    /// A transient message arrives at most once, at online receivers.
    case transientIsNotRepeated = "transient-is-not-repeated"
    /// Numbers rise on a connection, and a receiver gets a sender's messages in their order.
    case orderIsKept = "order-is-kept"
    /// An inbox number never names a second message.
    case numbersAreNotReused = "numbers-are-not-reused"
    /// A refused send reaches nobody.
    case refusedReachesNobody = "refused-reaches-nobody"
    /// Every delivered message was sent, by its stated sender, to its receiver.
    case addresseesOnly = "addressees-only"
    /// Every numbered send gets a result, and the right one.
    case everySendIsAnswered = "every-send-is-answered"
    /// A result carries the application's message id.
    case messageIDComesBack = "message-id-comes-back"
    /// A session ends by its expiry, or because its client requests it.
    case sessionsLast = "sessions-last"
    /// Unacknowledged deliveries never exceed the client's window.
    case windowIsKept = "window-is-kept"
    /// A new subscription gets the last retained message of a topic, and none before it.
    case lastIsRetained = "last-is-retained"
    /// Nothing is delivered long after it has expired.
    case expiredIsGone = "expired-is-gone"
    /// Confirmed changes are stored, whatever fails: subscriptions, memberships, wills.
    case confirmedIsDone = "confirmed-is-done"
    /// A will is sent for a device that was lost for as long as its delay, and for no other.
    case willsAreForTheLost = "wills-are-for-the-lost"
    /// After result 1, a message that was to be kept is in its conversations, once.
    case historyIsKept = "history-is-kept"
    /// A conversation has its messages in the order of acceptance, without a gap, and no number
    /// names a second one.
    case historyIsOrdered = "history-is-ordered"
    /// What a user has told to have read stays read, and the later messages of others are unread.
    case unreadIsRight = "unread-is-right"
    /// What a user has hidden is on no page that it gets.
    case hiddenStaysHidden = "hidden-stays-hidden"
    /// What is kept for a user is not queued for its devices that pull.
    case keptIsNotQueued = "kept-is-not-queued"
    /// The devices of a new member learn its group.
    case membersAreTold = "members-are-told"
    /// A receipt is told to who asked for it, and not before its fact.
    case receiptsAreTrue = "receipts-are-true"
    /// A receipt is told to each session once.
    case receiptsAreToldOnce = "receipts-are-told-once"
    /// What a receiver has acknowledged is told to a sender that asked for it.
    case receiptsAreTold = "receipts-are-told"
    /// A message that was withdrawn from a user, as its sender is told, never reaches a device of
    /// that user; after a replacement, its old content does not.
    case recallsAreTrue = "recalls-are-true"
    /// A recall is told to each session once, and behind its message.
    case recallsAreToldOnce = "recalls-are-told-once"
    /// A recall that is late for a user is told to its devices.
    case recallsAreTold = "recalls-are-told"
    /// Of several messages with a collapse key, none begins to be sent after a newer one has its
    /// result.
    case newestIsDelivered = "newest-is-delivered"
    /// The relay is asked for each user of whom no device is connected and for whom a message
    /// waits.
    case wakesAreAsked = "wakes-are-asked"
    /// It is asked once for each interval.
    case wakesAreCoalesced = "wakes-are-coalesced"
    /// It is told when a user need not be woken any more.
    case wakesAreWithdrawn = "wakes-are-withdrawn"
    /// It is asked for nobody who has logged out, for no target that was removed, and for no
    /// message that wakes nobody.
    case sleepersAreSpared = "sleepers-are-spared"
    /// A request has the template that was set last.
    case templatesAreKept = "templates-are-kept"
    /// Nobody gets a message without the verdict of the moderator, or another one than that, and
    /// its sender is told this verdict.
    case verdictsAreKept = "verdicts-are-kept"
    /// Stored data can be read at the next start.
    case startsAgain = "starts-again"
    /// A store that has reported that it is full gets little more than requests that remove
    /// something.
    case fullIsHeeded = "full-is-heeded"
    /// Nothing happens without a right of its user, and nothing is refused that a right permits.
    case rightsAreKept = "rights-are-kept"
    /// Broker and client never report a protocol error of the other.
    case nobodyIsAtFault = "nobody-is-at-fault"
    /// When no more faults occur, nothing stays in flight, and memory and store become empty.
    case allComesToRest = "all-comes-to-rest"
    /// No turn costs more than its limit and the one packet that exceeds it.
    case turnsAreBounded = "turns-are-bounded"

    /// A node of a cluster emits nothing after another one's takeover.
    case deposedIsSilent = "deposed-is-silent"
    /// The stores of all nodes are copies of prefixes of one log.
    case storesAreEqual = "stores-are-equal"

    /// Whether it is checked after a backup was restored. The others assume that the broker knows
    /// what happened before.
    var outlivesBackup: Bool {
        switch self {
        case .startsAgain, .turnsAreBounded, .rightsAreKept, .windowIsKept: true
        default: false
        }
    }
}

/// A property that was violated.
public struct Violation: Hashable, Sendable {
    public let property: Property
    public let text: String
    /// The message that it concerns, by its index in the run.
    public let message: Int?
    /// The client that it concerns, by its index.
    public let client: Int?
    public let time: Instant
}

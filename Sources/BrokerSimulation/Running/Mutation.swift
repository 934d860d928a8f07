// Planted bugs. A simulation that has never found a bug proves nothing: each of these is one that
// the promises forbid, and the tests hold that it is found within a stated number of seeds.

/// A bug that is put into a run on purpose. The names are those of the command line.
public enum Mutation: String, CaseIterable, Sendable {
    /// What a run needs for this one to show.
    public var troubles: Troubles {
        switch self {
        // Where more goes on no early seed shows it.
        case .gatewayEndsWills: .all.subtracting([.rights, .leavers, .siblings, .backups, .rows])
        case .keptRetained: .all.subtracting([.rights, .backups, .rows])
        case .keptRefusal, .discardedMail: .all.subtracting(.rows)
        default: .all
        }
    }

    /// Not a bug of the broker's: the book of promises loses a line, and every run has to fail.
    case canary

    // In the store.
    /// A commit that was confirmed is gone after a crash.
    case lostCommit = "lost-commit"
    /// The core is told of a commit before it has happened.
    case earlyResult = "early-result"
    /// A crash leaves the messages of a batch, and not the numbers of their sends.
    case tornCommit = "torn-commit"
    /// One entry more is removed than was acknowledged.
    case greedyAcknowledgement = "greedy-acknowledgement"
    /// Now and then an acknowledgement is not carried out.
    case forgottenAcknowledgement = "forgotten-acknowledgement"
    /// Numbers of accepted sends are not stored.
    case forgottenOutbox = "forgotten-outbox"
    /// A stop does not write the results of durable sends.
    case forgottenResults = "forgotten-results"
    case forgottenSubscription = "forgotten-subscription"
    /// The row that says where a user's mail waits is not written.
    case forgottenOfflineQueue = "forgotten-mailbox"
    /// After a crash the store is as it was thirty commits ago, and does not say so.
    case oldBackup = "old-backup"
    /// The store's clock is eight days fast: messages expire early.
    case fastClock = "fast-clock"
    /// A load gives the first two messages in the wrong order.
    case swappedLoad = "swapped-load"
    /// A load leaves out its first message.
    case skippedLoad = "skipped-load"
    /// Messages expire by the wall clock.
    case steppedClock = "stepped-clock"
    /// Reservations of inbox numbers are not stored: a crash brings used numbers back.
    case reusedInboxNumber = "reused-inbox-number"
    /// A will's row outlives the sending of its message, and whatever else ends it.
    case repeatedWill = "repeated-will"
    /// A will that was confirmed is not stored.
    case lostWill = "lost-will"
    /// The end of a membership is not stored.
    case keptMember = "kept-member"
    /// A new membership is not stored.
    case lostMember = "lost-member"

    // Between event loops, core and writer.
    /// What the core left for a event loop in two turns is carried out in the wrong order.
    case swappedTurns = "swapped-turns"
    /// Now and then the writer is not woken for a batch.
    case lostWakeUp = "lost-wake-up"

    // In the core's decisions.
    /// A later number is delivered before one of grade *once*.
    case overtakenOnce = "overtaken-once"
    /// A message of grade *once* is delivered before its commit.
    case hastyOnce = "hasty-once"
    /// A send that comes again after it was refused is taken for an accepted one.
    case rememberedRefusal = "remembered-refusal"
    /// Who is kicked out of a group loses the mail that is on its way.
    case kickLosesMail = "kick-loses-mail"
    /// A will is sent at once, whatever its delay.
    case hastyWill = "hasty-will"
    /// A good-bye sends the will.
    case keptWill = "kept-will"
    /// More is delivered than the client takes at a time.
    case ignoredWindow = "ignored-window"
    /// Messages do not expire.
    case forgottenExpiry = "forgotten-expiry"

    // In a event loop.
    /// Sends of one connection are handled in the wrong order.
    case swappedEvents = "swapped-events"
    /// Two deliveries for one connection leave in the wrong order.
    case swappedDeliveries = "swapped-deliveries"
    /// Deliveries leave twice.
    case repeatedDelivery = "repeated-delivery"
    /// Now and then what the core wanted is forgotten.
    case lostEffects = "lost-effects"
    /// A packet for which there is no room is left out, instead of its connection being closed.
    case lostDelivery = "lost-delivery"
    /// Results do not carry the message id.
    case namelessResult = "nameless-result"
    /// The mark of a possible duplicate is lost.
    case unmarkedDuplicate = "unmarked-duplicate"

    /// A turn takes all events, whatever they cost.
    case ignoredBudget = "ignored-budget"

    // On the wire.
    /// Now and then bytes are missing, and the connection stands.
    case lostBytes = "lost-bytes"

    // In a client.
    /// It acknowledges before it holds a message.
    case earlyAcknowledgement = "early-acknowledgement"
    /// It holds a message before its record says so.
    case lateRecord = "late-record"
    /// After a power cut it uses the numbers of its sends again.
    case reusedNumber = "reused-number"
    /// It stores a send after it has sent it.
    case lateSendRecord = "late-send-record"

    // In what MQTT alone has.
    /// PUBREC before the commit.
    case hastyReception = "hasty-reception"
    /// Identifiers of QoS 2 that were received are not stored.
    case forgottenIdentifier = "forgotten-identifier"
    /// An identifier of QoS 2 is forgotten with PUBREC, not with PUBREL.
    case earlyForgetting = "early-forgetting"
    /// A publication of QoS 2 that comes again is taken for another one.
    case repeatedPublication = "repeated-publication"
    /// That a receiver has a message of QoS 2 is not stored.
    case forgottenReception = "forgotten-reception"
    /// A second delivery does not say so.
    case unflaggedRepetition = "unflagged-repetition"
    /// Acknowledgements of publications leave in the wrong order.
    case swappedAnswers = "swapped-answers"
    /// Retained messages are not stored.
    case forgottenRetained = "forgotten-retained"
    /// The end of a retained message is not stored.
    case keptRetained = "kept-retained"
    /// What a sharer has not acknowledged is lost when it leaves.
    case leaverLosesShare = "leaver-loses-share"
    /// A client processes a message of QoS 2 before it has written its identifier down.
    case lateIdentifier = "late-identifier"

    // In what clients may do, and in what only some runs have.
    /// Restricted users may send to everybody, against the word of their tokens.
    case wideSending = "wide-sending"
    /// They may subscribe to everything.
    case wideSubscribing = "wide-subscribing"
    /// Now and then a result leaves twice.
    case repeatedResult = "repeated-result"
    /// Identifiers of QoS 2 stay in the store when they are released.
    case keptIdentifier = "kept-identifier"
    /// A store that is full does not say so before it has refused something.
    case unheededFull = "unheeded-full"
    /// The rows of requests that are refused for want of room are written all the same.
    case unaskedRow = "unasked-row"
    /// What moves from one queue into another is lost.
    case lostTransfer = "lost-transfer"
    /// What a store without room has refused of an MQTT client's send leaves its row there.
    case keptRefusal = "kept-refusal"
    /// What a sharer has not acknowledged leaves the store when it goes to another one.
    case lostMove = "lost-move"
    /// As above, where the store has no room.
    case refusedMove = "refused-move"
    /// What is stored of a shared subscription comes back as another share's.
    case forgottenShare = "forgotten-share"
    /// What a session leaves to another one of its user is thrown away.
    case discardedMail = "discarded-mail"
    /// That a store is a backup which was put back is forgotten with the next start.
    case forgottenBackup = "forgotten-backup"
    /// A result leaves twice while the store has no room.
    case repeatedRefusal = "repeated-refusal"
    /// Nobody is told how many receivers were refused.
    case silentRefusal = "silent-refusal"
    /// To whom a will goes is not held against the rights of who set it.
    case uncheckedWill = "unchecked-will"
    /// A client's name is put into the patterns of its rights as it is, `$SYS` too.
    case rawNames = "raw-names"
    /// The delay of a will is not stored.
    case forgottenDelay = "forgotten-delay"
    /// Who was not read from for a while is not read from again.
    case deafHost = "deaf-host"

    // In what gateways carry.
    /// Now and then a packet leaves on another channel of its gateway.
    case crossedChannels = "crossed-channels"
    /// Devices that are lost with their gateway are taken to have said good-bye.
    case gatewayEndsWills = "gateway-ends-wills"
}

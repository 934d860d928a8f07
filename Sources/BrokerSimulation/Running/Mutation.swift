// Planted bugs. A simulation that has never found a bug proves nothing: each of these is one that
// the promises forbid, and the tests hold that it is found within a stated number of seeds.

/// A bug that is put into a run on purpose. The names are those of the command line.
public enum Mutation: String, CaseIterable, Sendable {
    /// Not a bug of the broker's: the book of promises loses a line, and every run has to fail.
    case canary

    // In the store.
    /// A commit that was confirmed is gone after a crash.
    case lostCommit = "lost-commit"
    /// The core is told of a commit before it has happened.
    case earlyResult = "early-result"
    /// A crash leaves the messages of a batch, and not its rows.
    case tornCommit = "torn-commit"
    /// One entry more is removed than was acknowledged.
    case greedyAcknowledgement = "greedy-acknowledgement"
    /// Now and then an acknowledgement is not carried out.
    case forgottenAcknowledgement = "forgotten-acknowledgement"
    /// Numbers of accepted sends are not stored.
    case forgottenOutbox = "forgotten-outbox"
    case forgottenSubscription = "forgotten-subscription"
    /// The row that says where a user's mail waits is not written.
    case forgottenMailbox = "forgotten-mailbox"
    /// Rows of sessions keep their first value, and with it their first reservation of numbers.
    case staleReservation = "stale-reservation"
    /// The store's clock is eight days fast: messages expire early.
    case fastClock = "fast-clock"
    /// A load gives the first two messages in the wrong order.
    case swappedLoad = "swapped-load"
    /// A load leaves out its first message.
    case skippedLoad = "skipped-load"

    // In a lane.
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
    /// What was meant for a connection goes to the next tenant of its slot.
    case strangerInSlot = "stranger-in-slot"
    /// Results do not carry the message id.
    case namelessResult = "nameless-result"
    /// The mark of a possible duplicate is lost.
    case unmarkedDuplicate = "unmarked-duplicate"

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
}

// A send that has a reference: what the broker knows of it until its deadline, so that receipts are
// told and its sender can still change it.

import BrokerTerms
import Primitives

/// A send with a reference.
struct TrackedSend {
    /// How it was addressed. Raw values are on disk.
    enum TargetKind: UInt8 {
        /// A user, or a list of users.
        case users = 0
        case group = 2
        case everybody = 3
        case topic = 4
    }

    /// What is known of the copies of one receiver. On disk.
    struct Facts: OptionSet, Hashable {
        var rawValue: UInt8

        /// A device has acknowledged it.
        static let delivered = Facts(rawValue: 1)
        /// The receiver has told that it applied it, or why not.
        static let applied = Facts(rawValue: 2)
        /// That it was delivered is not told, because the store had no room for the receipt.
        static let postponed = Facts(rawValue: 4)
        /// A device has been sent it, or may have been.
        static let sent = Facts(rawValue: 8)
        /// The message was withdrawn from all its queues.
        static let withdrawn = Facts(rawValue: 16)
        /// Its copies stay: the receiver did not take the message that takes its place.
        static let stays = Facts(rawValue: 32)
    }

    /// A user that the send named.
    struct Receiver {
        let user: Index<User>
        var facts: Facts = []
    }

    /// Members of a group, by what is known of them.
    struct Counts: Hashable {
        var delivered: UInt32 = 0
        var applied: UInt32 = 0
        /// Of these, the ones who told a failure.
        var failed: UInt32 = 0

        subscript(fact: Facts) -> UInt32 {
            get { fact == .delivered ? delivered : applied }
            set { if fact == .delivered { delivered = newValue } else { applied = newValue } }
        }
    }

    /// Unique in the broker, and told in the app only.
    let reference: UInt64
    let app: Index<App>
    let sender: Index<User>
    /// What identifies the sender's session, and its outbox number; 0 for a send over the HTTP API.
    let session: UInt64
    let number: UInt64
    /// The application's id; empty for none.
    let messageIdentifier: [UInt8]
    let asks: SendAsks
    let grade: Grade
    let targetKind: TargetKind
    /// The group or the topic; empty for others.
    let address: [UInt8]
    let acceptedUnixMilliseconds: UInt64
    /// When its message expires, in broker time.
    let deadline: Instant
    /// The receivers that the send named, in their order; empty for other targets.
    var receivers: [Receiver] = []
    /// Members of the group but the sender, when the send was accepted.
    var memberCount: UInt32 = 0
    /// Members whose joins have higher numbers joined later, and are no receivers.
    var joinedThrough: UInt32 = 0
    var counts = Counts()
    /// The counts that the last receipt of a group told.
    var toldCounts = Counts()
    /// What is known of members of a group: of those with several devices, which must not count
    /// twice, and of those that told something.
    var members: [Index<User>: Facts] = [:]
    /// Receipts that are due and not stored, in the order of their facts.
    var untold: [Receipt] = []
    /// Receipts in the pending or the in-flight batch, by their numbers.
    var underWay: [(number: UInt64, receipt: Receipt)] = []

    /// The id of its stored message; 0 if there is none, or if it is not known yet.
    var stored: UInt64 = 0
    /// The batch that stores it, and its message while that batch is not committed.
    var batch: UInt64 = 0
    var message: Index<Message>?
    /// Distinguishes its message in memory; 0 after a restart.
    var stamp: UInt64 = 0
    /// The number that its message has in its conversation; 0 for none, or for several.
    var keptNumber: UInt64 = 0
    /// Bytes of its message's block as it was sent; 0 if they are not known.
    var blockByteCount: UInt32 = 0
    /// Where the entries of its message begin and end in the batch that stores it, if it has a key.
    var entries = 0..<0
    /// The sender's key; empty for none.
    var collapseKey: [UInt8] = []
    /// The reference of the earlier send whose place it takes, until that one is withdrawn; 0 for
    /// none.
    var collapses: UInt64 = 0
    var marks: Marks = []
    var revisionState = RevisionState.none
    /// The answer to a recall, when it is complete.
    var withdrawnCount: UInt32 = 0
    var lateCount: UInt32 = 0
    /// What the sender tells about a recall under way.
    var detail: [UInt8] = []
    /// What happens to copies that are loaded; nil for nothing.
    var fate: StoredFate?
    /// The recall, the replacement or the collapse under way.
    var revision: Index<Revision>?

    /// Facts about a send. On disk.
    struct Marks: OptionSet {
        var rawValue: UInt8

        /// Its sender set an expiry.
        static let expires = Marks(rawValue: 1)
        /// Devices of members have been sent it that could not be remembered one by one.
        static let isSentUnknown = Marks(rawValue: 2)
        /// It was restored from a row that does not contain its stored message.
        static let isOld = Marks(rawValue: 4)
        /// Its time is that of a late reading.
        static let isLate = Marks(rawValue: 8)
        /// It is kept and was delivered to nobody.
        static let isUndelivered = Marks(rawValue: 16)
        /// Some receivers have the fact ``Facts/stays``.
        static let hasStays = Marks(rawValue: 32)
    }

    /// Raw values are on disk.
    enum RevisionState: UInt8 {
        case none = 0
        case recalling = 1
        case recalled = 2
        /// A newer message takes its place.
        case collapsing = 3
        /// A newer message has taken its place. Who has it is told if it is recalled.
        case collapsed = 4
    }

    /// The timer that ends it.
    var token = TimerWheel.Token.none
    /// The timer of the next receipt.
    var paceToken = TimerWheel.Token.none
    /// How often in a row a receipt could not be sent.
    private(set) var failureCount: UInt8 = 0

    /// The time until the next receipt: the interval of a group's counts, and after each failure in
    /// a row twice as long, up to 96 s, because the sender's queue is full for all of its sends.
    var paceMilliseconds: UInt64 {
        CoreLimits.receiptMilliseconds << UInt64(failureCount)
    }

    mutating func noteFailure() {
        failureCount = min(failureCount + 1, CoreLimits.receiptDoublingsMaximum)
    }

    mutating func noteSuccess() { failureCount = 0 }
    /// Whether its row is to be written with the pending batch.
    var isChanged = false
    /// Whether no batch has its row yet.
    var isNew = true
    /// Whether a batch has a row of its state.
    var hasStateRow = false
    /// Its number among those that make room for others; 0 if it is none of them.
    var settledNumber: UInt64 = 0
    /// Whether it is among those that make room for others.
    var isSettled: Bool { settledNumber != 0 }

    /// Whether all receipts that it asks for are told and stored. A send that is forgotten then can
    /// still not be recalled, and makes no room for a newer one with its key.
    var hasNothingToTell: Bool {
        guard revision == nil, collapses == 0, untold.isEmpty, underWay.isEmpty,
            counts == toldCounts || targetKind != .group
        else {
            return false
        }
        for (ask, fact) in [(SendAsks.delivered, Facts.delivered), (.applied, .applied)]
        where asks.contains(ask) {
            let isKnown =
                targetKind == .group
                ? counts[fact] == memberCount
                : receivers.allSatisfy {
                    $0.facts.contains(fact) && !$0.facts.contains(.postponed)
                }
            guard isKnown else { return false }
        }
        return true
    }
}

/// A receipt for the sender of a message.
struct Receipt: Hashable {
    /// Raw values are on disk and on the wire.
    enum Kind: UInt8 {
        case delivered = 1
        case applied = 2
        /// How many members of a group.
        case counts = 3
    }

    let kind: Kind
    /// Whose device acknowledged, or who told.
    let user: Index<User>
    let device: [UInt8]
    let unixMilliseconds: UInt64
    /// The receiver's own code, with ``Kind/applied``: 0 for done, from 0x80 on a failure.
    var code: UInt8 = 0
    var text: [UInt8] = []

    /// The most bytes that it takes in the row of its send: a user of at most 64 bytes, a time, a
    /// kind, a code, and lengths.
    var rowByteCount: Int { 80 + device.count + text.count }
}

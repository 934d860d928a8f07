// A recall, a replacement or a collapse under way. It goes over the receivers of a message in
// pieces:
//
//     awaiting ──the newer message is stored──► removing ──committed──► telling ──committed──► end
//                                                ▲   └──nobody is late──► │ ▲        │
//                                                └──────── next piece ────┘ └─later──┘ no room
//
// Only a collapse begins with `awaiting`, and it tells nobody. A piece is `queued` before it is
// `removing` while the batch is full of withdrawals, and `waiting` for a timer between pieces and
// while there is no room.

import BrokerTerms
import Primitives

struct Revision {
    enum Kind {
        case recall
        case replacement
        /// By a newer message with the same key.
        case collapse(by: Handle<TrackedSend>)
    }

    enum Phase {
        /// The batch of the newer message is not committed.
        case awaiting
        /// A piece waits for a batch that has room for its withdrawals.
        case queued
        /// The withdrawals of a piece are not committed.
        case removing
        /// The messages to the late receivers of a piece are not committed.
        case telling
        /// A timer continues: at once with the next piece, and later if there was no room.
        case waiting
    }

    /// Who gets the answer.
    enum Requester {
        case client(ConnectionID, identifier: UInt64)
        case `operator`(number: UInt64)
        case nobody
    }

    /// What is known of a receiver of the current piece.
    struct Receiver {
        let user: Index<User>
        /// A copy was withdrawn, or would have been.
        var isFound = false
        /// A device has been sent a copy, or may have been.
        var isSent = false
    }

    let kind: Kind
    let send: Index<TrackedSend>
    var requester: Requester
    /// Bytes that the answer may have.
    let byteCountMaximum: Int
    /// What the late receivers are told beside the message's reference.
    let detail: [UInt8]
    /// `t` as one byte, then `b`; empty for a recall.
    let content: [UInt8]
    /// Whether the answer names late receivers.
    let namesLate: Bool
    var phase = Phase.removing
    /// The timer of the next turn.
    var token = TimerWheel.Token.none
    /// The receivers, and the position of the next piece.
    let users: [Index<User>]
    var next = 0
    var piece: [Receiver] = []
    /// The late receivers of the current piece.
    var late: [Index<User>] = []
    /// Late receivers of earlier pieces whose queues were full.
    var untold: [Index<User>] = []
    /// How often in a row late receivers could not be told.
    var attemptCount: UInt8 = 0
    /// Receivers whose copies were withdrawn before their piece.
    var early: Set<Index<User>> = []
    var withdrawnCount: UInt32 = 0
    var lateCount: UInt32 = 0
    /// The names of late receivers, at most ``CoreLimits/lateNamesMaximum``.
    var names: [[UInt8]] = []

    init(
        _ kind: Kind, of send: Index<TrackedSend>, users: [Index<User>], for requester: Requester,
        detail: [UInt8] = [], content: [UInt8] = [], namesLate: Bool = false,
        byteCountMaximum: Int = .max
    ) {
        self.kind = kind
        self.send = send
        self.users = users
        self.requester = requester
        self.detail = detail
        self.content = content
        self.namesLate = namesLate
        self.byteCountMaximum = byteCountMaximum
    }

    /// Whether copies stay in their queues, with new content.
    var keepsCopies: Bool {
        if case .replacement = kind { true } else { false }
    }

    /// Whether late receivers are told.
    var tells: Bool {
        if case .collapse = kind { false } else { true }
    }
}

/// What happens to a copy of a stored message that is loaded.
enum StoredFate {
    /// It waits until a newer message is stored.
    case held
    /// It is withdrawn unless it may have been sent.
    case recalled
    /// It has this block, which the next commit stores.
    case replaced(block: [UInt8], batch: UInt64)
}

// One event for one hook, and what became of it where it could not be delivered.

import Relay

/// An event on its way to a hook.
package struct Delivery: Hashable, Sendable {
    /// Orders deliveries, and identifies them in the record. It never repeats.
    package var sequence: UInt64
    /// The name of the hook.
    package var hook: String
    /// The id that the receiver recognises it by.
    package var identifier: String
    /// Events with the same key are delivered in order.
    package var key: String
    /// The end of its validity, in Unix milliseconds.
    package var expiry: UInt64
    /// The JSON of the event.
    package var body: [UInt8]

    package init(
        sequence: UInt64, hook: String, identifier: String, key: String, expiry: UInt64,
        body: [UInt8]
    ) {
        self.sequence = sequence
        self.hook = hook
        self.identifier = identifier
        self.key = key
        self.expiry = expiry
        self.body = body
    }

    /// Its bytes in memory and in the record, about.
    var byteCount: Int { body.count + key.utf8.count + 128 }
}

/// Why an event could not be delivered.
package enum DeathCause: UInt8, CaseIterable, Sendable {
    /// Its validity has ended.
    case expired = 0
    /// The destination has refused it too often.
    case refused = 1
    /// Too many events of the hook waited. (Nothing has 2: a destination that answers 410 makes no
    /// dead letters.)
    case queueFull = 3
    /// The configuration has no hook of this name any more.
    case hookRemoved = 4

    package var name: String {
        switch self {
        case .expired: "expired"
        case .refused: "refused"
        case .queueFull: "queue-full"
        case .hookRemoved: "hook-removed"
        }
    }
}

/// An event that is not tried any more, until somebody asks for it.
package struct DeadLetter: Hashable, Sendable {
    package var delivery: Delivery
    package var cause: DeathCause
    /// The last status that the destination answered; 0 for none.
    package var status: UInt16
    /// Unix milliseconds.
    package var time: UInt64
}

extension DeadLetter: KeptLetter {
    /// The hook.
    package var owner: ExactText { ExactText(delivery.hook) }
    package var byteCount: Int { delivery.byteCount }
}

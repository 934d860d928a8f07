// The next identifiers and numbers. Durable identifiers are reserved in the store in blocks before
// they are used, so that a crash never makes the broker use one twice.

/// The next identifiers and stamps.
struct Identifiers {
    private(set) var nextIdentifier: UInt64 = 1
    private(set) var identifiersReservedThrough: UInt64 = 0
    private(set) var nextMessageIdentifier: UInt64 = 1
    private var lastStamp: UInt64 = 0
    /// The present time of a monotonic clock; 0 without one.
    var nanoseconds: UInt64 = 0
    /// Set in stamps that are no times of acceptance.
    private static let unmeasured: UInt64 = 1 << 63

    /// A new durable identifier, and whether the reservation has grown and must be written.
    mutating func makeIdentifier() -> (identifier: UInt64, needsReservation: Bool) {
        let identifier = nextIdentifier
        nextIdentifier += 1
        guard nextIdentifier + CoreLimits.identifierReservation / 2 > identifiersReservedThrough
        else { return (identifier, false) }
        identifiersReservedThrough += CoreLimits.identifierReservation
        return (identifier, true)
    }

    /// A new id of a stored message. Ids rise in the order in which messages reach the store.
    mutating func makeMessageIdentifier() -> UInt64 {
        defer { nextMessageIdentifier += 1 }
        return nextMessageIdentifier
    }

    /// A number that no other message in memory has had: the time of its acceptance, or a few
    /// nanoseconds more for those that are accepted at the same time.
    mutating func makeStamp() -> UInt64 {
        lastStamp = max(lastStamp + 1, nanoseconds)
        return lastStamp
    }

    /// The same for a message that was accepted earlier: it was loaded, or is sent again.
    mutating func makeUnmeasuredStamp() -> UInt64 {
        lastStamp += 1
        return lastStamp | Identifiers.unmeasured
    }

    /// When the message with a stamp was accepted; nil if the stamp does not tell.
    static func acceptedNanoseconds(of stamp: UInt64) -> UInt64? {
        stamp == 0 || stamp >= unmeasured ? nil : stamp
    }

    /// Continues after the identifiers that the store has reserved.
    mutating func restore(identifiersReservedThrough reserved: UInt64) {
        identifiersReservedThrough = reserved
        nextIdentifier = reserved + 1
    }

    mutating func restore(nextMessageIdentifier next: UInt64) {
        nextMessageIdentifier = max(next, 1)
    }
}

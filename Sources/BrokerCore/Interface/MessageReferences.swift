// References of messages, which the edges make: the core has no clock and no random numbers.

/// Makes references of messages.
public enum MessageReferences {
    /// A new reference, which is never 0: 42 bits of the time in Unix milliseconds, which last
    /// until the year 2109, and 22 random bits. The store has the rows of sends in the order of
    /// their references. Those of one time are on the same few pages then; with random references
    /// each row is on a page of its own, and a send with a receipt costs 1.5 times as much
    /// (`martlet-micro receipts`).
    ///
    /// - Parameter random: of which the low bits are used. The core takes the next free reference
    ///   where two are equal.
    public static func make(random: UInt64, unixMilliseconds: UInt64) -> UInt64 {
        max(unixMilliseconds << randomBitCount | random & (1 << randomBitCount - 1), 1)
    }

    private static let randomBitCount: UInt64 = 22
}

// The wait before the next attempt: exponential backoff with full jitter, so that the clients of a
// broker that stopped do not reconnect at the same time. The caller supplies the seed.

import Primitives

/// The waits of one client.
public struct Backoff: Sendable {
    /// Consecutive failed attempts.
    public private(set) var failureCount = 0
    private var state: UInt64

    /// - Parameter seed: must differ from client to client.
    public init(seed: UInt64) {
        state = seed
    }

    /// The next attempt is a first one.
    public mutating func reset() { failureCount = 0 }

    /// A random number of milliseconds, from 0 to the maximum of this attempt.
    public mutating func nextMilliseconds() -> UInt64 {
        // 2^7 s is already above the maximum.
        let doublings = UInt64(min(failureCount, 7))
        let bound = min(
            ClientLimits.backoffMillisecondsMaximum,
            ClientLimits.backoffMillisecondsMinimum << doublings)
        failureCount += 1
        return random() % (bound + 1)
    }

    /// SplitMix64 (Steele, Lea, Flood 2014): one addition and a mix, enough to spread clients.
    private mutating func random() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}

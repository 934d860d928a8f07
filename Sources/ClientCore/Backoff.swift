// The wait before the next attempt: exponential backoff with full jitter, so that the clients of a
// broker that stopped do not reconnect at the same time. The caller supplies the seed.

import Primitives

/// The waits of one client.
public struct Backoff: Sendable {
    /// Consecutive failed attempts.
    public private(set) var failureCount = 0
    private var random: SplitMix64

    /// - Parameter seed: must differ from client to client.
    public init(seed: UInt64) {
        random = SplitMix64(seed: seed)
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
        return random.next() % (bound + 1)
    }
}

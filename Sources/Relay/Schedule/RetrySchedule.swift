// When something that failed is tried again: exponential backoff with jitter, and the circuit of a
// destination. Time and random numbers are handed in.

import Primitives

/// The waits between two attempts.
package struct RetrySchedule: Sendable {
    package let firstMilliseconds: UInt64
    package let longestMilliseconds: UInt64

    package init(firstMilliseconds: UInt64, longestMilliseconds: UInt64) {
        self.firstMilliseconds = firstMilliseconds
        self.longestMilliseconds = longestMilliseconds
    }

    /// Half of the bound that doubles with each failure, and a random part of the other half: what
    /// has failed together does not come back together.
    ///
    /// - Parameters:
    ///   - failureCount: consecutive failures, from 1.
    ///   - random: any number.
    package func milliseconds(afterFailures failureCount: Int, random: UInt64) -> UInt64 {
        let doublings = UInt64(min(max(failureCount, 1) - 1, 32))
        let bound = min(longestMilliseconds, firstMilliseconds << doublings)
        return bound / 2 + random % (bound - bound / 2 + 1)
    }
}

/// Whether a destination is tried at all. Closed: requests may begin. Open: none until a time, then
/// one, whose result closes the circuit or opens it again.
package struct Circuit: Sendable {
    /// Failures in a row.
    package private(set) var failureCount = 0
    /// How often it was opened in a row.
    package private(set) var openingCount = 0
    /// The end of the wait; nil while it is closed.
    package private(set) var openUntil: Instant?
    package private(set) var isProbing = false

    package init() {}

    package func mayBegin(now: Instant) -> Bool {
        guard let openUntil else { return true }
        return !isProbing && now >= openUntil
    }

    /// A request begins.
    package mutating func begin() { isProbing = openUntil != nil }

    /// The request that has begun is not made after all.
    package mutating func cancel() { isProbing = false }

    /// The destination has answered.
    ///
    /// - Returns: whether the circuit was open.
    package mutating func succeeded() -> Bool {
        defer { self = Circuit() }
        return openUntil != nil
    }

    /// The destination failed.
    ///
    /// - Parameters:
    ///   - advised: the wait that it asked for, in milliseconds; 0 for none. It opens the circuit.
    ///   - now: the time.
    ///   - wait: the wait after so many openings, in milliseconds.
    /// - Returns: whether the circuit was closed and is open now.
    package mutating func failed(
        advised: UInt64, now: Instant, wait: (Int) -> UInt64
    ) -> Bool {
        failureCount += 1
        let wasOpen = openUntil != nil
        // Requests that began before the circuit opened say nothing new, but for a longer wait.
        if let until = openUntil, !isProbing {
            openUntil = max(until, now.advanced(byMilliseconds: advised))
            return false
        }
        guard wasOpen || advised > 0 || failureCount >= RelayLimits.circuitFailuresMaximum else {
            return false
        }
        isProbing = false
        openingCount += 1
        openUntil = now.advanced(byMilliseconds: max(advised, wait(openingCount)))
        return !wasOpen
    }

    /// Ends the wait: an operator says that the destination is well.
    package mutating func close() { self = Circuit() }
}

// How often a user, or the holder of a key, may make requests to the HTTP API: as often as a client
// of MRT or MQTT may send. Requests are answered and not delayed, so that who exceeds it is told.

import Primitives

/// Token buckets, one for each user or key that has made requests lately. A bucket holds the
/// requests of one second.
struct RequestRates {
    /// When the bucket of each holder is full again, in nanoseconds of the clock.
    private var fullTimes: [RequestHolder: UInt64] = [:]
    /// How many buckets there are when the full ones are forgotten.
    private var trimCount = Self.trimCountMinimum

    /// About 150 bytes each. More are there only while as many make requests within a second.
    static let trimCountMinimum = 4_096
    private static let nanosecondsPerSecond: UInt64 = 1_000_000_000

    /// Buckets that are not forgotten.
    var count: Int { fullTimes.count }

    /// Takes a request out of a bucket.
    ///
    /// - Parameter perSecond: the limit; 0 for none.
    /// - Returns: the seconds to wait if there is none; nil if it is taken.
    mutating func take(for holder: RequestHolder, perSecond: Int, at now: Instant) -> UInt64? {
        // Operators are there to help when clients are too many.
        guard perSecond > 0, holder.kind != .operator else { return nil }
        let (now, second) = (now.milliseconds * 1_000_000, Self.nanosecondsPerSecond)
        let next = max(fullTimes[holder] ?? 0, now) + second / UInt64(perSecond)
        guard next <= now + second else { return (next - now - 1) / second }
        fullTimes[holder] = next
        if fullTimes.count > trimCount {
            fullTimes = fullTimes.filter { $0.value > now }
            trimCount = max(Self.trimCountMinimum, 2 * fullTimes.count)
        }
        return nil
    }
}

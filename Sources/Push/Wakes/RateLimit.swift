// How many attempts may begin in one second: a bucket with as many tokens as the rate, filled by
// the time that is handed in.

import Primitives

struct RateLimit {
    private let perSecond: Int
    /// Thousandths of a token.
    private var level: UInt64
    private var filledAt = Instant(milliseconds: 0)

    /// - Parameter perSecond: 0 for no limit.
    init(perSecond: Int) {
        self.perSecond = perSecond
        level = UInt64(perSecond) * 1_000
    }

    mutating func mayBegin(now: Instant) -> Bool {
        guard perSecond > 0 else { return true }
        let rate = UInt64(perSecond)
        let elapsed = min(now.milliseconds(since: filledAt), 1_000)
        if now > filledAt {
            level = min(rate * 1_000, level + elapsed * rate)
            filledAt = now
        }
        return level >= 1_000
    }

    mutating func begin() {
        if perSecond > 0 { level -= 1_000 }
    }

    /// When ``mayBegin(now:)`` is true.
    func nextBegin(now: Instant) -> Instant {
        guard perSecond > 0, level < 1_000 else { return now }
        let missing = 1_000 - level
        return filledAt.advanced(
            byMilliseconds: (missing + UInt64(perSecond) - 1) / UInt64(perSecond))
    }
}

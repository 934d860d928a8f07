// Token buckets with a clock that the test sets.
import BrokerTerms
import Primitives
import Testing

@testable import BrokerRuntime

@Suite struct RateLimiterTests {
    private static let connection = ConnectionID(loop: 0, slot: 3, generation: 1)
    private let rates = ClientRates.Values(
        messagesPerSecond: 100, bytesPerSecond: 10_000, toleranceSeconds: 60)

    private func time(_ milliseconds: UInt64) -> Instant {
        Instant(milliseconds: 5_000 + milliseconds)
    }

    /// Shows a burst of messages without bytes; what was taken of it, and the verdict.
    private func show(
        _ messages: Int, bytes: Int = 0, to limiter: inout RateLimiter,
        of connection: ConnectionID = RateLimiterTests.connection, at milliseconds: UInt64
    ) -> (taken: Int, verdict: RateLimiter.Verdict) {
        let now = time(milliseconds)
        let taken = min(messages, limiter.allowance(of: connection, rates: rates, at: now))
        let amount = RateLimiter.Amount(
            messages: taken, bytes: bytes, leavesRest: taken < messages)
        return (taken, limiter.charge(connection, amount, rates: rates, at: now))
    }

    @Test func `the amount of one second may arrive at once, and the rest waits`() {
        var limiter = RateLimiter()
        let first = show(103, to: &limiter, at: 0)
        #expect(first == (100, .pause(until: time(100))))
        let second = show(3, to: &limiter, at: 100)
        #expect(second == (3, .withinRate))
        #expect(show(7, to: &limiter, at: 100) == (7, .withinRate))
        #expect(show(1, to: &limiter, at: 100) == (1, .pause(until: time(210))))
    }

    @Test func `a flood is read at its rate for the tolerated time`() {
        var limiter = RateLimiter()
        var (taken, now) = (0, UInt64(0))
        while true {
            let (count, verdict) = show(10_000, to: &limiter, at: now)
            taken += count
            guard case .pause(let end) = verdict else {
                #expect(verdict == .flood)
                break
            }
            now = end.milliseconds(since: time(0))
        }
        #expect(now == 60_000)
        #expect(taken == 100 + 6_000)
    }

    @Test func `a client that stays within its rate for a while starts a new measurement`() {
        var limiter = RateLimiter()
        for second in 0..<200 {
            let now = UInt64(second) * 1_000
            #expect(show(101, to: &limiter, at: now).verdict == .pause(until: time(now + 100)))
            #expect(show(1, to: &limiter, at: now + 100).verdict == .withinRate)
        }
    }

    @Test func `bytes have a rate of their own`() {
        var limiter = RateLimiter()
        // Half a second of debt, and a slice.
        #expect(
            show(1, bytes: 15_000, to: &limiter, at: 0) == (1, .pause(until: time(600))))
    }

    @Test func `a packet that takes longer than is tolerated is a flood by itself`() {
        var limiter = RateLimiter()
        #expect(show(1, bytes: 620_000, to: &limiter, at: 0).verdict == .flood)
    }

    @Test func `a long silence saves the amount of one second`() {
        var limiter = RateLimiter()
        _ = show(100, to: &limiter, at: 0)
        #expect(show(1_000, to: &limiter, at: 3_600_000).taken == 100)
    }

    @Test func `the next connection of a slot begins anew`() {
        var limiter = RateLimiter()
        _ = show(100, to: &limiter, at: 0)
        let next = ConnectionID(loop: 0, slot: 3, generation: 2)
        #expect(show(100, to: &limiter, of: next, at: 0) == (100, .withinRate))
    }

    @Test func `a rate of 0 is unlimited`() {
        var limiter = RateLimiter()
        let free = ClientRates.Values(messagesPerSecond: 0, bytesPerSecond: 1, toleranceSeconds: 1)
        #expect(limiter.allowance(of: Self.connection, rates: free, at: time(0)) == .max)
        let amount = RateLimiter.Amount(messages: 1 << 40, bytes: 0, leavesRest: false)
        #expect(
            limiter.charge(Self.connection, amount, rates: free, at: time(0)) == .withinRate)
    }
}

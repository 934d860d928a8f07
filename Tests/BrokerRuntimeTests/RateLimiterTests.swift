// Token buckets under a clock that the test moves.
import Primitives
import Testing

@testable import BrokerRuntime

@Suite struct RateLimiterTests {
    private let connection = ConnectionID(lane: 0, slot: 3, generation: 1)
    private let rates = ClientRates.Values(messagesPerSecond: 10, bytesPerSecond: 1_000)

    private func time(_ milliseconds: UInt64) -> Instant {
        Instant(milliseconds: 5_000 + milliseconds)
    }

    @Test func `a second's worth may come at once, and what is more has to wait`() {
        var limiter = RateLimiter()
        #expect(
            limiter.charge(connection, messages: 10, bytes: 0, rates: rates, at: time(0))
                == .withinRate)
        #expect(
            limiter.charge(connection, messages: 3, bytes: 0, rates: rates, at: time(0))
                == .pause(until: time(300)))
        #expect(
            limiter.charge(connection, messages: 1, bytes: 0, rates: rates, at: time(400))
                == .withinRate)
        #expect(
            limiter.charge(connection, messages: 1, bytes: 0, rates: rates, at: time(400))
                == .pause(until: time(500)))
    }

    @Test func `bytes are held to their own rate`() {
        var limiter = RateLimiter()
        #expect(
            limiter.charge(connection, messages: 1, bytes: 1_500, rates: rates, at: time(0))
                == .pause(until: time(500)))
    }

    @Test func `a long silence saves up one second and no more`() {
        var limiter = RateLimiter()
        _ = limiter.charge(connection, messages: 10, bytes: 0, rates: rates, at: time(0))
        #expect(
            limiter.charge(connection, messages: 11, bytes: 0, rates: rates, at: time(3_600_000))
                == .pause(until: time(3_600_100)))
    }

    @Test func `what no pause makes up for is a flood`() {
        var limiter = RateLimiter()
        #expect(
            limiter.charge(connection, messages: 310, bytes: 0, rates: rates, at: time(0))
                == .pause(until: time(30_000)))
        #expect(
            limiter.charge(connection, messages: 1, bytes: 0, rates: rates, at: time(0)) == .flood)
    }

    @Test func `the next connection of a slot begins anew`() {
        var limiter = RateLimiter()
        _ = limiter.charge(connection, messages: 300, bytes: 0, rates: rates, at: time(0))
        let next = ConnectionID(lane: 0, slot: 3, generation: 2)
        #expect(
            limiter.charge(next, messages: 10, bytes: 0, rates: rates, at: time(0)) == .withinRate)
    }

    @Test func `a rate of 0 is none`() {
        var limiter = RateLimiter()
        let free = ClientRates.Values(messagesPerSecond: 0, bytesPerSecond: 1)
        #expect(
            limiter.charge(connection, messages: .max / 2000, bytes: 0, rates: free, at: time(0))
                == .withinRate)
    }
}

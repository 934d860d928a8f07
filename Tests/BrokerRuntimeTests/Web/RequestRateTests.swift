// The rate of requests to the HTTP API, with a clock that the test sets.

import Primitives
import Testing

@testable import BrokerRuntime

@Suite struct `The rate of requests` {
    private let user = RequestHolder.user(app: "a", user: "u")
    private let start = Instant(milliseconds: 5_000)

    @Test func `is that of one second at once, and then one request after another`() {
        var rates = RequestRates()
        for _ in 0..<5 { #expect(rates.take(for: user, perSecond: 5, at: start) == nil) }
        #expect(rates.take(for: user, perSecond: 5, at: start) != nil)
        #expect(rates.take(for: user, perSecond: 5, at: start.advanced(byMilliseconds: 199)) != nil)
        let next = start.advanced(byMilliseconds: 200)
        #expect(rates.take(for: user, perSecond: 5, at: next) == nil)
        #expect(rates.take(for: user, perSecond: 5, at: next) != nil)
        let later = start.advanced(bySeconds: 60)
        for _ in 0..<5 { #expect(rates.take(for: user, perSecond: 5, at: later) == nil) }
        #expect(rates.take(for: user, perSecond: 5, at: later) != nil)
    }

    @Test func `is of each user and each key, and not of operators`() {
        var rates = RequestRates()
        let key = RequestHolder.appKey(app: "a", name: "u")
        for holder in [user, key, .user(app: "b", user: "u")] {
            #expect(rates.take(for: holder, perSecond: 1, at: start) == nil)
            #expect(rates.take(for: holder, perSecond: 1, at: start) != nil)
        }
        for _ in 0..<10 {
            #expect(rates.take(for: .operator(name: "o"), perSecond: 1, at: start) == nil)
            #expect(rates.take(for: user, perSecond: 0, at: start) == nil)
        }
    }

    @Test func `is forgotten of those who are silent`() {
        var rates = RequestRates()
        for second in 0..<10 {
            let now = start.advanced(bySeconds: UInt64(2 * second))
            for number in 0..<RequestRates.trimCountMinimum {
                let holder = RequestHolder.user(app: "a", user: "\(second) \(number)")
                #expect(rates.take(for: holder, perSecond: 100, at: now) == nil)
            }
        }
        #expect(rates.count <= 2 * RequestRates.trimCountMinimum)
    }
}

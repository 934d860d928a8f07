// The shares that each kind of principal has of the limits of the HTTP API.

import Administration
import Testing

@testable import BrokerRuntime

@Suite("The shares of the limits of the HTTP API")
struct RequestShareTests {
    @Test(arguments: [
        (64, APIPrincipal.Kind.user, 64), (64, .appKey, 80), (64, .operator, 96),
        (1_024, .user, 1_024), (1_024, .appKey, 1_280), (1_024, .operator, 1_536),
        (1, .user, 1), (1, .appKey, 1), (1, .operator, 1), (0, .operator, 0),
    ])
    func `are a quarter more for app keys and a half more for operators`(
        users: Int, kind: APIPrincipal.Kind, maximum: Int
    ) {
        #expect(RequestShare.maximum(users, for: kind) == maximum)
    }

    /// U+212A is the sign of Kelvin, which Unicode and `==` call equal to the letter K.
    @Test func `are of names by their bytes`() {
        let twin = "\u{212A}arl"
        #expect(twin == "Karl")
        let (karl, other) = (
            RequestHolder.user(app: "a", user: "Karl"), RequestHolder.user(app: "a", user: twin)
        )
        #expect(karl != other && karl == .user(app: "a", user: "Karl"))
        #expect(karl != .appKey(app: "a", name: "Karl"))
        #expect(RequestHolder.user(app: "ab", user: "c") != .user(app: "a", user: "bc"))
        #expect(RequestHolder.operator(name: "K") != .operator(name: "\u{212A}"))
        #expect(RequestHolder.stranger(address: "K") == .stranger(address: "K"))
        var counts = RequestShareCounts(RequestShare(users: 8, oneUser: 2, oneKey: 2))
        counts.add(2, for: other)
        #expect(counts.admits(2, for: karl) && !counts.admits(1, for: other))
        // The share of an app too: six of eight.
        let twins = (0..<3).map { RequestHolder.user(app: "\u{212A}", user: "\($0)") }
        for holder in twins { counts.add(2, for: holder) }
        counts.add(-2, for: other)
        #expect(!counts.admits(1, for: .user(app: "\u{212A}", user: "x")))
        #expect(counts.admits(1, for: .user(app: "K", user: "x")))
    }
}

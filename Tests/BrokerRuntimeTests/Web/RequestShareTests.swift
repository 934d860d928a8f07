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
}

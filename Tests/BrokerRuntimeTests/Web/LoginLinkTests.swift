// Links to the dashboard: a code works once and for ten minutes, and what it becomes ends too.

import Administration
import TestSurroundings
import Testing

@testable import BrokerRuntime

@Suite("Links to the dashboard")
struct LoginLinkTests {
    private let links = LoginLinks()

    private func make(_ name: String = "anna", at seconds: UInt64 = 100) throws -> String {
        try #require(links.make(for: name, role: .operate, unixSeconds: seconds)).code
    }

    private func exchange(_ code: String, at seconds: UInt64 = 101) -> OperatorLogin? {
        let exchange = links.exchange(Array(code.utf8).span.bytes, unixSeconds: seconds)
        guard case .login(let login) = exchange else { return nil }
        return login
    }

    /// The operator with a token.
    private func find(
        _ token: String, in operators: Operators, at seconds: UInt64
    ) -> Operators.Operator? {
        operators.find(Array(token.utf8).span.bytes, unixSeconds: seconds)
    }

    @Test func `sign in once`() throws {
        let (first, second) = (try make(), try make())
        #expect(first != second)
        let login = try #require(exchange(first))
        #expect(login.operator == "anna" && login.role == .operate)
        #expect(login.expiresUnixSeconds == 101 + LoginLinks.loginSecondsMaximum)
        #expect(exchange(first) == nil)
        #expect(exchange(second)?.token != login.token)
    }

    @Test func `expire after ten minutes, and are no token themselves`() throws {
        let (early, late) = (try make(), try make())
        #expect(exchange(early, at: 100 + LoginLinks.linkSecondsMaximum - 1) != nil)
        #expect(exchange(late, at: 100 + LoginLinks.linkSecondsMaximum) == nil)
        let operators = Operators()
        let link = try #require(operators.links.make(for: "anna", role: .own, unixSeconds: 1))
        let code = link.code
        #expect(find(code, in: operators, at: 2) == nil)
        // Nor is its secret with the prefix of a token.
        #expect(find("mo1_" + code.dropFirst(4), in: operators, at: 2) == nil)
    }

    @Test(arguments: ["", "ml1_", "x", "ml1_" + String(repeating: "a", count: 26)])
    func `that nobody made are unknown`(code: String) throws {
        _ = try make()
        #expect(exchange(code) == nil)
        let wrong = Array((try make()).utf8.dropLast()) + [UInt8(ascii: "1")]
        #expect(exchange(String(decoding: wrong, as: UTF8.self)) == nil)
    }

    @Test func `lead to a token that is one for twelve hours, until it is revoked`() throws {
        let directory = try TemporaryDirectory()
        let operators = try Operators(dataDirectory: directory.path)
        func login(_ name: String) throws -> String {
            let link = try #require(operators.links.make(for: name, role: .view, unixSeconds: 1))
            let exchange = operators.links.exchange(
                Array(link.code.utf8).span.bytes, unixSeconds: 1)
            guard case .login(let login) = exchange else { return "" }
            return login.token
        }
        let (anna, bob) = (try login("anna"), try login("bob"))
        let end = 1 + LoginLinks.loginSecondsMaximum
        let found = try #require(find(anna, in: operators, at: end - 1))
        #expect(found.name == "anna" && found.role == .view)
        #expect(operators.admits(found, unixSeconds: end - 1))
        #expect(!operators.admits(found, unixSeconds: end))
        #expect(find(anna, in: operators, at: end) == nil)
        #expect(try operators.remove("anna"))
        #expect(try !operators.remove("anna"))
        #expect(find(anna, in: operators, at: 2) == nil)
        #expect(!operators.admits(found, unixSeconds: 2))
        #expect(find(bob, in: operators, at: 2)?.name == "bob")
        // Nothing of it is on disk.
        #expect(try Operators(dataDirectory: directory.path).list.isEmpty)
    }

    @Test func `are bounded, and so are the logins of them`() throws {
        for _ in 0..<LoginLinks.linkCountMaximum { _ = try make() }
        #expect(links.make(for: "anna", role: .view, unixSeconds: 100) == nil)
        // Those that have expired give way.
        let later = 100 + LoginLinks.linkSecondsMaximum
        for _ in 0..<LoginLinks.loginCountMaximum {
            #expect(exchange(try make(at: later), at: later) != nil)
        }
        let code = try make(at: later)
        guard case .full = links.exchange(Array(code.utf8).span.bytes, unixSeconds: later) else {
            Issue.record("a login beyond the maximum")
            return
        }
        // The code waits for room, as long as it lives.
        let end = later + LoginLinks.loginSecondsMaximum
        #expect(exchange(try make(at: end), at: end) != nil)
    }
}

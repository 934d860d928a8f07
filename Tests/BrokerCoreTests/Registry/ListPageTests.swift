// Pages of what an operator lists: in order, without gaps, and bounded in bytes too.

import BrokerTerms
import Primitives
import Testing

@testable import BrokerCore

@Suite struct `A page of a list` {
    let world = World()

    private func addTokens(_ count: Int, rights: [String]? = nil) {
        for number in 0..<count {
            // Neither in the order of their identifiers nor in reverse.
            let identifier = String(number * 7_919 % count + 1_000_000)
            world.addToken(identifier, user: "u\(number % 10)", rights: rights)
        }
        world.settle()
    }

    private func page(
        _ filter: TokenFilter, after identifier: [UInt8]?, countMaximum: Int
    ) -> (identifiers: [String], mayHaveMore: Bool) {
        var search = TokenSearch(
            matching: filter, after: identifier, countMaximum: countMaximum)
        while world.broker.advance(&search) {}
        let page = search.page
        return (
            page.tokens.map { String(decoding: $0.identifier, as: UTF8.self) }, page.mayHaveMore
        )
    }

    @Test(arguments: [1, 7, 1_000]) func `of tokens continues where the last one ended`(
        countMaximum: Int
    ) {
        let count = countMaximum == 1_000 ? 9_001 : 101
        addTokens(count)
        var found: [String] = []
        var after: [UInt8]?
        while true {
            let (identifiers, mayHaveMore) = page(
                TokenFilter(app: World.app), after: after, countMaximum: countMaximum)
            #expect(identifiers.count <= countMaximum)
            found += identifiers
            guard mayHaveMore, let last = identifiers.last else { break }
            after = Array(last.utf8)
        }
        #expect(found == (0..<count).map { String($0 + 1_000_000) })
        let user = TokenFilter(app: World.app, user: Array("u3".utf8))
        #expect(page(user, after: nil, countMaximum: 10_000).identifiers.count == count / 10)
    }

    private func users(
        after cursor: UInt32?, countMaximum: Int
    ) -> (names: [String], next: UInt32?) {
        var search = UserSearch(app: World.app, after: cursor, countMaximum: countMaximum)
        while world.broker.advance(&search) {}
        return (search.found.map { String(decoding: $0.user, as: UTF8.self) }, search.next)
    }

    private func describe(_ user: String) -> UserDescription? {
        world.broker.userDescription(app: World.app, user: Array(user.utf8), at: world.now)
    }

    @Test func `of users continues where the last one ended, in slices`() {
        _ = try! world.broker.addApp(
            Array("other".utf8), keyDigest: nil, rights: .everything)
        for number in 0..<UserSearch.sliceCount + 10 {
            world.addUser("u\(number)")
            if number < 5 {
                _ = try! world.broker.addUser(Array("v\(number)".utf8), app: Array("other".utf8))
            }
        }
        world.settle()
        var search = UserSearch(app: World.app, after: nil, countMaximum: 10_000)
        let isLonger = world.broker.advance(&search)
        // Users of the other app are not read.
        #expect(isLonger && search.found.count == UserSearch.sliceCount)
        let isLongest = world.broker.advance(&search)
        #expect(!isLongest && search.next == nil)
        #expect(search.found.count == UserSearch.sliceCount + 10)
        let first = users(after: nil, countMaximum: 3)
        #expect(first.names == ["u0", "u1", "u2"])
        #expect(users(after: first.next, countMaximum: 2).names == ["u3", "u4"])
        var none = UserSearch(app: Array("none".utf8), after: nil, countMaximum: 3)
        let hasUsers = world.broker.advance(&none)
        #expect(!hasUsers && none.found.isEmpty && none.next == nil)
        // The place is a user of another app.
        var other = UserSearch(app: Array("other".utf8), after: first.next, countMaximum: 3)
        let hasOthers = world.broker.advance(&other)
        #expect(!hasOthers && other.found.isEmpty && other.next == nil)
    }

    @Test func `of users counts their tokens as they are minted and revoked`() throws {
        addTokens(101)
        world.revoke("1000000")
        #expect(try #require(describe("u0")).summary.tokenCount == 10)
        #expect(try #require(describe("u3")).summary.tokenCount == 10)
        world.settle()
        world.crash()
        #expect(try #require(describe("u0")).summary.tokenCount == 10)
        var search = UserSearch(app: World.app, after: nil, countMaximum: 100)
        while world.broker.advance(&search) {}
        #expect(search.found.map(\.tokenCount).reduce(0, +) == 100)
    }

    /// What other apps have costs nothing.
    @Test func `of one user's tokens, or of a small app's, is one slice beside many others`() {
        let other = Array("other".utf8)
        _ = try! world.broker.addApp(other, keyDigest: nil, rights: .everything)
        for number in 0..<5 {
            let identifier = Array("other-\(number)".utf8)
            _ = try! world.broker.addToken(
                Token(
                    identifier: identifier, digest: World.tokenDigest, app: other,
                    user: Array("eve".utf8), device: nil, expiresUnixSeconds: .max))
        }
        addTokens(TokenSearch.sliceCount + 10)
        let filters = [
            TokenFilter(app: World.app, user: Array("u3".utf8)), TokenFilter(app: other),
            TokenFilter(app: World.app, identifier: Array("1000000".utf8)),
            TokenFilter(app: World.app, user: Array("nobody".utf8)),
            TokenFilter(app: Array("none".utf8)),
        ]
        let counts = filters.map { filter in
            var search = TokenSearch(matching: filter, after: nil, countMaximum: 10_000)
            let isLonger = world.broker.advance(&search)
            #expect(!isLonger)
            return search.page.tokens.count
        }
        #expect(counts == [411, 5, 1, 0, 0])
        var all = TokenSearch(
            matching: TokenFilter(app: World.app), after: nil, countMaximum: 10_000)
        let isLonger = world.broker.advance(&all)
        let isLongest = world.broker.advance(&all)
        #expect(isLonger && !isLongest && all.page.tokens.count == TokenSearch.sliceCount + 10)
    }

    @Test(arguments: [nil, "u3"])
    func `of tokens of which some are revoked between two slices misses none, and has none twice`(
        user: String?
    ) {
        let count = 10 * TokenSearch.sliceCount + 100
        addTokens(user == nil ? TokenSearch.sliceCount + 100 : count)
        let filter = TokenFilter(app: World.app, user: user.map { Array($0.utf8) })
        var search = TokenSearch(matching: filter, after: nil, countMaximum: 10_000)
        let isLonger = world.broker.advance(&search)
        // Also the one that the next slice begins with.
        var revoked: Set<String> = []
        for number in (0..<100) {
            let identifier = String(1_000_003 + number * 10)
            revoked.insert(identifier)
            world.revoke(identifier)
        }
        while world.broker.advance(&search) {}
        let found = search.page.tokens.map { String(decoding: $0.identifier, as: UTF8.self) }
        #expect(isLonger && Set(found).count == found.count)
        let rest = page(filter, after: nil, countMaximum: 10_000).identifiers
        #expect(Set(rest).isSubset(of: found) && Set(rest).isDisjoint(with: revoked))
    }

    /// Tokens that the next slice begins with are revoked again and again, so that those before
    /// them are read more than twice.
    @Test func `of a user's tokens that are revoked between all slices misses none`() {
        addTokens(20 * TokenSearch.sliceCount)
        let filter = TokenFilter(app: World.app, user: Array("u3".utf8))
        var search = TokenSearch(matching: filter, after: nil, countMaximum: 2_000)
        var revokedCount = 0
        while world.broker.advance(&search), revokedCount < 6 {
            guard case .token(let handle) = search.place else { break }
            world.revoke(
                String(
                    decoding: world.broker.registry.tokens[handle]!.identifier, as: UTF8.self))
            revokedCount += 1
        }
        while world.broker.advance(&search) {}
        let found = search.page.tokens.map(\.identifier)
        #expect(revokedCount == 6 && found.count == 2_000 && search.page.mayHaveMore)
        var all = TokenSearch(matching: filter, after: nil, countMaximum: 2_000)
        while world.broker.advance(&all) {}
        #expect(all.page.tokens.filter { !found.contains($0.identifier) }.count <= 6)
    }

    @Test func `of one user has the devices and what their connections presented`() throws {
        world.begin("ann/1", "ann/2", "bob/pc")
        world.exchangeToken("token-1", of: "ann/1")
        world.lose("ann/2")
        world.setRights("attach:*", "send:*")
        world.connect("ann/3", gateway: "bob/pc")
        world.settle()
        let ann = try #require(describe("ann"))
        #expect(ann.summary.sessionCount == 3 && ann.summary.connectionCount == 2)
        let credentials = Dictionary(
            uniqueKeysWithValues: ann.devices.map {
                (String(decoding: $0.session.device, as: UTF8.self), $0.credential)
            })
        #expect(credentials["1"] == .token(Array("token-1".utf8)))
        #expect(credentials["2"] == .some(nil))
        #expect(
            credentials["3"] == .gateway(user: Array("bob".utf8), device: Array("pc".utf8)))
        let bob = try #require(describe("bob"))
        #expect(bob.devices.map(\.credential) == [.appKey(Array("default".utf8))])
        #expect(describe("eve") == nil)
    }

    @Test func `of tokens with many rights is shorter`() {
        addTokens(
            30, rights: (0..<30).map { "send:" + String(repeating: "x", count: 1_000) + "\($0)" })
        let (identifiers, mayHaveMore) = page(
            TokenFilter(app: World.app), after: nil, countMaximum: 1_000)
        #expect((5..<30).contains(identifiers.count) && mayHaveMore)
    }

    /// A device may subscribe to 1,000 filters of 65,535 bytes.
    @Test func `of sessions lists a part of long filters, and counts all`() {
        let filter = String(repeating: "x", count: 1_000)
        for user in 0..<20 {
            world.begin("u\(user)/d")
            for number in 0..<50 { world.subscribe("u\(user)/d", "\(filter)/\(number)") }
            world.settle()
        }
        var (users, after): (Set<[UInt8]>, UInt32?) = ([], nil)
        var pageCount = 0
        while true {
            let (sessions, next) = world.sessions(
                matching: SessionFilter(app: World.app), after: after)
            pageCount += 1
            for session in sessions {
                #expect(session.filterCount == 50 && session.filters.count == 32)
                users.insert(session.user)
            }
            let byteCount = sessions.flatMap(\.filters).reduce(0) { $0 + $1.count }
            #expect(byteCount < (256 + 32) << 10)
            guard let next else { break }
            after = next
        }
        #expect(users.count == 20 && pageCount > 1)
    }

    @Test func `after the last place there can be is empty`() {
        world.begin("ann/d")
        let (sessions, next) = world.sessions(
            matching: SessionFilter(app: World.app), after: .max)
        #expect(sessions.isEmpty && next == nil)
        let groups = world.broker.groupDescriptions(
            app: World.app, of: nil, after: .max, countMaximum: 1_000)
        #expect(groups.isEmpty)
    }
}

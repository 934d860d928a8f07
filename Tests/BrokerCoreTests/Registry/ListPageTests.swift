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
        #expect(isLonger && search.found.count == UserSearch.sliceCount - 5)
        let isLongest = world.broker.advance(&search)
        #expect(!isLongest && search.next == nil)
        #expect(search.found.count == UserSearch.sliceCount + 10)
        let first = users(after: nil, countMaximum: 3)
        #expect(first.names == ["u0", "u1", "u2"])
        #expect(users(after: first.next, countMaximum: 2).names == ["u3", "u4"])
        var none = UserSearch(app: Array("none".utf8), after: nil, countMaximum: 3)
        let hasUsers = world.broker.advance(&none)
        #expect(!hasUsers && none.found.isEmpty && none.next == nil)
    }

    @Test func `of users counts their tokens in slices`() {
        addTokens(TokenSearch.sliceCount + 10)
        let names = ["u3", "u4", "nobody"].map { Array($0.utf8) }
        var count = TokenCount(app: World.app, users: names)
        let hasMore = world.broker.advance(&count)
        let hasMost = world.broker.advance(&count)
        #expect(hasMore && !hasMost)
        #expect(names.map { count.counts[$0] } == [411, 411, 0])
        #expect(count.counts.count == 3)
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

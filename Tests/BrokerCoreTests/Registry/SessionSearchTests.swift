// Lists and changes of many sessions: they run in slices, reach each session once, and continue
// where a page ended.

import Primitives
import Testing

@testable import BrokerCore

@Suite("A search for sessions")
struct SessionSearchTests {
    let world = World()
    private let names = (0..<200).map { "u\($0)/d" }
    private let all = SessionFilter(app: World.app)

    private func away(_ count: Int) {
        for name in names.prefix(count) {
            world.begin(name)
            world.disconnect(name, expiry: 1_000)
        }
        world.settle()
    }

    @Test(arguments: [1, 63, 64, 65, 1_000])
    func `lists each session once, whatever the size of a page is`(size: Int) {
        away(150)
        var (users, place): ([[UInt8]], UInt32?) = ([], nil)
        repeat {
            let page = world.sessions(matching: all, after: place, countMaximum: size)
            #expect(page.sessions.count <= size)
            users += page.sessions.map(\.user)
            place = page.next
        } while place != nil
        #expect(users.count == 150 && Set(users).count == 150)
    }

    @Test func `deletes in slices, and goes on behind its page`() {
        away(200)
        var (sliceCount, place): (Int, UInt32?) = (0, nil)
        repeat {
            var search = SessionSearch(matching: all, after: place, countMaximum: 100)
            var isOver = false
            while !isOver {
                let before = world.gauges.sessions
                isOver = !world.deleteSlice(of: &search)
                #expect(before - world.gauges.sessions <= SessionSearch.foundPerSlice)
                sliceCount += 1
                world.settle()
            }
            place = search.next
        } while place != nil
        #expect(world.gauges.sessions == 0 && sliceCount >= 4)
        world.crash()
        #expect(world.gauges.sessions == 0)
    }

    /// The rest of a slice waits: one session may have as many rows as a batch.
    @Test func `ends a slice after so many changes`() {
        for name in names.prefix(6) {
            world.begin(name)
            for number in 0..<1_000 { world.subscribe(name, "a/\(number)") }
            world.settle()
            world.disconnect(name, expiry: 1_000)
        }
        world.settle()
        var search = SessionSearch(matching: all, countMaximum: .max)
        var counts: [Int] = []
        repeat { counts.append(world.gauges.sessions) } while world.deleteSlice(of: &search)
        #expect(counts.count >= 2 && search.count == 6)
        #expect(counts[0] - counts[1] <= 5)
        world.settle()
        #expect(world.gauges.sessions == 0)
    }

    @Test func `kicks those that are connected, and finds the sessions of one user`() {
        away(100)
        for name in names.suffix(100) { world.begin(name) }
        world.begin("u7/e", "u7/f")
        var search = SessionSearch(
            matching: SessionFilter(app: World.app, isConnected: true), countMaximum: .max)
        while world.kickSlice(of: &search) {}
        world.settle()
        #expect(search.count == 102 && world.gauges.connections == 0)
        let seven = world.sessions(
            matching: SessionFilter(app: World.app, user: Array("u7".utf8)), countMaximum: 2)
        #expect(seven.sessions.count == 2)
        let rest = world.sessions(
            matching: SessionFilter(app: World.app, user: Array("u7".utf8)), after: seven.next)
        #expect(rest.sessions.count == 1 && rest.next == nil)
    }

    /// Tokens t0, t1 and so on of the user `u`, in two batches that take turns.
    private func addTokens(_ count: Int) {
        for number in 0..<count {
            _ = try? world.broker.addToken(
                Token(
                    identifier: Array("t\(number)".utf8), digest: Digest(words: (1, 2, 3, 4)),
                    app: World.app, user: Array("u".utf8), device: nil, expiresUnixSeconds: 0,
                    batch: [UInt8(ascii: number % 2 == 0 ? "a" : "b")], rights: nil))
        }
    }

    /// A batch of the app, all tokens of a user, and a batch of a user.
    private static let tokenFilters = [
        TokenFilter(app: World.app, batch: Array("a".utf8)),
        TokenFilter(app: World.app, user: Array("u".utf8)),
        TokenFilter(app: World.app, user: Array("u".utf8), batch: Array("a".utf8)),
    ]

    @Test(arguments: tokenFilters) func `revokes a batch of tokens in slices`(
        filter: TokenFilter
    ) {
        let part = filter.batch == nil ? 1 : 2
        let count = Revocation.revokedPerSlice + 10
        addTokens(count * part)
        var revocation = Revocation(of: filter)
        var counts: [Int] = []
        repeat { counts.append(revocation.tokenCount) } while world.revokeSlice(of: &revocation)
        #expect(revocation.tokenCount == count && counts == [0, Revocation.revokedPerSlice])
        #expect(world.gauges.tokens == count * (part - 1))
    }

    /// Each revocation makes one slice and leaves the rest to the next one, as requests over HTTP
    /// do. Others revoke tokens of both batches, and mint some, meanwhile.
    @Test(arguments: tokenFilters)
    func `goes on with a revocation after the place where another one ended`(
        filter: TokenFilter
    ) {
        let count = 6 * Revocation.revokedPerSlice
        addTokens(count)
        var (after, revokedCount, roundCount): (UInt32?, Int, Int) = (nil, 0, 0)
        repeat {
            var revocation = Revocation(of: filter, after: after)
            _ = world.revokeSlice(of: &revocation)
            (after, revokedCount) = (revocation.next, revokedCount + revocation.tokenCount)
            roundCount += 1
            for number in 0..<40 { world.revoke("t\(roundCount * 100 + number)") }
            world.addToken("new\(roundCount)", user: "u", rights: nil)
        } while after != nil && roundCount < 20
        #expect((3...7).contains(roundCount) && revokedCount > count / 2 - 20 * roundCount)
        var rest = TokenSearch(matching: filter, after: nil, countMaximum: 100)
        while world.broker.advance(&rest) {}
        // Those that were minted behind the place are not revoked.
        #expect(rest.page.tokens.allSatisfy { $0.identifier.starts(with: Array("new".utf8)) })
    }

    @Test(arguments: tokenFilters, [0, 1, 99, 100, UInt32(Int32.max), .max])
    func `revokes no more than there is after any place that a client names`(
        filter: TokenFilter, place: UInt32
    ) {
        addTokens(100)
        var revocation = Revocation(of: filter, after: place)
        while world.revokeSlice(of: &revocation) {}
        #expect(revocation.next == nil && revocation.tokenCount <= 100)
        #expect(place < 100 || revocation.tokenCount == (filter.batch == nil ? 100 : 50))
    }
}

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
        for name in names.prefix(10) {
            world.begin(name)
            for number in 0..<1_000 { world.subscribe(name, "a/\(number)") }
            world.settle()
            world.disconnect(name, expiry: 1_000)
        }
        world.settle()
        var search = SessionSearch(matching: all, countMaximum: .max)
        var counts: [Int] = []
        repeat { counts.append(world.gauges.sessions) } while world.deleteSlice(of: &search)
        #expect(counts.count >= 2 && search.count == 10)
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

    @Test func `revokes a batch of tokens in slices`() {
        let count = Revocation.revokedPerSlice + 10
        for number in 0..<count {
            _ = try? world.broker.addToken(
                Token(
                    identifier: Array("t\(number)".utf8), digest: Digest(words: (1, 2, 3, 4)),
                    app: World.app, user: Array("u".utf8), device: nil, expiresUnixSeconds: 0,
                    batch: Array("b".utf8), rights: nil))
        }
        var revocation = Revocation(of: TokenFilter(app: World.app, batch: Array("b".utf8)))
        var counts: [Int] = []
        repeat { counts.append(revocation.tokenCount) } while world.revokeSlice(of: &revocation)
        #expect(revocation.tokenCount == count && counts == [0, Revocation.revokedPerSlice])
    }

    @Test func `goes on with a revocation after the place where another one ended`() {
        for number in 0..<Revocation.revokedPerSlice + 10 {
            _ = try? world.broker.addToken(
                Token(
                    identifier: Array("t\(number)".utf8), digest: Digest(words: (1, 2, 3, 4)),
                    app: World.app, user: Array("u".utf8), device: nil, expiresUnixSeconds: 0,
                    batch: Array("b".utf8), rights: nil))
        }
        let filter = TokenFilter(app: World.app, batch: Array("b".utf8))
        var first = Revocation(of: filter)
        #expect(world.revokeSlice(of: &first) && first.next != nil)
        var second = Revocation(of: filter, after: first.next)
        while world.revokeSlice(of: &second) {}
        #expect(second.tokenCount == 10)
    }
}

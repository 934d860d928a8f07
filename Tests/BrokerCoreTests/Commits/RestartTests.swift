// Crashes and restarts: what was committed is there again, what was seen is not used again.

import BrokerSimulation
import Primitives
import Testing

@testable import BrokerCore

@Suite struct `A restart` {
    let world = World()

    @Test func `brings back sessions, subscriptions, messages and results`() {
        world.begin("bob/pc", "ann/phone")
        world.subscribe("ann/phone", "news/+")
        world.settle()
        world.lose("ann/phone")
        world.send("bob/pc", 1, to: .user("ann"), "msg")
        world.send("bob/pc", 2, to: .topic("news/today"), "news", isRaw: true)
        world.send("bob/pc", 3, to: .everybody, "all", grade: .once, id: "m")
        world.settle()
        world.crash()
        _ = world.lines()
        #expect(world.gauges.sessions == 2)
        #expect(world.gauges.queuedMessages == 3)
        world.connect("ann/phone", resume: (world.epochs["ann/phone"]!, 0))
        world.settle()
        #expect(
            world.lines() == [
                "ann/phone: accepted, present", "ann/phone: #1 \"msg\" from bob",
                "ann/phone: #2 \"news\" from bob on news/today",
                "ann/phone: #3 \"all\" from bob by broadcast, once",
            ])
        world.connect("bob/pc", outbox: (7, 0, 3))
        world.settle()
        world.send("bob/pc", 3, to: .everybody, "all", grade: .once, id: "m")
        world.send("bob/pc", 4, to: .topic("news/x"), "more", isRaw: true)
        world.settle()
        #expect(
            world.unnumberedLines() == [
                "bob/pc: accepted, present", "bob/pc: result 3 (m), sent",
                "ann/phone: \"more\" from bob on news/x", "bob/pc: result 4, sent",
            ])
    }

    /// Since the first version a token and its user have been written in one batch, and users are
    /// never removed: a store has no token without a user.
    @Test(arguments: [false, true]) func `finds a token with its user, or neither`(
        isCommitted: Bool
    ) {
        world.addToken("new", user: "stranger", rights: nil)
        world.addToken("other", user: "stranger", rights: nil)
        if isCommitted {
            world.settle()
            let tables = world.lastBatch.records.map(\.table)
            #expect(tables.count { $0 == .users } == 1 && tables.count { $0 == .tokens } == 2)
        }
        world.crash()
        #expect(world.gauges.tokens == (isCommitted ? 2 : 0))
        #expect(
            world.broker.hasUser(Array("stranger".utf8), app: World.app) == isCommitted)
        world.revoke("other")
        #expect(world.gauges.tokens == (isCommitted ? 1 : 0))
    }

    @Test func `does not start with a token whose user has no row`() {
        world.addToken("new", user: "stranger", rights: nil)
        world.settle()
        let token = Token(
            identifier: [1], digest: World.tokenDigest, app: World.app, user: Array("ghost".utf8),
            device: nil, expiresUnixSeconds: .max)
        let row = Records.token(token)
        world.rewriteRows(of: .tokens) { $0 = row.value! }
        var broker = Broker(at: world.now)
        let state = world.store.restore(into: &broker)
        #expect(throws: RestoreError.self) {
            try broker.finishRestoring(state, newEpochSeed: 1, at: world.now)
        }
    }

    @Test func `never uses a number again that a device may have seen`() {
        world.begin("bob/pc", "ann/phone")
        var seen: Set<UInt64> = []
        for round in 1...4 as ClosedRange<UInt64> {
            for number in 1...700 as ClosedRange<UInt64> {
                world.send("bob/pc", round * 1000 + number, to: .user("ann"), "x")
                world.acknowledge("ann/phone", through: world.sentThrough("ann/phone"))
                if number % 97 == 0 { world.commit() }
                world.seeResults("bob/pc", through: round * 1000 + number)
            }
            for line in world.lines() where line.hasPrefix("ann/phone: #") {
                let number = UInt64(line.split(separator: " ")[1].dropFirst())!
                #expect(seen.insert(number).inserted, "\(number) is used again")
            }
            world.crash(committing: round % 2 == 0)
            world.begin("ann/phone")
            world.connect("bob/pc", outbox: (round, 0, 0))
            world.settle()
            _ = world.lines()
        }
        #expect(seen.count > 2000)
    }

    @Test func `resumes at the number the device holds, across the gap`() {
        world.begin("bob/pc", "ann/phone")
        world.send("bob/pc", 1, to: .user("ann"), "1")
        world.settle()
        let epoch = world.epochs["ann/phone"]!
        world.crash()
        world.connect("ann/phone", resume: (epoch, 1))
        world.connect("bob/pc", outbox: (7, 1, 1))
        world.settle()
        _ = world.lines()
        world.send("bob/pc", 2, to: .user("ann"), "2")
        world.settle()
        let number = world.sentThrough("ann/phone")
        #expect(number > 1)
        #expect(
            world.lines() == ["ann/phone: #\(number) \"2\" from bob", "bob/pc: result 2, sent"])
        world.lose("ann/phone")
        world.connect("ann/phone", resume: (epoch, number))
        world.settle()
        #expect(world.lines() == ["ann/phone: accepted, present"])
        #expect(world.gauges.queuedMessages == 0)
    }

    @Test func `finds what it forgot of a session that was not committed`() {
        world.begin("bob/pc")
        world.connect("ann/phone")
        world.beginCommit()
        world.crash(committing: false)
        world.connect("ann/phone")
        world.settle()
        #expect(world.lines() == ["ann/phone: accepted, new"])
    }

    @Test func `counts a session that was connected as connected until then`() {
        world.begin("ann/phone", expiry: 3600)
        world.pass(seconds: 10)
        world.lose("ann/phone")
        world.pass(seconds: 3590)
        world.begin("ann/phone", expiry: 3600)
        // It stays for much longer than its expiry, and then the broker dies.
        world.pass(seconds: 30_000)
        world.settle()
        world.crash()
        world.pass(seconds: 3599)
        #expect(world.gauges.sessions == 1)
        world.pass(seconds: 1)
        #expect(world.gauges.sessions == 0)
    }

    @Test func `does not forget that a session came back shortly before it would have ended`() {
        world.begin("ann/phone", expiry: 3600)
        world.lose("ann/phone")
        world.pass(seconds: 3599)
        world.settle()
        world.connect("ann/phone", expiry: 3600)
        #expect(world.lines() == [])
        world.commit()
        #expect(world.lines() == ["ann/phone: accepted, present"])
        world.crash()
        world.pass(seconds: 3599)
        #expect(world.gauges.sessions == 1)
    }

    @Test func `goes on with the expiry of a session that was away`() {
        world.begin("ann/phone", expiry: 3600)
        world.lose("ann/phone")
        world.pass(seconds: 60)
        world.settle()
        world.crash()
        world.pass(seconds: 3539)
        #expect(world.gauges.sessions == 1)
        world.pass(seconds: 1)
        #expect(world.gauges.sessions == 0)
    }

    @Test func `ends a session whose last word was that it should end`() {
        world.begin("bob/pc", "ann/phone")
        world.lose("ann/phone")
        world.send("bob/pc", 1, to: .user("ann"), "x")
        world.settle()
        world.connect("ann/phone", expiry: 0)
        world.settle()
        world.crash()
        world.pass(milliseconds: 0)
        #expect(world.gauges.sessions == 1)
        #expect(world.gauges.queuedMessages == 1)
    }

    @Test func `keeps the numbers of apps, users and tokens apart from those before`() {
        world.begin("bob/pc", "ann/phone")
        world.crash()
        world.begin("carl/pc", "bob/pc", "ann/phone")
        world.send("bob/pc", 1, to: .users(["ann", "carl"]), "x")
        world.settle()
        #expect(world.lines().filter { $0.contains("\"x\"") }.count == 2)
    }
}

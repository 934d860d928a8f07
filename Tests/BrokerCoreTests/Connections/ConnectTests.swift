// Logging in and going away: who is let in, what a session is after it, and when it is said.

import BrokerSimulation
import BrokerTerms
import Testing

@testable import BrokerCore

@Suite struct `A connection` {
    let world = World()

    @Test func `is accepted once the session it creates is committed`() {
        world.connect("ann/phone")
        #expect(world.lines() == [])
        world.commit()
        #expect(world.lines() == ["ann/phone: accepted, new"])
    }

    @Test func `of a session that ends with it is accepted at once`() {
        world.begin("ann/other")
        world.connect("ann/phone", expiry: 0)
        #expect(world.lines() == ["ann/phone: accepted, new"])
    }

    @Test func `finds the session that an earlier one left, without waiting for a commit`() {
        world.begin("ann/phone")
        world.lose("ann/phone")
        world.settle()
        world.connect("ann/phone")
        #expect(world.lines() == ["ann/phone: accepted, present"])
    }

    @Test func `waits for the commit of its return where the session would soon have ended`() {
        world.begin("ann/phone", expiry: 3600)
        world.lose("ann/phone")
        world.settle()
        world.connect("ann/phone", expiry: 3600)
        #expect(world.lines() == [])
        world.commit()
        #expect(world.lines() == ["ann/phone: accepted, present"])
    }

    @Test func `that comes while its session is being created waits for the same commit`() {
        world.connect("ann/phone")
        world.beginCommit()
        world.lose("ann/phone")
        world.connect("ann/phone")
        #expect(world.lines() == [])
        world.finishCommit()
        #expect(world.lines() == ["ann/phone: accepted, present"])
    }

    @Test func `that is gone before the commit is told nothing`() {
        world.connect("ann/phone")
        world.lose("ann/phone")
        world.settle()
        #expect(world.lines() == [])
    }

    @Test func `that starts clean gets a new session after the old one's end is committed`() {
        world.begin("ann/phone")
        let epoch = world.epochs["ann/phone"]
        world.lose("ann/phone")
        world.settle()
        world.connect("ann/phone", clean: true)
        #expect(world.lines() == [])
        world.commit()
        #expect(world.lines() == ["ann/phone: accepted, new"])
        #expect(world.epochs["ann/phone"] != epoch)
    }

    @Test func `that starts clean for a session in memory waits for the old one's end too`() {
        world.begin("ann/phone")
        world.lose("ann/phone")
        world.settle()
        world.connect("ann/phone", clean: true, expiry: 0)
        #expect(world.lines() == [])
        world.crash(committing: false)
        world.connect("ann/phone")
        world.settle()
        #expect(world.lines() == ["ann/phone: accepted, present"])
    }

    @Test func `keeps the epoch of its session, and a session that ended has another`() {
        world.begin("ann/phone")
        let epoch = world.epochs["ann/phone"]
        world.lose("ann/phone")
        world.begin("ann/phone")
        #expect(world.epochs["ann/phone"] == epoch)
        world.disconnect("ann/phone", expiry: 0)
        world.begin("ann/phone")
        #expect(world.epochs["ann/phone"] != epoch)
    }

    @Test func `takes the place of another of the same device`() {
        world.begin("ann/phone")
        let old = world.connections["ann/phone"]!
        world.connect("ann/phone", loop: 1)
        world.settle()
        #expect(
            world.lines() == [
                "ann/phone: closed, sessionTakenOver", "ann/phone: accepted, present",
            ])
        // What the old one still has to say comes too late.
        world.step(.inboxAcknowledged(old, throughNumber: 99))
        world.step(.connectionClosed(old, .closedByBroker))
        #expect(world.lines() == [])
        #expect(world.gauges.connections == 1)
        #expect(world.counters.takeovers == 1)
    }

    @Test func `that comes back by itself does not throw out who is there`() {
        world.begin("ann/phone")
        world.connect("ann/phone", isReconnect: true, cookie: 5)
        #expect(world.lines() == ["ann/phone: refused, sessionTakenOver"])
        #expect(world.gauges.connections == 1)
    }

    @Test func `of two devices with one name are stopped from taking turns`() {
        world.begin("ann/phone")
        for _ in 0..<5 { world.connect("ann/phone") }
        world.settle()
        _ = world.lines()
        world.connect("ann/phone")
        #expect(world.lines() == ["ann/phone: refused, connectionRateExceeded, after 60 s"])
        world.pass(seconds: 60)
        world.connect("ann/phone")
        world.settle()
        #expect(
            world.lines() == [
                "ann/phone: closed, sessionTakenOver", "ann/phone: accepted, present",
            ])
    }

    @Test func `takes the place of one that was not yet accepted`() {
        world.connect("ann/phone")
        world.connect("ann/phone")
        #expect(world.lines() == ["ann/phone: closed, sessionTakenOver"])
        world.commit()
        #expect(world.lines() == ["ann/phone: accepted, present"])
    }

    @Test func `of another device of the user leaves the first one alone`() {
        world.begin("ann/phone", "ann/watch")
        #expect(world.gauges.connections == 2)
        #expect(world.gauges.sessions == 2)
        #expect(world.gauges.users == 1)
    }

    @Test func `without a right to be there is refused, and creates nobody`() {
        world.connect("ann/phone") { bytes in
            .appKey(
                app: bytes.appendRange("app"), digest: Digest(words: (0, 0, 0, 0)),
                user: bytes.appendRange("ann"))
        }
        world.connect("bob/phone") { bytes in
            .token(identifier: bytes.appendRange("unknown"), digest: Digest(words: (1, 1, 1, 1)))
        }
        world.connect("carl/phone") { bytes in .anonymous(user: bytes.appendRange("carl")) }
        world.settle()
        #expect(
            world.lines() == [
                "ann/phone: refused, badUserNameOrPassword",
                "bob/phone: refused, badUserNameOrPassword", "carl/phone: refused, notAuthorized",
            ])
        #expect(world.gauges.users == 0)
        #expect(world.counters.connectsRefused == 3)
    }

    @Test func `with a token is its user's, on its device, until it expires`() {
        let expiry = world.now.unixMilliseconds / 1000 + 60
        let token = Token(
            identifier: Array("t1".utf8), digest: Digest(words: (5, 6, 7, 8)), app: World.app,
            user: Array("ann".utf8), device: Array("phone".utf8), expiresUnixSeconds: expiry)
        #expect(world.addToken(token))
        #expect(!world.addToken(token))
        world.settle()
        func present(_ name: String) {
            world.connect(name) { bytes in
                .token(identifier: bytes.appendRange("t1"), digest: Digest(words: (5, 6, 7, 8)))
            }
            world.settle()
        }
        present("ann/phone")
        present("ann/watch")
        world.crash()
        present("ann/phone")
        world.pass(seconds: 60)
        present("ann/phone")
        #expect(
            world.lines() == [
                "ann/phone: accepted, new", "ann/watch: refused, clientIdentifierNotValid",
                "ann/phone: accepted, present", "ann/phone: closed, maximumConnectTime",
                "ann/phone: refused, badUserNameOrPassword",
            ])
    }

    @Test func `of one device too many is refused`() {
        world.limits.sessionsPerUserMaximum = 2
        world.begin("ann/1", "ann/2")
        world.connect("ann/3")
        #expect(world.lines() == ["ann/3: refused, quotaExceeded"])
        world.connect("ann/2")
        world.settle()
        #expect(world.lines().last == "ann/2: accepted, present")
    }

    @Test func `that says good-bye is answered, and its session stays`() {
        world.begin("ann/phone")
        world.disconnect("ann/phone")
        #expect(world.lines() == ["ann/phone: good-bye"])
        world.connect("ann/phone")
        world.settle()
        #expect(world.lines() == ["ann/phone: accepted, present"])
    }

    @Test func `that ends its session is answered when the end is committed`() {
        world.begin("ann/phone")
        world.disconnect("ann/phone", expiry: 0)
        #expect(world.lines() == [])
        world.commit()
        #expect(world.lines() == ["ann/phone: good-bye"])
        #expect(world.gauges.sessions == 0)
    }

    @Test func `that breaks the protocol is closed, its session stays`() {
        world.begin("ann/phone")
        world.step(.peerFaulted(world.connections["ann/phone"]!, .malformedPacket))
        #expect(world.lines() == ["ann/phone: closed, malformedPacket"])
        #expect(world.counters.protocolErrors == 1)
        #expect(world.gauges.sessions == 1)
        world.step(.peerFaulted(ConnectionID(loop: 1, slot: 99, generation: 3), .protocolError))
        #expect(world.lines() == ["nobody: closed, protocolError"])
    }

    @Test func `may be made with JSON and with MRT, for the same session`() {
        world.begin("ann/phone", "bob/pc")
        world.lose("ann/phone")
        world.send("bob/pc", 1, to: .user("ann"), "hello")
        world.commit()
        _ = world.lines()
        world.connect("ann/phone", dialect: .json)
        world.settle()
        let lines = world.lines()
        #expect(lines.first == "ann/phone: accepted, present", "\(lines)")
        #expect(lines.contains { $0.hasPrefix("ann/phone: ") && $0.contains("hello") }, "\(lines)")
        world.lose("ann/phone")
        world.connect("ann/phone", dialect: .mqtt5)
        world.settle()
        #expect(world.lines().contains("ann/phone: accepted, new"))
    }

    @Test func `is told of in the log`() {
        world.showsNotes = true
        world.connect("ann/phone")
        world.settle()
        world.lose("ann/phone")
        #expect(
            world.lines() == [
                "ann/phone: accepted, new",
                "note: connected, ann/phone, connected, app\nappKey\ndefault",
                "note: disconnected, ann/phone, unspecifiedError",
            ])
    }

    @Test func `shows in the presence of its user`() {
        world.begin("ann/phone", "ann/watch", "bob/pc")
        let since = world.now.unixMilliseconds
        world.pass(seconds: 5)
        func ask(_ user: String) {
            var bytes: [UInt8] = []
            let range = bytes.appendRange(user)
            world.step(
                .presenceQueried(
                    world.connections["bob/pc"]!, requestIdentifier: 3, user: range), bytes: bytes)
        }
        ask("ann")
        world.lose("ann/watch")
        ask("ann")
        world.lose("ann/phone")
        ask("ann")
        ask("carl")
        #expect(
            world.lines() == [
                "bob/pc: presence 3, online since \(since) on [phone, watch]",
                "bob/pc: presence 3, online since \(since) on [phone]",
                "bob/pc: presence 3, offline since \(since + 5000) on []",
                "bob/pc: response 3, topicNameInvalid",
            ])
    }
}

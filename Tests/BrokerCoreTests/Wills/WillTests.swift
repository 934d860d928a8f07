// Wills: when they are sent, when they are not, and that they are sent once whatever dies.

import BrokerTerms
import Testing

@testable import BrokerCore

@Suite struct `A will` {
    let world = World()

    init() {
        world.begin("ann/phone", "bob/pc")
    }

    func lines() -> [String] {
        world.settle()
        return world.lines()
    }

    @Test func `is confirmed when it is committed`() {
        world.setWill("ann/phone", to: .user("bob"), "lost", id: 4)
        #expect(world.lines() == [])
        world.commit()
        #expect(world.lines() == ["ann/phone: response 4, success"])
    }

    @Test func `is sent when the connection is lost`() {
        world.setWill("ann/phone", to: .user("bob"), "lost")
        _ = lines()
        world.lose("ann/phone")
        #expect(lines() == ["bob/pc: #1 \"lost\" from ann, once"])
        #expect(world.counters.willsSent == 1)
        world.crash()
        world.pass(seconds: 1000)
        #expect(world.counters.willsSent == 0)
    }

    @Test func `is sent after its delay, unless the device is back`() {
        world.setWill("ann/phone", to: .user("bob"), "lost", delay: 10)
        _ = lines()
        world.lose("ann/phone")
        world.pass(milliseconds: 9_999)
        world.begin("ann/phone")
        world.pass(seconds: 60)
        #expect(lines() == [])
        world.lose("ann/phone")
        world.pass(seconds: 10)
        #expect(lines() == ["bob/pc: #1 \"lost\" from ann, once"])
    }

    @Test func `is not sent after a good-bye, which is answered when it is gone from the store`() {
        world.setWill("ann/phone", to: .user("bob"), "lost")
        _ = lines()
        world.disconnect("ann/phone")
        #expect(world.lines() == [])
        world.commit()
        #expect(world.lines() == ["ann/phone: good-bye"])
        world.crash()
        world.pass(seconds: 1000)
        #expect(world.counters.willsSent == 0)
    }

    @Test func `is sent after a good-bye that asks for it`() {
        world.setWill("ann/phone", to: .user("bob"), "lost")
        _ = lines()
        world.disconnect("ann/phone", sendsWill: true)
        #expect(lines() == ["ann/phone: good-bye", "bob/pc: #1 \"lost\" from ann, once"])
    }

    @Test func `is replaced by a later one, and can be cleared`() {
        world.setWill("ann/phone", to: .user("bob"), "first")
        world.setWill("ann/phone", to: .user("bob"), "second")
        _ = lines()
        world.lose("ann/phone")
        #expect(lines() == ["bob/pc: #1 \"second\" from ann, once"])
        world.begin("ann/phone")
        world.setWill("ann/phone", to: .user("bob"), "third")
        world.clearWill("ann/phone", id: 7)
        #expect(lines().last == "ann/phone: response 7, success")
        world.lose("ann/phone")
        #expect(lines() == [])
    }

    @Test func `of a session in memory is sent with its end, to the user's other devices`() {
        world.begin("ann/pad", expiry: 0)
        world.setWill("ann/pad", to: .user("ann"), "lost", delay: 60)
        _ = lines()
        world.lose("ann/pad")
        #expect(lines() == ["ann/phone: #1 \"lost\" from ann, once"])
        #expect(world.gauges.messagesInMemory == 1)
    }

    @Test func `is sent with the end of its session, before its delay is over`() {
        world.begin("ann/watch", expiry: 5)
        world.setWill("ann/watch", to: .user("bob"), "lost", delay: 60)
        _ = lines()
        world.lose("ann/watch")
        world.pass(seconds: 5)
        #expect(lines() == ["bob/pc: #1 \"lost\" from ann, once"])
        world.pass(seconds: 100)
        #expect(lines() == [])
    }

    @Test func `of a session that was connected when the broker died has a time of grace`() {
        world.setWill("ann/phone", to: .user("bob"), "lost")
        _ = lines()
        world.crash()
        world.begin("bob/pc")
        // 60 s of keep-alive: one and a half times that.
        world.pass(milliseconds: 89_999)
        #expect(lines() == [])
        world.pass(milliseconds: 1)
        #expect(lines().map { $0.contains("\"lost\"") } == [true])
    }

    @Test func `of a device that two restarts keep away has the grace after each`() {
        world.setWill("ann/phone", to: .user("bob"), "lost")
        _ = lines()
        world.crash()
        world.settle()
        // What the restart has noted about the session is stored.
        world.pass(seconds: 30)
        world.settle()
        world.crash()
        world.begin("bob/pc")
        world.pass(milliseconds: 89_999)
        #expect(lines() == [])
        world.pass(milliseconds: 1)
        #expect(lines().map { $0.contains("\"lost\"") } == [true])
    }

    @Test func `of a device that was lost after it had come back is not delayed by a restart`() {
        world.setWill("ann/phone", to: .user("bob"), "lost", delay: 10)
        _ = lines()
        world.crash()
        world.begin("ann/phone")
        world.setWill("ann/phone", to: .user("bob"), "lost", delay: 10)
        world.lose("ann/phone")
        world.settle()
        world.crash()
        world.begin("bob/pc")
        world.pass(seconds: 10)
        #expect(lines().map { $0.contains("\"lost\"") } == [true])
    }

    @Test func `of a device that is back within the grace is not sent`() {
        world.setWill("ann/phone", to: .user("bob"), "lost")
        world.begin("ann/pad", expiry: 0)
        world.setWill("ann/pad", to: .user("bob"), "lost too")
        _ = lines()
        world.crash()
        world.begin("bob/pc", "ann/phone")
        world.begin("ann/pad", expiry: 0)
        world.pass(seconds: 1000)
        #expect(lines() == [])
    }

    @Test func `is not sent where the cookie tells that the connection is the same device's`() {
        world.setWill("ann/phone", to: .user("bob"), "lost")
        _ = lines()
        world.connect("ann/phone", isReconnect: true, cookie: world.cookies["ann/phone"])
        #expect(
            lines() == ["ann/phone: closed, sessionTakenOver", "ann/phone: accepted, present"])
        world.connect("ann/phone", clean: true, cookie: world.cookies["ann/phone"])
        #expect(
            lines() == ["ann/phone: closed, sessionTakenOver", "ann/phone: accepted, new"])
        #expect(world.broker.willTable.wills.count == 0)
    }

    @Test func `is sent where somebody else takes the session over`() {
        world.setWill("ann/phone", to: .user("bob"), "lost")
        _ = lines()
        world.connect("ann/phone")
        #expect(lines().contains("bob/pc: #1 \"lost\" from ann, once"))
    }

    @Test func `that a full store cannot take is sent when it has room again`() {
        world.lose("bob/pc")
        world.setWill("ann/phone", to: .user("bob"), "lost")
        _ = lines()
        world.store.isFull = true
        world.lose("ann/phone")
        world.settle()
        for _ in 0..<3 {
            world.pass(seconds: 10)
            world.settle()
        }
        world.crash()
        #expect(world.counters.willsSent == 0)
        world.store.isFull = false
        // The start found it full, and housekeeping finds that it is not.
        for _ in 0..<9 {
            world.pass(seconds: 10)
            world.settle()
        }
        #expect(world.counters.willsSent == 1)
        world.connect("bob/pc")
        #expect(lines().filter { $0.contains("\"lost\"") }.count == 1)
    }

    @Test func `and its message are stored together, or not at all`() {
        for inFlightBatch in [false, true] {
            world.begin("ann/phone", "bob/pc")
            world.setWill("ann/phone", to: .user("bob"), "lost")
            _ = lines()
            world.lose("ann/phone")
            world.beginCommit()
            world.crash(committing: inFlightBatch)
            world.connect("bob/pc", resume: (world.epochs["bob/pc"]!, 0))
            world.pass(seconds: 100)
            #expect(lines().filter { $0.contains("\"lost\"") }.count == 1)
            world.acknowledge("bob/pc", through: world.sentThrough("bob/pc"))
            world.settle()
        }
    }

    // MARK: - Who it is for, and from whom

    @Test func `is refused where it could never be sent`() {
        let group = world.makeGroup(owner: "bob/pc")
        world.setWill("ann/phone", to: .user("nobody"), "lost")
        world.setWill("ann/phone", to: .users(["nobody", "none"]), "lost")
        world.setWill("ann/phone", to: .group("none"), "lost")
        world.setWill("ann/phone", to: .group(group), "lost")
        world.setWill("ann/phone", to: .topic("$u/bob"), "lost")
        world.setWill("ann/phone", to: .user("bob"), String(repeating: "x", count: 4_096))
        #expect(
            lines() == [
                "ann/phone: response 1, topicNameInvalid",
                "ann/phone: response 1, topicNameInvalid",
                "ann/phone: response 1, topicNameInvalid", "ann/phone: response 1, notAuthorized",
                "ann/phone: response 1, topicNameInvalid", "ann/phone: response 1, packetTooLarge",
            ])
        #expect(world.broker.willTable.wills.count == 0)
        #expect(world.counters.requestsRefused == 6)
    }

    @Test func `that is refused leaves the earlier one as it was`() {
        world.setWill("ann/phone", to: .user("bob"), "first")
        world.setWill("ann/phone", to: .user("nobody"), "second")
        _ = lines()
        world.lose("ann/phone")
        #expect(lines() == ["bob/pc: #1 \"first\" from ann, once"])
    }

    @Test func `goes to a list of users, but for those whom nobody knows`() {
        world.addUser("dave")
        world.setWill("ann/phone", to: .users(["bob", "nobody", "dave"]), "lost")
        _ = lines()
        world.lose("ann/phone")
        #expect(lines() == ["bob/pc: #1 \"lost\" from ann, once"])
        world.connect("dave/pc")
        #expect(lines().last == "dave/pc: #1 \"lost\" from ann, once")
    }

    @Test func `goes to a group, to the user's other devices too`() {
        world.begin("ann/watch")
        let group = world.makeGroup(owner: "ann/phone", members: ["bob/pc"])
        world.setWill("ann/phone", to: .group(group), "lost")
        _ = lines()
        world.lose("ann/phone")
        world.settle()
        #expect(
            world.unnumberedLines().sorted() == [
                "ann/watch: \"lost\" from ann by group \(group), once",
                "bob/pc: \"lost\" from ann by group \(group), once",
            ])
        world.connect("ann/phone")
        #expect(!lines().contains { $0.hasPrefix("ann/phone") && $0.contains("lost") })
    }

    @Test func `to a group that the user has left meanwhile reaches nobody`() {
        let group = world.makeGroup(owner: "bob/pc", members: ["ann/phone"])
        world.setWill("ann/phone", to: .group(group), "lost")
        world.groups("ann/phone") { .leave($0.appendRange(group)) }
        _ = lines()
        world.lose("ann/phone")
        #expect(lines() == [])
        #expect(world.counters.willsRefused == 1)
        #expect(world.broker.willTable.wills.count == 0)
    }

    @Test func `goes to everybody`() {
        world.begin("carl/pc")
        world.setWill("ann/phone", to: .everybody, "lost")
        _ = lines()
        world.lose("ann/phone")
        #expect(
            lines().sorted() == [
                "bob/pc: #1 \"lost\" from ann by broadcast, once",
                "carl/pc: #1 \"lost\" from ann by broadcast, once",
            ])
    }

    @Test func `goes to the subscribers of a topic, the lost device among them`() {
        world.subscribe("bob/pc", "state/+")
        world.subscribe("ann/phone", "state/ann")
        world.setWill("ann/phone", to: .topic("state/ann"), "offline")
        _ = lines()
        world.lose("ann/phone")
        #expect(lines() == ["bob/pc: #1 \"offline\" from ann on state/ann, once"])
        world.connect("ann/phone")
        #expect(lines().last == "ann/phone: #1 \"offline\" from ann on state/ann, once")
    }

    // MARK: - When it is sent

    @Test(arguments: [CloseCause.lost, .keepAliveTimeout, .outgoingOverflow, .closedByBroker])
    func `is sent whatever ended the connection`(cause: CloseCause) {
        world.setWill("ann/phone", to: .user("bob"), "lost")
        _ = lines()
        world.step(.connectionClosed(world.connections["ann/phone"]!, cause))
        #expect(lines() == ["bob/pc: #1 \"lost\" from ann, once"])
    }

    @Test(arguments: [ReasonCode.malformedPacket, .protocolError, .keepAliveTimeout])
    func `is sent where the peer is at fault`(reason: ReasonCode) {
        world.setWill("ann/phone", to: .user("bob"), "lost")
        _ = lines()
        world.step(.peerFaulted(world.connections["ann/phone"]!, reason))
        #expect(
            lines() == [
                "ann/phone: closed, \(reason)", "bob/pc: #1 \"lost\" from ann, once",
            ])
    }

    @Test func `is told of by CONNACK as long as it is set`() {
        world.setWill("ann/phone", to: .user("bob"), "lost", delay: 10)
        _ = lines()
        world.lose("ann/phone")
        world.connect("ann/phone")
        world.settle()
        #expect(world.hasWill["ann/phone"] == true)
        world.lose("ann/phone")
        world.pass(seconds: 10)
        world.connect("ann/phone")
        world.settle()
        #expect(world.hasWill["ann/phone"] == false)
    }

    @Test func `set and lost before it was stored is sent once, whatever dies`() {
        for inFlightBatch in [false, true] {
            let world = World()
            world.begin("ann/phone", "bob/pc")
            world.setWill("ann/phone", to: .user("bob"), "lost")
            world.lose("ann/phone")
            world.beginCommit()
            world.crash(committing: inFlightBatch)
            world.connect("bob/pc", resume: (world.epochs["bob/pc"]!, 0))
            world.pass(seconds: 1000)
            world.settle()
            // It had not been confirmed: it may be lost, and must not be sent twice.
            #expect(
                world.lines().filter { $0.contains("\"lost\"") }.count == (inFlightBatch ? 1 : 0))
            world.crash()
            world.pass(seconds: 1000)
            world.settle()
            #expect(world.counters.willsSent == 0)
        }
    }

    @Test func `that is cleared twice is confirmed when it is gone from the store`() {
        world.setWill("ann/phone", to: .user("bob"), "lost")
        _ = lines()
        world.clearWill("ann/phone", id: 2)
        world.beginCommit()
        world.clearWill("ann/phone", id: 3)
        #expect(world.lines() == [])
        // Nor does a good-bye say so before.
        world.disconnect("ann/phone")
        #expect(world.lines() == [])
        world.finishCommit()
        #expect(world.lines() == ["ann/phone: good-bye"])
    }

    // MARK: - Restart

    @Test func `of a session that ends sooner than the grace waits for the grace`() {
        world.begin("ann/watch", expiry: 5)
        world.setWill("ann/watch", to: .user("bob"), "lost")
        _ = lines()
        world.crash()
        world.begin("bob/pc")
        world.pass(milliseconds: 89_999)
        #expect(lines() == [])
        world.begin("ann/watch", expiry: 5)
        world.pass(seconds: 100)
        #expect(lines() == [])
    }

    @Test func `whose delay ran when the broker died goes on from there`() {
        world.setWill("ann/phone", to: .user("bob"), "lost", delay: 300)
        _ = lines()
        world.lose("ann/phone")
        world.pass(seconds: 200)
        world.settle()
        world.crash()
        world.begin("bob/pc")
        world.pass(milliseconds: 99_999)
        #expect(lines() == [])
        world.pass(milliseconds: 1)
        #expect(lines().count == 1)
    }

    enum StoredKey: CaseIterable, Sendable {
        /// The broker starts with the key that the will was set with.
        case same
        /// Another key has its name.
        case replaced
        /// So it is, and a broker has stored the will that wrote no marks of keys.
        case replacedUnmarked
    }

    @Test(arguments: StoredKey.allCases)
    func `of a web token is sent after a restart if its key is the same`(_ key: StoredKey) {
        let name = VoucherTrust.WebTokenKey(app: World.app, voucher: Array("k1".utf8))
        func trust(_ mark: UInt64) -> VoucherTrust {
            VoucherTrust(
                webTokenKeys: [name: mark], preSharedIdentities: [:], revokedCertificates: [])
        }
        _ = world.replaceTrust(trust(1))
        let reference = world.identities.append(
            VerifiedIdentity(
                proof: .webToken, app: World.app, user: Array("carl".utf8),
                voucher: Array("k1".utf8), key: .mark(1)))
        world.connect("carl/pad", claim: { _ in .verified(reference) })
        world.identities.endTurn()
        world.setWill("carl/pad", to: .user("bob"), "lost")
        _ = lines()
        if key == .replacedUnmarked {
            world.rewriteRows(of: .wills) { row in
                row.removeLast(8)
                row[0] = 2
            }
        }
        world.crash()
        _ = world.replaceTrust(trust(key == .same ? 1 : 2))
        world.begin("bob/pc")
        world.pass(seconds: 100)
        let isSent = key != .replaced
        // Its number follows those that were reserved before the crash.
        #expect(lines().map { $0.contains("\"lost\" from carl") } == (isSent ? [true] : []))
        #expect(world.counters.willsRefused == (isSent ? 0 : 1))
    }

    @Test func `is due when nothing else is`() {
        world.setWill("ann/phone", to: .user("bob"), "lost", delay: 10)
        _ = lines()
        world.lose("ann/phone")
        #expect(world.broker.nextDeadline! <= world.now.instant.advanced(bySeconds: 10))
    }
}

// Full queues: what each policy does about one message more, and that it is counted where it can be
// seen.

import Primitives
import Testing

@testable import BrokerCore

@Suite struct `A full queue` {
    let world = World()

    /// Sends texts "1", "2", ... and commits after each of them.
    func send(_ numbers: ClosedRange<UInt64>, to user: String = "ann") {
        for number in numbers {
            world.send("bob/pc", number, to: .user(user), "\(number)")
            world.settle()
            world.seeResults("bob/pc", through: number)
        }
    }

    /// The texts a session is given from now on, if it acknowledges all of them.
    func drain(_ name: String) -> [String] {
        var texts: [String] = []
        while true {
            world.settle()
            let lines = world.lines().filter { $0.hasPrefix("\(name): #") }
            if lines.isEmpty { return texts }
            texts += lines.map { String($0.split(separator: "\"")[1]) }
            world.acknowledge(name, through: world.sentThrough(name))
        }
    }

    @Test func `refuses one more by its default policy, and tells the sender`() {
        world.limits.queueCountMaximum = 3
        world.begin("bob/pc", "ann/phone", "carl/pc")
        world.lose("ann/phone")
        send(1...3)
        _ = world.lines()
        world.send("bob/pc", 4, to: .user("ann"), "4")
        world.send("bob/pc", 5, to: .users(["carl", "ann"]), "5")
        world.settle()
        #expect(
            world.lines() == [
                "bob/pc: result 4, quotaExceeded", "carl/pc: #1 \"5\" from bob",
                "bob/pc: result 5, sent, 1 refused [1: quotaExceeded]",
            ])
        world.begin("ann/phone")
        #expect(world.counters.queueDropped == 0)
    }

    @Test func `that refuses one copy is counted at the receiver, told to the log, and to MQTT`() {
        world.limits.queueCountMaximum = 1
        world.showsNotes = true
        world.begin("bob/pc", "ann/phone", "ann/watch")
        world.beginMQTT("eve/pc")
        world.lose("ann/phone")
        world.publish("eve/pc", 1, to: .user("ann"), "1", id: "m1")
        world.acknowledge("ann/watch", through: 1)
        world.settle()
        _ = world.lines()
        for (identifier, grade) in [(UInt16(2), Grade.durable), (3, .once)] {
            world.publish("eve/pc", identifier, to: .user("ann"), "x", grade: grade)
            world.settle()
            world.acknowledge("ann/watch", through: world.sentThrough("ann/watch"))
            world.settle()
        }
        #expect(world.overflowCount("ann/phone") == 2)
        #expect(world.counters.queueRefused == 2)
        let lines = world.lines()
        #expect(lines.contains { $0.contains("refused 1") }, "\(lines)")
        #expect(lines.contains { $0.contains("receiverRefused") }, "\(lines)")
        // What was remembered of QoS 2 says the same after a restart.
        world.crash()
        world.connect("eve/pc", expiry: 3600, dialect: .mqtt5)
        world.settle()
        world.publish("eve/pc", 3, to: .user("ann"), "x", grade: .once)
        world.settle()
        let again = world.lines()
        #expect(again.contains { $0.contains("refused 1") }, "\(again)")
    }

    @Test func `tells the log of a few receivers a second, however many there are`() {
        world.limits.queueCountMaximum = 1
        world.showsNotes = true
        world.begin("bob/pc")
        let names = (1...40).map { "u\($0)" }
        for name in names { world.addUser(name) }
        for number in 1...2 as ClosedRange<UInt64> {
            world.send("bob/pc", number, to: .users(names), "x")
            world.settle()
        }
        let told = world.lines().filter { $0.contains("receiverRefused") }
        #expect(told.count == CoreLimits.receiverNotesPerSecondMaximum)
        #expect(world.counters.queueRefused == 40)
    }

    @Test func `counts bytes as well as messages`() {
        world.begin("bob/pc", "ann/phone")
        world.lose("ann/phone")
        send(1...2)
        // Two messages of one byte are in it; a third does not fit.
        world.limits.queueBytesMaximum = world.gauges.queuedBytes * 3 / 2 - 1
        world.send("bob/pc", 3, to: .user("ann"), "3")
        world.limits.queueBytesMaximum = world.gauges.queuedBytes * 3 / 2
        world.send("bob/pc", 4, to: .user("ann"), "4")
        world.settle()
        #expect(
            world.lines().suffix(2) == [
                "bob/pc: result 3, quotaExceeded", "bob/pc: result 4, sent",
            ])
    }

    @Test func `has room again when something was acknowledged`() {
        world.limits.queueCountMaximum = 2
        world.begin("bob/pc", "ann/phone")
        send(1...2)
        world.acknowledge("ann/phone", through: 1)
        send(3...3)
        #expect(world.counters.sendsRefused == 0)
        #expect(world.gauges.queuedMessages == 2)
    }

    @Test func `of the store, which takes its time, refuses durable sends until its commit begins`()
    {
        world.limits.uncommittedBytesMaximum = 2 * CoreLimits.uncommittedEntryBytes
        world.begin("bob/pc", "ann/phone", "carl/pc")
        world.lose("ann/phone", "carl/pc")
        world.send("bob/pc", 1, to: .users(["ann", "carl"]), "1")
        world.send("bob/pc", 2, to: .user("ann"), "2")
        #expect(world.lines() == ["bob/pc: result 2, quotaExceeded"])
        #expect(world.counters.sendsOverUncommitted == 1)
        #expect(world.beginCommit())
        // The next batch has as much room, while this one is under way.
        world.send("bob/pc", 2, to: .users(["ann", "carl"]), "2")
        world.send("bob/pc", 3, to: .user("ann"), "3")
        #expect(world.lines() == ["bob/pc: result 3, quotaExceeded"])
        world.finishCommit()
        world.settle()
        #expect(world.lines() == ["bob/pc: result 1, sent", "bob/pc: result 2, sent"])
    }

    @Test func `with the policy newest keeps what it has, and the sender is not told`() {
        world.limits.queueCountMaximum = 2
        world.limits.queuePolicy = .newest
        world.begin("bob/pc", "ann/phone")
        world.lose("ann/phone")
        send(1...5)
        #expect(world.lines().allSatisfy { $0.hasSuffix(", sent") })
        #expect(world.counters.queueDropped == 3)
        #expect(world.overflowCount("ann/phone") == 3)
        world.connect("ann/phone")
        #expect(drain("ann/phone") == ["1", "2"])
    }

    @Test func `with the policy oldest keeps the newest, and the sender is not told`() {
        world.limits.queueCountMaximum = 3
        world.limits.queuePolicy = .oldest
        world.begin("bob/pc", "ann/phone")
        world.lose("ann/phone")
        send(1...10)
        #expect(world.lines().allSatisfy { $0.hasSuffix(", sent") })
        #expect(world.gauges.queuedMessages == 3)
        #expect(world.counters.queueDropped == 7)
        #expect(world.overflowCount("ann/phone") == 7)
        world.connect("ann/phone")
        #expect(drain("ann/phone") == ["8", "9", "10"])
        #expect(world.store.heldMessages == [])
    }

    @Test func `with the policy oldest makes room for many sends of one batch`() {
        world.limits.queueCountMaximum = 3
        world.limits.queuePolicy = .oldest
        world.begin("bob/pc", "ann/phone")
        world.lose("ann/phone")
        for number in 1...9 as ClosedRange<UInt64> {
            world.send("bob/pc", number, to: .user("ann"), "\(number)")
            if number == 4 { world.beginCommit() }
        }
        world.finishCommit()
        world.settle()
        #expect(world.gauges.queuedMessages == 3)
        world.connect("ann/phone")
        #expect(drain("ann/phone") == ["7", "8", "9"])
    }

    @Test func `with the policy oldest makes room in bytes`() {
        world.limits.queuePolicy = .oldest
        world.begin("bob/pc", "ann/phone")
        world.lose("ann/phone")
        send(1...4)
        world.limits.queueBytesMaximum = world.gauges.queuedBytes
        world.send("bob/pc", 5, to: .user("ann"), String(repeating: "x", count: 55))
        world.settle()
        #expect(world.gauges.queuedBytes <= world.limits.queueBytesMaximum)
        world.send("bob/pc", 6, to: .user("ann"), String(repeating: "y", count: 900))
        world.settle()
        world.connect("ann/phone")
        let texts = drain("ann/phone")
        #expect(texts.map(\.count) == [1, 55], "what is larger than the queue is itself dropped")
    }

    @Test func `with the policy oldest does not take back what was sent`() {
        world.limits.queueCountMaximum = 4
        world.limits.queuePolicy = .oldest
        world.begin("bob/pc")
        world.begin("ann/phone", window: 2)
        send(1...8)
        // 1 and 2 are under way; of the others the two newest are kept.
        #expect(world.gauges.queuedMessages == 4)
        #expect(
            world.lines().filter { $0.hasPrefix("ann") } == [
                "ann/phone: #1 \"1\" from bob", "ann/phone: #2 \"2\" from bob",
            ])
        world.acknowledge("ann/phone", through: 2)
        #expect(drain("ann/phone") == ["7", "8"])
        #expect(world.store.heldMessages == [])
    }

    @Test func `all of which is under way drops the new message, whatever the policy`() {
        world.limits.queueCountMaximum = 2
        world.limits.queuePolicy = .oldest
        world.begin("bob/pc", "ann/phone")
        send(1...3)
        #expect(world.counters.queueDropped == 1)
        world.acknowledge("ann/phone", through: 2)
        #expect(world.lines().filter { $0.hasPrefix("ann") }.count == 2)
        #expect(world.gauges.queuedMessages == 0)
    }

    @Test func `of a user without a session obeys the policies too`() {
        world.limits.queueCountMaximum = 2
        world.limits.queuePolicy = .oldest
        world.begin("bob/pc")
        world.addUser("ann")
        send(1...5)
        #expect(world.gauges.queuedMessages == 2)
        #expect(world.counters.queueDropped == 3)
        world.connect("ann/phone")
        #expect(drain("ann/phone") == ["4", "5"])
        world.limits.queuePolicy = .newest
        world.addUser("carl")
        send(6...9, to: "carl")
        world.connect("carl/pc")
        #expect(drain("carl/pc") == ["6", "7"])
    }

    @Test func `is trimmed only behind what a load has brought meanwhile`() {
        world.limits.queueCountMaximum = 4
        world.limits.queuePolicy = .oldest
        world.begin("bob/pc", "ann/phone")
        world.lose("ann/phone")
        send(1...4)
        world.connect("ann/phone")
        world.beginCommit()
        // The load is under way; what it brings is delivered before the trim is carried out.
        world.send("bob/pc", 5, to: .user("ann"), "5")
        world.finishCommit()
        #expect(drain("ann/phone") == ["1", "2", "3", "4"])
        #expect(world.counters.queueDropped == 1)
        #expect(world.gauges.queuedMessages == 0)
    }

    // MARK: - Other limits

    @Test func `number of sessions and users refuses who would be one more`() {
        world.limits.sessionsMaximum = 2
        world.begin("ann/phone", "bob/pc")
        world.connect("carl/pc")
        world.limits.sessionsMaximum = 10
        world.limits.usersMaximum = 2
        world.connect("carl/pc")
        world.connect("ann/watch")
        world.settle()
        #expect(
            world.lines() == [
                "carl/pc: refused, quotaExceeded", "carl/pc: refused, quotaExceeded",
                "ann/watch: accepted, new",
            ])
        #expect(world.gauges.users == 2)
    }
}

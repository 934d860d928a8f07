// Replacements and collapse keys: which content a receiver gets, and in which place.

import BrokerTerms
import Primitives
import Testing

@testable import BrokerCore

@Suite struct `A replacement` {
    let world = World()

    private func deliveries(to name: String) -> [String] {
        world.settleAll()
        return world.lines().filter { $0.hasPrefix(name) && $0.contains("#") }
    }

    private func sendTracked(_ text: String = "old", number: UInt64 = 1) {
        world.send("ann/1", number, to: .user("bob"), text, asks: .reference)
    }

    @Test func `keeps the place of a stored message`() {
        world.begin("ann/1", "bob/pc")
        world.disconnect("bob/pc")
        sendTracked()
        world.send("ann/1", 2, to: .user("bob"), "next")
        world.settle()
        world.recall("ann/1", 0xA1, with: "new")
        world.settleAll()
        #expect(world.lastRecall == "1 withdrawn, 0 late")
        _ = world.lines()
        world.connect("bob/pc")
        #expect(
            deliveries(to: "bob") == [
                #"bob/pc: #1 "new" from ann, reference a1"#, #"bob/pc: #2 "next" from ann"#,
            ])
    }

    @Test func `changes a message of the pending batch, and one of the batch in flight`() {
        world.begin("ann/1", "bob/pc")
        world.disconnect("bob/pc")
        world.settle()
        sendTracked()
        world.recall("ann/1", 0xA1, with: "new")
        #expect(world.beginCommit())
        world.finishCommit()
        sendTracked("old 2", number: 2)
        #expect(world.beginCommit())
        world.recall("ann/1", 0xA2, with: "new 2")
        world.finishCommit()
        world.settleAll()
        #expect(world.lastRecall == "1 withdrawn, 0 late")
        _ = world.lines()
        world.connect("bob/pc")
        #expect(
            deliveries(to: "bob") == [
                #"bob/pc: #1 "new" from ann, reference a1"#,
                #"bob/pc: #2 "new 2" from ann, reference a2"#,
            ])
    }

    @Test func `changes a message in a window, and meets a load`() {
        world.begin("ann/1")
        world.begin("bob/pc", window: 1)
        for number in 1...4 as ClosedRange<UInt64> { sendTracked("\(number)", number: number) }
        world.settle()
        world.recall("ann/1", 0xA2, with: "new 2")
        world.settleAll()
        #expect(world.lastRecall == "1 withdrawn, 0 late")
        world.acknowledge("bob/pc", through: 1)
        #expect(world.beginCommit(), "the load of the third and the fourth")
        world.recall("ann/1", 0xA3, with: "new 3")
        world.finishCommit()
        world.settleAll()
        #expect(world.lastRecall == "1 withdrawn, 0 late")
        world.acknowledge("bob/pc", through: 2)
        world.settleAll()
        world.acknowledge("bob/pc", through: 3)
        #expect(
            deliveries(to: "bob") == [
                #"bob/pc: #1 "1" from ann, reference a1"#,
                #"bob/pc: #2 "new 2" from ann, reference a2"#,
                #"bob/pc: #3 "new 3" from ann, reference a3"#,
                #"bob/pc: #4 "4" from ann, reference a4"#,
            ])
    }

    @Test func `changes a message of a session in memory`() {
        world.begin("ann/1")
        world.begin("bob/pc", expiry: 0, window: 1)
        sendTracked("first", number: 1)
        sendTracked(number: 2)
        world.settle()
        world.recall("ann/1", 0xA2, with: "a longer text")
        world.settleAll()
        #expect(world.lastRecall == "1 withdrawn, 0 late")
        world.acknowledge("bob/pc", through: 1)
        #expect(
            deliveries(to: "bob").last == #"bob/pc: #2 "a longer text" from ann, reference a2"#)
    }

    @Test func `that is late is told with the new content`() {
        world.begin("ann/1", "bob/pc")
        sendTracked()
        world.settle()
        world.recall("ann/1", 0xA1, with: "new", detail: "typo")
        #expect(
            deliveries(to: "bob") == [
                #"bob/pc: #1 "old" from ann, reference a1"#,
                #"bob/pc: #2 update of a1 "typo" to "new" by ann"#,
            ])
        #expect(world.lastRecall == "0 withdrawn, 1 late: bob")
    }

    @Test func `may be repeated and recalled, and a recalled message has no content`() {
        world.begin("ann/1", "bob/pc")
        world.disconnect("bob/pc")
        sendTracked()
        world.settle()
        for text in ["new", "newer"] {
            world.recall("ann/1", 0xA1, with: text)
            world.settleAll()
            #expect(world.lastRecall == "1 withdrawn, 0 late")
        }
        world.crash()
        world.connect("ann/1", outbox: (epoch: 7, seen: 0, used: 1))
        world.settle()
        world.recall("ann/1", 0xA1)
        world.settleAll()
        #expect(world.lastRecall == "1 withdrawn, 0 late")
        _ = world.lines()
        world.recall("ann/1", 0xA1, with: "newest")
        #expect(world.lines() == ["ann/1: response 1, topicNameInvalid"])
    }

    @Test func `obeys the limit of size and the right to send`() {
        world.begin("ann/1", "bob/pc")
        sendTracked()
        world.settle()
        _ = world.lines()
        world.recall("ann/1", 0xA1, with: "long", byteCount: 1_000_000)
        world.setRights("subscribe:#")
        world.recall("ann/1", 0xA1, with: "new")
        #expect(
            world.lines() == [
                "ann/1: response 1, packetTooLarge", "ann/1: response 1, notAuthorized",
            ])
    }

    @Test func `of a group changes the copies of all members at once`() {
        world.begin("ann/1")
        let group = world.makeGroup(owner: "ann/1", members: [])
        world.addMembers((0..<300).map { "m\($0)" }, to: group)
        world.settle()
        world.send("ann/1", 1, to: .group(group), "old", asks: .reference)
        world.settle()
        world.recall("ann/1", 0xA1, with: "new")
        world.settleAll()
        #expect(world.lastRecall == "300 withdrawn, 0 late")
        _ = world.lines()
        world.connect("m299/pc")
        #expect(
            deliveries(to: "m299").first?.contains(#""new" from ann by group"#) == true)
    }
}

@Suite struct `A collapse key` {
    let world = World()

    private func deliveries(to name: String) -> [String] {
        world.settleAll()
        return world.lines().filter { $0.hasPrefix(name) && $0.contains("#") }
    }

    private func set(_ text: String, number: UInt64, key: String = "valve") {
        world.sendCollapsing("ann/1", number, to: .user("bob"), text, key: key)
    }

    @Test func `leaves the newest of the messages that wait`() {
        world.begin("ann/1", "bob/pc")
        world.disconnect("bob/pc")
        set("20", number: 1)
        world.settleAll()
        set("21", number: 2)
        set("3", number: 3, key: "pump")
        set("22", number: 4)
        world.settleAll()
        #expect(world.counters.messagesCollapsed == 2)
        _ = world.lines()
        world.connect("bob/pc")
        #expect(
            deliveries(to: "bob") == [
                #"bob/pc: #3 "3" from ann, reference a3"#,
                #"bob/pc: #4 "22" from ann, reference a4"#,
            ])
    }

    @Test func `holds the older message in a window until the newer one is stored`() {
        world.begin("ann/1")
        world.begin("bob/pc", window: 1)
        world.send("ann/1", 1, to: .user("bob"), "first")
        set("20", number: 2)
        world.settle()
        _ = world.lines()
        set("21", number: 3)
        world.acknowledge("bob/pc", through: 1)
        #expect(world.lines().isEmpty)
        #expect(deliveries(to: "bob") == [#"bob/pc: #3 "21" from ann, reference a3"#])
    }

    @Test func `lets the older message go on if the store refuses the newer one`() {
        world.begin("ann/1")
        world.begin("bob/pc", window: 1)
        world.send("ann/1", 1, to: .user("bob"), "first")
        set("20", number: 2)
        world.settle()
        _ = world.lines()
        set("21", number: 3)
        world.acknowledge("bob/pc", through: 1)
        world.store.isFull = true
        #expect(deliveries(to: "bob") == [#"bob/pc: #2 "20" from ann, reference a2"#])
    }

    @Test func `adds to what was delivered, and tells nobody`() {
        world.begin("ann/1", "bob/pc")
        set("20", number: 1)
        world.settle()
        set("21", number: 2)
        #expect(
            deliveries(to: "bob") == [
                #"bob/pc: #1 "20" from ann, reference a1"#,
                #"bob/pc: #2 "21" from ann, reference a2"#,
            ])
    }

    @Test func `survives a crash after the newer message is stored`() {
        world.begin("ann/1", "bob/pc")
        world.disconnect("bob/pc")
        set("20", number: 1)
        world.settleAll()
        set("21", number: 2)
        #expect(world.commit())
        world.crash()
        world.settleAll()
        world.connect("bob/pc")
        world.settleAll()
        #expect(
            world.unnumberedLines().filter { $0.contains("from ann") } == [
                #"bob/pc: "21" from ann, reference a2"#
            ])
    }

    @Test func `is of one sender, and for the same receivers`() {
        world.begin("ann/1", "eve/1", "bob/pc")
        world.disconnect("bob/pc")
        set("20", number: 1)
        world.sendCollapsing("eve/1", 1, to: .user("bob"), "eve", key: "valve")
        world.sendCollapsing("ann/1", 2, to: .users(["bob", "eve"]), "both", key: "valve")
        world.settleAll()
        world.connect("bob/pc")
        #expect(deliveries(to: "bob").count == 3)
    }

    @Test func `needs receivers that are known`() {
        world.begin("ann/1")
        world.sendCollapsing("ann/1", 1, to: .everybody, "x", key: "k")
        world.sendCollapsing("ann/1", 2, to: .topic("a/b"), "x", key: "k")
        #expect(
            world.lines() == [
                "ann/1: result 1, topicNameInvalid", "ann/1: result 2, topicNameInvalid",
            ])
    }
}

// Inboxes: the window, acknowledgements, what waits on disk, and the order in all of it.

import Primitives
import Testing

@testable import BrokerCore

@Suite struct `An inbox` {
    let world = World()

    /// Sends texts "1", "2", ... under these numbers.
    func send(_ numbers: ClosedRange<UInt64>, to user: String = "ann", grade: Grade = .durable) {
        for number in numbers {
            world.send("bob/pc", number, to: .user(user), "\(number)", grade: grade)
            world.settle()
            world.seeResults("bob/pc", through: number)
        }
    }

    /// The texts delivered to a session, in order, of the lines so far.
    func delivered(to name: String) -> [String] {
        world.lines().filter { $0.hasPrefix("\(name): #") }.map {
            String($0.split(separator: "\"")[1])
        }
    }

    @Test func `numbers rise by one, and an acknowledgement covers all up to its number`() {
        world.begin("bob/pc", "ann/phone")
        send(1...3)
        #expect(
            world.lines().filter { $0.hasPrefix("ann") } == [
                "ann/phone: #1 \"1\" from bob", "ann/phone: #2 \"2\" from bob",
                "ann/phone: #3 \"3\" from bob",
            ])
        #expect(world.gauges.queuedMessages == 3)
        world.acknowledge("ann/phone", through: 2)
        world.acknowledge("ann/phone", through: 1)
        #expect(world.gauges.queuedMessages == 1)
        world.acknowledge("ann/phone", through: 3)
        world.settle()
        #expect(world.gauges.queuedMessages == 0)
        #expect(world.store.heldMessages == [])
        #expect(world.gauges.messagesInMemory == 0)
    }

    @Test func `acknowledged above the highest number sent ends the connection`() {
        world.begin("bob/pc", "ann/phone")
        send(1...1)
        _ = world.lines()
        world.acknowledge("ann/phone", through: 2)
        #expect(world.lines() == ["ann/phone: closed, protocolError"])
        #expect(world.counters.protocolErrors == 1)
        world.connect("ann/phone")
        world.settle()
        #expect(world.lines() == ["ann/phone: accepted, present", "ann/phone: #1 \"1\" from bob"])
    }

    @Test func `acknowledged before anything was sent on this connection ends it`() {
        world.begin("bob/pc", "ann/phone")
        send(1...2)
        world.lose("ann/phone")
        world.connect("ann/phone", window: 1)
        _ = world.lines()
        // Number 1 has been sent on this connection, number 2 only on the one before.
        world.settle()
        #expect(world.lines() == ["ann/phone: #1 \"1\" from bob"])
        world.acknowledge("ann/phone", through: 2)
        #expect(world.lines() == ["ann/phone: closed, protocolError"])
    }

    @Test func `window holds deliveries back until earlier ones are acknowledged`() {
        world.begin("bob/pc")
        world.begin("ann/phone", window: 2)
        send(1...9)
        #expect(delivered(to: "ann/phone") == ["1", "2"])
        world.acknowledge("ann/phone", through: 1)
        #expect(delivered(to: "ann/phone") == ["3"])
        world.acknowledge("ann/phone", through: 3)
        world.settle()
        #expect(delivered(to: "ann/phone") == ["4", "5"])
        for number in [5, 7, 9] as [UInt64] {
            world.acknowledge("ann/phone", through: number)
            world.settle()
        }
        #expect(delivered(to: "ann/phone") == ["6", "7", "8", "9"])
        #expect(world.store.heldMessages == [])
    }

    @Test func `window of the broker bounds that of the client`() {
        world.limits.inboxWindowMaximum = 3
        world.begin("bob/pc", "ann/phone")
        send(1...5)
        #expect(delivered(to: "ann/phone") == ["1", "2", "3"])
    }

    @Test func `window is bounded in bytes too, but one message always fits`() {
        world.limits.inboxWindowBytesMaximum = 100
        world.begin("bob/pc", "ann/phone")
        world.subscribe("ann/phone", "t")
        world.settle()
        _ = world.lines()
        let text = String(repeating: "x", count: 150)
        for number in 1...3 as ClosedRange<UInt64> {
            world.send("bob/pc", number, to: .topic("t"), text, isRaw: true)
            world.settle()
        }
        #expect(delivered(to: "ann/phone").count == 1)
        for number in 1...3 as ClosedRange<UInt64> {
            world.acknowledge("ann/phone", through: number)
            world.settle()
        }
        #expect(delivered(to: "ann/phone").count == 2)
        #expect(world.store.heldMessages == [])
    }

    @Test func `keeps the order while it drains and new messages come`() {
        world.begin("bob/pc")
        world.begin("ann/phone", window: 2)
        world.lose("ann/phone")
        send(1...20)
        world.begin("ann/phone", window: 2)
        var next: UInt64 = 21
        var acknowledged: UInt64 = 0
        var texts = ["1", "2"]
        while acknowledged < 40 {
            acknowledged += 1
            world.acknowledge("ann/phone", through: acknowledged)
            if next <= 40 {
                send(next...next)
                next += 1
            }
            world.settle()
            texts += delivered(to: "ann/phone")
        }
        #expect(texts == (1...40).map(String.init))
        #expect(world.gauges.queuedMessages == 0)
        #expect(world.gauges.messagesInMemory == 0)
    }

    @Test func `keeps the order where messages come while a load is under way`() {
        world.begin("bob/pc", "ann/phone")
        world.lose("ann/phone")
        send(1...2)
        world.connect("ann/phone")
        world.beginCommit()
        world.send("bob/pc", 3, to: .user("ann"), "3")
        world.finishCommit()
        world.send("bob/pc", 4, to: .user("ann"), "4")
        world.settle()
        #expect(delivered(to: "ann/phone") == ["1", "2", "3", "4"])
    }

    @Test func `whose load is under way takes a message that is stored with it once`() {
        world.begin("bob/pc", "ann/phone")
        world.lose("ann/phone")
        world.send("bob/pc", 1, to: .user("ann"), "1", expiry: 5)
        world.settle()
        // What the session waits for expires in the very batch that loads it, while another comes.
        world.connect("ann/phone")
        world.pass(seconds: 5)
        world.send("bob/pc", 2, to: .user("ann"), "2")
        world.settle()
        world.send("bob/pc", 3, to: .user("ann"), "3")
        world.settle()
        #expect(delivered(to: "ann/phone") == ["2", "3"])
        world.acknowledge("ann/phone", through: 3)
        world.settle()
        #expect(world.store.heldMessages == [])
    }

    @Test func `whose load finds nothing any more takes what comes meanwhile once`() {
        world.begin("bob/pc")
        world.begin("ann/phone", expiry: 60)
        send(1...1)
        world.lose("ann/phone")
        world.settle()
        _ = world.lines()
        // Let in with the commit that removes the last of the queue, it has asked for a load.
        world.connect("ann/phone", expiry: 60, resume: (world.epochs["ann/phone"]!, 1))
        world.commit()
        world.send("bob/pc", 2, to: .user("ann"), "2")
        world.settle()
        #expect(delivered(to: "ann/phone") == ["2"])
        world.acknowledge("ann/phone", through: 2)
        world.settle()
        #expect(world.store.heldMessages == [])
    }

    @Test func `is resumed from the number its device holds`() {
        world.begin("bob/pc", "ann/phone")
        send(1...4)
        _ = world.lines()
        world.lose("ann/phone")
        let epoch = world.epochs["ann/phone"]!
        world.connect("ann/phone", resume: (epoch, 3))
        world.settle()
        #expect(world.lines() == ["ann/phone: accepted, present", "ann/phone: #4 \"4\" from bob"])
        world.acknowledge("ann/phone", through: 4)
        world.settle()
        #expect(world.gauges.queuedMessages == 0)
        #expect(world.store.heldMessages == [])
    }

    @Test func `is resumed from its last acknowledged number where none is given`() {
        world.begin("bob/pc", "ann/phone")
        send(1...4)
        world.acknowledge("ann/phone", through: 2)
        world.lose("ann/phone")
        world.connect("ann/phone")
        _ = world.lines()
        world.settle()
        #expect(delivered(to: "ann/phone") == ["3", "4"])
    }

    @Test func `ignores a position of another epoch`() {
        world.begin("bob/pc", "ann/phone")
        send(1...2)
        world.lose("ann/phone")
        _ = world.lines()
        world.connect("ann/phone", resume: (12, 5_000_000))
        world.settle()
        #expect(delivered(to: "ann/phone") == ["1", "2"])
    }

    @Test func `ignores a position behind what was acknowledged`() {
        world.begin("bob/pc", "ann/phone")
        send(1...3)
        world.acknowledge("ann/phone", through: 2)
        world.lose("ann/phone")
        _ = world.lines()
        world.connect("ann/phone", resume: (world.epochs["ann/phone"]!, 1))
        world.settle()
        #expect(delivered(to: "ann/phone") == ["3"])
    }

    @Test func `position that was never given is refused, and the session stays as it was`() {
        world.begin("bob/pc", "ann/phone")
        send(1...2)
        world.lose("ann/phone")
        _ = world.lines()
        let epoch = world.epochs["ann/phone"]!
        world.connect("ann/phone", resume: (epoch, 3))
        #expect(world.lines() == ["ann/phone: refused, protocolError"])
        world.connect("ann/phone", resume: (epoch, 2))
        world.settle()
        #expect(world.lines() == ["ann/phone: accepted, present"])
        send(3...3)
        #expect(delivered(to: "ann/phone") == ["3"])
    }

    @Test func `of a session in memory is numbered and ends with its connection`() {
        world.begin("bob/pc")
        world.begin("ann/phone", expiry: 0, window: 2)
        send(1...4)
        #expect(delivered(to: "ann/phone") == ["1", "2"])
        #expect(world.store.heldMessages == [])
        world.acknowledge("ann/phone", through: 2)
        #expect(delivered(to: "ann/phone") == ["3", "4"])
        world.lose("ann/phone")
        #expect(world.gauges.messagesInMemory == 0)
        #expect(world.gauges.sessions == 1)
    }

    @Test func `of a session in memory takes no more than its limit`() {
        world.limits.memoryQueueCountMaximum = 2
        world.begin("bob/pc")
        world.begin("ann/phone", expiry: 0, window: 1)
        for number in 1...3 as ClosedRange<UInt64> {
            world.send("bob/pc", number, to: .user("ann"), "\(number)")
        }
        #expect(
            world.lines() == [
                "ann/phone: #1 \"1\" from bob", "bob/pc: result 1, sent", "bob/pc: result 2, sent",
                "bob/pc: result 3, quotaExceeded",
            ])
        #expect(world.counters.memoryQueueRefused == 1)
    }

    /// Three sessions in memory that acknowledge nothing, and two messages of some 550 bytes for
    /// each.
    func fillMemory() {
        world.showsNotes = true
        world.limits.inboxWindowBytesMaximum = 1_000
        world.limits.memoryQueueBytesMaximum = 2_300
        world.limits.messageMaximum = 1_024
        world.begin("bob/pc")
        for name in ["ann", "cat", "dan"] {
            world.begin("\(name)/phone", expiry: 0, window: 1)
        }
        let text = String(repeating: "x", count: 500)
        for number in 1...6 as ClosedRange<UInt64> {
            let name = ["ann", "cat", "dan"][Int(number - 1) % 3]
            world.send("bob/pc", number, to: .user(name), text)
            world.seeResults("bob/pc", through: number)
        }
    }

    @Test func `sessions in memory hold a window each, and more only while all have little`() {
        fillMemory()
        let lines = world.lines()
        let results = lines.filter { $0.contains("result") }
        // Three for each as its first, and one more within the sum of all.
        #expect(results.count { $0.hasSuffix("sent") } == 4, "\(results)")
        #expect(results.count { $0.hasSuffix("quotaExceeded") } == 2, "\(results)")
        #expect(world.counters.memoryQueueRefused == 2)
        #expect(lines.count { $0.contains("note: receiverRefused") } == 2, "\(lines)")
    }

    @Test func `memory that sessions gave back is there for others`() {
        fillMemory()
        world.lose("ann/phone")
        world.lose("dan/phone")
        _ = world.lines()
        world.send("bob/pc", 7, to: .user("cat"), String(repeating: "x", count: 500))
        #expect(world.lines().contains("bob/pc: result 7, sent"))
        world.acknowledge("cat/phone", through: 3)
        #expect(world.gauges.messagesInMemory == 0)
        #expect(world.gauges.memoryQueueBytes == 0)
    }

    @Test func `one message for many sessions in memory counts once`() {
        world.limits.inboxWindowBytesMaximum = 1_000
        world.limits.memoryQueueBytesMaximum = 3_000
        world.begin("bob/pc")
        for number in 1...5 {
            world.begin("ann/\(number)", expiry: 0, window: 1)
        }
        let text = String(repeating: "x", count: 500)
        for number in 1...4 as ClosedRange<UInt64> {
            world.send("bob/pc", number, to: .user("ann"), text)
            world.seeResults("bob/pc", through: number)
        }
        let results = world.lines().filter { $0.contains("result") }
        #expect(results.count { $0.hasSuffix("sent") } == 4, "\(results)")
        #expect(world.counters.memoryQueueRefused == 0)
    }

    @Test func `delivery that does not fit its client's packets is dropped and counted`() {
        world.begin("bob/pc", "ann/phone")
        send(1...3)
        _ = world.lines()
        world.step(.deliveryTooLarge(world.connections["ann/phone"]!, number: 2))
        #expect(world.counters.oversizeDropped == 1)
        #expect(world.gauges.queuedMessages == 2)
        world.settle()
        world.lose("ann/phone")
        world.connect("ann/phone")
        world.settle()
        #expect(delivered(to: "ann/phone") == ["1", "3"])
        world.acknowledge("ann/phone", through: 3)
        world.settle()
        #expect(world.store.heldMessages == [])
    }
}

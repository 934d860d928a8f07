// What operators see of a queue, and what is left when they drop a message of it.

import Primitives
import Testing

@testable import BrokerCore

@Suite struct `An inspection` {
    let world = World()

    /// Messages `1`… of bob to ann, whose device is away or has this window.
    private func fill(_ count: Int, window: UInt16? = nil, grade: Grade = .durable) {
        world.begin("bob/pc")
        world.begin("ann/1", window: window ?? .max)
        if window == nil { world.lose("ann/1") }
        for number in 1...count {
            world.send("bob/pc", UInt64(number), to: .user("ann"), "\(number)", grade: grade)
        }
        world.settle()
        _ = world.lines()
    }

    private func page(
        _ name: String, isOffline: Bool = false, after number: UInt64 = 0, count: Int = 100,
        contentMaximum: Int = 100
    ) -> QueuePage? {
        let inspection = world.broker.inspectQueue(
            QueueSelection(name, isOffline: isOffline), after: number, countMaximum: count,
            contentMaximum: contentMaximum)
        switch inspection {
        case nil: return nil
        case .complete(let page): return page
        case .pending(let inspection):
            world.settle()
            return world.broker.takeInspection(inspection)
        }
    }

    private func drop(_ number: UInt64, of name: String, isOffline: Bool = false) -> QueueDrop? {
        let drop = world.drop(number, of: QueueSelection(name, isOffline: isOffline))
        guard case .pending(let inspection)? = drop else { return drop }
        world.settle()
        return world.broker.takeDrop(inspection)
    }

    private func texts(_ page: QueuePage?) -> [String]? {
        page?.messages.map { String(decoding: $0.content, as: UTF8.self) }
    }

    private func isDropped(_ drop: QueueDrop?) -> Bool {
        if case .dropped? = drop { true } else { false }
    }

    // MARK: - Looking

    @Test func `shows the queue of a device that is away in pages, and changes nothing`() throws {
        fill(5)
        let first = try #require(page("ann/1", count: 3))
        #expect(texts(first) == ["1", "2", "3"])
        #expect(first.next == 3)
        let rest = try #require(page("ann/1", after: 3, count: 3))
        #expect(texts(rest) == ["4", "5"])
        #expect(rest.next == nil)
        let message = try #require(rest.messages.first)
        #expect(message.number == 4 && message.grade == .durable && message.kind == .unicast)
        #expect(message.sender == Array("bob".utf8) && message.address.isEmpty)
        #expect(message.type == 0 && message.contentByteCount == 1 && !message.isUnderWay)
        #expect(message.deadline > world.now.instant)
        #expect(world.gauges.queuedMessages == 5)
        #expect(world.store.heldMessages.count == 5)
    }

    @Test func `shows a window from memory and the rest from the store`() throws {
        fill(9, window: 2)
        // Two are sent and two more are in memory.
        let window = try #require(page("ann/1"))
        #expect(texts(window) == ["1", "2", "3", "4"])
        #expect(window.messages.map(\.isUnderWay) == [true, true, false, false])
        #expect(window.next == 4)
        let rest = try #require(page("ann/1", after: 4))
        #expect(texts(rest) == ["5", "6", "7", "8", "9"])
        #expect(rest.messages.allSatisfy { !$0.isUnderWay })
        #expect(rest.next == nil)
        #expect(texts(page("ann/1", after: 1, count: 2)) == ["2", "3"])
        #expect(page("ann/1", after: .max)?.messages == [])
    }

    @Test func `shows what waits for a user without a session`() {
        world.begin("bob/pc")
        world.addUser("cy")
        #expect(page("cy", isOffline: true)?.messages == [])
        world.send("bob/pc", 1, to: .user("cy"), "1")
        world.settle()
        #expect(texts(page("cy", isOffline: true)) == ["1"])
        #expect(page("cy/1") == nil && page("dan", isOffline: true) == nil)
    }

    @Test func `shows messages whose commit is under way, and not those that expired`() {
        fill(1)
        world.send("bob/pc", 2, to: .user("ann"), "2", expiry: 10)
        #expect(world.beginCommit())
        world.send("bob/pc", 3, to: .user("ann"), "3")
        let inspection = world.broker.inspectQueue(
            QueueSelection("ann/1"), after: 0, countMaximum: 100, contentMaximum: 1)
        guard case .pending(let number)? = inspection else {
            Issue.record("\(String(describing: inspection))")
            return
        }
        #expect(world.broker.takeInspection(number) == nil)
        world.finishCommit()
        #expect(world.broker.takeInspection(number) == nil)
        world.settle()
        #expect(texts(world.broker.takeInspection(number)) == ["1", "2", "3"])
        #expect(world.broker.takeInspection(number) == nil)
        world.now.instant = world.now.instant.advanced(bySeconds: 10)
        #expect(texts(page("ann/1")) == ["1", "3"])
        // They are still counted, until a sweep finds them.
        #expect(world.gauges.queuedMessages == 3)
        // A page of one entry may have no message and yet not be the last.
        let skipped = page("ann/1", after: 1, count: 1)
        #expect(skipped == QueuePage(messages: [], next: 2))
    }

    @Test func `cuts the content and bounds a page by its bytes`() throws {
        world.begin("bob/pc")
        world.begin("ann/1")
        world.lose("ann/1")
        let text = String(repeating: "x", count: 100_000)
        for number in 1...4 as ClosedRange<UInt64> {
            world.send("bob/pc", number, to: .user("ann"), text, byteCount: 20)
        }
        world.settle()
        let first = try #require(page("ann/1", contentMaximum: 10))
        try #require(first.messages.count == 2 && first.next == 2)
        #expect(first.messages[0].content.count == 10)
        #expect(first.messages[0].contentByteCount == 100_000)
        #expect(page("ann/1", after: 2, contentMaximum: 0)?.messages[0].content == [])
        world.begin("ann/1", window: 10)
        #expect(page("ann/1", contentMaximum: 10)?.messages.count == 2)
    }

    @Test func `shows the window of a session in memory`() {
        world.begin("bob/pc")
        world.begin("ann/1", expiry: 0, window: 1)
        for number in 1...3 as ClosedRange<UInt64> {
            world.send("bob/pc", number, to: .user("ann"), "\(number)")
        }
        #expect(texts(page("ann/1")) == ["1", "2", "3"])
        #expect(drop(1, of: "ann/1") == .underWay)
        #expect(isDropped(drop(2, of: "ann/1")))
        _ = world.lines()
        world.acknowledge("ann/1", through: 1)
        #expect(world.lines() == ["ann/1: #3 \"3\" from bob"])
    }

    // MARK: - Dropping

    @Test func `drops a message of a device that is away, which leaves a gap`() {
        fill(3)
        #expect(isDropped(drop(2, of: "ann/1")))
        #expect(world.gauges.queuedMessages == 2)
        #expect(world.store.heldMessages.count == 2)
        #expect(world.counters.discarded == 1)
        #expect(drop(2, of: "ann/1") == .absent)
        #expect(drop(0, of: "ann/1") == .absent)
        #expect(drop(.max, of: "ann/1") == .absent)
        #expect(drop(1, of: "ann/2") == nil)
        world.connect("ann/1")
        world.settle()
        #expect(
            world.lines() == [
                "ann/1: accepted, present", "ann/1: #1 \"1\" from bob", "ann/1: #3 \"3\" from bob",
            ])
        world.acknowledge("ann/1", through: 3)
        world.settle()
        #expect(world.gauges.queuedMessages == 0)
    }

    @Test func `drops a message behind the window of a connected device`() {
        fill(9, window: 2)
        #expect(drop(1, of: "ann/1") == .underWay)
        #expect(drop(2, of: "ann/1") == .underWay)
        // In memory, and on disk only.
        #expect(isDropped(drop(3, of: "ann/1")))
        #expect(isDropped(drop(6, of: "ann/1")))
        world.settle()
        #expect(world.gauges.queuedMessages == 7)
        #expect(world.store.heldMessages.count == 7)
        _ = world.lines()
        for number in [2, 5, 8, 9] as [UInt64] {
            world.acknowledge("ann/1", through: number)
            world.settle()
        }
        let expected = [4, 5, 7, 8, 9].map { "ann/1: #\($0) \"\($0)\" from bob" }
        #expect(world.lines() == expected)
        #expect(world.gauges.queuedMessages == 0)
        #expect(world.counters.missingEntries == 0)
    }

    @Test func `drops a message that is loaded into the window meanwhile`() {
        fill(9, window: 2)
        guard case .pending(let inspection)? = world.drop(6, of: QueueSelection("ann/1")) else {
            Issue.record("number 6 is on disk only")
            return
        }
        // The load of the same batch brings it into the window.
        world.acknowledge("ann/1", through: 2)
        world.settle()
        #expect(isDropped(world.broker.takeDrop(inspection)))
        world.settle()
        #expect(world.gauges.queuedMessages == 6)
        for number in [4, 7, 9] as [UInt64] {
            world.acknowledge("ann/1", through: number)
            world.settle()
        }
        #expect(world.lines().allSatisfy { !$0.contains("#6") })
        #expect(world.gauges.queuedMessages == 0)
        #expect(world.counters.missingEntries == 0)
    }

    @Test func `drops a message before it is committed, and tells its sender`() {
        world.begin("bob/pc")
        world.begin("ann/1", window: 1)
        world.send("bob/pc", 1, to: .user("ann"), "1")
        world.send("bob/pc", 2, to: .user("ann"), "2")
        _ = world.lines()
        #expect(isDropped(drop(2, of: "ann/1")))
        #expect(world.lines() == ["bob/pc: result 2, sent"])
        world.settle()
        #expect(world.store.heldMessages.count == 1)
    }

    @Test func `of the offline queue drops one message`() {
        world.begin("bob/pc")
        world.addUser("cy")
        for number in 1...3 as ClosedRange<UInt64> {
            world.send("bob/pc", number, to: .user("cy"), "\(number)")
        }
        world.settle()
        #expect(isDropped(drop(1, of: "cy", isOffline: true)))
        #expect(drop(1, of: "cy", isOffline: true) == .absent)
        #expect(drop(1, of: "dan", isOffline: true) == nil)
        _ = world.lines()
        world.connect("cy/1")
        world.settle()
        #expect(world.lines().suffix(2) == ["cy/1: #2 \"2\" from bob", "cy/1: #3 \"3\" from bob"])
    }

    @Test func `twice of one message within a batch counts it once`() {
        fill(2)
        let first = world.drop(1, of: QueueSelection("ann/1"))
        let second = world.drop(1, of: QueueSelection("ann/1"))
        guard case .pending(let one)? = first, case .pending(let other)? = second else {
            Issue.record("\(String(describing: first)), \(String(describing: second))")
            return
        }
        world.settle()
        #expect(isDropped(world.broker.takeDrop(one)))
        #expect(world.broker.takeDrop(other) == .absent)
        #expect(world.gauges.queuedMessages == 1)
    }

    /// A QoS 2 exchange that has begun must end with the same packet identifier [MQTT-4.3.3-7].
    @Test func `drops no message of grade once that an MQTT client may have`() {
        world.begin("bob/pc")
        world.beginMQTT("ann/1", window: 1)
        world.subscribeMQTT("ann/1", "$u/ann")
        for number in 1...3 as ClosedRange<UInt64> {
            world.send(
                "bob/pc", number, to: .user("ann"), "\(number)",
                grade: number == 2 ? .durable : .once)
        }
        world.settle()
        world.lose("ann/1")
        world.settle()
        #expect(drop(1, of: "ann/1") == .underWay)
        #expect(page("ann/1")?.messages.map(\.isUnderWay) == [true, false, false])
        #expect(isDropped(drop(3, of: "ann/1")))
        #expect(isDropped(drop(2, of: "ann/1")))
    }

    /// The device that fails on a message gets it first whenever it connects.
    @Test func `drops the message that a client was sent and did not acknowledge`() {
        fill(3, window: 1)
        #expect(drop(1, of: "ann/1") == .underWay)
        world.kick("ann", sendsWills: false)
        #expect(isDropped(drop(1, of: "ann/1")))
        world.settle()
        _ = world.lines()
        world.begin("ann/1", window: 1)
        #expect(world.gauges.queuedMessages == 2)
        #expect(texts(page("ann/1")) == ["2", "3"])
    }

    // MARK: - Crashes

    @Test(arguments: [false, true])
    func `that drops is committed as a whole or not at all`(isCommitted: Bool) {
        fill(3)
        guard case .pending(let inspection)? = world.drop(2, of: QueueSelection("ann/1")) else {
            Issue.record("the queue is on disk only")
            return
        }
        // The store reads the message with one batch, and removes it with the next.
        #expect(world.commit())
        guard case .dropped(let batch)? = world.broker.takeDrop(inspection) else {
            Issue.record("number 2 is in the queue")
            return
        }
        #expect(world.beginCommit())
        #expect(world.lastBatch.sequence == batch)
        #expect(world.gauges.queuedMessages == 2)
        world.crash(committing: isCommitted)
        world.settle()
        #expect(world.gauges.queuedMessages == (isCommitted ? 2 : 3))
        #expect(texts(page("ann/1")) == (isCommitted ? ["1", "3"] : ["1", "2", "3"]))
    }

    @Test func `ends with the broker, and the queue stays`() {
        fill(2)
        #expect(world.drop(1, of: QueueSelection("ann/1")) != nil)
        #expect(world.beginCommit())
        world.crash(committing: true)
        world.settle()
        #expect(world.gauges.queuedMessages == 2)
    }

    @Test func `of a queue that is handed on finds nothing`() {
        fill(2)
        let drop = world.drop(1, of: QueueSelection("ann/1"))
        world.deleteSessions(
            matching: SessionFilter(app: World.app, user: Array("ann".utf8)))
        world.settle()
        guard case .pending(let inspection)? = drop else {
            Issue.record("\(String(describing: drop))")
            return
        }
        // The queue is the user's offline queue now, and the message is dropped from that.
        #expect(isDropped(world.broker.takeDrop(inspection)))
        world.settle()
        #expect(world.gauges.queuedMessages == 1)
    }
}

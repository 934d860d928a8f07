// The order in which events of connections enter the core.

import Primitives
import Testing

@testable import BrokerCore
@testable import Dialects

@Suite struct `The memory of an event` {
    @Test func `is the one that the limits of the schedule assume`() {
        // 16,384 of them are gathered before the core is entered, in less than 4 MB.
        #expect(MemoryLayout<Event>.stride <= 240)
        #expect(_isPOD(Event.self), "to copy an event must count no references")
    }
}

@Suite struct `A schedule of events` {
    /// A turn of 400 deliveries, and shares of 40.
    private static func limits() -> CoreLimits {
        var limits = CoreLimits()
        limits.turnWorkMaximum = 400
        limits.shareWorkMaximum = 40
        return limits
    }

    /// A loop with so many who subscribe to `t`.
    private func makeLoop(subscribers count: Int) -> CoreLoop {
        let loop = CoreLoop(limits: Self.limits())
        for number in 0..<count {
            loop.exchange(Packets.subscribe(["t"]), loop.client("s\(number)", .mqtt5))
        }
        return loop
    }

    private func flood(_ count: Int) -> [UInt8] {
        (0..<count).flatMap { _ in Packets.publish("t") }
    }

    @Test func `exceeds the limit of a turn by at most one packet`() {
        let loop = makeLoop(subscribers: 20)
        let flooder = loop.client("flooder", .mqtt5)
        let before = loop.broker.counters.deliveries
        var turns: [UInt64] = []
        loop.read(flood(200), flooder) { buffer in
            var last = before
            var waits = loop.enter(buffer)
            while true {
                turns.append(loop.broker.counters.deliveries - last)
                last = loop.broker.counters.deliveries
                guard waits else { return }
                waits = loop.enter()
            }
        }
        #expect(turns.reduce(0, +) == 200 * 20)
        // A delivery costs a little more than one.
        #expect(turns.allSatisfy { $0 <= 420 })
        #expect(turns.count >= 10)
        #expect(loop.isIdle && loop.waitingByteCount == 0)
    }

    @Test func `serves a new client before large requests are complete`() {
        let loop = makeLoop(subscribers: 20)
        let flooders = (0..<50).map { loop.client("f\($0)", .mqtt5) }
        let newcomer = loop.client("newcomer", .mqtt5)
        for flooder in flooders { loop.read(flood(100), flooder) { _ = loop.enter($0) } }
        let before = loop.broker.counters.sendsAccepted
        #expect(before < 50 * 100)
        var turnCount = 1
        loop.read(Packets.publish("nobody"), newcomer) { _ = loop.enter($0) }
        while loop.holds(newcomer) {
            turnCount += 1
            loop.enter()
        }
        // Each flooder has at most one message of 20 deliveries first.
        #expect(turnCount <= 4)
        #expect(!loop.isIdle)
    }

    @Test func `serves small requests before clients that used more than their share`() {
        // One packet is more than a share.
        let loop = makeLoop(subscribers: 100)
        let flooders = (0..<50).map { loop.client("f\($0)", .mqtt5) }
        let bystander = loop.client("bystander", .mqtt5)
        for flooder in flooders { loop.read(flood(1), flooder) { _ = loop.enter($0) } }
        while loop.enter() {}
        // In the same turn as the bystander they come behind it.
        for flooder in flooders {
            loop.read(flood(1), flooder) { loop.enter($0, isNewTurn: false) }
        }
        loop.read(Packets.publish("nobody"), bystander) { loop.enter($0, isNewTurn: false) }
        loop.enter()
        #expect(!loop.holds(bystander))
        #expect(!loop.isIdle)
        while loop.enter() {}
        #expect(loop.broker.counters.sendsAccepted == 101)
    }

    @Test func `serves small requests before a new client's message to many receivers`() {
        // One packet is more than a share, and nobody has sent one yet.
        let loop = makeLoop(subscribers: 100)
        let flooders = (0..<50).map { loop.client("f\($0)", .mqtt5) }
        let bystander = loop.client("bystander", .mqtt5)
        let before = loop.broker.counters.sendsAccepted
        for (number, flooder) in flooders.enumerated() {
            loop.read(flood(1), flooder) { loop.enter($0, isNewTurn: number == 0) }
        }
        loop.read(Packets.publish("nobody"), bystander) { loop.enter($0, isNewTurn: false) }
        loop.enter()
        #expect(!loop.holds(bystander))
        #expect(!loop.isIdle)
        while loop.enter() {}
        #expect(loop.broker.counters.sendsAccepted == before + 51)
    }

    @Test func `delays a will to many receivers like a message`() {
        let loop = makeLoop(subscribers: 100)
        let flooder = loop.client("flooder", .mqtt5)
        let lost = loop.open()
        loop.exchange(Packets.connect("lost", .mqtt5, will: "t"), lost)
        loop.read(flood(1), flooder) { _ = loop.enter($0) }
        loop.decoder.closed(lost, .lost)
        loop.enter(beginsRound: false)
        #expect(loop.holds(lost))
        loop.enter()
        #expect(!loop.holds(lost))
        #expect(loop.broker.counters.willsSent == 1)
    }

    @Test func `serves waiting clients once per round, and others in each turn`() {
        let loop = makeLoop(subscribers: 20)
        let flooder = loop.client("flooder", .mqtt5)
        loop.read(flood(200), flooder) { _ = loop.enter($0) }
        let client = loop.client("client", .mqtt5)
        let before = loop.broker.counters.sendsAccepted
        for _ in 0..<10 {
            loop.read(Packets.publish("nobody"), client) {
                #expect(loop.enter($0, beginsRound: false))
            }
        }
        #expect(loop.broker.counters.sendsAccepted == before + 10)
        loop.enter()
        #expect(loop.broker.counters.sendsAccepted > before + 10)
    }

    @Test func `charges the cost of a commit's result to the turn`() {
        let loop = CoreLoop(limits: Self.limits())
        for number in 0..<300 {
            loop.exchange(Packets.subscribe(["t"], qos: 2), loop.client("s\(number)", .mqtt5))
        }
        let flooder = loop.client("flooder", .mqtt5)
        let sender = loop.client("sender", .mqtt5)
        loop.exchange(Packets.subscribe(["q"]), sender)
        loop.read(Packets.publish("t", qos: 2), sender) { _ = loop.enter($0) }
        loop.commit()
        let before = loop.broker.counters.deliveries
        loop.read((0..<400).flatMap { _ in Packets.publish("q") }, flooder) { _ = loop.enter($0) }
        // Of 400 it has what is left, and what waits has a quarter of a turn in any case.
        #expect(loop.broker.counters.deliveries < before + 150)
    }

    @Test func `says last what is true of a connection that waits, goes on and waits again`() {
        let loop = makeLoop(subscribers: 20)
        let client = loop.client("client", .mqtt5)
        for _ in 0..<2 {
            loop.read(flood(100), client) { _ = loop.enter($0) }
            #expect(loop.holds(client))
            while loop.enter() {}
            #expect(!loop.holds(client))
        }
        loop.read(flood(100), client) { _ = loop.enter($0) }
        var isPaused = false
        loop.schedule.takeChanges { connection, waits in
            if connection == client { isPaused = waits }
        }
        #expect(loop.holds(client) && isPaused)
        while loop.enter() {}
        loop.schedule.takeChanges { connection, waits in
            if connection == client { isPaused = waits }
        }
        #expect(!isPaused)
    }

    @Test func `keeps the order of a connection while more is read`() {
        let loop = makeLoop(subscribers: 20)
        let client = loop.client("client", .mqtt5)
        loop.read(flood(100) + Packets.subscribe(["late"]), client) { _ = loop.enter($0) }
        #expect(loop.holds(client))
        let other = loop.client("other", .mqtt5)
        loop.exchange(Packets.publish("late"), other)
        // The subscription waits behind the flood.
        #expect(loop.broker.inspectedSubscriptionCount(of: "client") == 0)
        loop.read(Packets.unsubscribe(["late"]), client) { _ = loop.enter($0) }
        while loop.enter() {}
        #expect(loop.broker.inspectedSubscriptionCount(of: "client") == 0)
        #expect(loop.broker.counters.subscriptionsRefused == 0)
        #expect(loop.isIdle)
    }

    @Test func `delays events of clients that do not read until they do`() {
        let loop = makeLoop(subscribers: 20)
        let deaf = loop.client("deaf", .mqtt5)
        loop.read(flood(100), deaf) { _ = loop.enter($0, isReading: { $0 != deaf }) }
        let sent = loop.broker.counters.sendsAccepted
        // Nothing can go on at once.
        #expect(!loop.enter(isReading: { $0 != deaf }))
        #expect(loop.broker.counters.sendsAccepted == sent)
        while loop.enter() {}
        #expect(loop.broker.counters.sendsAccepted >= sent + 90)
    }

    @Test
    func `reads few packets per connection while many events wait, and filters count as packets`() {
        let loop = makeLoop(subscribers: 20)
        let flooders = (0..<40).map { loop.client("f\($0)", .mqtt5) }
        #expect(loop.packetCountMaximum == ScheduleLimits.packetsPerTurnMaximum)
        for flooder in flooders { loop.read(flood(2_000), flooder) { _ = loop.enter($0) } }
        #expect(loop.packetCountMaximum == ScheduleLimits.packetsPerCrowdedTurnMaximum)
        let client = loop.client("client", .mqtt5)
        let filters = (0..<100).map { "f/\($0)" }
        let packets = Packets.subscribe(filters) + Packets.subscribe(filters)
        let outcome = loop.read(packets, client, packetMaximum: 32) { _ in
            #expect(loop.decoder.events.count == 1)
            loop.decoder.removeEvents()
        }
        #expect(outcome.isCut && outcome.consumed == packets.count / 2)
    }

    @Test func `accepts a new connection in the slot of one with waiting events`() {
        let loop = makeLoop(subscribers: 20)
        let first = loop.client("first", .mqtt5)
        loop.read(flood(100), first) { _ = loop.enter($0) }
        #expect(loop.holds(first))
        // Its end waits behind what it sent.
        loop.decoder.closed(first, .lost)
        loop.enter()
        #expect(loop.holds(first))
        let second = loop.open(slot: first.slot, generation: first.generation + 1)
        loop.read(Packets.connect("second", .mqtt5), second) { _ = loop.enter($0) }
        while loop.enter() {}
        loop.commit()
        #expect(loop.decoder.conversations[second]?.phase == .established)
        #expect(loop.broker.counters.sendsAccepted == 100)
        loop.broker.checkInvariants()
        loop.decoder.closed(second, .lost)
        loop.enter()
        loop.broker.checkInvariants()
    }
}

@Suite struct `The filters of one packet` {
    private let loop = CoreLoop()

    private func filters(_ count: Int) -> [String] { (0..<count).map { "f/\($0)" } }

    // [MQTT-3.8.4-6]: one code for each filter, also for those that nobody looked at.
    @Test(arguments: [SessionDialect.mqtt3, .mqtt5])
    func `are processed up to a limit, and refused beyond it`(dialect: SessionDialect) {
        let client = loop.client("greedy", dialect)
        let cost = loop.exchange(Packets.subscribe(filters(5_000), dialect), client)
        // 1,000 are the session's, 24 its quota refused, 3,976 the packet's.
        #expect(loop.broker.inspectedSubscriptionCount(of: "greedy") == 1_000)
        #expect(loop.broker.counters.subscriptionsRefused == 4_000)
        #expect(loop.broker.counters.subscriptionsOverQuota == 4_000)
        #expect(cost.writtenBytes >= 5_000 && cost.writtenBytes < 5_100)
    }

    @Test func `end up to the limit, and the others are refused`() {
        let client = loop.client("greedy", .mqtt5)
        loop.exchange(Packets.subscribe(filters(1_000)), client)
        let cost = loop.exchange(Packets.unsubscribe(filters(5_000)), client)
        #expect(loop.broker.inspectedSubscriptionCount(of: "greedy") == 0)
        #expect(cost.writtenBytes >= 5_000)
    }

    // UNSUBACK of 3.1.1 cannot say that one of them did not end.
    @Test func `beyond the limit end the connection if no code can refuse them`() {
        let client = loop.client("greedy", .mqtt3)
        loop.exchange(Packets.subscribe(filters(1_000), .mqtt3), client)
        loop.exchange(Packets.unsubscribe(filters(1_024), .mqtt3), client)
        #expect(loop.decoder.conversations[client]?.phase == .established)
        loop.exchange(Packets.unsubscribe(filters(1_025), .mqtt3), client)
        #expect(loop.decoder.conversations[client]?.phase == .closing)
    }

    @Test func `cost as much as the search for each of them`() {
        let client = loop.client("greedy", .mqtt5)
        loop.exchange(Packets.subscribe(filters(1_000)), client)
        let again = loop.exchange(Packets.subscribe(filters(1_000)), client)
        #expect(again.work > 1_000 * 1_000 / CoreLimits.looksPerWork)
    }
}

extension Broker {
    /// Filters of a user's one session.
    fileprivate func inspectedSubscriptionCount(of user: String) -> Int {
        for session in sessions.places where sessions.contains(session) {
            if registry.users[sessions[session].user].name.elementsEqual(user.utf8) {
                return Int(sessions[session].filterCount)
            }
        }
        return 0
    }
}

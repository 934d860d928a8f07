// Whose events enter the core, and when.

import Primitives
import Testing

@testable import BrokerCore
@testable import Dialects

@Suite struct `A schedule of events` {
    /// A turn of 400 deliveries, and shares of 40.
    private static func limits() -> CoreLimits {
        var limits = CoreLimits()
        limits.turnWorkMaximum = 400
        limits.shareWorkMaximum = 40
        return limits
    }

    /// A lane with so many who subscribe to `t`.
    private func makeLane(subscribers count: Int) -> CoreLane {
        let lane = CoreLane(limits: Self.limits())
        for number in 0..<count {
            lane.exchange(Packets.subscribe(["t"]), lane.client("s\(number)", .mqtt5))
        }
        return lane
    }

    private func flood(_ count: Int) -> [UInt8] {
        (0..<count).flatMap { _ in Packets.publish("t") }
    }

    @Test func `spends a turn's budget and no more than one packet beyond it`() {
        let lane = makeLane(subscribers: 20)
        let flooder = lane.client("flooder", .mqtt5)
        let before = lane.broker.counters.deliveries
        var turns: [UInt64] = []
        lane.read(flood(200), flooder) { buffer in
            var last = before
            var waits = lane.enter(buffer)
            while true {
                turns.append(lane.broker.counters.deliveries - last)
                last = lane.broker.counters.deliveries
                guard waits else { return }
                waits = lane.enter()
            }
        }
        #expect(turns.reduce(0, +) == 200 * 20)
        // A delivery costs a little more than one.
        #expect(turns.allSatisfy { $0 <= 420 })
        #expect(turns.count >= 10)
        #expect(lane.isIdle && lane.waitingByteCount == 0)
    }

    @Test func `lets a newcomer in before those who ask for much have had all`() {
        let lane = makeLane(subscribers: 20)
        let flooders = (0..<50).map { lane.client("f\($0)", .mqtt5) }
        let newcomer = lane.client("newcomer", .mqtt5)
        for flooder in flooders { lane.read(flood(100), flooder) { _ = lane.enter($0) } }
        let before = lane.broker.counters.sendsAccepted
        #expect(before < 50 * 100)
        var turnCount = 1
        lane.read(Packets.publish("nobody"), newcomer) { _ = lane.enter($0) }
        while lane.holds(newcomer) {
            turnCount += 1
            lane.enter()
        }
        // Each flooder has at most one message of 20 deliveries first.
        #expect(turnCount <= 4)
        #expect(!lane.isIdle)
    }

    @Test func `lets who asks for little go before those who have asked for much`() {
        // One packet is more than a share.
        let lane = makeLane(subscribers: 100)
        let flooders = (0..<50).map { lane.client("f\($0)", .mqtt5) }
        let bystander = lane.client("bystander", .mqtt5)
        for flooder in flooders { lane.read(flood(1), flooder) { _ = lane.enter($0) } }
        while lane.enter() {}
        // In the same turn as the bystander they come behind it.
        for flooder in flooders {
            lane.read(flood(1), flooder) { lane.enter($0, isNewTurn: false) }
        }
        lane.read(Packets.publish("nobody"), bystander) { lane.enter($0, isNewTurn: false) }
        lane.enter()
        #expect(!lane.holds(bystander))
        #expect(!lane.isIdle)
        while lane.enter() {}
        #expect(lane.broker.counters.sendsAccepted == 101)
    }

    @Test func `lets who asks for little go before newcomers whose one message is for many`() {
        // One packet is more than a share, and nobody has sent one yet.
        let lane = makeLane(subscribers: 100)
        let flooders = (0..<50).map { lane.client("f\($0)", .mqtt5) }
        let bystander = lane.client("bystander", .mqtt5)
        let before = lane.broker.counters.sendsAccepted
        for (number, flooder) in flooders.enumerated() {
            lane.read(flood(1), flooder) { lane.enter($0, isNewTurn: number == 0) }
        }
        lane.read(Packets.publish("nobody"), bystander) { lane.enter($0, isNewTurn: false) }
        lane.enter()
        #expect(!lane.holds(bystander))
        #expect(!lane.isIdle)
        while lane.enter() {}
        #expect(lane.broker.counters.sendsAccepted == before + 51)
    }

    @Test func `puts off a will for many as it puts off a message`() {
        let lane = makeLane(subscribers: 100)
        let flooder = lane.client("flooder", .mqtt5)
        let lost = lane.open()
        lane.exchange(Packets.connect("lost", .mqtt5, will: "t"), lost)
        lane.read(flood(1), flooder) { _ = lane.enter($0) }
        lane.desk.closed(lost, .lost)
        lane.enter(beginsRound: false)
        #expect(lane.holds(lost))
        lane.enter()
        #expect(!lane.holds(lost))
        #expect(lane.broker.counters.willsSent == 1)
    }

    @Test func `serves who waits for more once in a round, and others in each turn`() {
        let lane = makeLane(subscribers: 20)
        let flooder = lane.client("flooder", .mqtt5)
        lane.read(flood(200), flooder) { _ = lane.enter($0) }
        let client = lane.client("client", .mqtt5)
        let before = lane.broker.counters.sendsAccepted
        for _ in 0..<10 {
            lane.read(Packets.publish("nobody"), client) {
                #expect(lane.enter($0, beginsRound: false))
            }
        }
        #expect(lane.broker.counters.sendsAccepted == before + 10)
        lane.enter()
        #expect(lane.broker.counters.sendsAccepted > before + 10)
    }

    @Test func `charges a turn with what the result of a commit has cost`() {
        let lane = CoreLane(limits: Self.limits())
        for number in 0..<300 {
            lane.exchange(Packets.subscribe(["t"], qos: 2), lane.client("s\(number)", .mqtt5))
        }
        let flooder = lane.client("flooder", .mqtt5)
        let sender = lane.client("sender", .mqtt5)
        lane.exchange(Packets.subscribe(["q"]), sender)
        lane.read(Packets.publish("t", qos: 2), sender) { _ = lane.enter($0) }
        lane.commit()
        let before = lane.broker.counters.deliveries
        lane.read((0..<400).flatMap { _ in Packets.publish("q") }, flooder) { _ = lane.enter($0) }
        // Of 400 it has what is left, and what waits has a quarter of a turn in any case.
        #expect(lane.broker.counters.deliveries < before + 150)
    }

    @Test func `keeps the order of a connection, whatever is read meanwhile`() {
        let lane = makeLane(subscribers: 20)
        let client = lane.client("client", .mqtt5)
        lane.read(flood(100) + Packets.subscribe(["late"]), client) { _ = lane.enter($0) }
        #expect(lane.holds(client))
        let other = lane.client("other", .mqtt5)
        lane.exchange(Packets.publish("late"), other)
        // The subscription waits behind the flood.
        #expect(lane.broker.inspectedSubscriptionCount(of: "client") == 0)
        lane.read(Packets.unsubscribe(["late"]), client) { _ = lane.enter($0) }
        while lane.enter() {}
        #expect(lane.broker.inspectedSubscriptionCount(of: "client") == 0)
        #expect(lane.broker.counters.subscriptionsRefused == 0)
        #expect(lane.isIdle)
    }

    @Test func `leaves those alone who do not read, and goes on when they do`() {
        let lane = makeLane(subscribers: 20)
        let deaf = lane.client("deaf", .mqtt5)
        lane.read(flood(100), deaf) { _ = lane.enter($0, isReading: { $0 != deaf }) }
        let sent = lane.broker.counters.sendsAccepted
        // Nothing can go on at once.
        #expect(!lane.enter(isReading: { $0 != deaf }))
        #expect(lane.broker.counters.sendsAccepted == sent)
        while lane.enter() {}
        #expect(lane.broker.counters.sendsAccepted >= sent + 90)
    }

    @Test func `takes few packets from anybody while much waits, and filters count as packets`() {
        let lane = makeLane(subscribers: 20)
        let flooders = (0..<40).map { lane.client("f\($0)", .mqtt5) }
        #expect(lane.packetCountMaximum == ScheduleLimits.packetsPerTurnMaximum)
        for flooder in flooders { lane.read(flood(2_000), flooder) { _ = lane.enter($0) } }
        #expect(lane.packetCountMaximum == ScheduleLimits.packetsPerCrowdedTurnMaximum)
        let client = lane.client("client", .mqtt5)
        let filters = (0..<100).map { "f/\($0)" }
        let packets = Packets.subscribe(filters) + Packets.subscribe(filters)
        let outcome = lane.read(packets, client, packetMaximum: 32) { _ in
            #expect(lane.desk.events.count == 100)
            lane.desk.removeEvents()
        }
        #expect(outcome.isCut && outcome.consumed == packets.count / 2)
    }

    @Test func `has room for who takes the slot of a connection that has more waiting`() {
        let lane = makeLane(subscribers: 20)
        let first = lane.client("first", .mqtt5)
        lane.read(flood(100), first) { _ = lane.enter($0) }
        #expect(lane.holds(first))
        // Its end waits behind what it sent.
        lane.desk.closed(first, .lost)
        lane.enter()
        #expect(lane.holds(first))
        let second = lane.open(slot: first.slot, generation: first.generation + 1)
        lane.read(Packets.connect("second", .mqtt5), second) { _ = lane.enter($0) }
        while lane.enter() {}
        lane.commit()
        #expect(lane.desk.conversations[second]?.phase == .established)
        #expect(lane.broker.counters.sendsAccepted == 100)
        lane.broker.checkInvariants()
        lane.desk.closed(second, .lost)
        lane.enter()
        lane.broker.checkInvariants()
    }
}

@Suite struct `The filters of one packet` {
    private let lane = CoreLane()

    private func filters(_ count: Int) -> [String] { (0..<count).map { "f/\($0)" } }

    // [MQTT-3.8.4-6]: one code for each filter, also for those that nobody looked at.
    @Test(arguments: [SessionDialect.mqtt3, .mqtt5])
    func `are looked at up to a limit, and refused beyond it`(dialect: SessionDialect) {
        let client = lane.client("greedy", dialect)
        let cost = lane.exchange(Packets.subscribe(filters(5_000), dialect), client)
        // 1,000 are the session's, 24 its quota refused, 3,976 the packet's.
        #expect(lane.broker.inspectedSubscriptionCount(of: "greedy") == 1_000)
        #expect(lane.broker.counters.subscriptionsRefused == 4_000)
        #expect(lane.broker.counters.subscriptionsOverQuota == 4_000)
        #expect(cost.writtenBytes >= 5_000 && cost.writtenBytes < 5_100)
    }

    @Test func `end up to the limit, and the others are told apart`() {
        let client = lane.client("greedy", .mqtt5)
        lane.exchange(Packets.subscribe(filters(1_000)), client)
        let cost = lane.exchange(Packets.unsubscribe(filters(5_000)), client)
        #expect(lane.broker.inspectedSubscriptionCount(of: "greedy") == 0)
        #expect(cost.writtenBytes >= 5_000)
    }

    // UNSUBACK of 3.1.1 cannot say that one of them did not end.
    @Test func `beyond the limit end the connection where no code can refuse them`() {
        let client = lane.client("greedy", .mqtt3)
        lane.exchange(Packets.subscribe(filters(1_000), .mqtt3), client)
        lane.exchange(Packets.unsubscribe(filters(1_024), .mqtt3), client)
        #expect(lane.desk.conversations[client]?.phase == .established)
        lane.exchange(Packets.unsubscribe(filters(1_025), .mqtt3), client)
        #expect(lane.desk.conversations[client]?.phase == .closing)
    }

    @Test func `cost what the look at each of them costs`() {
        let client = lane.client("greedy", .mqtt5)
        lane.exchange(Packets.subscribe(filters(1_000)), client)
        let again = lane.exchange(Packets.subscribe(filters(1_000)), client)
        #expect(again.work > 1_000 * 1_000 / CoreLimits.looksPerWork)
    }
}

extension Broker {
    /// Filters of a user's one session.
    fileprivate func inspectedSubscriptionCount(of user: String) -> Int {
        for session in sessions.places where sessions.contains(session) {
            if users[sessions[session].user].name.elementsEqual(user.utf8) {
                return Int(sessions[session].filterCount)
            }
        }
        return 0
    }
}

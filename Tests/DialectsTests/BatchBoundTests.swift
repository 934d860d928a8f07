// Events that wait for the next batch because the present one is full.

import Primitives
import Testing

@testable import BrokerCore
@testable import Dialects

@Suite struct `A batch with a bound` {
    private static func limits() -> CoreLimits {
        var limits = CoreLimits()
        limits.batchChangesMaximum = 40
        limits.batchMovesMaximum = 40
        limits.smallEventChangesMaximum = 4
        return limits
    }

    /// Commits once and says how many entries that stored, or how many it moved.
    private func commit(_ loop: CoreLoop) -> (entries: Int, moved: UInt64) {
        var batch = StoreBatch()
        guard loop.broker.takeBatch(into: &batch, at: loop.now) else { return (0, 0) }
        loop.finish(batch)
        return (batch.entries.count, batch.transfers.reduce(0) { $0 + $1.countMaximum })
    }

    private func queuedCount(_ loop: CoreLoop) -> UInt64 { loop.broker.gauges().queuedMessages }

    @Test func `exceeds its limit by at most one packet and the share of a new client`() {
        let loop = CoreLoop(limits: Self.limits())
        for number in 0..<10 {
            let away = loop.client("s\(number)", .mqtt5)
            loop.exchange(Packets.subscribe(["t"], qos: 1), away)
            loop.exchange(Packets.packet(0xE0, []), away)
        }
        let flooder = loop.client("flooder", .mqtt5)
        let bystander = loop.client("bystander", .mqtt5)
        let near = loop.client("near", .mqtt5)
        loop.exchange(Packets.subscribe(["near"], qos: 1), near)
        let packets = (1...50).flatMap { Packets.publish("t", qos: 1, identifier: UInt16($0)) }
        var counts: [Int] = []
        loop.read(packets, flooder) { _ = loop.enter($0) }
        counts.append(commit(loop).entries)
        loop.enter()
        #expect(loop.holds(flooder), "it has had a share, and comes to the bound")
        loop.read(Packets.publish("near", qos: 1, identifier: 1), bystander) { _ = loop.enter($0) }
        #expect(!loop.holds(bystander), "a newcomer who asks for little has room of its own")
        while !loop.isIdle {
            #expect(!loop.enter(), "what waits for a commit does not go on at once")
            counts.append(commit(loop).entries)
            let mayGoOn = loop.broker.takeResumption()
            #expect(mayGoOn)
            loop.enter()
        }
        counts.append(commit(loop).entries)
        #expect(counts.reduce(0, +) == 501)
        #expect(counts.allSatisfy { $0 <= 100 }, "\(counts)")
        #expect(counts.count > 5)
    }

    private func stayAway(_ count: Int, _ loop: CoreLoop) {
        for number in 0..<count {
            let away = loop.client("s\(number)", .mqtt5)
            loop.exchange(Packets.subscribe(["t"], qos: 1), away)
            loop.exchange(Packets.packet(0xE0, []), away)
        }
    }

    private func goOn(_ loop: CoreLoop) {
        let mayGoOn = loop.broker.takeResumption()
        #expect(mayGoOn)
        loop.enter()
    }

    @Test func `lets small requests pass new clients with large requests`() {
        let loop = CoreLoop(limits: Self.limits())
        stayAway(20, loop)
        let near = loop.client("near", .mqtt5)
        loop.exchange(Packets.subscribe(["near"], qos: 1), near)
        let askers = (0..<8).map { loop.client("asker\($0)", .mqtt5) }
        let bystander = loop.client("bystander", .mqtt5)
        for asker in askers {
            loop.read(Packets.publish("t", qos: 1, identifier: 1), asker) { _ = loop.enter($0) }
        }
        #expect(askers.filter { loop.holds($0) }.count == 6)
        loop.read(Packets.publish("near", qos: 1, identifier: 1), bystander) { _ = loop.enter($0) }
        #expect(!loop.holds(bystander))
        while !loop.isIdle {
            let count = commit(loop).entries
            #expect(count <= 41)
            goOn(loop)
        }
    }

    @Test func `reserves a part for clients that have had a share`() {
        let loop = CoreLoop(limits: Self.limits())
        stayAway(10, loop)
        let flooder = loop.client("flooder", .mqtt5)
        let packets = (1...20).flatMap { Packets.publish("t", qos: 1, identifier: UInt16($0)) }
        loop.read(packets, flooder) { _ = loop.enter($0) }
        #expect(loop.holds(flooder))
        // There are always newcomers who would fill the batch.
        let newcomers = (0..<200).map { loop.client("n\($0)", .mqtt5) }
        var position = 0
        var batchCount = 0
        while loop.holds(flooder), batchCount < 40 {
            _ = commit(loop)
            batchCount += 1
            for newcomer in newcomers[position..<position + 5] {
                loop.read(Packets.publish("t", qos: 1, identifier: 1), newcomer) {
                    _ = loop.enter($0)
                }
            }
            position += 5
            goOn(loop)
        }
        #expect(!loop.holds(flooder), "it never goes on")
        while !loop.isIdle {
            _ = commit(loop)
            goOn(loop)
        }
    }

    @Test func `lets a device's login wait for its own disconnect`() {
        let loop = CoreLoop(limits: Self.limits())
        stayAway(10, loop)
        let watcher = loop.client("watcher", .mqtt5)
        loop.exchange(Packets.subscribe(["gone"]), watcher)
        let old = loop.open()
        loop.exchange(Packets.connect("device", .mqtt5, will: "gone"), old)
        let packets = (1...20).flatMap { Packets.publish("t", qos: 1, identifier: UInt16($0)) }
        loop.read(packets, old) { _ = loop.enter($0) }
        loop.read(Packets.packet(0xE0, []), old) { _ = loop.enter($0) }
        #expect(loop.holds(old))
        let new = loop.open()
        loop.read(Packets.connect("device", .mqtt5), new) { _ = loop.enter($0) }
        #expect(loop.holds(new))
        while !loop.isIdle {
            _ = commit(loop)
            goOn(loop)
        }
        _ = commit(loop)
        #expect(loop.decoder.conversations[new]?.phase == .established)
        #expect(loop.broker.counters.willsSent == 0)
    }

    /// So many sends that the batch has no room for the last of them.
    private let flood = (1...8).flatMap { number in
        Packets.send(
            [4] + Packets.string8("t"), Array("\0x".utf8), grade: 1, number: number)
    }

    private func channel(_ inner: [UInt8]) -> [UInt8] { Packets.packet(0xA0, [1] + inner) }

    /// Goes on until nothing waits, or for 5 s of which each commit takes 50 ms.
    private func finish(_ loop: CoreLoop) {
        for _ in 0..<100 where !loop.isIdle {
            _ = commit(loop)
            _ = loop.broker.takeResumption()
            loop.now.instant = loop.now.instant.advanced(byMilliseconds: 50)
            loop.enter()
        }
        _ = commit(loop)
    }

    @Test func `lets no login wait for an end that comes behind it`() {
        let loop = CoreLoop(limits: Self.limits())
        stayAway(10, loop)
        let gateway = loop.client("gateway", .mrt)
        loop.read(
            flood + channel(Packets.connect("gateway", .mrt)) + Packets.packet(0xE0, []), gateway
        ) { _ = loop.enter($0) }
        #expect(loop.holds(gateway))
        finish(loop)
        #expect(loop.isIdle)
        loop.broker.checkInvariants()
    }

    @Test func `lets no two logins wait for each other`() {
        let loop = CoreLoop(limits: Self.limits())
        stayAway(10, loop)
        let gateways = ["one", "two"].map { loop.client($0, .mrt) }
        for (gateway, other) in zip(gateways, ["two", "one"]) {
            loop.read(
                flood + channel(Packets.connect(other, .mrt)) + Packets.packet(0xE0, []), gateway
            ) { _ = loop.enter($0) }
            #expect(loop.holds(gateway))
        }
        #expect(loop.schedule.nextDeadline == nil || loop.schedule.nextDeadline! > loop.now.instant)
        finish(loop)
        #expect(loop.isIdle)
        #expect(loop.schedule.nextDeadline == nil)
        loop.broker.checkInvariants()
    }

    @Test func `lets a login wait for a disconnect in a channel`() {
        let loop = CoreLoop(limits: Self.limits())
        stayAway(10, loop)
        let gateway = loop.client("gateway", .mrt)
        loop.exchange(channel(Packets.connect("device", .mrt)), gateway)
        loop.read(flood + channel(Packets.packet(0xE0, [])), gateway) { _ = loop.enter($0) }
        #expect(loop.holds(gateway))
        let new = loop.open()
        loop.read(Packets.connect("device", .mrt), new) { _ = loop.enter($0) }
        #expect(loop.holds(new))
        let takeovers = loop.broker.counters.takeovers
        finish(loop)
        #expect(loop.decoder.conversations[new]?.phase == .established)
        #expect(loop.broker.counters.takeovers == takeovers)
    }

    /// The loop would not sleep: it wakes at the deadline, and the login waits for its client.
    @Test func `has no deadline for a login whose client does not read`() {
        let loop = CoreLoop(limits: Self.limits())
        stayAway(10, loop)
        let old = loop.client("device", .mqtt5)
        let packets = (1...20).flatMap { Packets.publish("t", qos: 1, identifier: UInt16($0)) }
        loop.read(packets + Packets.packet(0xE0, []), old) { _ = loop.enter($0) }
        let new = loop.open()
        loop.read(Packets.connect("device", .mqtt5), new) { _ = loop.enter($0) }
        #expect(loop.holds(old) && loop.holds(new))
        #expect(loop.schedule.nextDeadline != nil)
        loop.now.instant = loop.now.instant.advanced(byMilliseconds: 2_000)
        _ = loop.enter { $0 != new }
        #expect(loop.holds(new))
        #expect(loop.schedule.nextDeadline == nil)
        finish(loop)
        #expect(loop.isIdle)
    }

    @Test func `lets the other channels of a gateway wait 100 ms for a login`() {
        let loop = CoreLoop(limits: Self.limits())
        stayAway(10, loop)
        let old = loop.client("device", .mrt)
        let gateway = loop.client("gateway", .mrt)
        loop.read(flood + Packets.packet(0xE0, []), old) { _ = loop.enter($0) }
        loop.read(channel(Packets.connect("device", .mrt)), gateway) { _ = loop.enter($0) }
        #expect(loop.holds(old) && loop.holds(gateway))
        #expect(
            loop.schedule.nextDeadline == loop.now.instant.advanced(byMilliseconds: 100))
        finish(loop)
        #expect(loop.isIdle)
    }

    @Test func `takes no more releases than other changes`() {
        let loop = CoreLoop(limits: Self.limits())
        let publisher = loop.client("publisher", .mqtt5)
        let packets = (1...100).flatMap { Packets.publish("t", qos: 2, identifier: UInt16($0)) }
        loop.exchange(packets, publisher)
        while !loop.isIdle {
            _ = commit(loop)
            goOn(loop)
        }
        _ = commit(loop)
        let releases = (1...100).flatMap { Packets.packet(0x62, [0, UInt8($0)]) }
        loop.read(releases, publisher) { _ = loop.enter($0) }
        #expect(loop.holds(publisher))
        var rowCounts: [Int] = []
        while true {
            var batch = StoreBatch()
            guard loop.broker.takeBatch(into: &batch, at: loop.now) else { break }
            rowCounts.append(batch.records.count)
            loop.finish(batch)
            _ = loop.broker.takeResumption()
            loop.enter()
        }
        // A release asks for little.
        #expect(rowCounts.count > 1 && rowCounts.allSatisfy { $0 <= 85 }, "\(rowCounts)")
    }

    @Test func `moves a queue or two, and lets other clients precede the rest`() {
        let loop = CoreLoop(limits: Self.limits())
        let sender = loop.client("sender", .mqtt5)
        let users = (0..<6).map { "u\($0)" }
        // None of them hears what its user is sent.
        let devices = users.map { loop.client($0, .mqtt5) }
        for user in users {
            for number in 1...30 {
                loop.exchange(
                    Packets.publish(
                        "$u/\(user)", Array(#"{"t":"1","b":"h"}"#.utf8), qos: 1,
                        identifier: UInt16(number)), sender)
            }
        }
        #expect(queuedCount(loop) == 180)
        for (user, device) in zip(users, devices) {
            loop.read(Packets.subscribe(["$u/\(user)"], qos: 1), device) { _ = loop.enter($0) }
        }
        #expect(devices.filter { loop.holds($0) }.count == 4)
        loop.read(Packets.publish("t", qos: 1, identifier: 31), sender) { _ = loop.enter($0) }
        #expect(!loop.holds(sender), "who moves nothing goes on")
        var moved: [UInt64] = []
        while !loop.isIdle {
            moved.append(commit(loop).moved)
            let mayGoOn = loop.broker.takeResumption()
            #expect(mayGoOn)
            loop.enter()
        }
        moved.append(commit(loop).moved)
        #expect(moved == [60, 60, 60])
        loop.commit()
        #expect(queuedCount(loop) == 180)
    }
}

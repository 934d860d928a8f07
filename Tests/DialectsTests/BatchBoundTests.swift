// Which events wait for the next batch because this one has enough.

import Primitives
import Testing

@testable import BrokerCore
@testable import Dialects

@Suite struct `A batch with a bound` {
    private static func limits() -> CoreLimits {
        var limits = CoreLimits()
        limits.batchChangesMaximum = 40
        limits.batchMovesMaximum = 40
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

    @Test func `takes no more entries than one packet and a newcomer's share beyond it`() {
        let loop = CoreLoop(limits: Self.limits())
        for number in 0..<10 {
            let away = loop.client("s\(number)", .mqtt5)
            loop.exchange(Packets.subscribe(["t"], qos: 1), away)
            loop.exchange(Packets.packet(0xE0, []), away)
        }
        let flooder = loop.client("flooder", .mqtt5)
        let bystander = loop.client("bystander", .mqtt5)
        let packets = (1...50).flatMap { Packets.publish("t", qos: 1, identifier: UInt16($0)) }
        var counts: [Int] = []
        loop.read(packets, flooder) { _ = loop.enter($0) }
        counts.append(commit(loop).entries)
        loop.enter()
        #expect(loop.holds(flooder), "it has had a share, and comes to the bound")
        loop.read(Packets.publish("t", qos: 1, identifier: 1), bystander) { _ = loop.enter($0) }
        #expect(!loop.holds(bystander), "a newcomer has room of its own")
        while !loop.isIdle {
            #expect(!loop.enter(), "what waits for a commit does not go on at once")
            counts.append(commit(loop).entries)
            let mayGoOn = loop.broker.takeResumption()
            #expect(mayGoOn)
            loop.enter()
        }
        counts.append(commit(loop).entries)
        #expect(counts.reduce(0, +) == 510)
        #expect(counts.allSatisfy { $0 <= 100 }, "\(counts)")
        #expect(counts.count > 5)
    }

    @Test func `moves a queue or two, and lets others go before the rest`() {
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

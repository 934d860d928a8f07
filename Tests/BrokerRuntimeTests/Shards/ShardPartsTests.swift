// The parts that shards are made of: places of apps and connections, sums, and what several stores
// change in the parts that know of one.

import BrokerCore
import BrokerTerms
import Configuration
import NetTransport
import Primitives
import QueueStore
import TestSurroundings
import Threads
import Testing

@testable import BrokerRuntime

@Suite("The parts of shards")
struct ShardPartsTests {
    @Test func `apps that no shard names belong to the default one, in the data directory`() {
        let map = ShardMap([
            ShardSettings(name: "north", apps: ["plant", "home"]),
            ShardSettings(name: "south", apps: ["shop"]),
        ])
        #expect(map.names == ["default", "north", "south"])
        let places = ["demo", "home", "shop", ""].map { map.place(ofApp: Array($0.utf8)) }
        #expect(places == [0, 1, 2, 0])
        let directories = (0..<3).map { map.directory(of: $0, in: "/d") }
        #expect(directories == ["/d", "/d/shards/north", "/d/shards/south"])
        #expect(ShardMap().place(ofApp: Array("plant".utf8)) == 0)
    }

    @Test func `maps with the same apps in the same shards are the same, in whatever order`() {
        func checksum(_ shards: (name: String, apps: [String])...) -> UInt64 {
            ShardMap(shards.map { ShardSettings(name: $0.name, apps: $0.apps) }).checksum
        }
        let one = checksum(("north", ["plant", "home"]), ("south", ["x"]))
        #expect(one == checksum(("south", ["x"]), ("north", ["home", "plant"])))
        let others = [
            checksum(), checksum(("north", ["plant"]), ("south", ["x"])),
            checksum(("north", ["plant", "homex"]), ("south", [""])),
            checksum(("north", ["plant", "x"]), ("south", ["home"])),
        ]
        #expect(Set(others + [one]).count == 5)
        #expect(ShardMap().checksum == checksum())
    }

    @Test func `the shard of a connection is known until its slot has another login`() {
        var connections = ConnectionShards()
        let first = ConnectionID(loop: 0, slot: 5, generation: 1)
        let second = ConnectionID(loop: 0, slot: 5, generation: 2)
        #expect(connections[first] == nil)
        connections[first] = 3
        #expect(connections[first] == 3)
        #expect(connections[second] == nil)
        #expect(connections[ConnectionID(loop: 0, slot: 4, generation: 1)] == nil)
        connections[second] = 1
        #expect(connections[second] == 1)
        #expect(connections[first] == nil)
        let channel = ConnectionID(
            loop: 0, slot: ConnectionID.channelSlotsStart, generation: 1)
        #expect(connections[channel] == nil)
    }

    @Test func `every counter and gauge is in the sum`() {
        var left = Counters()
        var right = Counters()
        withUnsafeMutableBytes(of: &left) { bytes in
            for index in 0..<bytes.count / 8 {
                bytes.storeBytes(of: UInt64(index), toByteOffset: index * 8, as: UInt64.self)
            }
        }
        withUnsafeMutableBytes(of: &right) { bytes in
            for index in 0..<bytes.count / 8 {
                bytes.storeBytes(of: 1_000, toByteOffset: index * 8, as: UInt64.self)
            }
        }
        let before = Mirror(reflecting: left).children.map { $0.value as? UInt64 }
        left += right
        let after = Mirror(reflecting: left).children.map { $0.value as? UInt64 }
        #expect(after.count > 80 && !after.contains(nil))
        #expect(after == before.map { $0.map { $0 + 1_000 } })

        let broker = Broker(
            limits: CoreLimits(), loopCount: 1, trust: TrustMaterial().vouchers,
            at: Moment(instant: Instant(milliseconds: 0), unixMilliseconds: 0))
        var gauges = broker.gauges()
        withUnsafeMutableBytes(of: &gauges) { bytes in
            for index in 0..<bytes.count / 8 {
                bytes.storeBytes(of: 1, toByteOffset: index * 8, as: UInt64.self)
            }
        }
        var sum = gauges
        sum += gauges
        for (one, double) in zip(
            Mirror(reflecting: gauges).children, Mirror(reflecting: sum).children)
        {
            switch (one.value, double.value) {
            case (let one as Int, let double as Int): #expect(double == 2 * one)
            case (let one as UInt64, let double as UInt64): #expect(double == 2 * one)
            case (let one as Bool, let double as Bool): #expect(double == one)
            default: Issue.record("\(one.label ?? "") is neither a number nor a truth")
            }
        }
    }

    private func core(at instant: UInt64) -> Broker {
        Broker(
            limits: CoreLimits(), loopCount: 1, trust: TrustMaterial().vouchers,
            at: Moment(instant: Instant(milliseconds: instant), unixMilliseconds: 0))
    }

    @Test func `a core has a clock of its own`() throws {
        let shared = SharedBroker(
            core(at: 0), loopHandles: [try LoopHandle()], writerSignal: WakeSignal(), gate: nil,
            offsetMilliseconds: -500)
        #expect(shared.local(Instant(milliseconds: 2_000)).milliseconds == 1_500)
        #expect(shared.loopTime(of: Instant(milliseconds: 1_500)).milliseconds == 2_000)
        #expect(shared.local(Instant.never) == .never)
        #expect(shared.loopTime(of: .never) == .never)
        let moment = shared.local(
            Moment(instant: Instant(milliseconds: 2_000), unixMilliseconds: 7))
        #expect(moment.instant.milliseconds == 1_500 && moment.unixMilliseconds == 7)
    }

    @Test func `an empty core is replaced, and emptied again`() throws {
        let gate = ClusterGate(nodeSignal: WakeSignal())
        let shared = SharedBroker(
            core(at: 0), loopHandles: [try LoopHandle()], writerSignal: gate.nodeSignal,
            gate: gate, leads: false)
        #expect(!shared.takesEvents)
        let other = core(at: 9_000)
        let restored = Box(other)
        let isNew = try restored.value.addApp(
            [0x61], keyDigest: Digest(words: (1, 2, 3, 4)), rights: .ordinary)
        #expect(isNew)
        shared.lead(with: restored, offsetMilliseconds: 9_000) { _ in }
        #expect(shared.takesEvents && shared.look { $0.hasApp([0x61]) })
        #expect(shared.local(Instant(milliseconds: 1)).milliseconds == 9_001)
        shared.beginLeaving()
        #expect(!shared.takesEvents && shared.look { $0.hasApp([0x61]) })
        shared.leave(with: Box(core(at: 9_002)))
        #expect(!shared.takesEvents && !shared.look { $0.hasApp([0x61]) })
        shared.lead(with: Box(core(at: 9_003)), offsetMilliseconds: 0) { _ in }
        #expect(shared.takesEvents)
    }

    @Test func `a token that nobody knows is refused where a shard leads and all stores are open`()
        throws
    {
        let directory = try TemporaryDirectory("shard-rows")
        let store = try LMDBQueueStore(directory: directory.file("store"))
        let handle = try LoopHandle()
        func shared(leads: Bool) -> SharedBroker {
            let gate = ClusterGate(nodeSignal: WakeSignal())
            return SharedBroker(
                core(at: 0), loopHandles: [handle], writerSignal: gate.nodeSignal, gate: gate,
                leads: leads)
        }
        let map = ShardMap([ShardSettings(name: "north", apps: ["plant"])])
        let shards = Shards(map, [shared(leads: false), shared(leads: true)])
        let token = PresentedCredential.token(
            identifier: Array("abc".utf8), Digest(words: (1, 2, 3, 4)))
        // The store of the standby may know it.
        #expect(shards.standbyPlace(of: token) == 0 && shards.place(of: token) == 0)
        shards.cores[0].standbyRows.withLock { $0 = store.makeRowReader() }
        #expect(shards.standbyPlace(of: token) == nil && shards.place(of: token) == 1)
        shards.cores[0].standbyRows.withLock { $0 = nil }
        #expect(shards.elsewhere("demo") != nil && shards.elsewhere("plant") == nil)
    }

    @Test func `the broker is ready while one store commits and has room`() {
        let listeners = WebListeners(
            terms: [nil, WebListeners.Terms(mqtt: 1, mrt: 2, parts: .health)], BrokerSettings())
        let health = BrokerHealth()
        var monitor = HealthMonitor(health, of: listeners)
        health.set(.starting, false)
        func look(_ seconds: UInt64, _ stores: [(UInt64, Bool)]) -> BrokerHealth.Finding {
            monitor.note(
                turns: [seconds],
                stores: stores.map {
                    HealthMonitor.Store(committed: $0.0, isIdle: false, isFull: $0.1)
                }, at: Instant(milliseconds: seconds * 1_000))
            return health.current
        }
        #expect(look(100, [(1, false), (1, false)]) == [])
        #expect(look(109, [(9, true), (1, false)]) == [])
        #expect(look(110, [(10, true), (1, false)]) == [])
        #expect(look(119, [(10, true), (1, false)]) == [])
        #expect(look(120, [(10, true), (1, false)]) == .commitStuck)
        #expect(look(121, [(11, true), (1, false)]) == [])
        #expect(look(112, [(11, true), (3, true)]) == .storeFull)
    }

    @Test func `messages without an answer are counted for each shard's batch`() {
        let queue = APIQueue()
        let half = APIQueue.contentByteShare.users / 2
        #expect(!queue.noteUnstored(byteCount: half, batch: 1, of: 0))
        #expect(!queue.noteUnstored(byteCount: half, batch: 7, of: 1))
        #expect(queue.noteUnstored(byteCount: half, batch: 1, of: 0))
        #expect(queue.noteUnstored(byteCount: half, batch: 7, of: 1))
        #expect(!queue.noteUnstored(byteCount: half, batch: 2, of: 0))
    }
}

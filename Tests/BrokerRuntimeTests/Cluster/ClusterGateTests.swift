// What may leave a primary, what a standby answers, and what a node trims.

import BrokerCore
import BrokerTerms
import Primitives
import Replication
import Testing
import class Threads.WakeSignal

@testable import BrokerRuntime

@Suite struct `The gate of a primary` {
    private let gate = ClusterGate(nodeSignal: WakeSignal())
    private var future: UInt64 { ClusterGate.nowMilliseconds + 60_000 }

    @Test func `lets nothing out without a lease`() {
        #expect(!gate.mayLeave(nil))
        _ = gate.publish(begun: 1, confirmed: 1, leaseEnd: future)
        #expect(gate.mayLeave(nil))
        _ = gate.publish(begun: 1, confirmed: 1, leaseEnd: ClusterGate.nowMilliseconds)
        #expect(!gate.mayLeave(nil))
    }

    @Test func `lets a decision out after an append that began later`() {
        _ = gate.publish(begun: 4, confirmed: 4, leaseEnd: future)
        let mark = gate.takeMark()
        #expect(gate.takeWish() && !gate.takeWish())
        // The append before the decision proves nothing.
        #expect(!gate.mayLeave(mark))
        _ = gate.publish(begun: 5, confirmed: 4, leaseEnd: future)
        #expect(!gate.mayLeave(mark))
        #expect(gate.publish(begun: 5, confirmed: 5, leaseEnd: future))
        #expect(gate.mayLeave(mark))
    }

    @Test func `keeps the order of a loop's effects`() {
        _ = gate.publish(begun: 1, confirmed: 1, leaseEnd: future)
        let gated = GatedLoop(gate)
        var effects = LoopEffects()
        let connection = ConnectionID(loop: 0, slot: 1, generation: 1)
        /// Takes what may leave now: the number of effects.
        func take() -> Int {
            guard gated.takeFirst(into: &effects) else { return 0 }
            defer { effects.removeAll() }
            return effects.effects.count
        }
        effects.effects.append(.resumeReading(connection))
        gated.add(&effects)
        effects.effects.append(
            .deliver(Delivery(connection: connection, number: 0, publication: 0, grade: .transient))
        )
        gated.add(&effects)
        // A stop waits for the result too.
        let lastMark = gated.lastMark
        #expect(lastMark == 1)
        // The delivery needs no confirmation, and waits for what was decided before it.
        #expect(take() == 0)
        _ = gate.publish(begun: 2, confirmed: 2, leaseEnd: future)
        #expect(take() == 1)
        #expect(take() == 1)
        #expect(take() == 0)
    }
}

@Suite struct `Effects without a lease` {
    private let gate = ClusterGate(nodeSignal: WakeSignal())
    private static let payload = [UInt8](repeating: 7, count: 60)

    /// Adds the effects of a turn: one short message.
    private func add(_ number: UInt64, to gated: GatedLoop) {
        var effects = LoopEffects()
        let connection = ConnectionID(loop: 0, slot: 1, generation: 1)
        _ = Self.payload.withUnsafeBytes { effects.bytes.append($0) }
        effects.effects.append(
            .deliver(
                Delivery(
                    connection: connection, number: number, publication: 0, grade: .transient)))
        gated.add(&effects)
        let isTaken = effects.isEmpty
        #expect(isTaken)
    }

    @Test func `hold the memory of their contents, and all of it counts`() {
        let gated = GatedLoop(gate)
        for number in 1...1_000 as ClosedRange<UInt64> { add(number, to: gated) }
        // Without the copies: a hundred kilobytes a turn.
        let spare = ClusterLimits.spareEffectsMaximum * 200_000
        let byteCount = gated.heldByteCount
        #expect(byteCount > 1_000 * 256)
        #expect(byteCount < spare + 1_000 * 1_024)
        _ = gate.publish(
            begun: 1, confirmed: 1, leaseEnd: ClusterGate.nowMilliseconds + 60_000)
        var effects = LoopEffects()
        var next: UInt64 = 1
        while gated.takeFirst(into: &effects) {
            guard case .deliver(let delivery) = effects.effects[0] else { break }
            #expect(delivery.number == next)
            #expect(effects.bytes.bytes.elementsEqual(Self.payload))
            effects.removeAll()
            next += 1
        }
        #expect(next == 1_001)
        let left = gated.heldByteCount
        #expect(left == 0)
    }

    @Test func `stop the input of all loops while those of one are too many`() {
        let reader = GatedLoop(gate)
        let writer = GatedLoop(gate)
        var number: UInt64 = 0
        while !writer.holdsInput, number < 200_000 {
            number += 1
            add(number, to: reader)
            let hasRoom = reader.tellFull()
            #expect(!hasRoom)
        }
        let isHeld = (reader.holdsInput, writer.holdsInput)
        #expect(isHeld == (true, true))
        let byteCount = reader.heldByteCount
        #expect(byteCount > ClusterLimits.gatedByteCountMaximum)
        _ = gate.publish(
            begun: 1, confirmed: 1, leaseEnd: ClusterGate.nowMilliseconds + 60_000)
        var effects = LoopEffects()
        while reader.takeFirst(into: &effects) { effects.removeAll() }
        // Whoever is told wakes the others.
        let hasRoom = reader.tellFull()
        #expect(hasRoom)
        let isStillHeld = reader.holdsInput || writer.holdsInput
        #expect(!isStillHeld)
    }
}

/// What a standby reports.
private func report(
    of node: Int, at sequence: UInt64, address: String = "", shards: UInt64 = 0
) -> NodeReport {
    NodeReport(
        cluster: StoreIdentity(high: 1, low: 2),
        node: NodeLife(name: Array("\(node)".utf8), life: UInt64(node)),
        part: .standby, term: .none, sequence: LogSequence(raw: sequence),
        address: Array(address.utf8), webAddress: [], leaseMilliseconds: 2_000,
        unixMilliseconds: 0, shards: shards)
}

@Suite struct `A view of a cluster` {
    private func view(
        applied: UInt64, standbys: [UInt64], bytes: UInt64 = 60
    ) -> ClusterView {
        var view = ClusterView()
        view.applied = LogSequence(raw: applied)
        view.logAnswer = .state(
            LogState(
                first: LogSequence(raw: 11), last: LogSequence(raw: 111), byteCount: bytes,
                byteCountMaximum: 100))
        for (index, sequence) in standbys.enumerated() {
            view.note(report(of: index, at: sequence), at: 50_000)
        }
        return view
    }

    @Test func `trims the older half of what two stores have`() {
        let now: UInt64 = 55_000
        #expect(view(applied: 111, standbys: [100, 20]).trimTarget(at: now)?.raw == 61)
        #expect(view(applied: 111, standbys: [30, 20]).trimTarget(at: now)?.raw == 30)
        #expect(view(applied: 25, standbys: [30, 20]).trimTarget(at: now)?.raw == 25)
        #expect(view(applied: 111, standbys: [100], bytes: 50).trimTarget(at: now) == nil)
        // A single store may be lost.
        #expect(view(applied: 111, standbys: []).trimTarget(at: now) == nil)
        #expect(view(applied: 111, standbys: [5]).trimTarget(at: now) == nil)
        // A node that was not heard for ten seconds.
        #expect(view(applied: 111, standbys: [100]).trimTarget(at: 61_000) == nil)
    }
}

@Suite struct `The effects of several cores` {
    private func effects(to slot: Int) -> LoopEffects {
        var effects = LoopEffects()
        effects.effects.append(
            .close(ConnectionID(loop: 0, slot: slot, generation: 1), .useAnotherServer))
        return effects
    }

    @Test func `wait for the lease of their own shard`() {
        let (north, south) = (
            ClusterGate(nodeSignal: WakeSignal()), ClusterGate(nodeSignal: WakeSignal())
        )
        let now = ClusterGate.nowMilliseconds
        let gated = (north: GatedLoop(north), south: GatedLoop(south))
        var first = effects(to: 1)
        var second = effects(to: 2)
        gated.north.add(&first)
        gated.south.add(&second)
        _ = south.publish(begun: 1, confirmed: 1, leaseEnd: now + 60_000)
        var taken = LoopEffects()
        let isTaken = (
            north: gated.north.takeFirst(into: &taken), south: gated.south.takeFirst(into: &taken)
        )
        #expect(isTaken == (false, true))
        #expect(!gated.north.mayEmit && gated.south.mayEmit)
    }

    @Test func `of a node that is a standby again are forgotten`() {
        let gated = GatedLoop(ClusterGate(nodeSignal: WakeSignal()))
        var first = effects(to: 1)
        gated.add(&first)
        #expect(!gated.isEmpty && gated.heldByteCount > 0)
        gated.isOfStandby = true
        #expect(gated.isEmpty && gated.heldByteCount == 0)
        // Its connections were not closed in time, and would wait for ever.
        #expect(gated.hasForgotten)
        gated.isOfStandby = false
        #expect(gated.isEmpty)
        gated.hasForgotten = false
        gated.hasClosed = true
        gated.isOfStandby = true
        #expect(!gated.hasForgotten)
    }

    @Test func `make no loop full that were dropped`() {
        let gate = ClusterGate(nodeSignal: WakeSignal())
        let gated = GatedLoop(gate)
        let connection = ConnectionID(loop: 0, slot: 1, generation: 1)
        while gated.heldByteCount <= ClusterLimits.gatedByteCountMaximum {
            var many = LoopEffects()
            for _ in 0..<10_000 { many.effects.append(.close(connection, .keepAliveTimeout)) }
            gated.add(&many)
        }
        #expect(!gated.tellFull() && gated.holdsInput)
        gated.isOfStandby = true
        #expect(gated.tellFull() && !gated.holdsInput)
    }
}

extension ClusterView {
    /// Changes the state that the log has told.
    fileprivate mutating func change(_ body: (inout LogState) -> Void) {
        guard var state = log else { return }
        body(&state)
        logAnswer = .state(state)
    }
}

@Suite struct `The alarms of a cluster` {
    private static let now: UInt64 = 55_000

    private func view(_ part: NodeReport.Part, standbys: [UInt64]) -> ClusterView {
        var view = ClusterView()
        view.own.durability = "strict"
        view.part = part
        view.received = LogSequence(raw: 5_000)
        view.note(
            .state(
                LogState(
                    first: LogSequence(raw: 1), last: LogSequence(raw: 5_000), byteCount: 60,
                    byteCountMaximum: 100,
                    servers: [
                        LogState.Server(name: "s1", isLeader: true, isCurrent: true, lag: 0),
                        LogState.Server(name: "s2", isLeader: false, isCurrent: true, lag: 0),
                    ])), appended: 0)
        for (index, sequence) in standbys.enumerated() {
            view.note(report(of: index, at: sequence), at: 50_000)
        }
        return view
    }

    @Test func `are none while all is well`() {
        let view = view(.primary, standbys: [5_000, 4_000])
        #expect(view.alarms(hasLease: true, at: Self.now) == [])
    }

    @Test func `name what is missing`() {
        var view = view(.primary, standbys: [3_999])
        view.change {
            $0.servers[0].isLeader = false
            $0.servers[1].isCurrent = false
            $0.servers[1].lag = 7
        }
        view.own.durability = "relaxed"
        #expect(
            view.alarms(hasLease: false, at: Self.now) == [
                "there is no lease: the log does not answer, and clients wait",
                "1 of 2 standbys were heard in the last 10 seconds",
                "the standby 0 lacks 1001 records", "the log has no leader",
                "the server s2 is not reachable, or lacks 7 operations",
                "the durability is relaxed: a loss of servers can lose messages",
            ])
        // What was heard too long ago counts for nothing.
        #expect(
            view.alarms(hasLease: true, at: 61_000).first
                == "0 of 2 standbys were heard in the last 10 seconds")
        view.note(.unanswered, appended: 0)
        #expect(
            view.alarms(hasLease: true, at: Self.now).last
                == "no server tells the state of the log")
        view.note(.absent, appended: 0)
        #expect(view.alarms(hasLease: true, at: Self.now).last == ClusterView.absentLog)
        // Without an answer the stream stays absent.
        view.note(.unanswered, appended: 0)
        #expect(view.alarms(hasLease: true, at: Self.now).last == ClusterView.absentLog)
    }

    @Test func `name the nodes that have other shards`() {
        var view = view(.primary, standbys: [5_000, 5_000])
        view.own.shards = 1
        view.note(report(of: 1, at: 5_000, shards: 1), at: 50_000)
        #expect(
            view.alarms(hasLease: true, at: Self.now) == [
                "the node 0 has other \"shards\" than this one: give all nodes the same, and "
                    + "restart those that had others"
            ])
        #expect(view.nodesWithOtherShards(at: Self.now) == ["0"])
        #expect(view.nodesWithOtherShards(at: 61_000) == [])
        // It may come back.
        #expect(view.knownNodeWithOtherShards == "0")
        view.note(report(of: 0, at: 5_000, shards: 1), at: 50_000)
        #expect(view.knownNodeWithOtherShards == nil)
    }

    @Test func `name another node of the same name by its address`() {
        var view = view(.primary, standbys: [5_000, 5_000])
        view.own.name = "7"
        view.note(report(of: 7, at: 5_000, address: "10.0.0.2:8883"), at: 50_000)
        #expect(
            view.alarms(hasLease: true, at: Self.now) == [
                "another node, 10.0.0.2:8883, has the name of this one"
            ])
        #expect(!view.alarms(hasLease: true, at: 61_000).contains { $0.contains("10.0.0.2") })
    }

    @Test func `do not count a primary as gone because another node has its name`() {
        var view = view(.standby, standbys: [])
        var primary = report(of: 7, at: 5_000, address: "10.0.0.1:8883")
        primary.part = .primary
        view.note(primary, at: 50_000)
        view.note(report(of: 7, at: 4_000, address: "10.0.0.2:8883"), at: 50_500)
        #expect(view.primary(at: Self.now)?.address == Array("10.0.0.1:8883".utf8))
        #expect(view.present(at: Self.now).map(\.name) == ["7", "7"])
        // A node that has moved is one node, when its old address is silent.
        view.note(report(of: 7, at: 6_000, address: "10.0.0.3:8883"), at: 60_200)
        #expect(view.peers.count == 2)
        view.note(report(of: 7, at: 6_000, address: "10.0.0.3:8883"), at: 60_500)
        #expect(view.peers.count == 1)
    }

    @Test func `of a standby name a primary that is away and a full log`() {
        var view = view(.standby, standbys: [5_000])
        #expect(view.alarms(hasLease: false, at: Self.now) == ["no primary was heard lately"])
        view.appendedByteCount = 40
        #expect(
            view.alarms(hasLease: false, at: Self.now).last
                == "the log is nearly full: sends are refused")
        view.isTakeoverRefused = true
        #expect(
            view.alarms(hasLease: false, at: Self.now).last
                == "the log is full: this node cannot take over")
    }
}

@Suite struct `The room of a log` {
    private func view(_ byteCount: UInt64, of maximum: UInt64) -> ClusterView {
        var view = ClusterView()
        view.appendedByteCount = 1_000
        view.note(
            .state(
                LogState(
                    first: LogSequence(raw: 1), last: LogSequence(raw: 9), byteCount: byteCount,
                    byteCountMaximum: maximum)), appended: 1_000)
        return view
    }

    @Test func `has a reserve for other records than sends`() {
        let mebi: UInt64 = 1 << 20
        #expect(!view(48 * mebi, of: 64 * mebi).isLogNearlyFull)
        #expect(view(48 * mebi + 1, of: 64 * mebi).isLogNearlyFull)
        // A quarter of a small log.
        #expect(!view(12 * mebi, of: 16 * mebi).isLogNearlyFull)
        #expect(view(12 * mebi + 1, of: 16 * mebi).isLogNearlyFull)
        // A log without a bound, and one that nobody has seen.
        #expect(!view(1 << 60, of: 0).isLogNearlyFull)
        #expect(!ClusterView().isLogNearlyFull)
    }

    @Test func `shrinks with each append until the next look`() {
        let mebi: UInt64 = 1 << 20
        var view = view(40 * mebi, of: 64 * mebi)
        view.appendedByteCount += 8 * mebi
        #expect(!view.isLogNearlyFull)
        view.appendedByteCount += 1
        #expect(view.isLogNearlyFull)
        // Without an answer the last one counts.
        view.note(.unanswered, appended: view.appendedByteCount)
        #expect(view.isLogNearlyFull && view.log == nil)
    }

    @Test func `is made by the primary, or by a standby that lacks it`() {
        var view = ClusterView()
        #expect(!view.trims)
        view.isTakeoverRefused = true
        #expect(view.trims)
        view.isTakeoverRefused = false
        view.part = .primary
        #expect(view.trims)
    }
}

@Suite struct `A standby's answer` {
    private let known = PrimaryAddresses(
        client: Array("a:1".utf8), web: Array("https://a:2".utf8))

    private func http(_ text: String, _ primary: PrimaryAddresses) -> String {
        switch StandbyAnswer.http(Array(text.utf8)) {
        case .health(let bytes): String(decoding: bytes, as: UTF8.self)
        case .refusal(let client):
            String(decoding: client.refusal(naming: primary), as: UTF8.self)
        case .incomplete: "incomplete"
        case .nothing: "nothing"
        }
    }

    @Test func `waits for what it needs, and ends what it does not know`() {
        let connect: [UInt8] = [0x10, 0x8F, 0x01, 0, 4, 0x4D, 0x51, 0x54, 0x54, 5, 2, 0]
        for count in 0..<10 {
            #expect(StandbyAnswer.packet(Array(connect.prefix(count))) == .incomplete)
        }
        let client = StandbyClient.mqtt(.v5)
        #expect(StandbyAnswer.packet(connect) == .refusal(client))
        #expect(
            client.refusal(naming: known) == [0x20, 9, 0, 0x9C, 6, 0x1C, 0, 3, 0x61, 0x3A, 0x31])
        #expect(client.refusal(naming: PrimaryAddresses()) == [0x20, 3, 0, 0x9C, 0])
        for bytes in [[0x30], [0x10, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1]] as [[UInt8]] {
            #expect(StandbyAnswer.packet(bytes) == .nothing)
        }
    }

    @Test func `redirects requests, and nothing else`() {
        let end = " HTTP/1.1\r\nHost: x\r\n\r\n"
        #expect(http("GET /a?b=1\(end)", known).contains("Location: https://a:2/a?b=1\r\n"))
        #expect(http("GET /a\(end)", PrimaryAddresses()).hasPrefix("HTTP/1.1 503 "))
        #expect(http("GET /readyz?x\(end)", known).hasPrefix("HTTP/1.1 503 "))
        #expect(http("GET /healthz\(end)", known).hasPrefix("HTTP/1.1 200 "))
        #expect(http("GET /a HTTP/1.1\r\nHost", known) == "incomplete")
        #expect(http("GET https://evil/\(end)", known) == "nothing")
        #expect(http("GET /a b\(end)", known) == "nothing")
        #expect(http(String(repeating: "a", count: 9_000), known) == "nothing")
    }
}

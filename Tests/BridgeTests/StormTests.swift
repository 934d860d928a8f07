// A bridge between two model brokers, in one process: connections end at any byte, and the bridge
// dies between any two steps, also between its decision, its record and its bytes. Everything
// follows from a seed.

import Foundation
import Primitives
import TestSurroundings
import Testing
import WireFormat

@testable import Bridge

/// What a run does wrong on purpose: a storm that finds nothing proves nothing.
private enum Flaw {
    /// The record is not there after a death.
    case lostRecord
    /// The bytes of a turn leave before the record is on disk.
    case lateRecord
    /// A subscription that was refused counts as confirmed, and is not asked for again.
    case forgottenRefusal
    /// A request for which the outbox has no room counts as made.
    case lostRequest
}

/// Everything of one run.
private struct Storm: ~Copyable {
    private let settings: BridgeSettings
    /// Fewer rules, to which a reload changes for a while.
    private let fewerRules: BridgeSettings
    private(set) var reloadCount = 0
    private var bridge: MessageBridge
    /// What is on the bridge's disk.
    private var disk: BridgeRecord?
    private var foreign = ForeignModel()
    private var martlet = MartletModel()
    private var toForeign: [UInt8] = []
    private var toMartlet: [UInt8] = []
    private var isForeignOpen = false
    private var isMartletOpen = false
    private var dialsForeign = false
    private var dialsMartlet = false
    private var now = Instant(milliseconds: 1_000)
    private var random: SeededRandom
    private var published: [String] = []
    private var sentOut: [String] = []
    private(set) var complaints: [String] = []
    private(set) var deathCount = 0
    private(set) var burstCount = 0
    var messageCount: Int { published.count + sentOut.count }
    /// Martlet refuses some sends for now, which costs their order.
    private let hasRefusals: Bool
    /// The other broker forgets everything now and then, and what it had with it.
    private let losesSessions: Bool
    private(set) var forgotten: Set<String> = []
    /// Sessions of either broker end and subscriptions are refused now and then, and the outbox
    /// towards Martlet has room for a few messages only.
    private let isAboutSubscriptions: Bool
    private(set) var fullOutboxCount = 0
    private let flaw: Flaw?
    private var isHealing = false

    init(
        seed: UInt64, hasRefusals: Bool = false, losesSessions: Bool = false,
        isAboutSubscriptions: Bool = false, flaw: Flaw? = nil
    ) throws {
        self.isAboutSubscriptions = isAboutSubscriptions
        self.hasRefusals = hasRefusals
        self.losesSessions = losesSessions
        self.flaw = flaw
        random = SeededRandom(seed: seed)
        var settings = try modelSettings(topicCount: isAboutSubscriptions ? 7 : 0)
        if isAboutSubscriptions { settings.packetMaximum = 160 }
        let fewerRules = try modelSettings(topicCount: isAboutSubscriptions ? 3 : 0)
        self.settings = settings
        self.fewerRules = fewerRules
        bridge = MessageBridge(settings, stored: nil, jitterSeed: seed, freshEpoch: seed | 1)
        bridge.start(now: now)
    }

    mutating func run(steps: Int) {
        for step in 0..<steps { self.step(step) }
        heal()
    }

    private mutating func chance(_ percent: UInt64) -> Bool { random.next() % 100 < percent }
    private mutating func number(below bound: Int) -> Int {
        Int(random.next() % UInt64(bound))
    }

    private mutating func step(_ step: Int) {
        now = now.advanced(byMilliseconds: UInt64(number(below: 200)))
        switch number(below: 100) {
        case 0..<1:
            burstCount += 1
            for part in 0..<60 { publish(10_000 + step * 100 + part) }
        case 1..<12: publish(step)
        case 12..<24: sendOut(step)
        case 24..<34: move(number(below: 60) + 1)
        case 34..<38: martlet.commit()
        case 38..<40: loseForeign()
        case 40..<42: loseMartlet()
        case 42..<44: die()
        case 44..<46 where hasRefusals: martlet.isFull.toggle()
        case 46..<56: connect()
        case 56 where losesSessions: loseSession()
        case 56 where isAboutSubscriptions: loseMartletSession()
        case 57 where isAboutSubscriptions: martlet.refusesSubscriptions.toggle()
        case 58 where isAboutSubscriptions: foreign.refusesSubscriptions.toggle()
        // New rules ask again for what a flaw has forgotten.
        case 59 where isAboutSubscriptions && flaw == nil:
            reloadCount += 1
            bridge.reload(chance(50) ? settings : fewerRules)
        default: turn()
        }
    }

    private mutating func publish(_ step: Int) {
        let isOnce = chance(50)
        let text = isOnce ? "once \(step)" : "again \(step)"
        published.append(text)
        foreign.publish(text, isOnce ? .exactlyOnce : .atLeastOnce)
    }

    private mutating func sendOut(_ step: Int) {
        let isOnce = chance(50)
        let text = isOnce ? "once \(step)" : "again \(step)"
        sentOut.append(text)
        martlet.enqueue(text, isOnce ? .once : .durable, gap: chance(10) ? 3 : 0)
    }

    // MARK: - The bridge's surroundings

    /// A turn, as `BridgeHandler` has it, which may end after any part of it.
    private mutating func turn() {
        let asked = bridge.martletSubscriptions.due(now)
        bridge.work(now: now)
        if let link = bridge.martlet, link.machine.isConnected {
            let left = bridge.martletSubscriptions.due(now)
            if !asked.isEmpty, !left.isEmpty { fullOutboxCount += 1 }
            if flaw == .lostRequest {
                for index in left { bridge.martletSubscriptions.confirm(index) }
            }
        }
        if flaw == .forgottenRefusal { forgetRefusals() }
        for effect in bridge.takeEffects() {
            switch effect {
            case .dialForeign: dialsForeign = true
            case .dialMartlet: dialsMartlet = true
            case .hangUpForeign: hangUpForeign()
            case .hangUpMartlet: hangUpMartlet()
            case .log: break
            case .fail(let text): complaints.append("the bridge gave up: \(text)")
            }
        }
        if !isHealing, chance(2) { return die() }
        if flaw == .lateRecord { send() } else { save() }
        if !isHealing, chance(2) { return die() }
        if flaw == .lateRecord { save() } else { send() }
    }

    private mutating func save() {
        guard let record = bridge.takeRecord(), flaw != .lostRecord else { return }
        // Through its bytes, as on a disk.
        disk = BridgeRecord.decode(record.encoded(sequence: 1))?.record
    }

    private mutating func send() {
        if isForeignOpen { toForeign += bridge.foreign.takeOutgoing() }
        if isMartletOpen, let link = bridge.martlet {
            while case let bytes = link.nextBytes(now: now), !bytes.isEmpty { toMartlet += bytes }
        }
    }

    /// Bytes travel, some of them.
    private mutating func move(_ count: Int) {
        if isForeignOpen {
            foreign.receive(Array(toForeign.prefix(count)))
            toForeign.removeFirst(min(count, toForeign.count))
            let bytes = foreign.takeOutgoing(bridge.wantsPause ? 0 : count)
            if !bytes.isEmpty { bytes.withUnsafeBytes { bridge.foreignReceived($0, now: now) } }
        }
        if isMartletOpen {
            martlet.receive(Array(toMartlet.prefix(count)))
            toMartlet.removeFirst(min(count, toMartlet.count))
            let bytes = martlet.takeOutgoing(count)
            if !bytes.isEmpty { bytes.withUnsafeBytes { bridge.martletReceived($0, now: now) } }
        }
    }

    private mutating func connect() {
        if dialsForeign {
            dialsForeign = false
            isForeignOpen = true
            bridge.foreign.opened(now: now)
        }
        if dialsMartlet {
            dialsMartlet = false
            isMartletOpen = true
            bridge.martlet!.machine.opened(now: now)
        }
    }

    private mutating func hangUpForeign() {
        isForeignOpen = false
        dialsForeign = false
        toForeign = []
        foreign.connectionLost()
    }

    private mutating func hangUpMartlet() {
        isMartletOpen = false
        dialsMartlet = false
        toMartlet = []
        martlet.connectionLost()
    }

    private mutating func loseForeign() {
        guard isForeignOpen else { return }
        hangUpForeign()
        bridge.foreign.closed("lost", now: now)
    }

    private mutating func loseSession() {
        forgotten.formUnion(foreign.forgetSession())
        loseForeign()
    }

    /// Martlet's session ends, as one whose expiry has passed.
    private mutating func loseMartletSession() {
        guard martlet.isQuiet else { return }
        loseMartlet()
        martlet.forgetSession()
    }

    private mutating func forgetRefusals() {
        for (index, entry) in bridge.martletSubscriptions.entries.enumerated()
        where entry.refusalCount > 0 {
            bridge.martletSubscriptions.confirm(index)
        }
        for (index, entry) in bridge.foreignSubscriptions.entries.enumerated()
        where entry.refusalCount > 0 {
            bridge.foreignSubscriptions.confirm(index)
        }
    }

    /// What the bridge says that its sessions have, they have.
    private mutating func compareSubscriptions() {
        for case .filter(let filter, _) in settings.rules.foreignWants
        where !foreign.filters.contains(filter) {
            complaints.append("the other broker's session lacks \(filter)")
        }
        for want in settings.rules.martletWants {
            switch want {
            case .filter(let filter, _) where !martlet.filters.contains(filter):
                complaints.append("Martlet's session lacks \(filter)")
            case .group(let group) where !martlet.groups.contains(group):
                complaints.append("the bridge is not in \(group)")
            case .filter, .group, .obsolete: break
            }
        }
        let missing = bridge.foreignSubscriptions.missing + bridge.martletSubscriptions.missing
        if !missing.isEmpty { complaints.append("missing for the bridge: \(missing.map(\.want))") }
    }

    private mutating func loseMartlet() {
        guard isMartletOpen else { return }
        hangUpMartlet()
        bridge.martlet!.machine.closed(now: now)
    }

    /// The bridge is killed, and started again with what is on its disk.
    private mutating func die() {
        deathCount += 1
        // What has left may still arrive.
        if chance(50) { foreign.receive(toForeign) }
        if chance(50) { martlet.receive(toMartlet) }
        hangUpForeign()
        hangUpMartlet()
        let seed = random.next()
        bridge = MessageBridge(settings, stored: disk, jitterSeed: seed, freshEpoch: seed | 1)
        bridge.start(now: now)
    }

    // MARK: - The end

    /// No trouble any more, until nothing is under way.
    private mutating func heal() {
        martlet.isFull = false
        martlet.refusesSubscriptions = false
        foreign.refusesSubscriptions = false
        isHealing = true
        if flaw == nil { bridge.reload(settings) }
        for _ in 0..<4_000 {
            now = now.advanced(byMilliseconds: 50)
            connect()
            turn()
            move(10_000)
            martlet.commit()
            guard foreign.isQuiet, martlet.isQuiet, toForeign.isEmpty, toMartlet.isEmpty else {
                continue
            }
            let missing = bridge.foreignSubscriptions.missing + bridge.martletSubscriptions.missing
            if missing.isEmpty { break }
            // What was refused is waited for, at most five minutes.
            now = now.advanced(byMilliseconds: 5_000)
        }
        judge()
        compareSubscriptions()
    }

    private mutating func judge() {
        complaints += foreign.complaints.map { "the other broker: \($0)" }
        complaints += martlet.complaints.map { "Martlet: \($0)" }
        compare("to Martlet", published, martlet.received)
        compare("to MQTT", sentOut, foreign.received)
        if !foreign.isQuiet || !martlet.isQuiet { complaints.append("it does not come to rest") }
    }

    private mutating func compare(_ way: String, _ sent: [String], _ received: [String]) {
        let once = received.filter { $0.hasPrefix("once") }
        let wanted = sent.filter { $0.hasPrefix("once") }
        if once.count != Set(once).count { complaints.append("\(way): once came twice") }
        for text in Set(sent).subtracting(received).subtracting(forgotten) {
            complaints.append("\(way): \(text) is lost")
        }
        let arrived = Set(received)
        if !hasRefusals, once.count == Set(once).count, once != wanted.filter(arrived.contains) {
            complaints.append("\(way): once came in another order")
        }
        let again = received.filter { $0.hasPrefix("again") }
        var seen: Set<String> = []
        let first = again.filter { seen.insert($0).inserted }
        let wantedAgain = sent.filter { $0.hasPrefix("again") }
        if !hasRefusals, first != wantedAgain.filter(arrived.contains) {
            complaints.append("\(way): again came in another order")
        }
    }
}

@Suite struct StormTests {
    /// Seeds of each kind of run. `MARTLET_STORMS=5000` for more, `MARTLET_STORMS_FROM` for others.
    private static let seeds: ClosedRange<UInt64> = {
        let environment = ProcessInfo.processInfo.environment
        let first = environment["MARTLET_STORMS_FROM"].flatMap(UInt64.init) ?? 1
        return first...first + (environment["MARTLET_STORMS"].flatMap(UInt64.init) ?? 60) - 1
    }()

    @Test(arguments: [false, true])
    func `no fault at any moment loses or duplicates a message`(hasRefusals: Bool) throws {
        var deathCount = 0
        var burstCount = 0
        var messageCount = 0
        for seed in Self.seeds {
            var storm = try Storm(seed: seed, hasRefusals: hasRefusals)
            storm.run(steps: 1_500)
            deathCount += storm.deathCount
            burstCount += storm.burstCount
            messageCount += storm.messageCount
            #expect(storm.complaints == [], "seed \(seed)")
        }
        // What a long run was worth.
        print("storms: \(messageCount) messages, \(burstCount) bursts, \(deathCount) deaths")
        #expect(deathCount > 5 * Self.seeds.count)
        #expect(burstCount > 5 * Self.seeds.count)
    }

    @Test func `a broker that loses its session loses only its messages, and none is duplicated`()
        throws
    {
        var forgottenCount = 0
        var messageCount = 0
        for seed in 1...40 as ClosedRange<UInt64> {
            var storm = try Storm(seed: seed, losesSessions: true)
            storm.run(steps: 1_500)
            forgottenCount += storm.forgotten.count
            messageCount += storm.messageCount
            #expect(storm.complaints == [], "seed \(seed)")
        }
        #expect(forgottenCount > 1_000)
        #expect(messageCount > 5 * forgottenCount)
    }

    @Test func `after refusals and full outboxes every rule has its subscription in the end`()
        throws
    {
        var fullOutboxCount = 0
        for seed in 1...40 as ClosedRange<UInt64> {
            var storm = try Storm(seed: seed, isAboutSubscriptions: true)
            storm.run(steps: 1_500)
            fullOutboxCount += storm.fullOutboxCount
            #expect(storm.complaints == [], "seed \(seed)")
        }
        #expect(fullOutboxCount > 40, "the outbox was never full")
    }

    @Test(arguments: [Flaw.forgottenRefusal, .lostRequest])
    fileprivate func `a silently lost subscription is detected`(flaw: Flaw) throws {
        var found: [String] = []
        for seed in 1...40 as ClosedRange<UInt64> {
            var storm = try Storm(seed: seed, isAboutSubscriptions: true, flaw: flaw)
            storm.run(steps: 1_500)
            found += storm.complaints
        }
        #expect(found.contains { $0.contains("lacks") })
    }

    @Test(arguments: [Flaw.lostRecord, .lateRecord])
    fileprivate func `a bridge with a lost or late record is detected`(
        flaw: Flaw
    ) throws {
        var found: [String] = []
        for seed in 1...40 as ClosedRange<UInt64> {
            var storm = try Storm(seed: seed, flaw: flaw)
            storm.run(steps: 1_500)
            found += storm.complaints
        }
        #expect(found.contains { $0.hasSuffix("once came twice") })
    }
}

// Clients whose packets are small and valid, and cost a thousand times as much as sending them,
// while two others exchange messages. Their requests take turns with those of the others, and the
// broker returns their memory when they have left.

import Foundation
import Primitives
import TestSurroundings
import Testing
import WireFormat

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(2 * Sanitizer.patience))) struct MultiplyingTests {
        /// What an attack may add to the broker's own memory while it lasts, and afterwards. The
        /// broker that this was written against took 1 GiB and more. Figures stand in
        /// PERFORMANCE.md.
        private static let growthMaximum = 128 << 20
        private static let restMaximum = 48 << 20

        /// Lets clients send the same bytes again and again beside the bystanders.
        private func attack(
            _ name: String, _ settings: [String] = [], clients count: Int, seconds: Double = 4,
            prepare: (TestBroker) throws -> [RawSocket] = { _ in [] },
            login: (TestBroker, Int) throws -> [UInt8], _ burst: [UInt8],
            until isOver: @escaping ([RawSocket]) -> Bool = { _ in false }
        ) async throws {
            let broker = try await TestBroker(settings: settings)
            let bystanders = try await Bystanders(broker)
            let audience = try prepare(broker)
            var attackers: [RawSocket] = []
            var rests: [ArraySlice<UInt8>] = []
            for number in 0..<count {
                attackers.append(try RawSocket(port: broker.plainPort))
                rests.append(try login(broker, number)[...])
            }
            let before = try broker.ownBytes()
            var largest = before
            let report = try await bystanders.watch {
                let end = ContinuousClock.now + .seconds(seconds)
                while ContinuousClock.now < end, !isOver(attackers) {
                    for index in attackers.indices {
                        if rests[index].isEmpty { rests[index] = burst[...] }
                        let sent = attackers[index].send(Array(rests[index].prefix(65_536)))
                        rests[index] = rests[index].dropFirst(sent ?? 0)
                        // What it is told is thrown away.
                        _ = attackers[index].isClosed
                    }
                    for listener in audience { _ = listener.isClosed }
                    largest = max(largest, try broker.ownBytes())
                    await Deadline(seconds: 0.002).wait()
                }
            }
            print("hostile, \(name): \(report), memory +\((largest - before) >> 20) MiB")
            #expect(report.lossCount == 0)
            // Nobody is shut out. How long they wait is measured with the release build.
            #expect(
                report.longestMilliseconds < 60_000 * Double(Sanitizer.slowdown), "\(report)")
            if Sanitizer.isThere { return print("memory is not compared under a sanitizer") }
            #expect(largest - before < Self.growthMaximum, "\(before) bytes, then \(largest)")
            attackers = []
            try await eventually("the memory back, \(try broker.ownBytes()) of \(before) bytes") {
                for listener in audience { _ = listener.isClosed }
                return try broker.ownBytes() < before + Self.restMaximum
            }
            // It has lived through it.
            #expect(try broker.counter("messages/received") > 0)
        }

        private static func mqttLogin(_ version: MQTT.Version = .v5) -> (TestBroker, Int) -> [UInt8]
        {
            { MQTTPeer.connectBytes(version, "attacker-\($1)", .init()) }
        }

        @Test func `empty publications to many take turns`() async throws {
            try await attack(
                "fan-out", clients: 10,
                prepare: { broker in
                    try (0..<300).map { number in
                        let socket = try RawSocket(port: broker.plainPort)
                        socket.send(
                            MQTTPeer.connectBytes(.v5, "listener-\(number)", .init())
                                + Self.subscribe(["t"]))
                        return socket
                    }
                }, login: Self.mqttLogin(), Self.times(4_000, [0x30, 4, 0, 1, 0x74, 0]))
        }

        @Test func `lists of groups wait until they are read`() async throws {
            let title = [120] + [UInt8](repeating: 0x74, count: 120)
            var create: [UInt8] = []
            for key in 1...120 {
                let parameters = [0, 0, 0, 0, 0, 0, 0, UInt8(key)] + title + [0, 0]
                create += requestBytes(identifier: key, .groupCreate, parameters: parameters)
            }
            try await attack(
                "group lists", clients: 10,
                login: { try $0.connectPacket("lister-\($1)") + create },
                (1...10_000).flatMap {
                    requestBytes(identifier: 1_000 + $0, .groupList, parameters: [0])
                })
        }

        @Test func `a retained message is sent as often as its client reads it`() async throws {
            try await attack(
                "filters", clients: 10,
                prepare: { broker in
                    let keeper = try MQTTPeer(.v5, port: broker.plainPort)
                    _ = try keeper.connect("keeper", .init())
                    try keeper.wire.send(
                        MQTTBytes.packet(
                            0x31,
                            MQTTBytes.text("a") + [0] + [UInt8](repeating: 1, count: 260_000)))
                    return []
                }, login: Self.mqttLogin(),
                Self.subscribe([String](repeating: "a", count: 17_000)))
        }

        @Test func `the topic of an alias is stored once per burst`() async throws {
            let topic = String(repeating: "x", count: 4_000)
            let named = MQTTBytes.packet(
                0x30, MQTTBytes.text(topic) + MQTTBytes.section([.topicAlias(1)], .v5))
            let numbered = MQTTBytes.packet(
                0x30, MQTTBytes.text("") + MQTTBytes.section([.topicAlias(1)], .v5))
            try await attack(
                "aliases", ["limits.messagesPerSecond=100000", "limits.rateToleranceSeconds=60"],
                clients: 3, login: { Self.mqttLogin()($0, $1) + named },
                Self.times(1_000, numbered))
        }

        @Test func `too many unreleased publications end their connection`() async throws {
            var packets: [UInt8] = []
            for identifier in UInt16(1)...65_000 {
                packets += [0x34, 5, 0, 1, 0x74] + MQTTBytes.number(identifier)
            }
            try await attack(
                "QoS 2 without end", clients: 5, seconds: 20, login: Self.mqttLogin(.v311), packets,
                until: { $0.allSatisfy(\.isClosed) })
        }

        // MARK: - Packets

        private static func times(_ count: Int, _ packet: [UInt8]) -> [UInt8] {
            (0..<count).flatMap { _ in packet }
        }

        private static func subscribe(_ filters: [String]) -> [UInt8] {
            MQTTBytes.packet(0x82, [0, 1, 0] + filters.flatMap { MQTTBytes.text($0) + [0] })
        }
    }
}

extension TestBroker {
    /// Bytes of memory that the broker's process holds at the moment, files apart.
    fileprivate func ownBytes() throws -> Int {
        let status = try String(
            contentsOfFile: "/proc/\(process.identifier)/status", encoding: .utf8)
        for line in status.split(separator: "\n") where line.hasPrefix("RssAnon:") {
            if let kilobytes = Int(line.filter(\.isNumber)) { return kilobytes * 1024 }
        }
        throw TestFailure("no RssAnon of process \(process.identifier)")
    }
}

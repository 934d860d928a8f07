// Traces: what they show of a client's packets, what they never show, and their limits.

import Administration
import BrokerTerms
import Primitives
import Testing
import WireFormat

@testable import BrokerRuntime

@Suite struct TraceTests {
    /// Reads a trace until a packet is there, or for a minute.
    private func packets(
        _ trace: String, of broker: RunningBroker, until isLast: (TracedPacket) -> Bool
    ) throws -> [TracedPacket] {
        let administrator = try broker.administrator()
        var packets: [TracedPacket] = []
        var next: UInt64 = 0
        let start = ContinuousClock.now
        while ContinuousClock.now - start < .seconds(60) {
            let page = try administrator.send(ReadTrace(trace: trace, after: next))
            packets += page.packets
            next = page.next
            if packets.contains(where: isLast) { break }
        }
        return packets
    }

    private func start(
        _ user: String, device: String? = nil, showsPayloads: Bool? = nil, of broker: RunningBroker
    ) throws -> String {
        try broker.administrator().send(
            StartTrace(app: "demo", user: user, device: device, showsPayloads: showsPayloads)
        ).trace
    }

    @Test func `shows the packets of a login and what follows, in both directions`() throws {
        let broker = try RunningBroker()
        try broker.makeApp()
        let tokens = try broker.makeTokens("alice", "bob")
        let trace = try start("alice", of: broker)
        let (alice, bob) = (try Peer(port: broker.port), try Peer(port: broker.port))
        #expect(alice.login(token: tokens[0], device: "d1") == .connected)
        #expect(bob.login(token: tokens[1], device: "d1") == .connected)
        #expect(alice.subscribe("site/#") == .success)
        #expect(alice.send("hello", to: "bob") == .sent)
        alice.write(MRT.Ping(isResponse: false))
        _ = try #require(alice.read(.pingResponse))
        alice.close()
        let shown = try packets(trace, of: broker) { $0.packet == "client_disconnected" }
        let names = shown.map { "\($0.direction.rawValue) \($0.packet)" }
        #expect(
            names.filter { !$0.hasPrefix("event") } == [
                "in CONNECT", "out CONNACK", "in REQUEST", "out RESPONSE", "in SEND", "out RESULT",
                "in PINGREQ", "out PINGRESP",
            ])
        #expect(names.contains("event closed"))
        #expect(shown.map(\.number) == Array(1...UInt64(shown.count)))
        let connect = try #require(shown.first)
        #expect(connect.device == "d1" && connect.address == alice.address)
        #expect(connect.dialect == "MRT 1")
        let request = try #require(shown.first { $0.packet == "REQUEST" })
        #expect(request.filters == ["site/# (grade 2)"])
        #expect(shown.first { $0.packet == "RESPONSE" }?.codes == ["2 granted"])
        let send = try #require(shown.first { $0.packet == "SEND" })
        #expect(send.receiver == "bob" && send.grade == 1 && send.id == 1)
        #expect(send.payloadByteCount == 5 && send.payload == nil)
        let result = try #require(shown.first { $0.packet == "RESULT" })
        #expect(result.reason == "sent" && result.id == 1)
        #expect(shown.allSatisfy { $0.direction == .event || $0.byteCount > 0 })
        #expect(shown.last?.reason == "connection-lost" || shown.last?.code == 128)
        #expect(!"\(shown)".contains(tokens[0].suffix(26)))
    }

    @Test(arguments: [UInt8(4), 5])
    func `shows a client that was connected before, with payloads if asked for`(level: UInt8)
        throws
    {
        let broker = try RunningBroker()
        try broker.makeApp()
        let token = try broker.makeTokens("alice")[0]
        let peer = try Peer(port: broker.port)
        #expect(peer.mqttLogin(level: level, client: "d1", token: token) == 0)
        let trace = try start("alice", device: "d1", showsPayloads: true, of: broker)
        let other = try start("alice", device: "d2", of: broker)
        let present = try packets(trace, of: broker) { $0.packet == "present" }
        #expect(present.first?.address?.hasPrefix("127.0.0.1:") == true)
        #expect(peer.mqttSubscribe(level: level, "a/#", "b") == [1, 1])
        peer.write(Peer.mqttPublish(level: level, "warm", on: "a/b", identifier: 7))
        let shown = try packets(trace, of: broker) { $0.packet == "PUBACK" }
        let subscribe = try #require(shown.first { $0.packet == "SUBSCRIBE" })
        #expect(subscribe.filters == ["a/# (grade 1)", "b (grade 1)"])
        let suback = try #require(shown.first { $0.packet == "SUBACK" })
        #expect(suback.codes == ["1 granted", "1 granted"] && suback.id == subscribe.id)
        let publish = try #require(shown.first { $0.packet == "PUBLISH" && $0.direction == .in })
        #expect(publish.topic == "a/b" && publish.payload == "warm" && publish.id == 7)
        #expect(publish.grade == 1 && publish.payloadByteCount == 4)
        // It may come behind the PUBACK.
        func isDelivery(_ packet: TracedPacket) -> Bool {
            packet.packet == "PUBLISH" && packet.direction == .out
        }
        let all = try packets(trace, of: broker, until: isDelivery)
        #expect(all.first(where: isDelivery)?.topic == "a/b")
        #expect(try broker.administrator().send(ReadTrace(trace: other)).packets.isEmpty)
    }

    @Test func `shows a refused login of the user, and never its secret`() throws {
        let broker = try RunningBroker()
        try broker.makeApp()
        let trace = try start("pump", of: broker)
        let secret =
            "mt1_" + String(repeating: "a", count: 12) + "_" + String(repeating: "z", count: 26)
        var connect: [UInt8] = [0, 4] + Array("MQTT".utf8) + [5, 0xC2, 0, 60, 0]
        for text in ["d1", "pump", secret] {
            connect += [0, UInt8(text.utf8.count)] + Array(text.utf8)
        }
        let peer = try Peer(port: broker.port)
        peer.write([0x10, UInt8(connect.count)] + connect)
        #expect(peer.readFrame()?.body[1] == ReasonCode.badUserNameOrPassword.rawValue)
        let shown = try packets(trace, of: broker) { $0.packet == "auth_failed" }
        let names = shown.map(\.packet)
        #expect(names.starts(with: ["CONNECT", "CONNACK"]) && names.contains("auth_failed"))
        #expect(shown.first?.user == "pump" && shown.first?.device == "d1")
        #expect(shown.dropFirst().first?.reason == "bad-user-name-or-password")
        #expect(!"\(shown)".contains("zzzz"))
    }

    @Test func `shows no packet of another user or another app`() throws {
        let broker = try RunningBroker()
        try broker.makeApp()
        try broker.makeApp("other")
        let tokens = try broker.makeTokens("alice", "bob")
        let foreign = try broker.makeTokens("alice", app: "other")[0]
        let trace = try start("alice", of: broker)
        for token in [foreign, tokens[1], tokens[0]] {
            let peer = try Peer(port: broker.port)
            #expect(peer.mqttLogin(level: 5, client: "alice", token: token) == 0)
        }
        let shown = try packets(trace, of: broker) { $0.packet == "CONNACK" }
        #expect(shown.count { $0.packet == "CONNECT" } == 1)
    }

    @Test func `is listed with its starter, stopped, and refused past the maximum`() throws {
        let broker = try RunningBroker()
        try broker.makeApp()
        let administrator = try broker.administrator()
        for _ in 0..<TraceLimits.countMaximum { _ = try start("alice", of: broker) }
        let traces = try administrator.send(ListTraces()).traces
        #expect(traces.count == TraceLimits.countMaximum)
        #expect(
            traces.allSatisfy {
                $0.startedBy == "admin socket" && (1...60).contains($0.secondsLeft)
            })
        #expect(throws: AdministrationError.self) { try start("bob", of: broker) }
        _ = try administrator.send(StopTrace(trace: traces[0].trace))
        #expect(throws: AdministrationError.self) {
            try administrator.send(ReadTrace(trace: traces[0].trace))
        }
        _ = try start("bob", of: broker)
        #expect(throws: AdministrationError.self) {
            try administrator.send(StartTrace(app: "demo", user: "bob", seconds: 3_601))
        }
        #expect(throws: AdministrationError.self) {
            try administrator.send(StartTrace(app: "nowhere", user: "bob"))
        }
        let line = try #require(broker.log.line { $0.contains("request=trace.start") })
        #expect(line.contains("user=alice") && line.contains("operator=\"admin socket\""))
    }

    @Test func `ends by itself after its time`() throws {
        let broker = try RunningBroker()
        try broker.makeApp()
        let administrator = try broker.administrator()
        let start = ContinuousClock.now
        let trace = try administrator.send(StartTrace(app: "demo", user: "alice", seconds: 1)).trace
        var end: String?
        while end == nil, ContinuousClock.now - start < .seconds(60) {
            end = try administrator.send(ReadTrace(trace: trace)).end
        }
        #expect(end == "time")
        #expect(ContinuousClock.now - start > .milliseconds(900))
    }

    @Test func `a flood costs bounded memory, and what is not shown is counted`() throws {
        let broker = try RunningBroker()
        try broker.makeApp()
        let token = try broker.makeTokens("alice")[0]
        let trace = try start("alice", of: broker)
        let peer = try Peer(port: broker.port)
        #expect(peer.mqttLogin(level: 4, client: "d1", token: token) == 0)
        let count: UInt64 = 20_000
        let packet = Peer.mqttPublish(level: 4, "x", on: "a/b")
        for _ in 0..<20 { peer.write(Array(repeatElement(packet, count: 1_000).joined())) }
        peer.write([0xC0, 0])
        #expect(peer.readFrame()?.type == 13)
        let administrator = try broker.administrator()
        let passed = try administrator.send(ListTraces()).traces[0].packetCount
        #expect(passed >= count)
        var (next, shownCount, missedCount) = (UInt64(0), UInt64(0), UInt64(0))
        while next < passed {
            let page = try administrator.send(ReadTrace(trace: trace, after: next))
            #expect(page.packets.count <= TraceLimits.packetsPerAnswer)
            shownCount += UInt64(page.packets.count)
            missedCount += page.missedCount
            next = page.next
        }
        #expect(shownCount <= UInt64(TraceLimits.packetCountMaximum))
        #expect(shownCount + missedCount == next)
    }

    @Test func `a trace that nobody reads ends, and is forgotten`() {
        let registry = TraceRegistry()
        let moment = Moment(instant: Instant(milliseconds: 5_000), unixMilliseconds: 1)
        let trace = registry.start(
            app: "a", user: "u", device: nil, showsPayloads: false, seconds: 3_600, by: "x",
            at: moment)
        #expect(trace == 1 && registry.targets.count == 1)
        let silence = moment.instant.advanced(bySeconds: TraceLimits.silenceSecondsMaximum)
        #expect(registry.endDue(at: moment.instant).next == silence)
        _ = registry.read(1, after: 0, at: silence)
        #expect(registry.endDue(at: silence).hasEnded == false)
        let later = silence.advanced(bySeconds: TraceLimits.silenceSecondsMaximum)
        #expect(registry.endDue(at: later) == (true, nil))
        #expect(registry.targets.isEmpty && registry.list(at: later).isEmpty)
    }

    @Test func `the ring keeps the newest packets within its packets and bytes`() {
        var ring = PacketRing()
        var removed: UInt64 = 0
        for number in 1...UInt64(3 * TraceLimits.packetCountMaximum) {
            var packet = TracedPacket(.in, "PUBLISH")
            packet.number = number
            removed += ring.append(packet)
        }
        #expect(ring.count == TraceLimits.packetCountMaximum)
        #expect(removed == UInt64(2 * TraceLimits.packetCountMaximum))
        let (page, isAll) = ring.page(after: 0)
        #expect(!isAll && page.count == TraceLimits.packetsPerAnswer)
        #expect(page.first?.number == removed + 1)
        for number in 1...100 {
            var packet = TracedPacket(.in, "PUBLISH")
            packet.number = 10_000 + UInt64(number)
            packet.filters = Array(repeating: String(repeating: "x", count: 1_000), count: 100)
            _ = ring.append(packet)
            #expect(ring.byteCount <= TraceLimits.byteCountMaximum)
        }
        #expect(ring.count < 12 && ring.count > 5)
        #expect(ring.page(after: 10_099).packets.map(\.number) == [10_100])
    }

    @Test func `a text is cut at its maximum, between characters`() {
        let text = String(repeating: "ä", count: 300)
        let bytes = Array("\0\u{5}topic".utf8) + Array(text.utf8)
        var packet: [UInt8] = [0x30, 0x80 | UInt8(bytes.count & 0x7F), UInt8(bytes.count >> 7)]
        packet += bytes
        let shown = PacketSummary.packet(
            packet.span.bytes, dialect: .mqtt(.v311), from: .client)
        #expect(shown.topic == "topic" && shown.payloadByteCount == 600)
        #expect(shown.payload == String(repeating: "ä", count: 128) + "…")
        let raw = PacketSummary.packet(
            ([0x30, 5, 0, 1, 0x61, 0xFF, 0] as [UInt8]).span.bytes, dialect: .mqtt(.v311),
            from: .client)
        #expect(raw.hex == "ff00" && raw.payload == nil)
        let broken = PacketSummary.packet(
            ([0x32, 3, 0, 9, 0x61] as [UInt8]).span.bytes, dialect: .mqtt(.v5), from: .client)
        #expect(broken.reason == "malformed-packet" && broken.detail == "cannot be decoded")
    }
}

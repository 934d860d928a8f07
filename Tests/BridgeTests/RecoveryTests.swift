// The recovery of a bridge after a connection ended between two of its steps, and with a slow MQTT
// broker.

import Primitives
import Testing
import WireFormat

@testable import Bridge

@Suite struct RecoveryTests {
    private let start = Instant(milliseconds: 1_000)

    private func publication(
        _ identifier: UInt16, _ text: String, _ qos: MQTT.QoS, topic: String = "in/x",
        isDuplicate: Bool = false
    ) -> [UInt8] {
        let source = Array(topic.utf8) + text.utf8
        let payload = ByteRange(offset: topic.utf8.count, count: text.utf8.count)
        var packet = MQTT.Publish(
            .v5, topic: ByteRange(offset: 0, count: topic.utf8.count), payload: payload, qos: qos,
            packetIdentifier: identifier)
        packet.isDuplicate = isDuplicate
        return encoded(packet, source)
    }

    /// A bridge that is logged in to the other broker, which has its session.
    private func bridge(after record: BridgeRecord?) throws -> MessageBridge {
        var bridge = MessageBridge(
            try modelSettings(), stored: record, jitterSeed: 1, freshEpoch: 1)
        bridge.start(now: start)
        bridge.work(now: start)
        bridge.foreign.opened(now: start)
        encoded(MQTT.Connack(.v5, .success, isSessionPresent: true)).withUnsafeBytes {
            bridge.foreignReceived($0, now: start)
        }
        _ = bridge.foreign.takeOutgoing()
        return bridge
    }

    private func record(missing texts: String...) -> BridgeRecord {
        var record = BridgeRecord(clientIdentifier: "c", outboxEpoch: 9)
        record.reservedThrough = 1_024
        record.inward = texts.enumerated().map { index, text in
            InwardNote(
                packetIdentifier: UInt16(index + 1),
                digest: Digest.of(topic: Array("in/x".utf8), payload: Array(text.utf8)),
                number: UInt64(index + 40), isSettled: false)
        }
        return record
    }

    @Test func `bytes for a lost connection do not precede the next login`() throws {
        var bridge = MessageBridge(
            try modelSettings(), stored: nil, jitterSeed: 1, freshEpoch: 1)
        var foreign = ForeignModel()
        var martlet = MartletModel()
        bridge.start(now: start)
        bridge.work(now: start)
        bridge.foreign.opened(now: start)
        bridge.martlet!.machine.opened(now: start)
        func exchange() {
            bridge.work(now: start)
            foreign.receive(bridge.foreign.takeOutgoing())
            while case let bytes = bridge.martlet!.nextBytes(now: start), !bytes.isEmpty {
                martlet.receive(Array(bytes))
            }
            foreign.takeOutgoing(.max).withUnsafeBytes {
                bridge.foreignReceived($0, now: start)
            }
            martlet.takeOutgoing(.max).withUnsafeBytes {
                bridge.martletReceived($0, now: start)
            }
        }
        for _ in 0..<4 { exchange() }
        foreign.publish("again 1", .atLeastOnce)
        for _ in 0..<2 { exchange() }
        #expect(martlet.received == ["again 1"])

        // The connection ends, and in the same turn Martlet says that it has the message.
        bridge.foreign.closed("lost", now: start)
        foreign.connectionLost()
        martlet.commit()
        martlet.takeOutgoing(.max).withUnsafeBytes { bridge.martletReceived($0, now: start) }
        bridge.work(now: start)
        let later = start.advanced(byMilliseconds: 2_000)
        bridge.work(now: later)
        bridge.foreign.opened(now: later)
        foreign.receive(bridge.foreign.takeOutgoing())
        #expect(foreign.complaints == [])
        #expect(!foreign.outgoing.isEmpty, "it was not logged in")
    }

    @Test func `recovery waits while the MQTT broker repeats messages`() throws {
        var bridge = try bridge(after: record(missing: "first", "second"))
        func receive(_ packet: [UInt8], _ now: Instant) {
            packet.withUnsafeBytes { bridge.foreignReceived($0, now: now) }
            bridge.work(now: now)
        }
        // Each comes before half a minute has passed since the one before it.
        let middle = start.advanced(byMilliseconds: BridgeLimits.recoveryMilliseconds - 1)
        receive(publication(1, "first", .exactlyOnce, isDuplicate: true), middle)
        let end = middle.advanced(byMilliseconds: BridgeLimits.recoveryMilliseconds - 1)
        bridge.work(now: end)
        #expect(bridge.martlet == nil)
        receive(publication(2, "second", .exactlyOnce, isDuplicate: true), end)
        #expect(bridge.martlet != nil)
        #expect(bridge.inward.sentCount == 2)
        #expect(bridge.inward.entry(number: 40)?.packetIdentifier == 1)
        #expect(bridge.inward.entry(number: 41)?.packetIdentifier == 2)
    }

    @Test func `recovery ends after half a minute without repetitions`() throws {
        var bridge = try bridge(after: record(missing: "first"))
        let end = start.advanced(byMilliseconds: BridgeLimits.recoveryMilliseconds)
        #expect(bridge.nextDeadline <= end)
        bridge.work(now: end)
        #expect(bridge.martlet != nil)
        #expect(!bridge.inward.isMissingAny)
        #expect(
            bridge.takeEffects().contains { effect in
                guard case .log(let line) = effect else { return false }
                return line == "event=recovery_incomplete lost=1"
            })
    }
    @Test func `reading does not stop during recovery`() throws {
        var bridge = try bridge(after: record(missing: "first"))
        // A broker without a window repeats much before it comes to the one that is missing.
        for identifier in 2...200 as ClosedRange<UInt16> {
            publication(identifier, "again", .atLeastOnce, isDuplicate: true).withUnsafeBytes {
                bridge.foreignReceived($0, now: start)
            }
            #expect(bridge.wantsPause == false)
        }
        publication(1, "first", .exactlyOnce, isDuplicate: true).withUnsafeBytes {
            bridge.foreignReceived($0, now: start)
        }
        bridge.work(now: start)
        #expect(bridge.inward.entry(number: 40)?.packetIdentifier == 1)
        #expect(bridge.wantsPause == true)
    }

    @Test func `a broker that ignores the window is disconnected before it fills memory or record`()
        throws
    {
        // To none that a rule is for, so that none of them waits for Martlet.
        var bridge = try bridge(after: nil)
        _ = bridge.takeEffects()
        for identifier in 1...UInt16(BridgeLimits.publicationsMaximum) {
            publication(identifier, "x", .exactlyOnce, topic: "none").withUnsafeBytes {
                bridge.foreignReceived($0, now: start)
            }
        }
        bridge.work(now: start)
        #expect(!bridge.takeEffects().contains(.hangUpForeign))
        #expect(bridge.wantsPause == false)
        let last = UInt16(BridgeLimits.publicationsMaximum + 1)
        publication(last, "x", .exactlyOnce, topic: "none").withUnsafeBytes {
            bridge.foreignReceived($0, now: start)
        }
        bridge.work(now: start)
        #expect(bridge.takeEffects().contains(.hangUpForeign))
        #expect(bridge.inward.entries.count == BridgeLimits.publicationsMaximum)
        #expect(bridge.inward.entries.values.allSatisfy { $0.topic.isEmpty && $0.payload.isEmpty })
    }

    @Test func `a publication that is too large and has no packet identifier ends the connection`()
        throws
    {
        var bridge = try bridge(after: nil)
        _ = bridge.takeEffects()
        // QoS 1, 2,097,152 bytes, topic "a", identifier 0.
        let packet: [UInt8] = [0x32, 0x80, 0x80, 0x80, 0x01, 0, 1, 0x61, 0, 0]
        packet.withUnsafeBytes { bridge.foreignReceived($0, now: start) }
        #expect(bridge.takeEffects().contains(.hangUpForeign))
        #expect(bridge.inward.entries.isEmpty)
    }
}

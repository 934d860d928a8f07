// What a bridge does when a connection ends between two of its steps, and when the other broker
// repeats slowly.

import Primitives
import Testing
import WireFormat

@testable import Bridge

@Suite struct RecoveryTests {
    private let start = Instant(milliseconds: 1_000)

    @Test func `what was meant for a lost connection does not precede the next login`() throws {
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

    @Test func `an earlier life is waited for as long as the other broker repeats`() throws {
        let texts = ["first", "second"]
        var record = BridgeRecord(clientIdentifier: "c", outboxEpoch: 9)
        record.reservedThrough = 1_024
        record.inward = texts.enumerated().map { index, text in
            InwardNote(
                packetIdentifier: UInt16(index + 1),
                digest: Digest.of(topic: Array("in/x".utf8), payload: Array(text.utf8)),
                number: UInt64(index + 40), isSettled: false)
        }
        var bridge = MessageBridge(
            try modelSettings(), stored: record, jitterSeed: 1, freshEpoch: 1)
        bridge.start(now: start)
        bridge.work(now: start)
        bridge.foreign.opened(now: start)
        _ = bridge.foreign.takeOutgoing()
        func receive(_ packet: [UInt8], _ now: Instant) {
            packet.withUnsafeBytes { bridge.foreignReceived($0, now: now) }
            bridge.work(now: now)
        }
        func repetition(_ index: Int) -> [UInt8] {
            let source = Array("in/x".utf8) + texts[index].utf8
            var packet = MQTT.Publish(
                .v5, topic: ByteRange(offset: 0, count: 4),
                payload: ByteRange(offset: 4, count: source.count - 4), qos: .exactlyOnce,
                packetIdentifier: UInt16(index + 1))
            packet.isDuplicate = true
            return encoded(packet, source)
        }
        receive(encoded(MQTT.Connack(.v5, .success, isSessionPresent: true)), start)
        // Each comes before half a minute has passed since the one before it.
        let middle = start.advanced(byMilliseconds: BridgeLimits.recoveryMilliseconds - 1)
        receive(repetition(0), middle)
        let end = middle.advanced(byMilliseconds: BridgeLimits.recoveryMilliseconds - 1)
        bridge.work(now: end)
        #expect(bridge.martlet == nil)
        receive(repetition(1), end)
        #expect(bridge.martlet != nil)
        #expect(bridge.inward.sentCount == 2)
        #expect(bridge.inward.entry(number: 40)?.packetIdentifier == 1)
        #expect(bridge.inward.entry(number: 41)?.packetIdentifier == 2)
    }

    @Test func `an earlier life that nobody repeats is over after half a minute`() throws {
        var record = BridgeRecord(clientIdentifier: "c", outboxEpoch: 9)
        record.inward = [InwardNote(packetIdentifier: 1, digest: 2, number: 3, isSettled: false)]
        var bridge = MessageBridge(
            try modelSettings(), stored: record, jitterSeed: 1, freshEpoch: 1)
        bridge.start(now: start)
        bridge.work(now: start)
        bridge.foreign.opened(now: start)
        encoded(MQTT.Connack(.v5, .success, isSessionPresent: true)).withUnsafeBytes {
            bridge.foreignReceived($0, now: start)
        }
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
}

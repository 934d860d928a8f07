// The load's decoding of packets from an MQTT broker, both versions.
import Primitives
import Testing
import WireFormat

@testable import martlet_bench

@Suite struct MQTTCodecTests {
    private func read(_ bytes: [UInt8], _ version: MQTT.Version) -> Incoming {
        bytes.withUnsafeBytes { bytes in
            guard
                case .packet(let frame) = PacketFrame.next(
                    in: bytes.bytes, at: 0, packetMaximum: 1024)
            else { return .malformed }
            return MQTTCodec(version: version).read(frame, in: bytes)
        }
    }

    @Test func `a publication of 5_0 has properties before its payload`() {
        let packet: [UInt8] = [0x32, 10, 0, 1, 0x74, 0, 7, 2, 0x01, 1, 0x68, 0x69]
        guard case .delivery(let payload, let identifier, let qos) = read(packet, .v5) else {
            Issue.record("not a delivery")
            return
        }
        #expect(Array(packet[Int(payload.offset)..<payload.endOffset]) == Array("hi".utf8))
        #expect(identifier == 7)
        #expect(qos == 1)
    }

    @Test func `a publication of 3_1_1 has none`() {
        let packet: [UInt8] = [0x30, 5, 0, 1, 0x74, 0x68, 0x69]
        guard case .delivery(let payload, let identifier, _) = read(packet, .v311) else {
            Issue.record("not a delivery")
            return
        }
        #expect(payload.count == 2)
        #expect(identifier == 0)
    }

    @Test func `a PUBACK may say that the message was refused`() {
        guard case .sendRefused(let number, let code) = read([0x40, 3, 0, 9, 0x97], .v5) else {
            Issue.record("not a refusal")
            return
        }
        #expect(number == 9)
        #expect(code == 0x97)
    }

    @Test func `a CONNACK of 5_0 has the receive maximum`() {
        guard case .connected(20) = read([0x20, 6, 0, 0, 3, 0x21, 0, 20], .v5) else {
            Issue.record("not connected")
            return
        }
    }

    @Test func `the four packets of a QoS 2 exchange are distinguished`() {
        guard case .releaseWanted(3) = read([0x50, 2, 0, 3], .v311) else {
            Issue.record("PUBREC")
            return
        }
        guard case .released(3) = read([0x62, 2, 0, 3], .v311) else {
            Issue.record("PUBREL")
            return
        }
        guard case .confirmed(3) = read([0x70, 2, 0, 3], .v311) else {
            Issue.record("PUBCOMP")
            return
        }
    }

    @Test func `properties that are longer than their packet are malformed`() {
        guard case .malformed = read([0x30, 4, 0, 1, 0x74, 9], .v5) else {
            Issue.record("taken for a message")
            return
        }
    }
}

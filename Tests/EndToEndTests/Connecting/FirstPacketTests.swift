// The limit of a CONNECT, over TCP and TLS, in any pieces.

import BrokerTerms
import MartletClient
import NetTransport
import Primitives
import TestSurroundings
import Testing
import WireFormat

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(2 * Sanitizer.patience))) struct FirstPacketTests {
        /// A CONNECT of so many bytes whose token is none.
        private func connect(byteCount: Int) -> [UInt8] {
            var connect = MRT.Connect()
            connect.inboxWindow = 1
            connect.credential = .token(ByteRange(offset: 0, count: 16_000))
            // The second time the lengths themselves have their final size.
            var count = 16_000
            for _ in 0..<2 {
                count += byteCount - connect.encodedByteCount
                connect.credential = .token(ByteRange(offset: 0, count: count))
            }
            var bytes = [UInt8](repeating: 0, count: connect.encodedByteCount)
            bytes.withUnsafeMutableBytes { room in
                var writer = PacketWriter(room.mutableBytes)
                [UInt8](repeating: 0x74, count: count).withUnsafeBytes {
                    connect.write(to: &writer, from: $0.bytes)
                }
            }
            return bytes
        }

        @Test func `is handled alike over TCP and TLS and in pieces, and is logged`() async throws {
            let broker = try await TestBroker()
            let context = try ClientTLSContext(trust: .authorityFile(broker.authority))
            for (byteCount, reason) in [
                (16_384, ReasonCode.badUserNameOrPassword), (16_385, .packetTooLarge),
                (60_000, .packetTooLarge),
            ] {
                let bytes = connect(byteCount: byteCount)
                #expect(bytes.count == byteCount)
                for (port, tls) in [(broker.plainPort, nil), (broker.tlsPort, context)] {
                    for cut in [0, 1, 3, 7, 8_000] {
                        let client = try WireClient(port: port, tls: tls)
                        try client.send(Array(bytes[..<cut]))
                        try client.wait(milliseconds: 20)
                        try client.send(Array(bytes[cut...]))
                        let packet = try client.nextPacket()
                        #expect(packet.type == MRT.PacketType.connack.rawValue)
                        #expect(packet.body.first == reason.rawValue)
                        try client.waitForClose()
                    }
                }
            }
        }
    }
}

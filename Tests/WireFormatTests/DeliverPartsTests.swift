// One tail for many receivers: head and tail together are the bytes of the whole packet.

import PacketMeanings
import Primitives
import Testing

@testable import WireFormat

@Suite("The parts of a DELIVER")
struct DeliverPartsTests {
    /// `from`, group and payload, one after the other.
    static let source = Array("alicefleet-7".utf8) + [0] + Array("hello".utf8)

    static func deliver(_ grade: MRT.Grade, _ number: UInt64) -> MRT.Deliver {
        var deliver = MRT.Deliver(
            grade: grade, number: number, kind: .group, from: ByteRange(offset: 0, count: 5),
            time: 1_790_000_000_000, payload: ByteRange(offset: 12, count: 6))
        deliver.address = ByteRange(offset: 5, count: 7)
        return deliver
    }

    @Test(arguments: [0, 1, 127, 128, 1 << 62] as [UInt64])
    func `are the same bytes as the packet`(number: UInt64) {
        let grade: MRT.Grade = number == 0 ? .transient : .durable
        let packet = Self.deliver(grade, number)
        let expected = encode(packet, Self.source)
        let written = Self.source.withUnsafeBytes { source in
            let tail = packet.tail(in: source.bytes)
            let head = MRT.DeliverHead(
                tailByteCount: tail.byteCount, isRaw: packet.isRaw,
                isPossibleDuplicate: packet.isPossibleDuplicate)
            #expect(head.packetByteCount(number: number) == expected.count)
            return bytes(count: expected.count) { writer in
                head.write(grade: grade, number: number, to: &writer)
                tail.write(to: &writer)
            }
        }
        #expect(written == expected)
    }
}

// The first bytes of packets, in any pieces: bytes that cannot become a packet are not waited for,
// and a client whose dialect is unknown gets no answer.

import BrokerTerms
import Primitives
import Testing
import WireFormat

@testable import BrokerCore
@testable import Dialects

@Suite struct `The first bytes of a connection` {
    private static let mrt: [UInt8] = [0, 3, 0x4D, 0x52, 0x54, 1]
    private static let mqtt5: [UInt8] = [0, 4, 0x4D, 0x51, 0x54, 0x54, 5]
    private static let mqtt311: [UInt8] = [0, 4, 0x4D, 0x51, 0x54, 0x54, 4]

    /// Feeds bytes in pieces as a loop would, keeping what is not taken.
    @discardableResult
    private func feed(_ loop: TestLoop, _ bytes: [UInt8], pieces: Int) -> [String] {
        var kept: [UInt8] = []
        var lines: [String] = []
        let length = max(1, (bytes.count + pieces - 1) / pieces)
        for start in stride(from: 0, to: bytes.count, by: length) {
            kept += bytes[start..<min(start + length, bytes.count)]
            var consumed = 0
            lines += loop.receive(kept, consumed: &consumed)
            kept.removeFirst(consumed)
        }
        return lines
    }

    @Test func `with a length of five bytes get no answer`() {
        for first in [0x10, 0x00, 0x30, 0xFF] as [UInt8] {
            let loop = TestLoop()
            loop.receive([first, 0xFF, 0xFF, 0xFF, 0xFF, 0x01])
            #expect(loop.written() == [])
            #expect(loop.host.isClosed)
            #expect(loop.log.refusals.count == 1)
        }
    }

    @Test func `that are no CONNECT are refused at the first one`() {
        for first in 0...255 as ClosedRange<UInt8> where first >> 4 != 1 {
            let loop = TestLoop()
            loop.receive([first])
            #expect(loop.host.isClosed, "\(first)")
            #expect(loop.written() == [])
        }
    }

    /// A token login of so many bytes in all.
    private func connect(byteCount: Int) -> [UInt8] {
        var connect = MRT.Connect()
        connect.inboxWindow = 1
        // The lengths of packet and token take two bytes each.
        connect.credential = .token(ByteRange(offset: 0, count: 16_000))
        let count = 16_000 + byteCount - connect.encodedByteCount
        connect.credential = .token(ByteRange(offset: 0, count: count))
        return encode(connect, String(repeating: "t", count: count))
    }

    @Test(arguments: [1, 2, 3, 20_000])
    func `of a CONNECT of 16,384 bytes are accepted, and of one more refused`(pieces: Int) {
        let loop = TestLoop()
        let whole = connect(byteCount: 16_384)
        #expect(whole.count == 16_384)
        #expect(feed(loop, whole, pieces: pieces).count == 1)
        let refused = TestLoop()
        let large = connect(byteCount: 16_385)
        #expect(large.count == 16_385)
        #expect(feed(refused, large, pieces: pieces) == [])
        #expect(refused.written() == [0x20, 2, 0x95, 0])
        #expect(refused.host.isClosed)
        #expect(refused.log.refusals == [.packetTooLarge])
    }

    @Test(arguments: [1, 2, 30])
    func `of a CONNECT that is too large are refused in its dialect`(pieces: Int) {
        let header: [UInt8] = [0x10, 0x80, 0x80, 0x02]
        let rest = [UInt8](repeating: 0, count: 20)
        let expected: [([UInt8], [UInt8])] = [
            (Self.mrt, [0x20, 2, 0x95, 0]),
            (Self.mqtt5, [0x20, 3, 0, 0x95, 0]),
            // 3.1.1 has no return code for it, and nobody knows the others.
            (Self.mqtt311, []),
            ([0, 6] + Array("MQIsdp".utf8) + [3], []),
            ([0, 3, 0x58, 0x59, 0x5A, 1], []),
            ([0xFF, 0xFF, 0x58, 0x59, 0x5A, 1], []),
        ]
        for (name, answer) in expected {
            let loop = TestLoop()
            feed(loop, header + name + rest, pieces: pieces)
            #expect(loop.written() == answer, "\(name)")
            #expect(loop.host.isClosed)
            #expect(loop.log.refusals == [.packetTooLarge])
        }
    }

    @Test func `of a CONNECT on a channel have the same limit`() {
        let inner = connect(byteCount: 16_385)
        let loop = TestLoop()
        loop.establish()
        loop.receive(
            encode(
                MRT.Channel(channel: 7, inner: ByteRange(offset: 0, count: inner.count)), inner))
        #expect(loop.written() == [0xA0, 5, 7, 0x20, 2, 0x95, 0])
        #expect(loop.log.refusals == [.packetTooLarge])
        #expect(loop.phase == .established)
    }
}

@Suite struct `The first byte of a packet` {
    /// Whether a first byte of a client's packet means something in MRT.
    private func isKnown(_ first: UInt8) -> ReasonCode? {
        do throws(WireError) {
            _ = try MRT.PacketType(firstByte: first, from: .client)
            return nil
        } catch {
            return error.reason
        }
    }

    @Test func `is enough to refuse it`() {
        for first in 0...255 as ClosedRange<UInt8> {
            let loop = TestLoop()
            loop.establish()
            var consumed = 0
            let lines = loop.receive([first], consumed: &consumed)
            let expected = isKnown(first).map { ["fault \($0)"] } ?? []
            #expect(lines == expected, "\(first)")
        }
        for (first, reason) in [
            (0x00, ReasonCode.malformedPacket), (0x90, .malformedPacket), (0xB0, .malformedPacket),
            (0x71, .malformedPacket), (0x20, .protocolError), (0x40, .protocolError),
        ] as [(UInt8, ReasonCode)] {
            #expect(isKnown(first) == reason, "\(first)")
        }
    }

    @Test func `is checked before its length`() {
        let loop = TestLoop()
        loop.establish()
        #expect(
            loop.receive([0x00, 0xFF, 0xFF, 0xFF, 0x7F])
                == ["fault malformedPacket"])
    }
}

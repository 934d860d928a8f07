// The frames of a client: their contents in pieces of any size, and the faults that end a
// connection.

import PacketMeanings
import Primitives
import Testing

@testable import WireFormat

@Suite("A WebSocket client's frames")
struct WebSocketDecoderTests {
    /// A client's frame with a mask.
    static func frame(
        _ first: UInt8, _ payload: [UInt8], mask: [UInt8] = [0x37, 0xFA, 0x21, 0x3D],
        lengthByteCount: Int? = nil
    ) -> [UInt8] {
        var bytes = [first]
        switch lengthByteCount ?? (payload.count <= 125 ? 0 : payload.count <= 0xFFFF ? 2 : 8) {
        case 0: bytes.append(0x80 | UInt8(payload.count))
        case 2:
            bytes += [0x80 | 126, UInt8(payload.count >> 8), UInt8(payload.count & 0xFF)]
        default:
            bytes.append(0x80 | 127)
            bytes += (0..<8).map { UInt8(payload.count >> (56 - 8 * $0) & 0xFF) }
        }
        bytes += mask
        for (index, byte) in payload.enumerated() { bytes.append(byte ^ mask[index % 4]) }
        return bytes
    }

    static func decode(
        _ stream: [UInt8], step: Int, frameMaximum: Int = 1 << 20
    ) -> (contents: WebSocketContents, fault: WebSocketFault?) {
        WebSocketContents.decode(stream, step: step, frameMaximum: frameMaximum)
    }

    // [MQTT-6.0.0-2] [MQTT-6.0.0-2/311]
    @Test func `give the same in any pieces`() {
        let long = (0..<70_000).map { UInt8(truncatingIfNeeded: $0 * 7) }
        var stream = Self.frame(0x82, [1, 2, 3])
        stream += Self.frame(0x02, Array(long.prefix(200)), mask: [9, 8, 7, 6])
        stream += Self.frame(0x89, Array("ping".utf8))
        stream += Self.frame(0x00, [])
        stream += Self.frame(0x8A, [5])
        stream += Self.frame(0x80, long)
        stream += Self.frame(0x82, [])
        stream += Self.frame(0x82, [4], mask: [0, 0, 0, 0])
        stream += Self.frame(0x88, [0x03, 0xE8] + Array("bye".utf8))
        stream += Self.frame(0x82, [77])
        let expected = WebSocketContents(
            payload: [1, 2, 3] + long.prefix(200) + long + [4], pings: [Array("ping".utf8)],
            pongs: 1, closes: [1000])
        for step in [1, 2, 3, 5, 7, 13, 64, 1_000, 65_536, stream.count] {
            let decoded = Self.decode(stream, step: step)
            #expect(decoded.contents == expected, "\(step)")
            #expect(decoded.fault == nil, "\(step)")
        }
    }

    @Test func `are unmasked from any place of the mask`() {
        let mask: UInt32 = 0xA1B2_C3D4
        let plain = (0..<67).map { UInt8($0) }
        let ordered = withUnsafeBytes(of: mask) { Array($0) }
        for turn in 0..<8 {
            for count in 0...plain.count {
                var bytes = plain.prefix(count).enumerated().map { $1 ^ ordered[($0 + turn) % 4] }
                var elements = bytes.mutableSpan
                var span = elements.mutableBytes
                WebSocketDecoder.unmask(
                    &span, 0..<count, with: WebSocketDecoder.turned(mask, by: turn))
                #expect(bytes == Array(plain.prefix(count)), "\(count) bytes after \(turn)")
            }
        }
    }

    static let faults: [([UInt8], WebSocketFault)] = [
        (frame(0xC2, []), .reservedBit), (frame(0xA2, []), .reservedBit),
        (frame(0x92, []), .reservedBit), (frame(0x83, []), .unknownOpcode),
        (frame(0x87, []), .unknownOpcode), (frame(0x8B, []), .unknownOpcode),
        ([0x82, 0x00], .unmasked), ([0x88, 0x02, 0x03, 0xE8], .unmasked),
        (frame(0x82, [1], lengthByteCount: 2), .lengthNotMinimal),
        (frame(0x82, [UInt8](repeating: 0, count: 126), lengthByteCount: 8), .lengthNotMinimal),
        (frame(0x89, [UInt8](repeating: 0, count: 126)), .longControl),
        (frame(0x88, [UInt8](repeating: 0, count: 70_000)), .longControl),
        (frame(0x09, []), .fragmentedControl), (frame(0x08, []), .fragmentedControl),
        (frame(0x80, []), .continuationWithoutMessage),
        (frame(0x82, []) + frame(0x00, []), .continuationWithoutMessage),
        (frame(0x02, [1]) + frame(0x82, [2]), .messageWithinMessage),
        (frame(0x02, [1]) + frame(0x81, [2]), .messageWithinMessage),
        (frame(0x81, Array("hello".utf8)), .otherForm), (frame(0x01, []), .otherForm),
        (frame(0x88, [3]), .closePayload), (frame(0x88, [0x03, 0xE7]), .closePayload),
        (frame(0x88, [0x03, 0xED]), .closePayload), (frame(0x88, [0x03, 0xEE]), .closePayload),
        (frame(0x88, [0x13, 0x88]), .closePayload), (frame(0x88, [0, 0]), .closePayload),
        (frame(0x88, [0x03, 0xE8, 0xC3]), .closePayload),
        (frame(0x82, [UInt8](repeating: 0, count: 1_001)), .tooLarge),
        ([0x82, 0xFF, 0x80, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4], .tooLarge),
        ([0x82, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1, 2, 3, 4], .tooLarge),
    ]

    // [MQTT-6.0.0-1] [MQTT-6.0.0-1/311]
    @Test(arguments: 0..<faults.count)
    func `that break a rule end the connection`(index: Int) {
        let (stream, fault) = Self.faults[index]
        for step in [1, 2, stream.count] {
            #expect(Self.decode(stream, step: step, frameMaximum: 1_000).fault == fault)
        }
    }

    @Test func `are accepted up to the largest one`() {
        let largest = Self.frame(0x82, [UInt8](repeating: 9, count: 1_000))
        let decoded = Self.decode(largest + largest, step: 100, frameMaximum: 1_000)
        #expect(decoded.fault == nil)
        #expect(decoded.contents.payload.count == 2_000)
        let control = Self.frame(0x89, [UInt8](repeating: 1, count: 125))
        #expect(Self.decode(control, step: 9).contents.pings.map(\.count) == [125])
    }

    @Test func `close with a code, without one, and with codes of applications`() {
        for (payload, code): ([UInt8], UInt16?) in [
            ([], nil), ([0x03, 0xE8], 1000), ([0x0B, 0xB8], 3000), ([0x13, 0x87], 4999),
            ([0x03, 0xF6, 0xC3, 0xA4], 1014),
        ] {
            #expect(Self.decode(Self.frame(0x88, payload), step: 1).contents.closes == [code])
        }
    }

    @Test func `have codes for their faults`() {
        let others: [WebSocketFault: WebSocketCloseCode] = [
            .otherForm: .unsupportedData, .tooLarge: .tooLarge, .emptyFrames: .policyViolation,
        ]
        for fault in WebSocketFault.allCases {
            #expect(fault.closeCode == others[fault] ?? .protocolError)
            #expect(fault.text.utf8CodeUnitCount > 0)
        }
    }

    @Test func `cost a connection twelve bytes`() {
        #expect(MemoryLayout<WebSocketDecoder>.stride == 12)
    }
}

@Suite("A WebSocket server's frames")
struct WebSocketFrameTests {
    @Test(
        arguments: [
            (0, [0x82, 0]), (125, [0x82, 125]), (126, [0x82, 126, 0, 126]),
            (65_535, [0x82, 126, 255, 255]), (65_536, [0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0]),
        ] as [(Int, [UInt8])])
    func `have the shortest length`(count: Int, header: [UInt8]) {
        var bytes = [UInt8](repeating: 0xEE, count: 10)
        var span = bytes.mutableSpan
        var writer = PacketWriter(span.mutableBytes)
        WebSocketFrame.writeHeader(.binary, payloadByteCount: count, to: &writer)
        let written = writer.byteCount
        #expect(Array(bytes.prefix(written)) == header)
        #expect(WebSocketFrame.headerByteCount(payloadByteCount: count) == written)
    }

    @Test func `close with a code`() {
        var bytes = [UInt8](repeating: 0, count: WebSocketFrame.closeByteCount())
        var span = bytes.mutableSpan
        var writer = PacketWriter(span.mutableBytes)
        WebSocketFrame.writeClose(.tooLarge, to: &writer)
        #expect(bytes == [0x88, 2, 0x03, 0xF1])
    }
}

@Suite("The WebSocket handshake")
struct WebSocketHandshakeTests {
    @Test func `answers as RFC 6455 does, section 1-3`() {
        let key = Array("dGhlIHNhbXBsZSBub25jZQ==".utf8)
        let input = WebSocketHandshake.digestInput(key: key.span.bytes)
        #expect(
            String(decoding: input, as: UTF8.self)
                == "dGhlIHNhbXBsZSBub25jZQ==258EAFA5-E914-47DA-95CA-C5AB0DC85B11")
        let digest: [UInt8] = [
            0xb3, 0x7a, 0x4f, 0x2c, 0xc0, 0x62, 0x4f, 0x16, 0x90, 0xf6, 0x46, 0x06, 0xcf, 0x38,
            0x59, 0x45, 0xb2, 0xbe, 0xc4, 0xea,
        ]
        let response = WebSocketHandshake.response(digest: digest, subprotocol: "mqtt")
        #expect(
            String(decoding: response, as: UTF8.self)
                == "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                + "Connection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"
                + "Sec-WebSocket-Protocol: mqtt\r\n\r\n")
    }

    @Test(arguments: [
        ("dGhlIHNhbXBsZSBub25jZQ==", true), ("AAAAAAAAAAAAAAAAAAAAAA==", true),
        ("/////////////////////w==", true), ("dGhlIHNhbXBsZSBub25jZR==", false),
        ("dGhlIHNhbXBsZSBub25jZQ=", false), ("dGhlIHNhbXBsZSBub25jZQ===", false),
        ("dGhlIHNhbXBsZSBub25jZQAA", false), ("dGhl HNhbXBsZSBub25jZQ==", false), ("", false),
    ])
    func `takes keys of 16 bytes`(key: String, isKey: Bool) {
        #expect(WebSocketHandshake.isKey(Array(key.utf8).span.bytes) == isKey)
    }
}

// The client's half of WebSocket (RFC 6455), as far as a load needs it: one packet in a frame, as
// clients of MQTT send them, and frames with whole packets from the broker.

import WireFormat

/// Handshakes and the headers of frames.
enum WebSocketClient {
    /// The request that opens a WebSocket for MQTT. The key is the example of RFC 6455, 1.3.
    static func handshake(host: String) -> [UInt8] {
        Array(
            ("GET /mqtt HTTP/1.1\r\nHost: \(host)\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                + "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
                + "Sec-WebSocket-Protocol: mqtt\r\n\r\n").utf8)
    }

    /// What the broker has answered.
    enum Answer {
        case incomplete
        /// It speaks WebSocket after so many bytes.
        case accepted(byteCount: Int)
        case refused
    }

    static func readAnswer(_ bytes: UnsafeRawBufferPointer) -> Answer {
        guard let end = (0..<max(bytes.count - 3, 0)).first(where: { isHeadEnd(bytes, at: $0) })
        else { return .incomplete }
        let isAccepted = bytes.starts(with: "HTTP/1.1 101 ".utf8)
        return isAccepted ? .accepted(byteCount: end + 4) : .refused
    }

    private static func isHeadEnd(_ bytes: UnsafeRawBufferPointer, at offset: Int) -> Bool {
        bytes[offset...].starts(with: "\r\n\r\n".utf8)
    }

    // MARK: - Frames to the broker

    static func headerByteCount(of byteCount: Int) -> Int {
        byteCount < 126 ? 6 : byteCount < 65_536 ? 8 : 14
    }

    /// The header of a binary frame. The mask is 0, which spares the load a pass over the payload;
    /// the broker unmasks it as any other.
    static func writeHeader(of byteCount: Int, to writer: inout PacketWriter) {
        writer.write(byte: 0x82)
        if byteCount < 126 {
            writer.write(byte: 0x80 | UInt8(byteCount))
        } else if byteCount < 65_536 {
            writer.write(byte: 0x80 | 126)
            writer.write(uint16: UInt16(byteCount))
        } else {
            writer.write(byte: 0x80 | 127)
            writer.write(uint16: 0)
            writer.write(uint16: 0)
            writer.write(uint16: UInt16(byteCount >> 16))
            writer.write(uint16: UInt16(byteCount & 0xFFFF))
        }
        writer.write(uint16: 0)
        writer.write(uint16: 0)
    }

    // MARK: - Frames of the broker

    enum Frame {
        /// So many bytes are needed from the offset on, as far as it is known.
        case incomplete(minimum: Int)
        /// Packets within a range.
        case packets(Range<Int>)
        /// A control frame that ends here.
        case control(end: Int)
        case malformed
    }

    /// Reads the frame at `offset`.
    static func readFrame(_ bytes: UnsafeRawBufferPointer, at offset: Int) -> Frame {
        let rest = bytes.count - offset
        guard rest >= 2 else { return .incomplete(minimum: 2) }
        var headerByteCount = 2
        var length = Int(bytes[offset + 1])
        // A server's frames have no mask.
        guard length < 128 else { return .malformed }
        if length >= 126 {
            let lengthByteCount = length == 126 ? 2 : 8
            headerByteCount += lengthByteCount
            guard rest >= headerByteCount else { return .incomplete(minimum: headerByteCount) }
            length = 0
            for index in 0..<lengthByteCount {
                guard length < 1 << 32 else { return .malformed }
                length = length << 8 | Int(bytes[offset + 2 + index])
            }
        }
        let end = offset + headerByteCount + length
        guard end <= bytes.count else { return .incomplete(minimum: headerByteCount + length) }
        switch WebSocketOpcode(rawValue: bytes[offset] & 0x0F) {
        case .binary, .continuation: return .packets(offset + headerByteCount..<end)
        case .ping, .pong, .close: return .control(end: end)
        case .text, nil: return .malformed
        }
    }
}

// Reads along at a client: what a device that understands PROTOCOL.md and nothing else can see on
// its wire. It is no part of the client and changes nothing.

import Primitives
import WireFormat

/// Cuts a stream into packets.
struct WireTap {
    private var buffer: [UInt8] = []

    /// Takes bytes and hands on each packet that is complete, with its body. False when the stream
    /// is not one of packets.
    mutating func take(
        _ bytes: [UInt8], _ body: (PacketFrame, UnsafeRawBufferPointer) -> Void
    ) -> Bool {
        buffer += bytes
        var offset = 0
        let isSound = buffer.withUnsafeBytes { buffer in
            while true {
                switch PacketFrame.next(in: buffer, at: offset, packetMaximum: .max) {
                case .packet(let frame):
                    body(frame, frame.body.bytes(in: buffer))
                    offset = frame.endOffset
                case .incomplete: return true
                case .malformed, .tooLarge: return false
                }
            }
        }
        buffer.removeFirst(offset)
        return isSound
    }
}

/// The text of a message: its name in the ledger, and padding.
enum MessageText {
    static func make(_ message: Int, padding: Int) -> [UInt8] {
        Array("\(message);".utf8) + [UInt8](repeating: UInt8(ascii: "."), count: padding)
    }

    /// The name in a payload; nil in one that no client made.
    static func message(in payload: UnsafeRawBufferPointer, isRaw: Bool) -> Int? {
        let text = isRaw ? payload[...] : payload.dropFirst()
        guard let end = text.firstIndex(of: UInt8(ascii: ";")) else { return nil }
        let padding = text[(end + 1)...]
        guard padding.allSatisfy({ $0 == UInt8(ascii: ".") }) else { return nil }
        return Int(String(decoding: text[..<end], as: UTF8.self))
    }
}

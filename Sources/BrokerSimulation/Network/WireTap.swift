// Observes the wire of a client: it sees what a device can see that knows only PROTOCOL.md. It is
// not part of the client and changes nothing.

import Primitives
import WireFormat

/// Divides a stream into packets.
struct WireTap {
    private var buffer: [UInt8] = []

    /// Takes bytes and passes each complete packet on, with its body. False if the stream is
    /// invalid.
    mutating func take(
        _ bytes: [UInt8], _ body: (PacketFrame, UnsafeRawBufferPointer) -> Void
    ) -> Bool {
        buffer += bytes
        var offset = 0
        let isSound = buffer.withUnsafeBytes { buffer in
            while true {
                switch PacketFrame.next(in: buffer.bytes, at: offset, packetMaximum: .max) {
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

/// The text of a message: its name in the oracle, and padding.
enum MessageText {
    static func make(_ message: Int, padding: Int) -> [UInt8] {
        Array("\(message);".utf8) + [UInt8](repeating: UInt8(ascii: "."), count: padding)
    }

    /// The payload of a message whose content was replaced so often.
    static func make(_ message: Int, content: Int) -> [UInt8] {
        make(message, padding: 0) + [UInt8](repeating: UInt8(ascii: "-"), count: content)
    }

    /// The content that a moderator gives a message.
    static func makeRewritten(_ message: Int) -> [UInt8] { Array("\(message);~".utf8) }

    /// Whether a moderator has given a payload, or a message as JSON, its content.
    static func isRewritten(_ payload: RawSpan) -> Bool {
        payload.withUnsafeBytes { $0.contains(UInt8(ascii: "~")) }
    }

    /// How often the content of a payload was replaced.
    static func content(in payload: RawSpan) -> Int {
        var count = 0
        while count < payload.byteCount,
            payload[payload.byteCount - 1 - count] == UInt8(ascii: "-")
        {
            count += 1
        }
        return count
    }

    /// The name in a payload for an MQTT client, and the sender if it is named: the bytes of a
    /// client, or a message as JSON.
    static func message(
        inPublication payload: UnsafeRawBufferPointer
    ) -> (message: Int?, from: String?) {
        guard payload.first == UInt8(ascii: "{") else {
            return (message(in: payload, isRaw: true), nil)
        }
        // The texts of a run need no escapes.
        let parts = payload.split(separator: UInt8(ascii: "\""), omittingEmptySubsequences: false)
        func value(of name: String) -> Slice<UnsafeRawBufferPointer>? {
            guard let place = parts.firstIndex(where: { $0.elementsEqual(name.utf8) }),
                place + 2 < parts.count
            else { return nil }
            return parts[place + 2]
        }
        let text = value(of: "b").flatMap {
            message(in: UnsafeRawBufferPointer(rebasing: $0), isRaw: true)
        }
        return (text, value(of: "from").map { String(decoding: $0, as: UTF8.self) })
    }

    /// The name in a payload; nil if no client created it.
    static func message(in payload: UnsafeRawBufferPointer, isRaw: Bool) -> Int? {
        let text = isRaw ? payload[...] : payload.dropFirst()
        guard let end = text.firstIndex(of: UInt8(ascii: ";")) else { return nil }
        let padding = text[(end + 1)...]
        let isPadding = padding.allSatisfy {
            $0 == UInt8(ascii: ".") || $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: "~")
        }
        guard isPadding else { return nil }
        return Int(String(decoding: text[..<end], as: UTF8.self))
    }
}

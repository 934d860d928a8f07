// A sender's request to recall or to replace a message, and its answer, as plain data.

import Primitives

/// A sender takes a message back, or gives it new content.
public struct RecallRequest: Sendable {
    /// How the sender names the message.
    public enum Message: Hashable, Sendable {
        case reference(UInt64)
        /// The application's id: the latest message of the user with it.
        case messageIdentifier(ByteRange)
    }

    /// New content.
    public struct Content: Hashable, Sendable {
        /// `t` as one byte, then `b`.
        public var payload: ByteRange
        /// Bytes of its minimal JSON form, as the dialect counted them.
        public var messageByteCount: UInt32

        public init(payload: ByteRange, messageByteCount: UInt32) {
            self.payload = payload
            self.messageByteCount = messageByteCount
        }
    }

    public var message: Message
    /// Text for those who have the message, at most 128 bytes; the dialect has checked it.
    public var detail: ByteRange
    /// Nil for a recall.
    public var content: Content?
    /// Bytes that the answer may have.
    public var byteCountMaximum: Int

    public init(
        message: Message, detail: ByteRange = .empty, content: Content? = nil,
        byteCountMaximum: Int = .max
    ) {
        self.message = message
        self.detail = detail
        self.content = content
        self.byteCountMaximum = byteCountMaximum
    }
}

/// The answer, of ``MRTEffect/reportRecall(_:requestIdentifier:answer:)``. It has the layout of
/// MRT:
///
///     | varint withdrawn | varint late | run of (u8 length, late user) |
public struct RecallAnswer: Hashable, Sendable {
    /// Users of whom no device had the message or may have had it.
    public var withdrawn: UInt32
    /// Users who have the message, or may have it. They are told.
    public var late: UInt32
    /// The names of late users, at most ``CoreLimits/lateNamesMaximum``; empty if the message was
    /// to a group, or if the sender may not ask for receipts of all receivers.
    public var names: [[UInt8]]

    public init(withdrawn: UInt32, late: UInt32, names: [[UInt8]] = []) {
        self.withdrawn = withdrawn
        self.late = late
        self.names = names
    }

    /// Reads the body of a response that the core has made.
    public init(decoding body: RawSpan) {
        var offset = 0
        var counts: [UInt32] = [0, 0]
        for index in counts.indices {
            var shift: UInt32 = 0
            while offset < body.byteCount {
                let byte = body[offset]
                offset += 1
                counts[index] |= UInt32(byte & 0x7F) << shift
                if byte < 0x80 { break }
                shift += 7
            }
        }
        (withdrawn, late) = (counts[0], counts[1])
        names = []
        while offset < body.byteCount {
            let end = min(offset + 1 + Int(body[offset]), body.byteCount)
            names.append(body.extracting(offset + 1..<end).withUnsafeBytes { Array($0) })
            offset = end
        }
    }

    /// The body, with as many names as fit.
    func encoded(byteCountMaximum: Int) -> [UInt8] {
        var bytes: [UInt8] = []
        for count in [withdrawn, late] {
            var rest = count
            while rest >= 0x80 {
                bytes.append(UInt8(rest & 0x7F) | 0x80)
                rest >>= 7
            }
            bytes.append(UInt8(rest))
        }
        for name in names {
            guard bytes.count + 1 + name.count <= byteCountMaximum else { break }
            bytes.append(UInt8(name.count))
            bytes += name
        }
        return bytes
    }
}

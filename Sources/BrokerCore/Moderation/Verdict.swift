// What a moderator decides on a message, and what the sender is told of it.

import Primitives

/// The decision on a held message.
enum Verdict: Hashable {
    case accepted
    case refused(VerdictNote)
    /// The message gets another content: the text of a `t`/`b` message, or all of the payload.
    case rewritten(content: [UInt8], VerdictNote)
    /// The moderator cannot decide now: the sender may send the message again.
    case later
    /// Nobody decided in time, or nobody was asked.
    case silent
}

/// What the sender of a message is told of a verdict.
public struct VerdictNote: Hashable, Sendable {
    /// Below 0 for a refusal. Otherwise the message was rewritten; 0 for no code.
    public var code: Int32
    /// At most 128 bytes of UTF-8 without control characters; empty for none.
    public var text: [UInt8]

    /// Whether the message was refused.
    public var isRefusal: Bool { code < 0 }

    init(code: Int32, text: [UInt8] = []) {
        self.code = code
        self.text = text
    }

    /// The code in four bytes, the length of the text in one, and the text.
    var encoded: [UInt8] {
        let bits = UInt32(bitPattern: code)
        let bytes = (0..<4).map { UInt8(truncatingIfNeeded: bits >> (8 * UInt32($0))) }
        return bytes + [UInt8(text.count)] + text
    }

    /// Reads what ``encoded`` has written at an offset.
    init(at offset: Int, in bytes: RawSpan) {
        let bits = bytes.unsafeLoadUnaligned(fromByteOffset: offset, as: UInt32.self)
        code = Int32(bitPattern: UInt32(littleEndian: bits))
        let count = Int(bytes.unsafeLoadUnaligned(fromByteOffset: offset + 4, as: UInt8.self))
        text = (0..<count).map {
            bytes.unsafeLoadUnaligned(fromByteOffset: offset + 5 + $0, as: UInt8.self)
        }
    }
}

extension LoopEffects {
    /// What the sender is told of the verdict on its message, if there was one other than to
    /// accept it. It follows the id of the message.
    public func verdict(of result: SendResult) -> VerdictNote? {
        guard result.cause.hasVerdict else { return nil }
        return VerdictNote(after: result.messageIdentifier, in: self)
    }

    /// The same for a publication of MQTT.
    public func verdict(of answer: PacketAnswer) -> VerdictNote? {
        guard answer.cause.hasVerdict else { return nil }
        return VerdictNote(after: answer.messageIdentifier, in: self)
    }

    /// Appends the id of a message and what is told of its verdict. Returns the range of the id.
    mutating func append(
        messageIdentifier: borrowing [UInt8], _ note: VerdictNote
    ) -> ByteRange {
        let range = bytes.append(messageIdentifier + note.encoded)
        return ByteRange(offset: Int(range.offset), count: messageIdentifier.count)
    }
}

extension VerdictNote {
    fileprivate init(after identifier: ByteRange, in loop: borrowing LoopEffects) {
        self.init(
            at: Int(identifier.offset) + Int(identifier.count), in: loop.bytes.bytes.bytes)
    }

    /// The cause in a result.
    var cause: LimitName { isRefusal ? .moderatorRefused : .moderatorRewrote }
}

extension LimitName {
    /// Whether a result with this cause has a ``VerdictNote``.
    var hasVerdict: Bool { self == .moderatorRefused || self == .moderatorRewrote }
}

// Receipts: what receivers did with a message, and how a receiver tells it.

import Primitives
import WireFormat

/// The name of a message within its app: 16 hexadecimal digits as text.
public struct MessageReference: Hashable, Sendable, CustomStringConvertible {
    let number: UInt64

    init?(_ number: UInt64) {
        guard number != 0 else { return nil }
        self.number = number
    }

    /// Reads ``description``; nil for anything else.
    public init?(_ text: String) {
        let digits = Array(text.utf8)
        guard let number = UInt64(hexadecimal: digits.span.bytes), number != 0 else { return nil }
        self.number = number
    }

    /// 16 hexadecimal digits.
    public var description: String {
        var digits: [UInt8] = []
        digits.append(hexadecimal: number)
        return String(decoding: digits, as: UTF8.self)
    }
}

/// What a receiver did with a message of this user.
public struct MessageReceipt: Hashable, Sendable {
    /// What happened.
    public enum Event: Hashable, Sendable {
        /// A device of the receiver has acknowledged the message.
        case delivered(device: String)
        /// The receiver has told that it applied the message, or why not: codes are the
        /// application's own, 0 for done and from 0x80 on for failures.
        case applied(device: String, code: UInt8, text: String)
        /// How many of the members of a group have the message, have applied it, and failed.
        case counts(
            group: String, delivered: UInt32, applied: UInt32, failed: UInt32, members: UInt32)
        /// A receipt of a kind that this version does not know.
        case other
    }

    /// The message.
    public var reference: MessageReference
    /// The message's own id, if it has one.
    public var messageID: String?
    /// What happened.
    public var event: Event

    init?(_ payload: ByteRange, in bytes: RawSpan) {
        func text(_ range: ByteRange) -> String {
            let bytes = range.bytes(in: bytes)
            return bytes.withUnsafeBytes { String(decoding: $0, as: UTF8.self) }
        }
        guard let receipt = MRT.Receipt(payload, in: bytes),
            let reference = MessageReference(receipt.reference)
        else { return nil }
        self.reference = reference
        messageID = receipt.messageIdentifier.isEmpty ? nil : text(receipt.messageIdentifier)
        switch receipt.event {
        case .delivered(let device): event = .delivered(device: text(device))
        case .applied(let device, let code, let words):
            event = .applied(device: text(device), code: code, text: text(words))
        case .counts(let group, let delivered, let applied, let failed, let members):
            event = .counts(
                group: text(group), delivered: delivered, applied: applied, failed: failed,
                members: members)
        }
    }
}

extension Client {
    /// Tells the sender of a message that this user's application has applied it, or why not. It
    /// counts once for the user, whichever of its devices tells it; later ones change nothing.
    ///
    /// - Parameters:
    ///   - reference: ``IncomingMessage/reference`` of a message whose sender asked for it.
    ///   - code: the application's own: 0 for done, 0x80 or more for a failure.
    ///   - text: at most 128 bytes without control characters.
    /// - Throws: ``MartletError/refused(_:_:)`` if there is no such message to this user, or if it
    ///   has expired.
    public func reportApplied(
        _ reference: MessageReference, code: UInt8 = 0, text: String = ""
    ) async throws(MartletError) {
        var bytes = ByteBuilder()
        let text = bytes.append(text)
        _ = try await request(
            .applied, part: MRT.Applied(reference: reference.number, code: code, text: text),
            bytes: bytes)
    }
}

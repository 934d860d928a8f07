// Messages that their sender takes back or changes: the calls of the sender, and what receivers
// get.

import Primitives
import WireFormat

/// A message that this user sent. It has a reference: it asked for one or for receipts, or has a
/// collapse key.
public enum SentMessage: Hashable, Sendable {
    /// By ``Receipt/reference``.
    case reference(MessageReference)
    /// By ``OutgoingMessage/messageID``: the latest message of this user with it.
    case messageID(String)
}

/// What became of a message that was recalled or replaced.
public struct RevisionResult: Hashable, Sendable {
    /// Users of whom no device had the message, or may have had it. They never get it, or get the
    /// new content in its place.
    public var withdrawnCount: UInt32
    /// Users who have it, or may have it. They are told.
    public var lateCount: UInt32
    /// Some of these users, at most 256.
    public var lateUsers: [String]

    init?(_ content: [UInt8]) {
        let source = content.span.bytes
        guard let result = try? MRT.RevisionResult(source) else { return nil }
        withdrawnCount = result.withdrawnCount
        lateCount = result.lateCount
        lateUsers = []
        var walk = MRT.IdentifierList(result.lateUsers, in: source)
        while let user = walk.next() {
            lateUsers.append(String(decoding: content[user.offsets], as: UTF8.self))
        }
    }
}

/// What a receiver is told about a message that it has, or may have.
public struct MessageRevision: Hashable, Sendable {
    /// The message.
    public var reference: MessageReference
    /// The sender's own id of the message, if it has one.
    public var messageID: String?
    /// The group of the message; nil for one to this user.
    public var group: String?
    /// 0: by the sender. Others are reserved.
    public var code: UInt8
    /// Why, for people; may be empty.
    public var detail: String
    /// The new content; nil for a recall.
    public var content: MessageContent?

    init?(_ packet: MRT.Deliver, in body: RawSpan) {
        func text(_ range: ByteRange) -> String {
            range.bytes(in: body).withUnsafeBytes { String(decoding: $0, as: UTF8.self) }
        }
        guard let revision = MRT.Revision(packet.kind, packet.payload, in: body),
            let reference = MessageReference(revision.reference)
        else { return nil }
        self.reference = reference
        messageID = revision.messageIdentifier.isEmpty ? nil : text(revision.messageIdentifier)
        group = packet.address.isEmpty ? nil : text(packet.address)
        code = revision.code
        detail = text(revision.detail)
        content = revision.content.map { content in
            let payload = content.bytes(in: body).withUnsafeBytes { Array($0) }
            return .text(
                String(decoding: payload.dropFirst(), as: UTF8.self), type: payload.first ?? 0)
        }
    }
}

extension Client {
    /// Takes back a message of this user. Receivers whose devices have not got it never do; the
    /// others are told with ``IncomingMessage/Kind/recall(_:)``. Repeating it is harmless.
    ///
    /// - Parameters:
    ///   - message: names the message, by its reference or by its id.
    ///   - detail: for the receivers who are told: at most 128 bytes without control characters.
    /// - Throws: ``MartletError/refused(_:_:)`` if this user sent no such message, if it has
    ///   expired, or if another recall or replacement of it is under way.
    public func recall(
        _ message: SentMessage, detail: String = ""
    ) async throws(MartletError) -> RevisionResult {
        var bytes = ByteBuilder()
        let sent = try bytes.append(message)
        return try await revise(
            .recall, part: MRT.Recall(message: sent, detail: bytes.append(detail)), bytes: bytes)
    }

    /// Gives a message of this user a new text. Receivers whose devices have not got it get the new
    /// text in its place; the others are told with ``IncomingMessage/Kind/update(_:)``.
    ///
    /// - Parameters:
    ///   - message: as for ``recall(_:detail:)``.
    ///   - text: obeys the limits of a message.
    ///   - type: as in ``MessageContent/text(_:type:)``.
    ///   - detail: as for ``recall(_:detail:)``.
    /// - Throws: as ``recall(_:detail:)``; also if the message was recalled, and
    ///   ``MartletError/refused(_:_:)`` with `notAuthorized` if the user may not send to the
    ///   receiver any more. Repeating it tells those who have the message again.
    public func replace(
        _ message: SentMessage, text: String, type: UInt8 = 0, detail: String = ""
    ) async throws(MartletError) -> RevisionResult {
        guard detail.utf8.count <= WireLimits.revisionDetailByteCountMaximum else {
            throw .refused(.packetTooLarge, "")
        }
        var bytes = ByteBuilder()
        let sent = try bytes.append(message)
        let why = bytes.append(detail)
        let payload = bytes.append([type] + Array(text.utf8))
        return try await revise(
            .replace, part: MRT.Replace(message: sent, detail: why, payload: payload), bytes: bytes)
    }

    private func revise(
        _ operation: MRT.Operation, part: some RequestPart, bytes: ByteBuilder
    ) async throws(MartletError) -> RevisionResult {
        let answer = try await request(operation, part: part, bytes: bytes)
        guard let result = RevisionResult(answer.content) else { throw .unreadableAnswer }
        return result
    }
}

extension ByteBuilder {
    fileprivate mutating func append(
        _ message: SentMessage
    ) throws(MartletError) -> MRT.SentMessage {
        switch message {
        case .reference(let reference): return .reference(reference.number)
        case .messageID(let identifier):
            guard
                (1...WireLimits.messageIdentifierByteCountMaximum).contains(identifier.utf8.count)
            else { throw .invalid("a message id has 1 to 64 bytes") }
            return .messageIdentifier(append(identifier))
        }
    }
}

// A received message.

import Primitives
import WireFormat

/// The position in an inbox up to which all messages have been processed: the one small record that
/// an application stores to resume exactly (docs/PROTOCOL.md section 8, "The inbox").
public struct InboxRecord: Hashable, Sendable {
    /// The session epoch; numbers of another epoch are void.
    public var epoch: UInt64
    /// The number of the last processed message; 0 before the first one.
    public var number: UInt64

    /// A record that an earlier run stored.
    public init(epoch: UInt64, number: UInt64) {
        self.epoch = epoch
        self.number = number
    }

    /// Whether the values are possible: an epoch is never 0, and a number has at most 63 bits
    /// (docs/PROTOCOL.md section 2). A record from a file may contain anything.
    public var isPossible: Bool { epoch != 0 && number <= WireLimits.varIntMaximum }
}

/// A message to this user.
public struct IncomingMessage: Hashable, Sendable {
    /// How the message was addressed. The reason codes are 2 for unicast, 3 for a group, 4 for a
    /// broadcast and 6 for a removal from a group.
    public enum Kind: Hashable, Sendable {
        /// To this user, alone or in a list.
        case unicast
        /// To a group that this user is a member of, by its id.
        case group(String)
        /// To every session of the app.
        case broadcast
        /// On a topic that a subscription of this session matches.
        case topic(String)
        /// This user was removed from a group, by its id.
        case kickedOut(group: String)
        /// A change in a group of the user; the content has its data too.
        case groupEvent(group: String, GroupChange)
        /// The presence of a user changed: the number of the event.
        case presence(event: UInt8)
        /// What a receiver, which is the sender of this message, did with one of this user.
        case receipt(MessageReceipt?)
        /// A message that this user has, or may have, was recalled by the sender of this one.
        case recall(MessageRevision?)
        /// The same of a message that has new content.
        case update(MessageRevision?)
        /// An event of the broker: who should be woken, or what happened in the app. The JSON text
        /// is described in PROTOCOL.md. Only the user of a relay gets it.
        case brokerEvent(json: String)
    }

    /// How a message to a group mentions this user.
    public enum Mention: UInt8, Hashable, Sendable {
        case byName = 1
        case all = 2
    }

    /// How the message was addressed.
    public var kind: Kind
    /// The sender, as authenticated by the broker.
    public var from: String
    /// Unix milliseconds.
    public var time: UInt64
    /// The sender's content; for an event, its data.
    public var content: MessageContent
    /// The grade that it was sent with.
    public var grade: Grade
    /// The broker ended between an earlier send of this message and its acknowledgement: the
    /// message may have been delivered before.
    public var isPossibleDuplicate: Bool
    /// Keys with values that the sender gave the message beside its content.
    public var attributes: [String: String] = [:]
    /// How a message to a group mentions this user; nil if it does not.
    public var mention: Mention?
    /// The time is that of a reading which its sender could not send earlier.
    public var isLate = false
    /// The number of a kept message in its conversation, for ``Client/markRead(_:through:)``; nil
    /// if it is not kept, or if it went to a list of users.
    public var keptNumber: UInt64?
    /// To be stored with the message's effect, then acknowledged; nil for a transient message.
    public var record: InboxRecord?
    /// The message's reference, if its sender asked for one or for receipts.
    public var reference: MessageReference?
    /// The receipts that its sender asked for.
    public var receipts: Receipts = []

    /// A message for an application's own tests.
    public init(
        kind: Kind, from: String, time: UInt64, content: MessageContent, grade: Grade = .durable,
        isPossibleDuplicate: Bool = false, record: InboxRecord? = nil
    ) {
        self.kind = kind
        self.from = from
        self.time = time
        self.content = content
        self.grade = grade
        self.isPossibleDuplicate = isPossibleDuplicate
        self.record = record
    }

    /// The JSON form of a received message: `{"msg":{"t":"0","b":"…"},"from":"…","time":"…"}`, with
    /// `groupid` for group messages; nil for bytes and events.
    public var json: String? {
        guard case .text(let text, let type) = content else { return nil }
        var bytes = ByteBuilder()
        let payload = bytes.append([type] + Array(text.utf8))
        let sender = bytes.append(from)
        var group = ByteRange.empty
        if case .group(let identifier) = kind { group = bytes.append(identifier) }
        return bytes.bytes.withUnsafeBytes { source in
            let envelope = TextEnvelope(
                payload: payload.bytes(in: source.bytes), from: sender.bytes(in: source.bytes),
                time: time,
                group: group.bytes(in: source.bytes))
            return String(unsafeUninitializedCapacity: envelope.byteCount) { room in
                var writer = PacketWriter(UnsafeMutableRawBufferPointer(room).mutableBytes)
                envelope.write(to: &writer)
                return writer.byteCount
            }
        }
    }

    /// Converts a delivery whose ranges, and those of its event, refer to `body`, under the session
    /// epoch `epoch`.
    init(
        _ packet: MRT.Deliver, _ change: MRT.GroupEvent?, in body: UnsafeRawBufferPointer,
        epoch: UInt64
    ) {
        func text(_ range: ByteRange) -> String {
            String(decoding: range.bytes(in: body), as: UTF8.self)
        }
        let payload = packet.payload.bytes(in: body)
        let first = payload.first ?? 0
        switch packet.kind {
        case .topic: kind = .topic(text(packet.address))
        case .unicast: kind = .unicast
        case .group: kind = .group(text(packet.address))
        case .broadcast: kind = .broadcast
        case .kickedOut: kind = .kickedOut(group: text(packet.address))
        case .groupEvent:
            kind = .groupEvent(
                group: text(packet.address),
                change.map { GroupChange($0, in: body) } ?? .other(event: first))
        case .presence: kind = .presence(event: first)
        case .receipt: kind = .receipt(MessageReceipt(packet.payload, in: body.bytes))
        case .recall: kind = .recall(MessageRevision(packet, in: body.bytes))
        case .update: kind = .update(MessageRevision(packet, in: body.bytes))
        case .brokerEvent: kind = .brokerEvent(json: text(packet.payload))
        }
        switch packet.kind {
        case .topic, .unicast, .group, .broadcast:
            content =
                packet.isRaw
                ? .bytes(Array(payload))
                : .text(String(decoding: payload.dropFirst(), as: UTF8.self), type: first)
        case .kickedOut: content = .bytes(Array(payload))
        case .groupEvent, .presence: content = .bytes(Array(payload.dropFirst()))
        case .receipt, .recall, .update, .brokerEvent: content = .bytes(Array(payload))
        }
        from = text(packet.from)
        time = packet.time
        grade = packet.grade
        isPossibleDuplicate = packet.isPossibleDuplicate
        record = packet.number == 0 ? nil : InboxRecord(epoch: epoch, number: packet.number)
        guard let fields = packet.decodedFields(in: body.bytes) else { return }
        attributes = fields.attributes(in: body.bytes)
        keptNumber = fields.keptNumber == 0 ? nil : fields.keptNumber
        reference = MessageReference(fields.reference)
        receipts = Receipts(rawValue: fields.asks.rawValue & 6)
        mention = Mention(rawValue: fields.mentioned)
        isLate = fields.isLate
    }
}

extension MRT.DeliverFields {
    /// The attributes; `bytes` is what the fields were decoded from.
    func attributes(in bytes: RawSpan) -> [String: String] {
        var attributes: [String: String] = [:]
        MessageAttributes.forEach(inRun: self.attributes.bytes(in: bytes)) { key, value in
            attributes[String(decoding: key)] = String(decoding: value)
        }
        return attributes
    }
}

extension String {
    /// The text of bytes that are UTF-8.
    fileprivate init(decoding bytes: RawSpan) {
        self = bytes.withUnsafeBytes { String(decoding: $0, as: UTF8.self) }
    }
}

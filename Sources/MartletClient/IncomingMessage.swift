// A message as an application receives it.

import Primitives
import WireFormat

/// The place in an inbox up to which everything has been processed: the one small record that an
/// application stores to resume exactly (docs/PROTOCOL.md section 8, "The inbox").
public struct InboxRecord: Hashable, Sendable {
    /// Belongs to the session; numbers of another epoch mean nothing.
    public var epoch: UInt64
    /// Number of the last message that has been processed; 0 before the first one.
    public var number: UInt64

    /// A record that an earlier run stored.
    public init(epoch: UInt64, number: UInt64) {
        self.epoch = epoch
        self.number = number
    }

    /// Whether a session can have it: an epoch is never 0, and a number has at most 63 bits
    /// (docs/PROTOCOL.md section 2). A record that was read from a file may be anything.
    public var isPossible: Bool { epoch != 0 && number <= WireLimits.varIntMaximum }
}

/// A message to this user.
public struct IncomingMessage: Hashable, Sendable {
    /// How it came here. The reason codes are 2 for unicast, 3 for a group, 4 for a broadcast and 6
    /// for having been kicked out of a group.
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
        /// Something happened in a group of the user's; its data is in the content too.
        case groupEvent(group: String, GroupChange)
        /// Someone's presence changed: the number of the event.
        case presence(event: UInt8)
    }

    /// How it came here.
    public var kind: Kind
    /// The sender as the broker authenticated it.
    public var from: String
    /// Unix milliseconds.
    public var time: UInt64
    /// What the sender wrote; of an event, its data.
    public var content: MessageContent
    /// The grade that it was sent with.
    public var grade: Grade
    /// The broker died between an earlier send of this message and its acknowledgement: it may have
    /// arrived before.
    public var isPossibleDuplicate: Bool
    /// To be stored with the message's effect, then acknowledged; nil for a transient message.
    public var record: InboxRecord?

    /// A message as if it had come, for an application's own tests.
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

    /// The JSON form of a received message:
    /// `{"msg":{"t":"0","b":"…"},"from":"…","time":"…"}`, with `groupid` for group messages; nil
    /// for bytes and events, which have none.
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

    /// A delivery whose ranges, and those of the change it tells of, are in `body`, under the
    /// session epoch `epoch`.
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
        }
        switch packet.kind {
        case .topic, .unicast, .group, .broadcast:
            content =
                packet.isRaw
                ? .bytes(Array(payload))
                : .text(String(decoding: payload.dropFirst(), as: UTF8.self), type: first)
        case .kickedOut: content = .bytes(Array(payload))
        case .groupEvent, .presence: content = .bytes(Array(payload.dropFirst()))
        }
        from = text(packet.from)
        time = packet.time
        grade = packet.grade
        isPossibleDuplicate = packet.isPossibleDuplicate
        record = packet.number == 0 ? nil : InboxRecord(epoch: epoch, number: packet.number)
    }
}

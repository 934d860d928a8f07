// A message to send, and its conversion for the client's machine.

import BrokerTerms
import Primitives
import WireFormat

/// The receivers of a message.
public enum Destination: Hashable, Sendable {
    /// All devices of one user.
    case user(String)
    /// All devices of up to 256 users, in one packet.
    case users([String])
    /// The members of a group except this session; only members may send to it.
    case group(String)
    /// Every session of the app except this one.
    case everybody
    /// The subscribers of this topic, which must not begin with `$`.
    case topic(String)
}

/// The content of a message.
public enum MessageContent: Hashable, Sendable {
    /// `t` and `b`: type 0 is text; for 1 image, 2 audio, 3 video and 4 html5 the text is a URL; 5
    /// to 255 are the application's own.
    case text(String, type: UInt8 = 0)
    /// Any bytes; only to a topic.
    case bytes([UInt8])
}

/// What a sender is told about a message.
public struct Receipts: OptionSet, Hashable, Sendable {
    /// The sum of those that are asked for.
    public var rawValue: UInt8

    /// Receipts by the sum of their raw values.
    public init(rawValue: UInt8) { self.rawValue = rawValue }

    /// A device of a receiver has acknowledged it.
    public static let delivered = Receipts(rawValue: 2)
    /// A receiver's application has told that it applied it
    /// (``Client/reportApplied(_:code:text:)``).
    public static let applied = Receipts(rawValue: 4)
}

/// A message to send.
public struct OutgoingMessage: Hashable, Sendable {
    /// The receivers.
    public var destination: Destination
    /// The content. A text has at most ``ConnectionTerms/messageMaximum`` bytes in its JSON form,
    /// bytes at most ``ConnectionTerms/payloadMaximum``.
    public var content: MessageContent
    /// The grade.
    public var grade = Grade.durable
    /// The application's own id, 1 to 64 bytes; the receipt contains it. nil for none.
    public var messageID: String?
    /// Seconds until the message expires, counted from its acceptance; nil is the broker's
    /// default.
    public var expirySeconds: UInt32?
    /// Whether the broker keeps the message in the conversation of this user with the receivers, or
    /// of the group; nil is the default of the group or the app. Only messages to users and groups
    /// with the grade durable or once can be kept.
    public var isKept: Bool?
    /// Whether the receivers get the message; false for one that is only kept, as what a device
    /// recorded while it was offline. Its ``time`` is used unless it is in the future.
    public var isDelivered = true
    /// Whether the answer tells the message's reference, by which receipts and receivers name it.
    public var asksReference = false
    /// The receipts that this user gets as messages of the kind
    /// ``IncomingMessage/Kind/receipt(_:)``. Only messages to users and groups that are delivered
    /// can have some.
    public var receipts: Receipts = []
    /// Its time of creation, Unix milliseconds; nil is the time at which the broker accepts it. The
    /// broker uses it if it differs by at most 5 s from its own clock.
    public var time: UInt64?

    /// A message of any content.
    public init(to destination: Destination, _ content: MessageContent, grade: Grade = .durable) {
        self.destination = destination
        self.content = content
        self.grade = grade
    }

    /// A text message.
    public init(to destination: Destination, text: String, grade: Grade = .durable) {
        self.init(to: destination, .text(text), grade: grade)
    }
}

/// The broker's answer to an accepted message.
public struct Receipt: Hashable, Sendable {
    /// The message's own id, if it has one.
    public var messageID: String?
    /// The message's reference, if it asked for one or for receipts.
    public var reference: MessageReference?
    /// Receivers who did not get it, by name; all others have it, or will.
    public var refusals: [Refusal] = []
    /// The number of receivers who did not get it: those of a broadcast are not named.
    public var refusedCount: UInt64 = 0

    /// One receiver who did not get the message.
    public struct Refusal: Hashable, Sendable {
        /// The receiver, as the list of the message named it.
        public var user: String
        /// The reason of the refusal.
        public var reason: ReasonCode
    }
}

/// A message in the machine's form.
struct EncodedSend: Sendable {
    let packet: MRT.Send
    /// The bytes that the ranges of `packet` refer to.
    let bytes: [UInt8]
    /// The list that refusals refer to by index.
    let receivers: [String]
    let messageID: String?

    init(_ message: OutgoingMessage) throws(MartletError) {
        var bytes = ByteBuilder()
        var receivers: [String] = []
        let target: MRT.Target
        switch message.destination {
        case .user(let user):
            try Self.checkLength(user)
            target = .user(bytes.append(user))
        case .users(let users):
            guard (1...WireLimits.receiverCountMaximum).contains(users.count) else {
                throw .invalid("a list names 1 to \(WireLimits.receiverCountMaximum) users")
            }
            for user in users { try Self.checkLength(user) }
            receivers = users
            target = .list(count: users.count, ids: bytes.append(identifiers: users))
        case .group(let group):
            try Self.checkLength(group)
            target = .group(bytes.append(group))
        case .everybody: target = .broadcast
        case .topic(let topic):
            guard topic.utf8.count <= WireLimits.topicByteCountMaximum else {
                throw .refused(.topicNameInvalid, "")
            }
            target = .topic(bytes.append(topic))
        }
        let payload: ByteRange
        let isRaw: Bool
        switch message.content {
        case .text(let text, let type):
            payload = bytes.append([type] + Array(text.utf8))
            isRaw = false
        case .bytes(let raw):
            guard case .topic = message.destination else {
                throw .invalid("bytes can only be sent to a topic")
            }
            payload = bytes.append(raw)
            isRaw = true
        }
        var packet = MRT.Send(grade: message.grade, number: 0, target: target, payload: payload)
        packet.isRaw = isRaw
        if let identifier = message.messageID {
            guard !identifier.isEmpty else { throw .invalid("a message id has 1 to 64 bytes") }
            packet.messageIdentifier = bytes.append(identifier)
        }
        packet.expirySeconds = message.expirySeconds ?? 0
        packet.isKept = message.isKept == true
        packet.isNeverKept = message.isKept == false
        guard message.isDelivered || packet.isKept else {
            throw .invalid("a message that is not delivered must be kept")
        }
        packet.isUndelivered = !message.isDelivered
        var fields = MRT.SendFields()
        fields.asks = MRT.SendAsks(
            rawValue: message.receipts.rawValue
                | (message.asksReference ? MRT.SendAsks.reference.rawValue : 0))
        let block = fields.block(from: bytes.bytes.span.bytes)
        if !block.isEmpty { packet.fields = bytes.append(block) }
        packet.time = message.time ?? 0
        self.packet = packet
        self.bytes = bytes.bytes
        self.receivers = receivers
        messageID = message.messageID
    }

    /// A name that exceeds one byte of length is no valid id.
    private static func checkLength(_ identifier: String) throws(MartletError) {
        guard identifier.utf8.count <= Int(UInt8.max) else {
            throw .refused(.topicNameInvalid, "")
        }
    }

    /// An upper bound of the packet's size.
    var byteCountMaximum: Int { bytes.count + ClientBounds.sendOverheadMaximum }
}

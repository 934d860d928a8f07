// A message as an application writes it, and as the client's machine takes it.

import BrokerTerms
import Primitives
import WireFormat

/// To whom a message goes.
public enum Destination: Hashable, Sendable {
    /// All devices of one user.
    case user(String)
    /// All devices of up to 256 users, in one packet.
    case users([String])
    /// The members of a group but this session; only members send to it.
    case group(String)
    /// Every session of the app but this one.
    case everybody
    /// Who subscribes to this topic. It does not begin with `$`.
    case topic(String)
}

/// What a message holds.
public enum MessageContent: Hashable, Sendable {
    /// `t` and `b`: type 0 is text; for 1 image, 2 audio, 3 video and 4 html5 the text is a
    /// URL; 5 to 255 are the application's own.
    case text(String, type: UInt8 = 0)
    /// Any bytes; only to a topic.
    case bytes([UInt8])
}

/// A message to send.
public struct OutgoingMessage: Hashable, Sendable {
    /// To whom it goes.
    public var destination: Destination
    /// What it holds. A text has at most ``ConnectionTerms/messageMaximum`` bytes in its JSON form,
    /// bytes at most ``ConnectionTerms/payloadMaximum``.
    public var content: MessageContent
    /// What is promised of it.
    public var grade = Grade.durable
    /// The application's own id, 1 to 64 bytes; comes back in the receipt. nil for none.
    public var messageID: String?
    /// Seconds until the message is worth nothing, counted from acceptance; nil is the app's
    /// default.
    public var expirySeconds: UInt32?
    /// When it was made, Unix milliseconds; nil is when the broker accepts it. The broker uses it
    /// where it is at most 5 s from its own clock.
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

/// What the broker answered to a message that it took.
public struct Receipt: Hashable, Sendable {
    /// The message's own id, where it had one.
    public var messageID: String?
    /// Receivers who did not get it, named; all others have it, or will.
    public var refusals: [Refusal] = []
    /// Receivers who did not get it, in all: those of a broadcast are not named.
    public var refusedCount: UInt64 = 0

    /// One receiver who did not get the message.
    public struct Refusal: Hashable, Sendable {
        /// The receiver, as the list of the message named it.
        public var user: String
        /// Why the receiver did not get it.
        public var reason: ReasonCode
    }
}

/// A message in the machine's form.
struct EncodedSend: Sendable {
    let packet: MRT.Send
    /// What the ranges of `packet` point into.
    let bytes: [UInt8]
    /// The list that refusals point into by index.
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
        packet.time = message.time ?? 0
        self.packet = packet
        self.bytes = bytes.bytes
        self.receivers = receivers
        messageID = message.messageID
    }

    /// What one byte of length cannot say is no id of anybody.
    private static func checkLength(_ identifier: String) throws(MartletError) {
        guard identifier.utf8.count <= Int(UInt8.max) else {
            throw .refused(.topicNameInvalid, "")
        }
    }

    /// Bytes of the packet, at most.
    var byteCountMaximum: Int { bytes.count + ClientBounds.sendOverheadMaximum }
}

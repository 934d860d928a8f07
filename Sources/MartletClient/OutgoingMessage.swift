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
    /// A key, 1 to 64 bytes: an earlier message of this user with it to the same receivers is
    /// removed from the queues that still have it. Only messages to users and groups with the grade
    /// durable or once can have one. The message has a reference.
    public var collapseKey: String?
    /// The receipts that this user gets as messages of the kind
    /// ``IncomingMessage/Kind/receipt(_:)``. Only messages to users and groups that are delivered
    /// can have some.
    public var receipts: Receipts = []
    /// Its time of creation, Unix milliseconds; nil is the time at which the broker accepts it. The
    /// broker uses it if it differs by at most 5 s from its own clock.
    public var time: UInt64?

    /// Whether ``time`` is that of a reading which could not be sent earlier: the broker uses it up
    /// to the age that messages may have, and tells the receivers. A reading that is older is
    /// refused.
    public var isLate = false
    /// Keys with values beside the content: at most 16, and 512 bytes of all keys and values.
    public var attributes: [String: String] = [:]
    /// Whom a message to a group mentions; nil for nobody.
    public var mentions: Mentions?
    /// When a transient message is dropped for a receiver that reads slowly.
    public var priority = SendPriority.normal
    /// Whether the message wakes receivers of whom no device is connected, where the app has
    /// wake-ups.
    public var wakes = true
    /// A JSON object for the relay that wakes receivers, at most 4,096 bytes; nil for none. No
    /// receiver gets it.
    public var push: String?

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

/// Whom a message to a group mentions.
public struct Mentions: Hashable, Sendable {
    /// At most 256 users. Whoever is no member of the group is ignored.
    public var users: [String]
    /// Whether it mentions all members.
    public var areAll: Bool
    /// Whether only those members get the message whom it mentions.
    public var areOnlyReceivers: Bool

    /// Mentions of users, or of all members.
    public init(of users: [String] = [], all: Bool = false, only: Bool = false) {
        self.users = users
        areAll = all
        areOnlyReceivers = only
    }
}

/// The order in which transient messages are dropped for a receiver that reads slowly.
public enum SendPriority: UInt8, Hashable, Sendable, CaseIterable {
    /// Dropped while there is room for the rest.
    case low = 0
    /// As a message without a priority.
    case normal = 1
    /// Kept while there is no room for the rest.
    case high = 2
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
    /// Whether there was any receiver. A transient message does not tell.
    public var hasReceivers = true

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
        packet.time = message.time ?? 0
        packet.fields = try Self.fields(of: message, in: &bytes)
        self.packet = packet
        self.bytes = bytes.bytes
        self.receivers = receivers
        messageID = message.messageID
    }

    /// What few messages have, as a block; empty for a message without any of it.
    private static func fields(
        of message: OutgoingMessage, in bytes: inout ByteBuilder
    ) throws(MartletError) -> ByteRange {
        var fields = MRT.SendFields()
        fields.asks = MRT.SendAsks(
            rawValue: message.receipts.rawValue
                | (message.asksReference ? MRT.SendAsks.reference.rawValue : 0))
        if let key = message.collapseKey {
            guard !key.isEmpty else { throw .invalid("a collapse key has 1 to 64 bytes") }
            guard key.utf8.count <= WireLimits.messageIdentifierByteCountMaximum else {
                throw .refused(.payloadFormatInvalid, "")
            }
            fields.collapseKey = bytes.append(key)
        }
        if !message.attributes.isEmpty {
            let run = try run(of: message.attributes)
            if let reason = MessageAttributes.fault(run.span.bytes) { throw .refused(reason, "") }
            fields.attributes = bytes.append(run)
        }
        if let mentions = message.mentions {
            guard mentions.users.count <= WireLimits.mentionCountMaximum else {
                throw .invalid("a message mentions at most \(WireLimits.mentionCountMaximum) users")
            }
            for user in mentions.users { try checkLength(user) }
            let options: UInt8 = (mentions.areAll ? 1 : 0) | (mentions.areOnlyReceivers ? 2 : 0)
            let first = bytes.append([options])
            let names = bytes.append(identifiers: mentions.users)
            guard names.count <= WireLimits.mentionsByteCountMaximum else {
                throw .refused(.packetTooLarge, "")
            }
            fields.mentions = ByteRange(
                offset: Int(first.offset), count: Int(first.count) + Int(names.count))
        }
        if message.priority != .normal { fields.priority = message.priority.rawValue }
        fields.isLate = message.isLate
        fields.isWithoutWake = !message.wakes
        if let push = message.push {
            guard (1...WireLimits.pushByteCountMaximum).contains(push.utf8.count) else {
                throw .refused(.packetTooLarge, "")
            }
            fields.push = bytes.append(push)
        }
        let block = fields.block(from: bytes.bytes.span.bytes)
        guard block.count <= WireLimits.fieldsByteCountMaximum else {
            throw .refused(.packetTooLarge, "")
        }
        return block.isEmpty ? .empty : bytes.append(block)
    }

    /// Attributes in the order of their keys, so that the same message has the same bytes.
    private static func run(of attributes: [String: String]) throws(MartletError) -> [UInt8] {
        var run: [UInt8] = []
        for (key, value) in attributes.sorted(by: { $0.key < $1.key }) {
            for text in [key, value] {
                guard text.utf8.count <= Int(UInt8.max) else { throw .refused(.packetTooLarge, "") }
                run.append(UInt8(text.utf8.count))
                run += Array(text.utf8)
            }
        }
        return run
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

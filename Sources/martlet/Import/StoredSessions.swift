// The sessions of a Mosquitto with the messages that wait for them, as its store has them, and how
// they are sent to the broker.

import Administration
import FoundationEssentials
import WireFormat

/// A message of a store, once for all sessions that wait for it.
struct StoredMessage {
    let topic: ArraySlice<UInt8>
    /// Whether the store has the topic as a number, which it may have made of `007`.
    let hasNumberAsTopic: Bool
    let payload: ArraySlice<UInt8>
    let contentType: String?
    /// Whether it has properties of MQTT 5 that are not taken.
    let hasOtherProperties: Bool
    /// Whether it has a content type that is not taken: too long, or with control characters, which
    /// may be several lines.
    let lacksContentType: Bool
    /// 0 for none.
    let expiresUnixSeconds: Int64

    init(
        topic: ArraySlice<UInt8>, hasNumberAsTopic: Bool, payload: ArraySlice<UInt8>,
        contentType: String?, hasOtherProperties: Bool, lacksContentType: Bool = false,
        expiresUnixSeconds: Int64
    ) {
        let type = contentType ?? ""
        let fits =
            type.utf8.count <= SendMessage.contentTypeByteCountMaximum
            && type.utf8.allSatisfy { $0 >= UInt8(ascii: " ") }
        self.topic = topic
        self.hasNumberAsTopic = hasNumberAsTopic
        self.payload = payload
        self.contentType = fits && !type.isEmpty ? type : nil
        self.hasOtherProperties = hasOtherProperties
        self.lacksContentType = lacksContentType || !fits
        self.expiresUnixSeconds = expiresUnixSeconds
    }

    /// Whether a client may publish on the topic, apart from its rights.
    var hasTopicName: Bool { TextRules.isTopicName(topic.span.bytes) }
}

/// A session of a store.
struct StoredSession {
    /// States of an exchange with a client that say what it may have: of `mosquitto_msg_state` in
    /// lib/mosquitto_internal.h of Mosquitto 2.0.
    private enum MessageState: UInt8 {
        case waitForPubrec = 5
        case resendPubrel = 6
        case waitForPubcomp = 9
    }

    struct Waiting {
        let message: UInt64
        let qos: UInt8
        /// The client has it already: a PUBREL or its answer is missing.
        let isReceived: Bool
        /// A PUBREC of the client is missing: it may have it.
        let mayBeReceived: Bool
    }

    /// Empty if the store does not tell it, or there is none.
    var userName = ""
    /// The interval of the client; nil if the store does not tell it, or for unlimited.
    var expirySeconds: UInt32?
    /// Unix seconds; 0 for none.
    var expiresUnixSeconds: Int64 = 0
    /// As ``ImportSession/filters``.
    var filters: [String] = []
    var waiting: [Waiting] = []
    /// Messages of QoS 2 from the client that it has not released.
    var unreleased: [UInt64] = []

    /// Adds a message that is not completed.
    ///
    /// - Parameter state: of the exchange with the client, as Mosquitto numbers them.
    mutating func add(_ message: UInt64, isOutgoing: Bool, qos: UInt8, state: UInt8) {
        // A message from the client is there until its PUBREL.
        guard isOutgoing else {
            unreleased.append(message)
            return
        }
        let state = MessageState(rawValue: state)
        waiting.append(
            Waiting(
                message: message, qos: qos,
                // The client has sent PUBREC.
                isReceived: state == .resendPubrel || state == .waitForPubcomp,
                mayBeReceived: state == .waitForPubrec))
    }

    /// The filter of a subscription, as ``ImportSession/filters``.
    static func filter(of item: String) -> String {
        item.split(separator: "\n", maxSplits: 2, omittingEmptySubsequences: false).last
            .map(String.init) ?? ""
    }

    /// Whether the broker takes a subscription, apart from rights and limits.
    static func isSubscribable(_ item: String) -> Bool {
        let lines = item.split(separator: "\n", maxSplits: 2, omittingEmptySubsequences: false)
        guard lines.count == 3, let options = UInt8(lines[0]), options < 0x30, options & 3 < 3,
            let identifier = UInt32(lines[1]), identifier < 1 << 28
        else { return false }
        let bytes = Array(lines[2].utf8)
        guard
            let filter = MQTT.TopicFilter(
                .init(offset: 0, count: bytes.count), in: bytes.span.bytes)
        else { return false }
        return filter.isShared || bytes.first != UInt8(ascii: "$")
    }
}

/// A session that is sent to the broker.
struct SessionImport {
    struct Item {
        let message: UInt64
        let qos: UInt8
    }

    /// What the broker has answered.
    struct Result {
        var refusedCount = 0
        var refusedFilters: [String] = []
        /// Why the broker has refused a piece, and with it the rest.
        var refusal: String?
        /// The broker has another session of the client, or one that is complete.
        var exists = false
        /// How many messages the broker had before it refused the rest.
        var reachedCount = 0
    }

    let user: String
    let device: String
    let expirySeconds: UInt32?
    let filters: [String]
    let items: [Item]
}

extension RetainedImport {
    /// Bytes of its request.
    var itemByteCount: Int { topic.utf8.count + payload.count * 4 / 3 + 300 }

    /// Seconds by which the end of a message may differ that was imported with the rest of its
    /// time.
    private static let expiryTolerance: Int64 = 5

    /// Whether the broker has it from an earlier import. The broker does not tell the content type,
    /// which does not change alone.
    func isSame(as reply: ShowRetained.Reply) -> Bool {
        let expires = reply.message.expiresUnixSeconds.map { Int64(clamping: $0) }
        let hasSameEnd =
            if let expires, let own = expiresUnixSeconds {
                abs(expires - own) <= Self.expiryTolerance
            } else {
                expires == nil && expiresUnixSeconds == nil
            }
        return hasSameEnd && !reply.content.isCut
            && reply.content.base64 == Data(payload).base64EncodedString()
    }
}

extension StoredMessage {
    /// Bytes of an item of a request.
    var itemByteCount: Int { topic.count + payload.count * 4 / 3 + 300 }

    func hasExpired(unixSeconds now: Int64) -> Bool {
        expiresUnixSeconds > 0 && expiresUnixSeconds <= now
    }

    /// An item of ``ImportSession/messages``; one that has expired is only a place.
    func item(qos: UInt8, unixSeconds now: Int64) -> String {
        let topic = String(decoding: topic, as: UTF8.self)
        if hasExpired(unixSeconds: now) { return "\(qos)\n0\n\n\n\(topic)" }
        let expiry = expiresUnixSeconds > 0 ? "\(expiresUnixSeconds - now)" : ""
        return [
            "\(qos)", expiry, contentType ?? "", Data(payload).base64EncodedString(), topic,
        ].joined(separator: "\n")
    }
}

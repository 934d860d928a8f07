// The sessions of a Mosquitto with the messages that wait for them, as its store has them, and how
// they are sent to the broker.

import Administration
import FoundationEssentials

/// A message of a store, once for all sessions that wait for it.
struct StoredMessage {
    let topic: ArraySlice<UInt8>
    /// Whether the store has the topic as a number, which it may have made of `007`.
    let hasNumberAsTopic: Bool
    let payload: ArraySlice<UInt8>
    let contentType: String?
    /// Whether it has properties of MQTT 5 that are not taken.
    let hasOtherProperties: Bool
    /// 0 for none.
    let expiresUnixSeconds: Int64
}

/// A session of a store.
struct StoredSession {
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
        // In the states 6 and 9 the client has sent PUBREC, in the state 5 it may have.
        waiting.append(
            Waiting(
                message: message, qos: qos, isReceived: [6, 9].contains(state),
                mayBeReceived: state == 5))
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
        let type = contentType ?? ""
        // A type with control characters may be several lines.
        let fits =
            type.utf8.count <= SendMessage.contentTypeByteCountMaximum
            && type.utf8.allSatisfy { $0 >= UInt8(ascii: " ") }
        return [
            "\(qos)", expiry, fits ? type : "", Data(payload).base64EncodedString(),
            topic,
        ].joined(separator: "\n")
    }
}

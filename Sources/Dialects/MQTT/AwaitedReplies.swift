// The requests of MQTT clients that have no reply yet: where their replies go, and what the replies
// repeat. They end with the connection, and their memory is bounded.

import BrokerCore
import BrokerTerms
import Primitives
import WireFormat

/// Limits of the requests of one MQTT connection that have no reply.
enum AwaitedReplyLimits {
    /// As many as publications that a client may have unanswered (`mqtt.receiveMaximum`).
    static let countMaximum = 1_024
    /// Bytes of their Response Topics and Correlation Data: 64 for each of so many.
    static let byteCountMaximum = 65_536
}

/// What the reply to a request needs.
struct AwaitedReply {
    /// The Response Topic; empty for ``RequestTopic/reply``.
    var topic: [UInt8] = []
    /// The Correlation Data; nil for none.
    var correlation: [UInt8]?
    /// The number that the client gave the request; nil for none.
    var request: UInt64?
    /// What is wrong with the request; nil if the core decides.
    var fault: JSONFault?

    var byteCount: Int { topic.count + (correlation?.count ?? 0) + (fault?.member.count ?? 0) }
}

/// The requests of one connection that have no reply.
struct AwaitedReplies {
    private var replies: [UInt64: AwaitedReply] = [:]
    private var byteCount = 0

    var count: Int { replies.count }

    /// Adds a reply by the number of its request. False if there are too many.
    mutating func insert(_ reply: AwaitedReply, number: UInt64) -> Bool {
        guard replies.count < AwaitedReplyLimits.countMaximum,
            byteCount + reply.byteCount <= AwaitedReplyLimits.byteCountMaximum
        else { return false }
        byteCount += reply.byteCount
        replies[number] = reply
        return true
    }

    mutating func take(_ number: UInt64) -> AwaitedReply? {
        guard let reply = replies.removeValue(forKey: number) else { return nil }
        byteCount -= reply.byteCount
        // Releases memory that the client needed only once.
        if replies.isEmpty { replies = [:] }
        return reply
    }
}

extension ConversationTable {
    /// The number of the next request that a client publishes.
    mutating func makeRequestNumber(packetIdentifier: UInt16, grade: Grade) -> UInt64 {
        lastRequestSerial += 1
        return PublishedRequest(
            serial: lastRequestSerial, packetIdentifier: packetIdentifier, grade: grade
        ).number
    }

    /// Keeps what the reply to a request needs. False if the connection has too many requests
    /// without a reply.
    mutating func expect(
        _ reply: AwaitedReply, number: UInt64, to connection: ConnectionID
    ) -> Bool {
        awaitedReplies[connection, default: AwaitedReplies()].insert(reply, number: number)
    }

    /// Removes and returns what the reply to a request needs; nil if it has had one.
    mutating func takeReply(_ number: UInt64, to connection: ConnectionID) -> AwaitedReply? {
        awaitedReplies[connection]?.take(number)
    }

    /// Writes a reply as a publication of QoS 0.
    func write(
        _ json: [UInt8], as reply: AwaitedReply, to connection: ConnectionID,
        version: MQTT.Version, through host: inout some ConnectionHost & ~Copyable
    ) -> WriteOutcome {
        var source = reply.topic.isEmpty ? Array(RequestTopic.reply.utf8Bytes) : reply.topic
        let topic = ByteRange(offset: 0, count: source.count)
        source += json
        let payload = ByteRange(offset: Int(topic.count), count: json.count)
        var packet = MQTT.Publish(version, topic: topic, payload: payload)
        if let correlation = reply.correlation {
            let start = source.count
            source.append(MQTT.PropertyIdentifier.correlationData.rawValue)
            source.append(UInt8(correlation.count >> 8))
            source.append(UInt8(correlation.count & 0xFF))
            source += correlation
            packet.properties = MQTT.PropertySection(
                carried: ByteRange(offset: start, count: source.count - start))
        }
        return write(
            packet.encodedByteCount, to: connection, priority: .required, through: &host
        ) { writer in
            packet.write(to: &writer, from: source.span.bytes)
        }
    }

    /// Writes the reply of a request that is wrong in itself.
    func write(
        _ fault: JSONFault, as reply: AwaitedReply, to connection: ConnectionID,
        version: MQTT.Version, through host: inout some ConnectionHost & ~Copyable
    ) -> WriteOutcome {
        var writer = JSONMessage.beginResponse(to: reply.request)
        writer.write("reason", UInt64(fault.reason.rawValue))
        writer.write("name", fault.reason.name)
        writer.write("detail", fault.detail)
        if !fault.member.isEmpty { writer.write("member", fault.member.span.bytes) }
        return write(writer.end(), as: reply, to: connection, version: version, through: &host)
    }
}

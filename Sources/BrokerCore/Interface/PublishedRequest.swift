// Requests that MQTT clients make by publications. MQTT has no packet for them: a client publishes
// on `$api/` and the operation, and gets the reply as a publication on its own connection.

import Primitives

/// The number of a request that an MQTT client made by a publication. It contains what the answer
/// to the publication needs.
///
///     | serial, 46 bits | QoS 2, 1 bit | packet identifier, 16 bits |
public struct PublishedRequest: Hashable, Sendable {
    /// Above 65,535, and so never the packet identifier of a SUBSCRIBE or an UNSUBSCRIBE.
    public let number: UInt64

    private static let serialShift: UInt64 = 17
    private static let onceMark: UInt64 = 1 << 16

    /// - Parameters:
    ///   - serial: 1 or higher, and of no other request of the connection that has no reply.
    ///   - packetIdentifier: of the publication; 0 with QoS 0.
    public init(serial: UInt64, packetIdentifier: UInt16, grade: Grade) {
        precondition(
            serial > 0 && serial < 1 << (63 - Self.serialShift), "request \(serial) of 46 bits")
        number =
            serial << Self.serialShift | (grade == .once ? Self.onceMark : 0)
            | UInt64(packetIdentifier)
    }

    /// Nil for the packet identifier of a SUBSCRIBE or an UNSUBSCRIBE.
    init?(number: UInt64) {
        guard number >> Self.serialShift > 0 else { return nil }
        self.number = number
    }

    /// The packet identifier of the publication; 0 with QoS 0.
    var packetIdentifier: UInt16 { UInt16(truncatingIfNeeded: number) }

    /// Whether the publication has QoS 2.
    var isOnce: Bool { number & Self.onceMark != 0 }
}

/// The topics of requests, and of their replies.
public enum RequestTopic {
    private static let prefix: StaticString = "$api/"
    /// The topic of a reply whose request names none.
    public static let reply: StaticString = "$api/reply"

    /// Where the operation begins that a topic names; nil if the topic is not one of requests.
    @inline(never)
    public static func operationOffset(in topic: RawSpan) -> Int? {
        begins(topic, with: prefix) ? prefix.utf8CodeUnitCount : nil
    }

    /// Whether a filter is the topic of replies, or below it.
    static func isReply(_ filter: RawSpan) -> Bool {
        let count = reply.utf8CodeUnitCount
        return begins(filter, with: reply)
            && (filter.byteCount == count || filter[count] == UInt8(ascii: "/"))
    }

    private static func begins(_ text: RawSpan, with start: StaticString) -> Bool {
        guard text.byteCount >= start.utf8CodeUnitCount else { return false }
        for offset in 0..<start.utf8CodeUnitCount where text[offset] != start.utf8Start[offset] {
            return false
        }
        return true
    }
}

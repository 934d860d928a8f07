// Events of a group as JSON, for receivers of JSON. Each event is one object, and its member
// "event" distinguishes it from a message.

import Primitives

/// An event of a group for a receiver of JSON:
///
///     {"event":"joined","user":"…","from":"…","time":"…","groupid":"…"}
///
/// The member "user" is present if the event concerns a user.
public struct EventEnvelope: ~Escapable {
    /// The event's name; only letters and hyphens.
    public var name: StaticString
    /// The user that the event concerns; empty for none.
    public var user: RawSpan
    /// The user who caused the event.
    public var from: RawSpan
    /// Unix milliseconds; a decimal string in the JSON.
    public var time: UInt64
    public var group: RawSpan

    @_lifetime(copy user, copy from, copy group)
    public init(
        _ name: StaticString, user: RawSpan, from: RawSpan,
        time: UInt64, group: RawSpan
    ) {
        self.name = name
        self.user = user
        self.from = from
        self.time = time
        self.group = group
    }

    /// `{"event":"` `","from":"` `","time":"` `","groupid":"` `"}`
    private static let frameByteCount = 10 + 10 + 10 + 13 + 2
    /// `","user":"`
    private static let userFrameByteCount = 10

    /// Bytes of the JSON text.
    public var byteCount: Int {
        var count = EventEnvelope.frameByteCount + name.utf8CodeUnitCount
        count += JSONText.escapedByteCount(from) + JSONText.digitCount(time)
        count += JSONText.escapedByteCount(group)
        if !user.isEmpty {
            count += EventEnvelope.userFrameByteCount + JSONText.escapedByteCount(user)
        }
        return count
    }

    /// Writes ``byteCount`` bytes.
    public func write(to writer: inout PacketWriter) {
        writer.write(literal: #"{"event":""#)
        writer.write(literal: name)
        if !user.isEmpty {
            writer.write(literal: #"","user":""#)
            JSONText.write(escaped: user, to: &writer)
        }
        writer.write(literal: #"","from":""#)
        JSONText.write(escaped: from, to: &writer)
        writer.write(literal: #"","time":""#)
        JSONText.write(decimal: time, to: &writer)
        writer.write(literal: #"","groupid":""#)
        JSONText.write(escaped: group, to: &writer)
        writer.write(literal: #""}"#)
    }
}

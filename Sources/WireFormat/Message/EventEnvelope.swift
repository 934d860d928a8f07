// What happens in a group, as JSON for receivers who get JSON. Each event is one object, told from
// a message by its member "event".

/// What a receiver of JSON is told of an event in a group:
///
///     {"event":"joined","user":"…","from":"…","time":"…","groupid":"…"}
///
/// The member "user" is there where the event is about one.
public struct EventEnvelope {
    /// The event's name; only letters and hyphens.
    public var name: StaticString
    /// Whom it is about; empty for nobody.
    public var user: UnsafeRawBufferPointer
    /// Who did it.
    public var from: UnsafeRawBufferPointer
    /// Unix milliseconds; a decimal string in the JSON.
    public var time: UInt64
    public var group: UnsafeRawBufferPointer

    public init(
        _ name: StaticString, user: UnsafeRawBufferPointer, from: UnsafeRawBufferPointer,
        time: UInt64, group: UnsafeRawBufferPointer
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

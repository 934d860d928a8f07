// Copies of the bytes of an event, for what the core keeps longer than the event: its ranges refer
// to a buffer that the loop fills again.

import Primitives

extension [UInt8] {
    /// Appends a copy of a range. Returns its new range.
    mutating func take(
        _ range: ByteRange, of source: UnsafeRawBufferPointer
    ) -> ByteRange {
        append(contentsOf: range.bytes(in: source))
        return ByteRange(offset: count - Int(range.count), count: Int(range.count))
    }

    /// Appends copies of all ranges of a message, of the empty ones too: these have a place in the
    /// source, which may be outside of the copy. Returns the message with its new ranges.
    mutating func take(
        _ message: SendRequest, of source: UnsafeRawBufferPointer
    ) -> SendRequest {
        var copy = message
        copy.payload = take(message.payload, of: source)
        copy.properties = take(message.properties, of: source)
        copy.messageIdentifier = take(message.messageIdentifier, of: source)
        switch message.target {
        case .user(let user): copy.target = .user(take(user, of: source))
        case .users(let names, let count):
            copy.target = .users(ids: take(names, of: source), count: count)
        case .group(let group): copy.target = .group(take(group, of: source))
        case .topic(let topic): copy.target = .topic(take(topic, of: source))
        case .everybody: break
        }
        // Setting one of them makes a message unusual.
        guard message.isUnusual else { return copy }
        copy.attributes = take(message.attributes, of: source)
        copy.mentions.names = take(message.mentions.names, of: source)
        copy.collapseKey = take(message.collapseKey, of: source)
        copy.push = take(message.push, of: source)
        return copy
    }
}

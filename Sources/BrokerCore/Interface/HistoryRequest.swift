// A user's request for kept messages, and its answer, as plain data.

import Primitives

/// A request for a page of a conversation that the user takes part in, the newest message first.
public struct HistoryRequest: Sendable {
    public enum Party: Sendable {
        /// The other user; the same user for messages to oneself.
        case user(ByteRange)
        case group(ByteRange)
    }

    public var party: Party
    /// The page begins with the newest message of a lower number.
    public var before: UInt64
    /// Messages that are read for the page; at least 1.
    public var countMaximum: Int
    /// Bytes of the answer.
    public var byteCountMaximum: Int

    public init(party: Party, before: UInt64, countMaximum: Int, byteCountMaximum: Int) {
        self.party = party
        self.before = before
        self.countMaximum = countMaximum
        self.byteCountMaximum = byteCountMaximum
    }
}

/// One message of an answer. Ranges are in the event loop's bytes.
public struct HistoryEntry: Hashable, Sendable {
    public var number: UInt64
    public var unixMilliseconds: UInt64
    public var sender: ByteRange
    /// `t` as one byte, then `b`.
    public var payload: ByteRange
}

extension HistoryEntry {
    /// Bytes of an entry before its sender.
    static let headByteCount = 21
    /// Bytes that an entry takes on the wire besides its sender and its payload, at most.
    static let wireOverhead = 2 * 9 + 1 + 4

    /// The messages of an answer: for each its number and its time in eight bytes each, the lengths
    /// of its sender and its payload in one byte and in four, and these two.
    public static func read(_ range: ByteRange, in bytes: RawSpan) -> [HistoryEntry] {
        var entries: [HistoryEntry] = []
        var offset = Int(range.offset)
        while offset < range.endOffset {
            let sender = ByteRange(
                offset: offset + headByteCount, count: Int(bytes[offset + 16]))
            let count = UInt32(
                littleEndian: bytes.loadInteger(at: offset + 17, as: UInt32.self))
            let payload = ByteRange(offset: sender.endOffset, count: Int(count))
            entries.append(
                HistoryEntry(
                    number: UInt64(
                        littleEndian: bytes.loadInteger(at: offset, as: UInt64.self)),
                    unixMilliseconds: UInt64(
                        littleEndian: bytes.loadInteger(at: offset + 8, as: UInt64.self)),
                    sender: sender, payload: payload))
            offset = payload.endOffset
        }
        return entries
    }
}

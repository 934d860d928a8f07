// The record of a relay as bytes: a list of changes; replaying them gives the state. An incomplete
// entry at the end was never confirmed to anybody.
//
//     | magic | entry …
//     entry: | 4 bytes mark | u32 byte count of the body | body | u64 digest of count and body |
//     body: | u8 kind | fields, integers big-endian, texts with a count of four bytes |

import MartletClient

/// One change of a relay's state.
package protocol RecordedEntry: Sendable {
    /// The first bytes of the file.
    static var magic: [UInt8] { get }
    /// Whose record it is, for errors: "a webhook relay".
    static var owner: String { get }

    func write(to body: inout EntryWriter)
    /// Nil if the body is no entry.
    static func read(_ body: inout EntryReader) -> Self?
}

/// What is left of the entries when they are replayed in order.
package protocol RecordedContent: Sendable {
    associatedtype Entry: RecordedEntry

    init()
    /// The position in the inbox: every message before it is done, or in the record. Nil before the
    /// first.
    var position: InboxRecord? { get }
    mutating func apply(_ entry: Entry)
}

/// Begins each entry, so that what follows a damaged one can be found.
private let mark: [UInt8] = [0xE5, 0x9B, 0x1D, 0x0A]
/// Bytes of an entry beside its body.
private let frameByteCount = 16

extension RecordedEntry {
    /// The entry with its frame.
    package var encoded: [UInt8] {
        var body = EntryWriter()
        write(to: &body)
        var entry = EntryWriter(bytes: mark)
        entry.write(UInt32(body.bytes.count))
        entry.bytes += body.bytes
        entry.write(EntryDigest.of(entry.bytes.dropFirst(mark.count)))
        return entry.bytes
    }

    /// Reads the entry at `offset`.
    ///
    /// - Returns: nil if there is no complete one.
    static func decode(_ bytes: [UInt8], at offset: Int) -> (entry: Self, end: Int)? {
        var reader = EntryReader(bytes[offset...])
        guard reader.skip(mark), let count = reader.integer(UInt32.self),
            Int(count) <= RelayLimits.recordEntryByteCountMaximum,
            bytes.count - offset >= frameByteCount + Int(count)
        else { return nil }
        let start = offset + mark.count
        let end = start + 4 + Int(count)
        var tail = EntryReader(bytes[end...])
        guard tail.integer(UInt64.self) == EntryDigest.of(bytes[start..<end]) else { return nil }
        var body = EntryReader(bytes[(start + 4)..<end])
        guard let entry = read(&body), body.isAtEnd else { return nil }
        return (entry, end + 8)
    }
}

extension RecordedContent {
    /// Reads a whole record.
    ///
    /// - Returns: the state, and the offset of the end of the last complete entry.
    /// - Throws: if it is none, or if an entry in the middle is damaged.
    package static func read(
        _ bytes: [UInt8], path: String
    ) throws(RecordFailure) -> (content: Self, end: Int) {
        var content = Self()
        let magic = Entry.magic
        guard bytes.starts(with: magic) else {
            // Nothing was confirmed before the first bytes were complete.
            if magic.starts(with: bytes) { return (content, 0) }
            throw .damaged("\(path): no record of \(Entry.owner)")
        }
        var offset = magic.count
        while let (entry, end) = Entry.decode(bytes, at: offset) {
            content.apply(entry)
            offset = end
        }
        // Behind an incomplete write there is nothing complete.
        var next = offset + 1
        while next + frameByteCount <= bytes.count {
            if bytes[next] == mark[0], Entry.decode(bytes, at: next) != nil {
                throw .damaged(
                    "\(path): the entry at byte \(offset) is damaged, and others follow it; "
                        + "without this file undelivered events are lost")
            }
            next += 1
        }
        return (content, offset)
    }
}

/// FNV-1a with 64 bits (Fowler, Noll, Vo), which tells complete entries from incomplete ones. An
/// attacker gains nothing by forging one.
enum EntryDigest {
    static func of(_ bytes: some Sequence<UInt8>) -> UInt64 {
        bytes.reduce(0xCBF2_9CE4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 }
    }
}

/// Writes the fields of an entry.
package struct EntryWriter {
    var bytes: [UInt8] = []

    init(bytes: [UInt8] = []) { self.bytes = bytes }

    package mutating func write<Value: FixedWidthInteger>(_ value: Value) {
        withUnsafeBytes(of: value.bigEndian) { bytes += $0 }
    }

    package mutating func write(_ content: [UInt8]) {
        write(UInt32(content.count))
        bytes += content
    }

    package mutating func write(_ text: String) { write(Array(text.utf8)) }
}

/// Reads the fields of an entry.
package struct EntryReader {
    private var rest: ArraySlice<UInt8>

    init(_ bytes: ArraySlice<UInt8>) { rest = bytes }

    var isAtEnd: Bool { rest.isEmpty }

    mutating func skip(_ prefix: [UInt8]) -> Bool {
        guard rest.starts(with: prefix) else { return false }
        rest = rest.dropFirst(prefix.count)
        return true
    }

    package mutating func integer<Value: FixedWidthInteger>(_ type: Value.Type) -> Value? {
        let count = Value.bitWidth / 8
        guard rest.count >= count else { return nil }
        defer { rest = rest.dropFirst(count) }
        return rest.prefix(count).reduce(0) { $0 << 8 | Value($1) }
    }

    /// A number that counts on: half of the range, so that counting on from it never overflows.
    package mutating func number() -> UInt64? {
        integer(UInt64.self).flatMap { $0 < 1 << 63 ? $0 : nil }
    }

    package mutating func bytes() -> [UInt8]? {
        guard let count = integer(UInt32.self), rest.count >= Int(count) else { return nil }
        defer { rest = rest.dropFirst(Int(count)) }
        return Array(rest.prefix(Int(count)))
    }

    package mutating func text() -> String? { bytes().map { String(decoding: $0, as: UTF8.self) } }
}

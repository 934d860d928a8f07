// Collects the bytes of a packet's fields, so that the packet can refer to them as ranges.

import Primitives

/// A growing buffer, and the ranges of what was added.
struct ByteBuilder {
    private(set) var bytes: [UInt8] = []

    mutating func append(_ text: String) -> ByteRange { append(Array(text.utf8)) }

    mutating func append(_ more: [UInt8]) -> ByteRange {
        let range = ByteRange(offset: bytes.count, count: more.count)
        bytes += more
        return range
    }

    /// Adds ids, each with its length byte. They have at most 255 bytes.
    mutating func append(identifiers: [String]) -> ByteRange {
        let start = bytes.count
        for identifier in identifiers {
            bytes.append(UInt8(identifier.utf8.count))
            bytes += identifier.utf8
        }
        return ByteRange(offset: start, count: bytes.count - start)
    }
}

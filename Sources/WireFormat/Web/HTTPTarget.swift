// Takes the target of a request apart: the segments of its path and the members of its query, each
// without its escapes (RFC 3986, 2.1).

import Primitives

/// Reads paths and queries.
public enum HTTPTarget {
    /// A member of a query.
    public struct Member: Sendable, Equatable {
        public let name: String
        public let value: String
    }

    /// The segments between the slashes of a path that begins with one; nil where an escape is
    /// malformed or the text is not UTF-8. A slash that is escaped ends no segment.
    public static func segments(of path: RawSpan) -> [String]? {
        guard path.byteCount > 0, path[0] == UInt8(ascii: "/") else { return nil }
        var segments: [String] = []
        for part in parts(of: path.extracting(droppingFirst: 1), endingWith: UInt8(ascii: "/")) {
            guard let text = text(part) else { return nil }
            segments.append(text)
        }
        return segments
    }

    /// The members `NAME=VALUE` of a query, joined by `&`. Nil where one is malformed, and for a
    /// plus sign without an escape, which stands for itself in a path and for a space in a form.
    public static func members(of query: RawSpan) -> [Member]? {
        var members: [Member] = []
        guard query.byteCount > 0 else { return members }
        for part in parts(of: query, endingWith: UInt8(ascii: "&")) {
            guard !part.contains(UInt8(ascii: "+")),
                let equals = part.firstIndex(of: UInt8(ascii: "=")), equals > 0,
                let name = text(part[..<equals]), let value = text(part[(equals + 1)...])
            else { return nil }
            members.append(Member(name: name, value: value))
        }
        return members
    }

    /// A text without its escapes; nil where one is malformed or the text is not UTF-8.
    public static func text(of escaped: RawSpan) -> String? {
        text(escaped.withUnsafeBytes { Array($0) })
    }

    private static func parts(of bytes: RawSpan, endingWith separator: UInt8) -> [[UInt8]] {
        var parts: [[UInt8]] = [[]]
        for offset in bytes.byteOffsets {
            if bytes[offset] == separator {
                parts.append([])
            } else {
                parts[parts.count - 1].append(bytes[offset])
            }
        }
        return parts
    }

    private static func text(_ escaped: some Sequence<UInt8>) -> String? {
        var bytes: [UInt8] = []
        var rest = escaped.makeIterator()
        while let byte = rest.next() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            guard let high = rest.next().flatMap(digit), let low = rest.next().flatMap(digit)
            else { return nil }
            bytes.append(high << 4 | low)
        }
        return String(validating: bytes, as: UTF8.self)
    }

    private static func digit(_ byte: UInt8) -> UInt8? {
        Character(UnicodeScalar(byte)).hexDigitValue.map { UInt8($0) }
    }
}

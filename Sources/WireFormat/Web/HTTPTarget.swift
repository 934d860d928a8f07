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
        var start = 1
        while start <= path.byteCount {
            let end = path.firstIndex(of: UInt8(ascii: "/"), from: start) ?? path.byteCount
            guard let text = text(of: path.extracting(start..<end)) else { return nil }
            segments.append(text)
            start = end + 1
        }
        return segments
    }

    /// The members `NAME=VALUE` of a query, joined by `&`. Nil where one is malformed, and for a
    /// plus sign without an escape, which stands for itself in a path and for a space in a form.
    public static func members(of query: RawSpan) -> [Member]? {
        var members: [Member] = []
        guard query.byteCount > 0 else { return members }
        var start = 0
        while start <= query.byteCount {
            let end = query.firstIndex(of: UInt8(ascii: "&"), from: start) ?? query.byteCount
            let part = query.extracting(start..<end)
            start = end + 1
            guard part.firstIndex(of: UInt8(ascii: "+"), from: 0) == nil,
                let equals = part.firstIndex(of: UInt8(ascii: "="), from: 0), equals > 0,
                let name = text(of: part.extracting(first: equals)),
                let value = text(of: part.extracting(droppingFirst: equals + 1))
            else { return nil }
            members.append(Member(name: name, value: value))
        }
        return members
    }

    /// A text without its escapes; nil where one is malformed or the text is not UTF-8.
    public static func text(of escaped: RawSpan) -> String? {
        guard escaped.firstIndex(of: UInt8(ascii: "%"), from: 0) != nil else {
            return escaped.withUnsafeBytes { String(validating: $0, as: UTF8.self) }
        }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(escaped.byteCount)
        var offset = 0
        while offset < escaped.byteCount {
            guard escaped[offset] == UInt8(ascii: "%") else {
                bytes.append(escaped[offset])
                offset += 1
                continue
            }
            guard offset + 2 < escaped.byteCount, let high = digit(escaped[offset + 1]),
                let low = digit(escaped[offset + 2])
            else { return nil }
            bytes.append(high << 4 | low)
            offset += 3
        }
        return String(validating: bytes, as: UTF8.self)
    }

    private static func digit(_ byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
        case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
        case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
        default: nil
        }
    }
}

extension RawSpan {
    /// The offset of the first byte with a value, not before `start`.
    fileprivate func firstIndex(of byte: UInt8, from start: Int) -> Int? {
        for offset in start..<byteCount where self[offset] == byte { return offset }
        return nil
    }
}

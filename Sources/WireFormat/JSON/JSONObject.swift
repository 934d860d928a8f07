// A JSON object (RFC 8259) as a list of members, for requests of clients. Objects in it have
// members of their own; a list contains only strings. Strings are unescaped once, into one buffer.

import Primitives

/// A parsed JSON object.
public struct JSONObject: Sendable {
    public enum Value: Sendable {
        case null
        case bool(Bool)
        /// A whole number of 0 to 2^63 - 1. Others are no value of any request.
        case number(UInt64)
        /// A whole number below 0, without its sign. Only types of LeanMessage are such numbers.
        case negative(UInt64)
        /// UTF-8 in ``JSONObject/text``.
        case string(ByteRange)
        /// `count` strings in ``JSONObject/text``, each after one byte with its length. Nil ranges
        /// stand for a list with a string of more than 255 bytes.
        case strings(count: Int, ByteRange?)
        case object([Member])
    }

    public struct Member: Sendable {
        /// In ``JSONObject/text``.
        public let name: ByteRange
        public let value: Value
    }

    public let members: [Member]
    /// The bytes that the ranges refer to.
    public let text: [UInt8]

    /// Parses a whole text.
    ///
    /// - Throws: ``WireError/malformed`` for what is not a JSON object of these values, which
    ///   includes a member that occurs twice, objects more than ``depthMaximum`` deep, more than
    ///   ``memberCountMaximum`` members, and more than ``valueCountMaximum`` values.
    public init(_ json: RawSpan) throws(WireError) {
        var parser = Parser(json)
        members = try parser.readObject(depth: 1)
        parser.reader.skipWhiteSpace()
        guard parser.reader.isAtEnd else { throw .malformed }
        text = parser.text
    }

    /// An object without members.
    public init() {
        members = []
        text = []
    }

    /// Objects within each other: the message of a will is one in a request.
    public static let depthMaximum = 3
    /// Values of all kinds: the longest allow list, and the members beside it.
    public static let valueCountMaximum = WireLimits.groupAllowedCountMaximum + 64

    /// Members of one object: twice as many as a request has. Each is compared with those before
    /// it.
    public static let memberCountMaximum = 32

    private struct Parser: ~Escapable {
        var reader: JSONReader
        var text: [UInt8] = []
        private var valueCount = 0

        @_lifetime(copy json)
        init(_ json: RawSpan) {
            reader = JSONReader(json)
            text.reserveCapacity(json.byteCount)
        }

        mutating func readObject(depth: Int) throws(WireError) -> [Member] {
            guard depth <= JSONObject.depthMaximum, reader.take(UInt8(ascii: "{")) else {
                throw .malformed
            }
            var members: [Member] = []
            if reader.take(UInt8(ascii: "}")) { return members }
            repeat {
                let name = try readString()
                guard members.count < JSONObject.memberCountMaximum,
                    reader.take(UInt8(ascii: ":")), !contains(name, in: members)
                else {
                    throw .malformed
                }
                members.append(Member(name: name, value: try readValue(depth: depth)))
            } while reader.take(UInt8(ascii: ","))
            guard reader.take(UInt8(ascii: "}")) else { throw .malformed }
            return members
        }

        private func contains(_ name: ByteRange, in members: [Member]) -> Bool {
            members.contains { text[$0.name.offsets].elementsEqual(text[name.offsets]) }
        }

        private mutating func readValue(depth: Int) throws(WireError) -> Value {
            try countValue()
            reader.skipWhiteSpace()
            guard !reader.isAtEnd else { throw .malformed }
            switch reader.text[reader.offset] {
            case UInt8(ascii: "{"): return .object(try readObject(depth: depth + 1))
            case UInt8(ascii: "["): return try readStrings()
            case UInt8(ascii: "\""): return .string(try readString())
            case UInt8(ascii: "t"): return try readWord("true", .bool(true))
            case UInt8(ascii: "f"): return try readWord("false", .bool(false))
            case UInt8(ascii: "n"): return try readWord("null", .null)
            case UInt8(ascii: "-"):
                reader.offset += 1
                return .negative(try readNumber())
            default: return .number(try readNumber())
            }
        }

        private mutating func countValue() throws(WireError) {
            valueCount += 1
            if valueCount > JSONObject.valueCountMaximum { throw .malformed }
        }

        private mutating func readWord(
            _ word: StaticString, _ value: Value
        ) throws(WireError) -> Value {
            let rest = reader.text.extracting(droppingFirst: reader.offset)
            let count = word.utf8CodeUnitCount
            guard rest.byteCount >= count, rest.extracting(first: count).isEqual(word) else {
                throw .malformed
            }
            reader.offset += count
            return value
        }

        private mutating func readNumber() throws(WireError) -> UInt64 {
            guard let first = reader.takeDigit() else { throw .malformed }
            var number = UInt64(first - 0x30)
            while let digit = reader.takeDigit() {
                let value = UInt64(digit - 0x30)
                // A second digit after a zero is no number of JSON.
                guard number > 0, number <= (WireLimits.varIntMaximum - value) / 10 else {
                    throw .malformed
                }
                number = number * 10 + value
            }
            if !reader.isAtEnd {
                switch reader.text[reader.offset] {
                case UInt8(ascii: "."), UInt8(ascii: "e"), UInt8(ascii: "E"): throw .malformed
                default: break
                }
            }
            return number
        }

        private mutating func readStrings() throws(WireError) -> Value {
            guard reader.take(UInt8(ascii: "[")) else { throw .malformed }
            let start = text.count
            var count = 0
            var isShort = true
            if !reader.take(UInt8(ascii: "]")) {
                repeat {
                    try countValue()
                    let place = text.count
                    text.append(0)
                    let string = try readString()
                    isShort = isShort && string.count <= UInt8.max
                    text[place] = UInt8(truncatingIfNeeded: string.count)
                    count += 1
                } while reader.take(UInt8(ascii: ","))
                guard reader.take(UInt8(ascii: "]")) else { throw .malformed }
            }
            return .strings(
                count: count,
                isShort ? ByteRange(offset: start, count: text.count - start) : nil)
        }

        private mutating func readString() throws(WireError) -> ByteRange {
            let start = text.count
            guard reader.appendString(to: &text) else { throw .malformed }
            return ByteRange(offset: start, count: text.count - start)
        }
    }
}

extension JSONReader {
    /// Reads a string to the end of `output`, unescaped. False if there is none.
    package mutating func appendString(to output: inout [UInt8]) -> Bool {
        skipWhiteSpace()
        return withUnsafeTemporaryAllocation(byteCount: stringByteCount, alignment: 1) { bytes in
            guard let count = readString(into: bytes) else { return false }
            output += bytes[..<count]
            return true
        }
    }

    /// Bytes of the string that begins here, with its quotes and escapes; all that follow if it
    /// does not end.
    private var stringByteCount: Int {
        var end = offset + 1
        while end < text.byteCount, text[end] != UInt8(ascii: "\"") {
            end += text[end] == UInt8(ascii: "\\") ? 2 : 1
        }
        return max(0, min(end + 1, text.byteCount) - offset)
    }
}

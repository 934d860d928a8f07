// Writes a JSON object (RFC 8259), member by member. Names are literals that need no escapes; text
// is UTF-8.

import Primitives

/// A JSON object while it is written.
public struct JSONWriter {
    /// What is written so far.
    public private(set) var bytes: [UInt8]
    private var hasMember = false

    /// Begins an object after bytes that precede it.
    public init(after bytes: [UInt8] = []) {
        self.bytes = bytes
        self.bytes.append(UInt8(ascii: "{"))
    }

    /// Ends the object, and returns all bytes.
    public consuming func end() -> [UInt8] {
        bytes.append(UInt8(ascii: "}"))
        return bytes
    }

    private mutating func begin(_ name: StaticString) {
        if hasMember { bytes.append(UInt8(ascii: ",")) }
        hasMember = true
        bytes.append("\"")
        bytes.append(name)
        bytes.append("\":")
    }

    public mutating func write(_ name: StaticString, _ number: UInt64) {
        begin(name)
        bytes.append(decimal: number)
    }

    /// Writes a number that may be below 0.
    public mutating func write(signed name: StaticString, _ number: Int64) {
        begin(name)
        if number < 0 { bytes.append(UInt8(ascii: "-")) }
        bytes.append(decimal: number.magnitude)
    }

    /// Writes text, which is UTF-8, after a prefix without escapes.
    public mutating func write(_ name: StaticString, _ text: RawSpan, after prefix: StaticString) {
        begin(name)
        bytes.append("\"")
        bytes.append(prefix)
        bytes.append(escaped: text)
        bytes.append("\"")
    }

    /// Writes a value that is JSON already.
    public mutating func write(_ name: StaticString, raw json: RawSpan) {
        begin(name)
        json.withUnsafeBytes { bytes.append(contentsOf: $0) }
    }

    public mutating func write(_ name: StaticString, _ value: Bool) {
        begin(name)
        bytes.append(value ? "true" : "false")
    }

    public mutating func write(_ name: StaticString, _ word: StaticString) {
        write(name, word.utf8Bytes)
    }

    /// Writes text, which is UTF-8.
    public mutating func write(_ name: StaticString, _ text: RawSpan) {
        begin(name)
        write(text)
    }

    /// Writes a member whose name is text too.
    public mutating func write(key name: RawSpan, _ text: RawSpan) {
        if hasMember { bytes.append(UInt8(ascii: ",")) }
        hasMember = true
        write(name)
        bytes.append(UInt8(ascii: ":"))
        write(text)
    }

    /// Writes eight bytes as 16 hexadecimal digits: a number of JSON has 53 bits in most programs.
    public mutating func write(hexadecimal name: StaticString, _ number: UInt64) {
        begin(name)
        bytes.append(UInt8(ascii: "\""))
        bytes.append(hexadecimal: number)
        bytes.append(UInt8(ascii: "\""))
    }

    /// Writes bytes as text if they are UTF-8 and base64 has no fewer characters: escapes can make
    /// text six times as long.
    public mutating func write(
        text: StaticString, orBase64 base64: StaticString, _ content: RawSpan
    ) {
        let base64ByteCount = (content.byteCount + 2) / 3 * 4
        if TextRules.isUTF8(content),
            JSONText.escapedByteCount(content) <= max(base64ByteCount, content.byteCount)
        {
            write(text, content)
        } else {
            write(base64: base64, content)
        }
    }

    /// Writes any bytes in base64.
    public mutating func write(base64 name: StaticString, _ content: RawSpan) {
        begin(name)
        bytes.append(UInt8(ascii: "\""))
        Base64.append(content, to: &bytes)
        bytes.append(UInt8(ascii: "\""))
    }

    /// Writes an object whose members `body` writes.
    public mutating func write(_ name: StaticString, object body: (inout JSONWriter) -> Void) {
        begin(name)
        writeObject(body)
    }

    /// Writes a list; `body` writes its elements with the functions of ``JSONList``.
    public mutating func write(_ name: StaticString, list body: (inout JSONList) -> Void) {
        begin(name)
        bytes.append(UInt8(ascii: "["))
        var list = JSONList(after: bytes.handOver())
        body(&list)
        bytes = list.end()
        bytes.append(UInt8(ascii: "]"))
    }

    private mutating func writeObject(_ body: (inout JSONWriter) -> Void) {
        var inner = JSONWriter(after: bytes.handOver())
        body(&inner)
        bytes = inner.end()
    }

    private mutating func write(_ text: RawSpan) {
        bytes.append(UInt8(ascii: "\""))
        bytes.append(escaped: text)
        bytes.append(UInt8(ascii: "\""))
    }
}

/// The elements of a list while they are written.
public struct JSONList {
    private var bytes: [UInt8]
    private var hasElement = false

    fileprivate init(after bytes: [UInt8]) {
        self.bytes = bytes
    }

    private mutating func begin() {
        if hasElement { bytes.append(UInt8(ascii: ",")) }
        hasElement = true
    }

    /// Adds text, which is UTF-8.
    public mutating func append(_ text: RawSpan) {
        begin()
        bytes.append(UInt8(ascii: "\""))
        bytes.append(escaped: text)
        bytes.append(UInt8(ascii: "\""))
    }

    /// Adds an object whose members `body` writes.
    public mutating func append(object body: (inout JSONWriter) -> Void) {
        begin()
        var inner = JSONWriter(after: bytes.handOver())
        body(&inner)
        bytes = inner.end()
    }

    fileprivate consuming func end() -> [UInt8] { bytes }
}

extension [UInt8] {
    /// Empties the array and returns its elements: the new owner is the only one, and appends to
    /// them without a copy.
    fileprivate mutating func handOver() -> [UInt8] {
        var elements: [UInt8] = []
        swap(&self, &elements)
        return elements
    }

    /// Appends the characters of a JSON string, without its quotation marks.
    ///
    /// - Parameter text: UTF-8.
    public mutating func append(escaped text: RawSpan) {
        let start = count
        let escapedByteCount = JSONText.escapedByteCount(text)
        append(contentsOf: repeatElement(0, count: escapedByteCount))
        withUnsafeMutableBytes { bytes in
            let target = UnsafeMutableRawBufferPointer(rebasing: bytes[start...])
            var writer = PacketWriter(target.mutableBytes)
            JSONText.write(escaped: text, to: &writer)
        }
    }

    /// Appends 16 hexadecimal digits.
    public mutating func append(hexadecimal number: UInt64) {
        for shift in stride(from: UInt64(60), through: 0, by: -4) {
            let digit = UInt8(number >> shift & 0xF)
            append(digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "a") + digit - 10)
        }
    }
}

extension UInt64 {
    /// Reads 16 hexadecimal digits; nil for anything else.
    public init?(hexadecimal text: RawSpan) {
        guard text.byteCount == 16 else { return nil }
        var number: UInt64 = 0
        for offset in text.byteOffsets {
            let digit: UInt8
            switch text[offset] {
            case let byte where (0x30...0x39).contains(byte): digit = byte - 0x30
            case let byte where (0x61...0x66).contains(byte): digit = byte - 0x61 + 10
            default: return nil
            }
            number = number << 4 | UInt64(digit)
        }
        self = number
    }
}

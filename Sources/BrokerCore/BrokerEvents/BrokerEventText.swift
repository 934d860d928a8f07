// The texts of the broker's events: JSON, which is the same for clients of all dialects.

import Primitives

/// Appends members to a JSON object.
struct BrokerEventText {
    var bytes: [UInt8] = []

    mutating func begin(_ name: StaticString) {
        bytes.append(UInt8(ascii: ","))
        bytes.append(UInt8(ascii: "\""))
        name.withUTF8Buffer { bytes.append(contentsOf: $0) }
        bytes.append(UInt8(ascii: "\""))
        bytes.append(UInt8(ascii: ":"))
    }

    mutating func write(_ name: StaticString, number: UInt64) {
        begin(name)
        bytes.append(contentsOf: String(number).utf8)
    }

    /// Bytes that are JSON already.
    mutating func write(_ name: StaticString, raw: some Collection<UInt8>) {
        begin(name)
        bytes.append(contentsOf: raw)
    }

    /// A text of digits, letters and dashes.
    mutating func write(_ name: StaticString, word: some StringProtocol) {
        begin(name)
        bytes.append(UInt8(ascii: "\""))
        bytes.append(contentsOf: word.utf8)
        bytes.append(UInt8(ascii: "\""))
    }

    mutating func write(_ name: StaticString, string: some Collection<UInt8>) {
        begin(name)
        appendString(string)
    }

    mutating func appendString(_ string: some Collection<UInt8>) {
        bytes.append(UInt8(ascii: "\""))
        for byte in string {
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"):
                bytes.append(UInt8(ascii: "\\"))
                bytes.append(byte)
            case 0..<0x20:
                bytes.append(contentsOf: byte < 16 ? "\\u000".utf8 : "\\u00".utf8)
                bytes.append(contentsOf: String(byte, radix: 16).utf8)
            default: bytes.append(byte)
            }
        }
        bytes.append(UInt8(ascii: "\""))
    }

    /// The beginning of a text: the event and the user.
    init(_ event: StaticString, ofUser user: [UInt8]) {
        bytes.append(UInt8(ascii: "{"))
        bytes.append(contentsOf: "\"event\":\"".utf8)
        event.withUTF8Buffer { bytes.append(contentsOf: $0) }
        bytes.append(UInt8(ascii: "\""))
        write("user", string: user)
    }

    init() {}

    /// Ends a text with members that were made before.
    mutating func end(_ members: [UInt8] = []) -> [UInt8] {
        bytes.append(contentsOf: members)
        bytes.append(UInt8(ascii: "}"))
        return bytes
    }
}

// MQTT packets encoded and decoded by hand: an independent reading of the specification, so that
// the tests do not repeat an error of the broker's codec. It knows no sockets.

import WireFormat

/// How packets are put together.
enum MQTTBytes {
    static func packet(_ firstByte: UInt8, _ body: [UInt8]) -> [UInt8] {
        [firstByte] + length(body.count) + body
    }

    /// A variable length integer.
    static func length(_ value: Int) -> [UInt8] {
        var (bytes, rest): ([UInt8], Int) = ([], value)
        repeat {
            bytes.append(UInt8(rest & 0x7F) | (rest > 0x7F ? 0x80 : 0))
            rest >>= 7
        } while rest > 0
        return bytes
    }

    static func number(_ value: UInt16) -> [UInt8] { [UInt8(value >> 8), UInt8(value & 0xFF)] }

    static func text(_ text: String) -> [UInt8] { binary(Array(text.utf8)) }

    static func binary(_ bytes: [UInt8]) -> [UInt8] { number(UInt16(bytes.count)) + bytes }

    /// A section of properties, its length in front; nothing before 5.0.
    static func section(_ properties: [MQTTProperty], _ version: MQTT.Version) -> [UInt8] {
        guard version == .v5 else { return [] }
        let bytes = properties.flatMap(\.bytes)
        return length(bytes.count) + bytes
    }
}

/// A property of MQTT 5.0 and its value.
enum MQTTProperty: Hashable {
    case number(UInt8, UInt32)
    case binary(UInt8, [UInt8])
    case user(String, String)

    static func payloadFormat(_ value: UInt32) -> MQTTProperty { .number(1, value) }
    static func messageExpiry(_ seconds: UInt32) -> MQTTProperty { .number(2, seconds) }
    static func contentType(_ text: String) -> MQTTProperty { .binary(3, Array(text.utf8)) }
    static func responseTopic(_ text: String) -> MQTTProperty { .binary(8, Array(text.utf8)) }
    static func correlation(_ bytes: [UInt8]) -> MQTTProperty { .binary(9, bytes) }
    static func subscriptionIdentifier(_ number: UInt32) -> MQTTProperty { .number(11, number) }
    static func sessionExpiry(_ seconds: UInt32) -> MQTTProperty { .number(17, seconds) }
    static func method(_ text: String) -> MQTTProperty { .binary(21, Array(text.utf8)) }
    static func authenticationData(_ bytes: [UInt8]) -> MQTTProperty { .binary(22, bytes) }
    static func problemInformation(_ value: UInt32) -> MQTTProperty { .number(23, value) }
    static func willDelay(_ seconds: UInt32) -> MQTTProperty { .number(24, seconds) }
    static func responseInformation(_ value: UInt32) -> MQTTProperty { .number(25, value) }
    static func receiveMaximum(_ count: UInt32) -> MQTTProperty { .number(33, count) }
    static func topicAliasMaximum(_ number: UInt32) -> MQTTProperty { .number(34, number) }
    static func topicAlias(_ number: UInt32) -> MQTTProperty { .number(35, number) }
    static func packetMaximum(_ byteCount: UInt32) -> MQTTProperty { .number(39, byteCount) }

    /// What stands behind the identifier (section 2.2.2.2).
    private enum Form {
        case bytes(Int)
        case variable, binary, pair
    }

    private static func form(_ identifier: UInt8) -> Form? {
        switch identifier {
        case 1, 23, 25, 36, 37, 40, 41, 42: .bytes(1)
        case 19, 33, 34, 35: .bytes(2)
        case 2, 17, 24, 39: .bytes(4)
        case 11: .variable
        case 3, 8, 9, 18, 21, 22, 26, 28, 31: .binary
        case 38: .pair
        default: nil
        }
    }

    var identifier: UInt8 {
        switch self {
        case .number(let identifier, _), .binary(let identifier, _): identifier
        case .user: 38
        }
    }

    var bytes: [UInt8] {
        switch self {
        case .number(let identifier, let value):
            if case .bytes(let count)? = Self.form(identifier) {
                return [identifier]
                    + (0..<count).reversed().map { UInt8(value >> (8 * UInt32($0)) & 0xFF) }
            }
            return [identifier] + MQTTBytes.length(Int(value))
        case .binary(let identifier, let bytes):
            return [identifier] + MQTTBytes.binary(bytes)
        case .user(let name, let value):
            return [38] + MQTTBytes.text(name) + MQTTBytes.text(value)
        }
    }

    /// Reads one from the front of a section.
    init(_ reader: inout MQTTByteReader) throws {
        let identifier = try reader.byte()
        switch Self.form(identifier) {
        case .bytes(let count):
            var value: UInt32 = 0
            for _ in 0..<count { value = value << 8 | UInt32(try reader.byte()) }
            self = .number(identifier, value)
        case .variable: self = .number(identifier, UInt32(try reader.length()))
        case .binary: self = .binary(identifier, try reader.binary())
        case .pair: self = .user(try reader.text(), try reader.text())
        case nil: throw TestFailure("there is no property \(identifier)")
        }
    }
}

/// Reads a packet's body from front to back.
struct MQTTByteReader {
    private(set) var rest: ArraySlice<UInt8>

    init(_ bytes: [UInt8]) { rest = bytes[...] }

    mutating func byte() throws -> UInt8 {
        guard let byte = rest.popFirst() else { throw TestFailure("a packet that is too short") }
        return byte
    }

    mutating func number() throws -> UInt16 { UInt16(try byte()) << 8 | UInt16(try byte()) }

    mutating func length() throws -> Int {
        var (value, shift) = (0, 0)
        while true {
            let next = try byte()
            value |= Int(next & 0x7F) << shift
            if next & 0x80 == 0 { return value }
            shift += 7
        }
    }

    mutating func binary() throws -> [UInt8] {
        let count = Int(try number())
        guard rest.count >= count else { throw TestFailure("a string that is cut off") }
        defer { rest.removeFirst(count) }
        return Array(rest.prefix(count))
    }

    mutating func text() throws -> String {
        guard let text = String(validating: try binary(), as: UTF8.self) else {
            throw TestFailure("text that is not UTF-8")
        }
        return text
    }

    mutating func properties(_ version: MQTT.Version) throws -> [MQTTProperty] {
        guard version == .v5, !rest.isEmpty else { return [] }
        let count = try length()
        var section = MQTTByteReader(Array(rest.prefix(count)))
        rest.removeFirst(count)
        var properties: [MQTTProperty] = []
        while !section.rest.isEmpty { properties.append(try MQTTProperty(&section)) }
        return properties
    }
}

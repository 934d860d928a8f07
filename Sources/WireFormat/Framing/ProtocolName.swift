// Reads the protocol name and level with which every CONNECT begins, in all dialects alike: a
// length of two bytes, the name, one byte of level. It decides which decoder sees the rest.

import Primitives

/// The dialect that a CONNECT asks for.
public enum ProtocolName: Hashable, Sendable {
    /// "MRT", Martlet's own; level 1 is the only one so far.
    case mrt(level: UInt8)
    /// "MQTT": level 4 is 3.1.1, level 5 is 5.0.
    case mqtt(level: UInt8)
    /// "MQIsdp", the name that MQTT 3.1 used; its level is 3.
    case mqisdp(level: UInt8)
    /// Anything else. In MQTT and MRT a server may then close the connection without an answer.
    case unknown

    /// Bytes that identify each of the names: a length, the longest name and its level.
    public static let byteCountMaximum = 2 + 6 + 1

    /// Reads the start of a CONNECT's body.
    public static func read(_ body: RawSpan) throws(WireError) -> ProtocolName {
        var reader = PacketReader(body)
        let name = try reader.readBytes(Int(try reader.readUInt16()))
        let level = try reader.readByte()
        let bytes = name.bytes(in: body)
        if spells(bytes, "MRT") { return .mrt(level: level) }
        if spells(bytes, "MQTT") { return .mqtt(level: level) }
        if spells(bytes, "MQIsdp") { return .mqisdp(level: level) }
        return .unknown
    }

    private static func spells(_ bytes: RawSpan, _ name: StaticString) -> Bool {
        let wanted = name.utf8Bytes
        guard bytes.byteCount == wanted.byteCount else { return false }
        for offset in bytes.byteOffsets where bytes[offset] != wanted[offset] { return false }
        return true
    }
}

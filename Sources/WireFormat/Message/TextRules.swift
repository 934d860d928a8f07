// The rules of text on the wire: UTF-8, ids, topic names and topic filters. The checks read the
// bytes in place, copy nothing and make no String.

import BrokerTerms
import Primitives

/// Checks of text. Every function takes the bytes of one field.
public enum TextRules {
    /// Well-formed UTF-8 (RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF). May
    /// be empty, and may contain any character.
    @inlinable
    public static func isUTF8(_ bytes: RawSpan) -> Bool {
        var offset = 0
        while offset < bytes.byteCount {
            // Eight bytes without a top bit are eight characters.
            if bytes.byteCount - offset >= 8,
                bytes.loadInteger(at: offset, as: UInt64.self)
                    & 0x8080_8080_8080_8080 == 0
            {
                offset += 8
                continue
            }
            let count = characterByteCount(bytes, at: offset)
            if count == 0 { return false }
            offset += count
        }
        return true
    }

    /// Bytes of the character at `offset`, 1...4; 0 where there is no well-formed one. The ranges
    /// are table 3-7 of the Unicode Standard.
    @inlinable
    static func characterByteCount(_ bytes: RawSpan, at offset: Int) -> Int {
        let first = bytes[offset]
        if first < 0x80 { return 1 }
        let second: ClosedRange<UInt8>
        let count: Int
        switch first {
        case 0xC2...0xDF: (second, count) = (0x80...0xBF, 2)
        case 0xE0: (second, count) = (0xA0...0xBF, 3)
        case 0xED: (second, count) = (0x80...0x9F, 3)
        case 0xE1...0xEF: (second, count) = (0x80...0xBF, 3)
        case 0xF0: (second, count) = (0x90...0xBF, 4)
        case 0xF1...0xF3: (second, count) = (0x80...0xBF, 4)
        case 0xF4: (second, count) = (0x80...0x8F, 4)
        default: return 0
        }
        guard bytes.byteCount - offset >= count, second.contains(bytes[offset + 1]) else {
            return 0
        }
        for index in 2..<max(2, count) where bytes[offset + index] & 0xC0 != 0x80 { return 0 }
        return count
    }

    /// A user, group or app id: 1...64 bytes of UTF-8 without `/`, `+`, `#` and control characters
    /// (U+0000...U+001F, U+007F...U+009F). So an id cannot add levels or wildcards to a topic.
    public static func isIdentifier(_ bytes: RawSpan) -> Bool {
        guard (1...WireLimits.identifierByteCountMaximum).contains(bytes.byteCount) else {
            return false
        }
        if PlainASCII.isAll(bytes, excluding: (slash, plus, hash)) { return true }
        guard isUTF8(bytes), !hasControlCharacter(bytes) else { return false }
        for offset in bytes.byteOffsets where isSeparatorOrWildcard(bytes[offset]) {
            return false
        }
        return true
    }

    /// A device id in MRT: as an id, and it may be empty.
    @inlinable
    public static func isDevice(_ bytes: RawSpan) -> Bool {
        bytes.isEmpty || isIdentifier(bytes)
    }

    /// An application's message id: 1...64 bytes of UTF-8 without control characters.
    @inlinable
    public static func isMessageIdentifier(_ bytes: RawSpan) -> Bool {
        (1...WireLimits.messageIdentifierByteCountMaximum).contains(bytes.byteCount)
            && isUTF8(bytes) && !hasControlCharacter(bytes)
    }

    /// A group's title: 0...128 bytes of UTF-8 without control characters.
    @inlinable
    public static func isGroupTitle(_ bytes: RawSpan) -> Bool {
        bytes.byteCount <= WireLimits.groupTitleByteCountMaximum
            && isUTF8(bytes) && !hasControlCharacter(bytes)
    }

    /// A topic name: 1...65535 bytes of UTF-8 without U+0000 and wildcards
    /// [MQTT-4.7.1-1] [MQTT-4.7.3-1] [MQTT-4.7.3-2].
    public static func isTopicName(_ bytes: RawSpan) -> Bool {
        guard (1...WireLimits.topicByteCountMaximum).contains(bytes.byteCount) else { return false }
        if PlainASCII.isAll(bytes, excluding: (plus, hash, hash)) { return true }
        guard isUTF8(bytes) else { return false }
        for offset in bytes.byteOffsets {
            let byte = bytes[offset]
            if byte == 0 || byte == plus || byte == hash { return false }
        }
        return true
    }

    /// A topic filter: as a name, and `+` may stand alone in a level, `#` alone in the last one
    /// [MQTT-4.7.1-1] [MQTT-4.7.1-2].
    @inlinable
    public static func isTopicFilter(_ bytes: RawSpan) -> Bool {
        guard (1...WireLimits.topicByteCountMaximum).contains(bytes.byteCount), isUTF8(bytes) else {
            return false
        }
        for offset in bytes.byteOffsets {
            let byte = bytes[offset]
            if byte == 0 { return false }
            guard byte == plus || byte == hash else { continue }
            let isLast = offset == bytes.byteCount - 1
            let beginsLevel = offset == 0 || bytes[offset - 1] == slash
            let endsLevel = isLast || (byte == plus && bytes[offset + 1] == slash)
            if !(beginsLevel && endsLevel) { return false }
        }
        return true
    }

    /// Why mentions are refused, or nil: ``ReasonCode/packetTooLarge`` where they are too many,
    /// ``ReasonCode/payloadFormatInvalid`` where they mention nobody or are no list,
    /// ``ReasonCode/topicNameInvalid`` where a name breaks its rule.
    ///
    /// - Parameters:
    ///   - options: 1 for all members, 2 if only those get the message whom it mentions.
    ///   - names: a run of string8.
    public static func faultOfMentions(options: UInt8, _ names: RawSpan) -> ReasonCode? {
        guard options & ~0x03 == 0, options & 1 == 1 || !names.isEmpty else {
            return .payloadFormatInvalid
        }
        if names.byteCount > WireLimits.mentionsByteCountMaximum { return .packetTooLarge }
        var reader = PacketReader(names)
        var count = 0
        while !reader.isAtEnd {
            guard let name = try? reader.readString8() else { return .payloadFormatInvalid }
            guard isIdentifier(name.bytes(in: names)) else { return .topicNameInvalid }
            count += 1
        }
        return count > WireLimits.mentionCountMaximum ? .packetTooLarge : nil
    }

    @inlinable
    static var slash: UInt8 { UInt8(ascii: "/") }
    @inlinable
    static var plus: UInt8 { UInt8(ascii: "+") }
    @inlinable
    static var hash: UInt8 { UInt8(ascii: "#") }

    @inlinable
    static func isSeparatorOrWildcard(_ byte: UInt8) -> Bool {
        byte == slash || byte == plus || byte == hash
    }

    /// Whether valid UTF-8 holds a control character. U+0080...U+009F are C2 80...C2 9F.
    @inlinable
    static func hasControlCharacter(_ bytes: RawSpan) -> Bool {
        for offset in bytes.byteOffsets {
            let byte = bytes[offset]
            if byte < 0x20 || byte == 0x7F { return true }
            if byte == 0xC2, bytes[offset + 1] < 0xA0 { return true }
        }
        return false
    }
}

// The fields that MQTT packets are made of (MQTT 5.0 section 1.5), read and written.

import Primitives

extension PacketReader {
    /// Four bytes, big-endian.
    @inlinable
    mutating func readUInt32() throws(WireError) -> UInt32 {
        guard remainingByteCount >= 4 else { throw .malformed }
        defer { offset += 4 }
        return UInt32(bigEndian: bytes.loadInteger(at: offset, as: UInt32.self))
    }

    /// Two bytes of length, then that many bytes.
    @inlinable
    mutating func readBinary() throws(WireError) -> ByteRange {
        try readBytes(Int(try readUInt16()))
    }

    /// Two bytes of length, then UTF-8 without U+0000: ill-formed is malformed [MQTT-1.5.4-1],
    /// [MQTT-1.5.4-2]; in 3.1.1 [MQTT-1.5.3-1], [MQTT-1.5.3-2].
    @inlinable
    mutating func readText() throws(WireError) -> ByteRange {
        let text = try readBinary()
        guard MQTT.isText(text.bytes(in: bytes)) else { throw .malformed }
        return text
    }

    /// Text that may stand where a topic name is due: at least one character [MQTT-4.7.3-1], no
    /// wildcards [MQTT-4.7.0-1].
    @inlinable
    mutating func readTopicName() throws(WireError) -> ByteRange {
        let name = try readText()
        guard !name.isEmpty, !MQTT.hasWildcard(name.bytes(in: bytes)) else {
            throw .topicNameInvalid
        }
        return name
    }

    /// Text that may stand where a topic filter is due; see ``MQTT/TopicFilter``.
    mutating func readTopicFilter() throws(WireError) -> ByteRange {
        let filter = try readText()
        guard MQTT.TopicFilter(filter, in: bytes) != nil else { throw .topicFilterInvalid }
        return filter
    }

    /// A packet identifier, which is not 0: [MQTT-2.2.1-3], [MQTT-2.2.1-4]; in 3.1.1
    /// [MQTT-2.3.1-1].
    @inlinable
    mutating func readPacketIdentifier() throws(WireError) -> UInt16 {
        let identifier = try readUInt16()
        guard identifier != 0 else { throw .protocolError }
        return identifier
    }
}

extension PacketWriter {
    /// Four bytes, big-endian.
    @inlinable
    mutating func write(uint32 value: UInt32) {
        let offset = claim(4)
        buffer.storeBytes(of: value.bigEndian, toUncheckedByteOffset: offset, as: UInt32.self)
    }

    /// Two bytes of length, then the bytes: at most 65,535.
    @inlinable
    mutating func write(string16 bytes: RawSpan) {
        precondition(
            bytes.byteCount <= 65_535, "\(bytes.byteCount) bytes with a length of two bytes")
        write(uint16: UInt16(bytes.byteCount))
        write(bytes: bytes)
    }
}

extension MQTT {
    /// A UTF-8 Encoded String: well-formed [MQTT-1.5.4-1] and without U+0000 [MQTT-1.5.4-2].
    @inlinable
    static func isText(_ bytes: RawSpan) -> Bool {
        for offset in bytes.byteOffsets where bytes[offset] == 0 { return false }
        return TextRules.isUTF8(bytes)
    }

    @inlinable
    static func hasWildcard(_ bytes: RawSpan) -> Bool {
        for offset in bytes.byteOffsets {
            let byte = bytes[offset]
            if byte == TextRules.plus || byte == TextRules.hash { return true }
        }
        return false
    }

    /// A topic filter, taken apart: `$share/name/filter` is a shared subscription (section 4.8.2).
    /// In 3.1.1, which does not know them, they are understood alike.
    public struct TopicFilter: Hashable, Sendable {
        /// The name of the group of sessions that share it; empty if the subscription is not
        /// shared.
        public var shareName: ByteRange
        /// What is matched against topic names.
        public var pattern: ByteRange

        @inlinable
        public var isShared: Bool { !shareName.isEmpty }

        /// Nil where `filter`, which is within `bytes`, breaks a rule.
        public init?(_ filter: ByteRange, in bytes: RawSpan) {
            shareName = .empty
            pattern = filter
            let text = filter.bytes(in: bytes)
            if TopicFilter.isShared(text) {
                var end = TopicFilter.sharePrefixByteCount
                while end < text.byteCount, text[end] != TextRules.slash { end += 1 }
                let name = ByteRange(
                    offset: Int(filter.offset) + TopicFilter.sharePrefixByteCount,
                    count: end - TopicFilter.sharePrefixByteCount)
                // [MQTT-4.8.2-1] at least one character; [MQTT-4.8.2-2] no wildcards in it, and a
                // filter after it.
                guard !name.isEmpty, !MQTT.hasWildcard(name.bytes(in: bytes)), end < text.byteCount
                else { return nil }
                shareName = name
                pattern = ByteRange(
                    offset: Int(filter.offset) + end + 1, count: text.byteCount - end - 1)
            }
            guard TextRules.isTopicFilter(pattern.bytes(in: bytes)) else { return nil }
        }

        /// Bytes of "$share/".
        private static let sharePrefixByteCount = 7

        private static func isShared(_ text: RawSpan) -> Bool {
            let prefix = ("$share/" as StaticString).utf8Bytes
            guard text.byteCount >= prefix.byteCount else { return false }
            for offset in prefix.byteOffsets where text[offset] != prefix[offset] { return false }
            return true
        }
    }
}

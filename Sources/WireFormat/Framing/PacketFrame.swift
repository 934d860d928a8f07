// Finds packets in a stream of bytes by the fixed header, which both dialects share. It does not
// look into a packet.
//
//     bit  7 6 5 4   3 2 1 0
//         +---------+---------+--------------------------+---------------+
//         | type    | flags   | remaining length, 1 to 4 | body          |
//         +---------+---------+--------------------------+---------------+

import Primitives

/// One whole packet within a buffer.
public struct PacketFrame: Hashable, Sendable {
    /// Type in the upper four bits, flags in the lower.
    public var typeAndFlags: UInt8
    /// Bytes of the fixed header, 2...5.
    public var headerByteCount: UInt8
    /// What follows the fixed header, relative to the start of the buffer that was searched.
    public var body: ByteRange

    @inlinable
    public init(typeAndFlags: UInt8, headerByteCount: UInt8, body: ByteRange) {
        self.typeAndFlags = typeAndFlags
        self.headerByteCount = headerByteCount
        self.body = body
    }

    /// 0...15.
    @inlinable
    public var type: UInt8 { typeAndFlags >> 4 }
    /// 0...15.
    @inlinable
    public var flags: UInt8 { typeAndFlags & 0x0F }
    /// Bytes of the whole packet.
    @inlinable
    public var byteCount: Int { Int(headerByteCount) + Int(body.count) }
    /// Where the next packet begins.
    @inlinable
    public var endOffset: Int { body.endOffset }

    /// Whether the remaining length is spelled in as few bytes as it can be. MRT and MQTT 5
    /// [MQTT-1.5.5-1] demand it, MQTT 3.1.1 does not.
    @inlinable
    public var hasMinimalLength: Bool {
        Int(headerByteCount) == 1 + VariableInteger.byteCount(body.count)
    }
}

/// What the bytes at a place of a stream are.
public enum FramingResult: Hashable, Sendable {
    case packet(PacketFrame)
    /// More bytes are needed: at least so many in all, counted from where the packet begins.
    case incomplete(byteCountMinimum: Int)
    /// A remaining length of more than four bytes. The stream cannot be read any further.
    case malformed
    /// A packet of `byteCount` bytes is on its way, more than is accepted. It has not been checked
    /// any further, and usually has not arrived.
    case tooLarge(byteCount: Int)
}

extension PacketFrame {
    /// Reads the fixed header at `offset` of `buffer`.
    ///
    /// - Parameter packetMaximum: bytes of the largest whole packet that is accepted.
    @inlinable
    public static func next(
        in buffer: RawSpan, at offset: Int, packetMaximum: Int
    ) -> FramingResult {
        let available = buffer.byteCount - offset
        guard available >= 2 else { return .incomplete(byteCountMinimum: 2) }
        var remaining = Int(buffer[offset + 1] & 0x7F)
        var headerByteCount = 2
        while buffer[offset + headerByteCount - 1] & 0x80 != 0 {
            if headerByteCount == WireLimits.fixedHeaderByteCountMaximum { return .malformed }
            guard available > headerByteCount else {
                return .incomplete(byteCountMinimum: headerByteCount + 1)
            }
            let next = Int(buffer[offset + headerByteCount] & 0x7F)
            remaining |= next << (7 * (headerByteCount - 1))
            headerByteCount += 1
        }
        let byteCount = headerByteCount + remaining
        if byteCount > packetMaximum { return .tooLarge(byteCount: byteCount) }
        guard available >= byteCount else { return .incomplete(byteCountMinimum: byteCount) }
        return .packet(
            PacketFrame(
                typeAndFlags: buffer[offset], headerByteCount: UInt8(headerByteCount),
                body: ByteRange(offset: offset + headerByteCount, count: remaining)))
    }
}

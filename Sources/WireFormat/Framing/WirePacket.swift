// The interface of all packets of all dialects: their sizes and their encoding.

import Primitives

/// A packet that can be written.
public protocol WirePacket {
    /// The first byte of the packet.
    var typeAndFlags: UInt8 { get }
    /// Bytes after the fixed header.
    var bodyByteCount: Int { get }
    /// Writes exactly ``bodyByteCount`` bytes. Ranges of the packet are within `source`.
    func writeBody(to writer: inout PacketWriter, from source: RawSpan)
}

extension WirePacket {
    /// Bytes of the whole packet.
    @inlinable
    public var encodedByteCount: Int {
        let body = bodyByteCount
        return 1 + VariableInteger.byteCount(body) + body
    }

    /// Writes the whole packet, ``encodedByteCount`` bytes. Ranges of the packet are within
    /// `source`.
    @inlinable
    public func write(
        to writer: inout PacketWriter,
        from source: RawSpan = RawSpan()
    ) {
        writer.write(typeAndFlags: typeAndFlags, bodyByteCount: bodyByteCount)
        writeBody(to: &writer, from: source)
    }
}

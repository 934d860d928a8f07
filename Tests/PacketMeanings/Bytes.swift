// Conversions of packets to bytes and back.

import Primitives

import WireFormat

/// What `body` writes, which must be exactly `count` bytes.
package func bytes(count: Int, _ body: (inout PacketWriter) -> Void) -> [UInt8] {
    var result = [UInt8](repeating: 0xEE, count: count)
    result.withUnsafeMutableBytes { buffer in
        var writer = PacketWriter(buffer.mutableBytes)
        body(&writer)
        precondition(writer.byteCount == count, "\(writer.byteCount) bytes instead of \(count)")
    }
    return result
}

/// A packet's bytes; its ranges are within `source`.
package func encode(_ packet: some WirePacket, _ source: [UInt8] = []) -> [UInt8] {
    bytes(count: packet.encodedByteCount) { writer in
        source.withUnsafeBytes { packet.write(to: &writer, from: $0.bytes) }
    }
}

/// The one packet that `bytes` are.
package func frame(_ bytes: [UInt8]) -> PacketFrame? {
    bytes.withUnsafeBytes { bytes in
        guard
            case .packet(let frame) = PacketFrame.next(in: bytes.bytes, at: 0, packetMaximum: .max),
            frame.byteCount == bytes.count
        else { return nil }
        return frame
    }
}

/// A number as a variable byte integer.
package func varInt(_ value: Int) -> [UInt8] {
    bytes(count: VariableInteger.byteCount(value)) { $0.write(varInt: value) }
}

/// Bytes that look random and are the same in every run (SplitMix64, upper byte).
package struct SeededBytes {
    private var state: UInt64

    package init(seed: UInt64) { state = seed }

    package mutating func next() -> UInt8 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return UInt8(truncatingIfNeeded: (mixed ^ (mixed >> 31)) >> 56)
    }
}

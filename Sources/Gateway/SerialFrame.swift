// Frames on a serial line: the same as in port/serial of the C client. This code knows only bytes.
//
//     frame   COBS( counter, kind, payload, CRC-32 of all before, little-endian ) 00
//
// COBS (Cheshire and Baker 1999) makes 00 occur only at the end of a frame.

/// One complete frame.
package struct SerialFrame: Equatable {
    package enum Kind: UInt8 {
        /// The device begins a connection, and the counters begin again.
        case open = 0
        /// The gateway has accepted it.
        case opened = 1
        case data = 2
        /// The connection has ended.
        case close = 3
    }

    /// The largest payload, so that a device's buffers stay small.
    package static let payloadMaximum = 64
    /// The largest frame on the line, without its 00.
    static let encodedMaximum = 2 + payloadMaximum + 4 + 1

    package var counter: UInt8
    package var kind: Kind
    package var payload: ArraySlice<UInt8>

    /// Decodes the bytes between two 00; nil if they are damaged.
    package init?(encoded: [UInt8]) {
        var frame: [UInt8] = []
        var next = 0
        while next < encoded.count {
            let length = Int(encoded[next])
            guard length > 0, next + length <= encoded.count else { return nil }
            frame += encoded[next + 1..<next + length]
            next += length
            if next < encoded.count { frame.append(0) }
        }
        guard frame.count >= 2 + 4 else { return nil }
        let end = frame.count - 4
        let check = Checksum.bytes(of: frame[..<end])
        guard frame[end...].elementsEqual(check), let kind = Kind(rawValue: frame[1])
        else { return nil }
        counter = frame[0]
        self.kind = kind
        payload = frame[2..<end]
    }

    /// Appends a frame with its final 00.
    package static func append(
        _ kind: Kind, counter: UInt8, _ payload: ArraySlice<UInt8> = [], to line: inout [UInt8]
    ) {
        precondition(
            payload.count <= payloadMaximum,
            "\(payload.count) bytes exceed a frame's \(payloadMaximum)")
        var frame = [counter, kind.rawValue] + payload
        frame += Checksum.bytes(of: frame[...])
        // A frame is shorter than 254 bytes: each block ends with a 00 that is removed, or with the
        // frame.
        var block = line.count
        line.append(0)
        for byte in frame {
            if byte == 0 {
                line[block] = UInt8(line.count - block)
                block = line.count
            }
            line.append(byte)
        }
        line[block] = UInt8(line.count - block)
        line.append(0)
    }
}

enum Checksum {
    /// The checksum in its encoding: little-endian.
    static func bytes(of bytes: ArraySlice<UInt8>) -> [UInt8] {
        let check = crc32(bytes)
        return (0..<4).map { UInt8(truncatingIfNeeded: check >> (8 * $0)) }
    }

    /// CRC-32 of IEEE 802.3, bit by bit: a serial line carries a few kilobytes a second.
    static func crc32(_ bytes: ArraySlice<UInt8>) -> UInt32 {
        var remainder = UInt32.max
        for byte in bytes {
            remainder ^= UInt32(byte)
            for _ in 0..<8 {
                remainder = remainder >> 1 ^ (remainder & 1 == 0 ? 0 : 0xEDB8_8320)
            }
        }
        return ~remainder
    }
}

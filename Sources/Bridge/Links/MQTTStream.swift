// Divides the stream of a broker into packets. For a packet that is too large it returns the head,
// which identifies it, and skips the rest.

import Primitives
import WireFormat

struct MQTTStream {
    enum Step {
        case incomplete
        case packet(PacketFrame, body: [UInt8])
        /// The first bytes of the body: topic and packet identifier of a publication.
        case oversized(PacketFrame, head: [UInt8])
    }

    private var pending: [UInt8] = []
    private var offset = 0
    /// Bytes of a packet that remain to be skipped.
    private var skipped = 0

    mutating func append(_ bytes: UnsafeRawBufferPointer) {
        if offset > 0 {
            pending.removeFirst(offset)
            offset = 0
        }
        let passed = min(skipped, bytes.count)
        skipped -= passed
        pending += bytes[passed...]
    }

    mutating func next(packetMaximum: Int) throws(WireError) -> Step {
        let start = offset
        let result = pending.withUnsafeBytes {
            PacketFrame.next(in: $0.bytes, at: start, packetMaximum: packetMaximum)
        }
        switch result {
        case .incomplete: return .incomplete
        case .malformed: throw .malformed
        case .packet(let frame):
            offset = frame.endOffset
            return .packet(frame, body: Array(pending[Int(frame.body.offset)..<frame.endOffset]))
        case .tooLarge(let byteCount): return try pass(byteCount)
        }
    }

    private mutating func pass(_ byteCount: Int) throws(WireError) -> Step {
        // Reads the fixed header again, without a limit of the size.
        var header = 1
        while pending[offset + header] & 0x80 != 0 { header += 1 }
        header += 1
        let body = pending[(offset + header)...]
        guard body.count >= 2 else { return .incomplete }
        let headByteCount =
            2 + (Int(body[body.startIndex]) << 8 | Int(body[body.startIndex + 1]))
            + 2
        guard header + headByteCount <= byteCount else { throw .malformed }
        guard body.count >= headByteCount else { return .incomplete }
        let frame = PacketFrame(
            typeAndFlags: pending[offset], headerByteCount: UInt8(header),
            body: ByteRange(offset: offset + header, count: byteCount - header))
        let head = Array(body.prefix(headByteCount))
        let there = min(byteCount, pending.count - offset)
        offset += there
        skipped = byteCount - there
        return .oversized(frame, head: head)
    }
}

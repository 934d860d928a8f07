// The messages of a JSON connection: frames of text, which the transport shows with their lengths.
// The packet that has the meaning of a message is written over it.
//
//     shown:   | length, 4 bytes, little-endian; the top bit: last frame of the message | text | …

import BrokerTerms
import Primitives
import WireFormat

extension PacketDecoder {
    /// A part of the stream of a JSON connection.
    enum JSONFraming {
        /// The packet of a message, and where the next message begins.
        case packet(PacketFrame, endOffset: Int)
        /// So many bytes are needed, from the start of the message.
        case incomplete(Int)
        case fault(JSONFault)
    }

    /// Finds the next message at `offset`, and replaces it by its packet.
    ///
    /// - Parameter random: a new number for a client of LeanMessage.
    func nextMessage(
        in arena: UnsafeMutableRawBufferPointer, at offset: Int, packetMaximum: Int,
        from connection: ConnectionID, random: UInt64
    ) -> JSONFraming {
        // Joins the frames of the message behind the length of the first one.
        let start = offset + FramedText.headerByteCount
        let messageMaximum = packetMaximum - JSONLimits.framingByteCountMaximum
        var (end, next) = (start, offset)
        var fragmentCount = 0
        while true {
            guard arena.count - next >= FramedText.headerByteCount else {
                return .incomplete(next - offset + FramedText.headerByteCount)
            }
            let header = FramedText(
                arena.loadUnaligned(fromByteOffset: next, as: UInt32.self).littleEndian)
            let content = next + FramedText.headerByteCount
            if end - start + header.byteCount > messageMaximum {
                return .fault(
                    JSONFault(reason: .packetTooLarge, detail: "the message is too large"))
            }
            guard arena.count - content >= header.byteCount else {
                return .incomplete(content - offset + header.byteCount)
            }
            fragmentCount += 1
            guard header.isLast || fragmentCount < JSONLimits.fragmentCountMaximum else {
                return .fault(
                    JSONFault(reason: .packetTooLarge, detail: "the message has too many frames"))
            }
            end += header.byteCount
            next = content + header.byteCount
            if header.isLast { break }
        }
        if fragmentCount > 1 { join(arena, from: offset) }
        do throws(JSONFault) {
            let packet = try packet(
                of: UnsafeRawBufferPointer(rebasing: arena[start..<end]).bytes, from: connection,
                random: random)
            return place(packet, in: arena, at: offset, room: next - offset)
        } catch {
            return .fault(error)
        }
    }

    /// The packet of a message.
    private func packet(
        of text: RawSpan, from connection: ConnectionID, random: UInt64
    ) throws(JSONFault) -> [UInt8] {
        guard conversations[connection]?.jsonForm == .leanMessage else {
            return try JSONPacketReader.packet(
                of: text, hasActingUser: conversations.actingUsers[connection] != nil)
        }
        let packet = try JSONPacketReader.packet(
            ofLeanMessage: text, random: random)
        guard packet.count <= text.byteCount + FramedText.headerByteCount else {
            throw JSONFault(reason: .malformedPacket, detail: "the message is too short")
        }
        return packet
    }

    /// Moves the content of a message's frames together, behind the first length.
    private func join(_ arena: UnsafeMutableRawBufferPointer, from offset: Int) {
        var (end, next) = (offset + FramedText.headerByteCount, offset)
        while true {
            let header = FramedText(
                arena.loadUnaligned(fromByteOffset: next, as: UInt32.self).littleEndian)
            let content = next + FramedText.headerByteCount
            let bytes = UnsafeRawBufferPointer(
                rebasing: arena[content..<content + header.byteCount])
            next = content + header.byteCount
            // The content moves down, over lengths that have been read.
            UnsafeMutableRawBufferPointer(rebasing: arena[end..<end + header.byteCount])
                .copyMemory(from: bytes)
            end += header.byteCount
            if header.isLast { return }
        }
    }

    /// Writes a packet over the message that it was read from. It is shorter: the name of each
    /// field in JSON has more bytes than the field has beside its content.
    private func place(
        _ packet: [UInt8], in arena: UnsafeMutableRawBufferPointer, at offset: Int, room: Int
    ) -> JSONFraming {
        precondition(
            packet.count <= room, "a packet of \(packet.count) bytes for a message of \(room)")
        packet.withUnsafeBytes {
            UnsafeMutableRawBufferPointer(rebasing: arena[offset...]).copyMemory(from: $0)
        }
        guard
            case .packet(let frame) = PacketFrame.next(
                in: UnsafeRawBufferPointer(arena).bytes, at: offset, packetMaximum: .max)
        else {
            preconditionFailure("the \(packet.count) bytes of a message's packet are incomplete")
        }
        return .packet(frame, endOffset: offset + room)
    }

    /// The packets of the messages in the bytes of a JSON socket, each with the offset behind its
    /// message, up to the first that is incomplete or has a fault. For a trace: decoding them again
    /// does not change the bytes.
    public func packets(
        ofMessages bytes: RawSpan, from connection: ConnectionID
    ) -> [(packet: [UInt8], endOffset: Int)] {
        var copy = bytes.withUnsafeBytes { Array($0) }
        return copy.withUnsafeMutableBytes { arena in
            var packets: [(packet: [UInt8], endOffset: Int)] = []
            var offset = 0
            while case .packet(let frame, let endOffset) = nextMessage(
                in: arena, at: offset, packetMaximum: packetMaximum, from: connection, random: 0)
            {
                packets.append((Array(arena[offset..<frame.endOffset]), endOffset))
                offset = endOffset
            }
            return packets
        }
    }

    /// Tells a client what is wrong with its message.
    mutating func explain(
        _ fault: JSONFault, to connection: ConnectionID,
        in context: inout some DecodingContext & ~Copyable
    ) {
        let isLean = conversations[connection]?.jsonForm == .leanMessage
        var writer = isLean ? LeanMessageText.begin("ERROR") : JSONMessage.begin("error")
        writer.write(isLean ? "reason" : "detail", fault.detail)
        if !fault.member.isEmpty { writer.write("member", fault.member.span.bytes) }
        JSONMessage.send(writer, to: connection, in: conversations, through: &context)
    }
}

/// The length of a frame of text, as the transport shows it.
public struct FramedText {
    /// Bytes of the length.
    public static let headerByteCount = 4

    /// Bytes of the frame's text.
    public let byteCount: Int
    /// Whether it is the last frame of its message.
    public let isLast: Bool

    public init(_ word: UInt32) {
        byteCount = Int(word & ~WebSocketFrame.lastFrameMark)
        isLast = word & WebSocketFrame.lastFrameMark != 0
    }
}

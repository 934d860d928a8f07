// The client's half of MQTT 3.1.1, as little of it as a load needs, so that other brokers can be
// given the same load. It checks nothing that its own accounting would not notice.

import NetTransport
import Primitives
import WireFormat

enum MQTTCodec {
    /// The types of section 2.2.1 that a load meets, with the flags that go with them.
    private enum FirstByte {
        static let connect: UInt8 = 0x10
        static let publish: UInt8 = 0x30
        static let publishAcknowledgement: UInt8 = 0x40
        static let subscribe: UInt8 = 0x82
    }

    static func writeConnect(
        _ identity: ClientIdentity, to connection: ConnectionID, in loop: inout EventLoop
    ) {
        let isClean = identity.expirySeconds == 0
        let fields = [identity.name] + [identity.user, identity.password].compactMap { $0 }
        let bodyByteCount = 10 + fields.reduce(0) { $0 + 2 + $1.count }
        writePacket(FirstByte.connect, bodyByteCount, to: connection, in: &loop) { writer in
            write(string: Array("MQTT".utf8), to: &writer)
            writer.write(byte: 4)
            writer.write(
                byte: (isClean ? 0x02 : 0) | (identity.user == nil ? 0 : 0x80)
                    | (identity.password == nil ? 0 : 0x40))
            // No keep-alive: a run is short, and pings would be traffic of their own.
            writer.write(uint16: 0)
            for field in fields { write(string: field, to: &writer) }
        }
    }

    static func writeSubscribe(
        _ topic: [UInt8], qos: UInt8, to connection: ConnectionID, in loop: inout EventLoop
    ) {
        writePacket(FirstByte.subscribe, 5 + topic.count, to: connection, in: &loop) { writer in
            writer.write(uint16: 1)
            write(string: topic, to: &writer)
            writer.write(byte: qos)
        }
    }

    /// `source` holds the topic and, behind it, the payload.
    ///
    /// - Parameter number: 0 for QoS 0; else it gives the packet identifier.
    @inline(__always)
    static func writePublish(
        topicByteCount: Int, number: UInt64, _ source: UnsafeRawBufferPointer,
        to connection: ConnectionID, in loop: inout EventLoop
    ) {
        let isNumbered = number > 0
        writePacket(
            FirstByte.publish | (isNumbered ? 0x02 : 0), source.count + (isNumbered ? 4 : 2),
            to: connection, in: &loop
        ) { writer in
            writer.write(uint16: UInt16(topicByteCount))
            writer.write(bytes: UnsafeRawBufferPointer(rebasing: source[..<topicByteCount]))
            if isNumbered { writer.write(uint16: packetIdentifier(of: number)) }
            writer.write(bytes: UnsafeRawBufferPointer(rebasing: source[topicByteCount...]))
        }
    }

    static func writeAcknowledgement(
        of packetIdentifier: UInt64, to connection: ConnectionID, in loop: inout EventLoop
    ) {
        writePacket(FirstByte.publishAcknowledgement, 2, to: connection, in: &loop) { writer in
            writer.write(uint16: UInt16(packetIdentifier))
        }
    }

    /// Numbers from 1, as packet identifiers: they come round long after their window is gone.
    static func packetIdentifier(of number: UInt64) -> UInt16 {
        UInt16((number - 1) % 65_535 + 1)
    }

    static func read(_ frame: PacketFrame, in bytes: UnsafeRawBufferPointer) -> Incoming {
        let body = frame.body.bytes(in: bytes)
        switch frame.type {
        case 2 where body.count == 2:
            return body[1] == 0 ? .connected : .refused(code: body[1])
        case 3:
            return publication(frame, body)
        case 4 where body.count == 2:
            return .confirmed(number: UInt64(uint16(body, at: 0)))
        case 9 where body.count == 3:
            return body[2] < 0x80 ? .subscribed : .refused(code: body[2])
        case 13:
            return .ignored
        default:
            return .malformed
        }
    }

    private static func publication(
        _ frame: PacketFrame, _ body: UnsafeRawBufferPointer
    ) -> Incoming {
        guard body.count >= 2 else { return .malformed }
        var offset = 2 + Int(uint16(body, at: 0))
        var identifier: UInt64 = 0
        if frame.flags & 0x06 != 0 {
            guard body.count >= offset + 2 else { return .malformed }
            identifier = UInt64(uint16(body, at: offset))
            offset += 2
        }
        guard body.count >= offset else { return .malformed }
        return .delivery(
            payload: ByteRange(
                offset: Int(frame.body.offset) + offset, count: body.count - offset),
            acknowledgement: identifier)
    }

    // MARK: - Pieces

    private static func uint16(_ bytes: UnsafeRawBufferPointer, at offset: Int) -> UInt16 {
        UInt16(bigEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt16.self))
    }

    private static func write(string: [UInt8], to writer: inout PacketWriter) {
        writer.write(uint16: UInt16(string.count))
        string.withUnsafeBytes { writer.write(bytes: $0) }
    }

    @inline(__always)
    private static func writePacket(
        _ first: UInt8, _ bodyByteCount: Int, to connection: ConnectionID,
        in loop: inout EventLoop, _ body: (inout PacketWriter) -> Void
    ) {
        let length = VariableInteger.byteCount(UInt64(bodyByteCount))
        loop.write(1 + length + bodyByteCount, to: connection) { writer in
            writer.write(typeAndFlags: first, bodyByteCount: bodyByteCount)
            body(&writer)
        }
    }
}

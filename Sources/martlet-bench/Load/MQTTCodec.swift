// The client's half of MQTT 3.1.1 and 5.0, as far as a load needs it, so that any broker can get
// the same load. WireFormat encodes connects and subscriptions; publications and their
// acknowledgements, of which there are millions, are encoded and decoded here. It checks only what
// the load's own accounting would not detect.

import BrokerTerms
import NetTransport
import Primitives
import WireFormat

struct MQTTCodec {
    let version: MQTT.Version
    /// Whether packets are in frames of WebSocket.
    var isFramed = false

    /// First bytes of the packets that are written here (section 2.1.3 of MQTT 5.0).
    private enum FirstByte {
        static let publish: UInt8 = 0x30
        static let puback: UInt8 = 0x40
        static let pubrec: UInt8 = 0x50
        static let pubrel: UInt8 = 0x62
        static let pubcomp: UInt8 = 0x70
    }

    // MARK: - Connecting

    func writeConnect(
        _ identity: ClientIdentity, to connection: ConnectionID, in loop: inout EventLoop
    ) {
        var source: [UInt8] = []
        func place(_ bytes: some Collection<UInt8>) -> ByteRange {
            source += bytes
            return ByteRange(offset: source.count - bytes.count, count: bytes.count)
        }
        // The keep-alive is 0: a run is short, and pings would be additional traffic.
        var packet = MQTT.Connect(version)
        packet.isCleanStart = identity.expirySeconds == 0
        packet.sessionExpirySeconds = version == .v5 ? identity.expirySeconds : 0
        packet.clientIdentifier = place(identity.name)
        if let will = identity.will {
            packet.will = MQTT.Will(
                topic: place(will.address), payload: place(will.payload),
                qos: MQTT.QoS(rawValue: identity.willQoS)!)
        }
        packet.userName = identity.user.map { place($0) }
        packet.password = identity.password.map { place($0) }
        write(packet, from: source, to: connection, in: &loop)
    }

    func writeSubscribe(
        _ topic: [UInt8], qos: UInt8, to connection: ConnectionID, in loop: inout EventLoop
    ) {
        let source = [UInt8(topic.count >> 8), UInt8(topic.count & 0xFF)] + topic + [qos]
        let packet = MQTT.Subscribe(
            version, 1, subscriptions: ByteRange(offset: 0, count: source.count), count: 1)
        write(packet, from: source, to: connection, in: &loop)
    }

    func writeDisconnect(to connection: ConnectionID, in loop: inout EventLoop) {
        write(MQTT.Disconnect(version), from: [], to: connection, in: &loop)
    }

    // MARK: - Messages

    /// `source` contains the topic and, after it, the payload.
    ///
    /// - Parameter number: 0 for QoS 0; otherwise it determines the packet identifier.
    @inline(__always)
    func writePublish(
        topicByteCount: Int, qos: UInt8, number: UInt64, _ source: UnsafeRawBufferPointer,
        to connection: ConnectionID, in loop: inout EventLoop
    ) {
        // In 5.0 one more byte: no properties.
        let extra = (number > 0 ? 4 : 2) + (version == .v5 ? 1 : 0)
        let bodyByteCount = source.count + extra
        let length = VariableInteger.byteCount(UInt64(bodyByteCount))
        write(1 + length + bodyByteCount, to: connection, in: &loop) { writer in
            writer.write(
                typeAndFlags: FirstByte.publish | qos << 1, bodyByteCount: bodyByteCount)
            writer.write(uint16: UInt16(topicByteCount))
            writer.write(bytes: UnsafeRawBufferPointer(rebasing: source[..<topicByteCount]).bytes)
            if number > 0 { writer.write(uint16: MQTTCodec.packetIdentifier(of: number)) }
            if version == .v5 { writer.write(byte: 0) }
            writer.write(bytes: UnsafeRawBufferPointer(rebasing: source[topicByteCount...]).bytes)
        }
    }

    /// PUBACK to a delivery of QoS 1, PUBREC to one of QoS 2.
    func acknowledge(
        _ identifier: UInt64, qos: UInt8, to connection: ConnectionID, in loop: inout EventLoop
    ) {
        writeStep(
            qos == 1 ? FirstByte.puback : FirstByte.pubrec, UInt16(identifier), to: connection,
            in: &loop)
    }

    /// PUBREL, the sender's second packet of QoS 2.
    func release(
        _ identifier: UInt16, to connection: ConnectionID, in loop: inout EventLoop
    ) {
        writeStep(FirstByte.pubrel, identifier, to: connection, in: &loop)
    }

    /// PUBCOMP, the receiver's second packet of QoS 2.
    func complete(
        _ identifier: UInt16, to connection: ConnectionID, in loop: inout EventLoop
    ) {
        writeStep(FirstByte.pubcomp, identifier, to: connection, in: &loop)
    }

    private func writeStep(
        _ first: UInt8, _ identifier: UInt16, to connection: ConnectionID,
        in loop: inout EventLoop
    ) {
        write(4, to: connection, in: &loop) { writer in
            writer.write(typeAndFlags: first, bodyByteCount: 2)
            writer.write(uint16: identifier)
        }
    }

    private func write(
        _ packet: some WirePacket, from source: [UInt8], to connection: ConnectionID,
        in loop: inout EventLoop
    ) {
        source.withUnsafeBytes { source in
            write(packet.encodedByteCount, to: connection, in: &loop) {
                packet.write(to: &$0, from: source.bytes)
            }
        }
    }

    /// Writes one packet, over WebSocket in a frame of its own.
    @inline(__always)
    private func write(
        _ byteCount: Int, to connection: ConnectionID, in loop: inout EventLoop,
        _ body: (inout PacketWriter) -> Void
    ) {
        guard isFramed else {
            loop.write(byteCount, to: connection, body)
            return
        }
        let header = WebSocketClient.headerByteCount(of: byteCount)
        loop.write(header + byteCount, to: connection) { writer in
            WebSocketClient.writeHeader(of: byteCount, to: &writer)
            body(&writer)
        }
    }

    /// Numbers from 1, as packet identifiers: they repeat long after their window has passed.
    static func packetIdentifier(of number: UInt64) -> UInt16 {
        UInt16((number - 1) % 65_535 + 1)
    }

    // MARK: - From the broker

    func read(_ frame: PacketFrame, in bytes: UnsafeRawBufferPointer) -> Incoming {
        let body = frame.body.bytes(in: bytes)
        switch frame.type {
        case 3: return publication(frame, body)
        case 4 where body.count >= 2, 7 where body.count >= 2:
            return confirmation(body)
        case 5 where body.count >= 2:
            let isRefused = body.count > 2 && body[2] >= 0x80
            return isRefused
                ? confirmation(body) : .releaseWanted(identifier: uint16(body, at: 0))
        case 6 where body.count >= 2: return .released(identifier: uint16(body, at: 0))
        case 13: return .ignored
        default: return coldPacket(frame, body)
        }
    }

    /// PUBACK and PUBCOMP, and a refusing PUBREC; in 5.0 with a reason.
    private func confirmation(_ body: UnsafeRawBufferPointer) -> Incoming {
        let number = UInt64(uint16(body, at: 0))
        return body.count > 2 && body[2] >= 0x80
            ? .sendRefused(number: number, code: body[2]) : .confirmed(number: number)
    }

    private func publication(
        _ frame: PacketFrame, _ body: UnsafeRawBufferPointer
    ) -> Incoming {
        guard body.count >= 2 else { return .malformed }
        var offset = 2 + Int(uint16(body, at: 0))
        var identifier: UInt64 = 0
        let qos = frame.flags >> 1 & 0x03
        if qos > 0 {
            guard body.count >= offset + 2 else { return .malformed }
            identifier = UInt64(uint16(body, at: offset))
            offset += 2
        }
        if version == .v5 {
            // Properties of any kind: their length, and as many bytes.
            var length = 0
            var shift = 0
            repeat {
                guard offset < body.count, shift <= 21 else { return .malformed }
                length |= Int(body[offset] & 0x7F) << shift
                shift += 7
                offset += 1
            } while body[offset - 1] >= 0x80
            offset += length
        }
        guard body.count >= offset else { return .malformed }
        return .delivery(
            payload: ByteRange(
                offset: Int(frame.body.offset) + offset, count: body.count - offset),
            acknowledgement: identifier, qos: qos)
    }

    private func coldPacket(_ frame: PacketFrame, _ body: UnsafeRawBufferPointer) -> Incoming {
        do throws(WireError) {
            switch try MQTT.PacketType(frame, version, from: .broker) {
            case .connack:
                let packet = try MQTT.Connack(version, body: body.bytes)
                return packet.reason.isFailure
                    ? .refused(code: packet.reason.rawValue)
                    : .connected(sendsMaximum: packet.receiveMaximum)
            case .suback:
                let packet = try MQTT.Suback(version, body: body.bytes)
                guard let code = packet.codes.bytes(in: body).first else { return .malformed }
                return code < 0x80 ? .granted(content: .empty) : .refused(code: code)
            case .disconnect:
                return .disconnected(code: body.first ?? 0)
            case .connect, .publish, .puback, .pubrec, .pubrel, .pubcomp, .subscribe,
                .unsubscribe, .unsuback, .pingreq, .pingresp, .auth:
                return .malformed
            }
        } catch {
            return .malformed
        }
    }

    private func uint16(_ bytes: UnsafeRawBufferPointer, at offset: Int) -> UInt16 {
        UInt16(bigEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt16.self))
    }
}

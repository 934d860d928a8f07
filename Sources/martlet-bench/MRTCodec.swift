// The client's half of MRT, as little of it as a load needs. The packets themselves are
// WireFormat's.

import NetTransport
import Primitives
import WireFormat

enum MRTCodec {
    static func writeConnect(
        _ identity: ClientIdentity, to connection: ConnectionID, in loop: inout EventLoop
    ) {
        var source = identity.name
        var packet = MRT.Connect()
        packet.isCleanStart = identity.expirySeconds == 0
        packet.inboxWindow = identity.inboxWindow
        packet.device = ByteRange(offset: 0, count: source.count)
        packet.sessionExpirySeconds = identity.expirySeconds
        if let token = identity.password {
            packet.credential = .token(ByteRange(offset: source.count, count: token.count))
            source += token
        }
        if identity.isNumbered {
            packet.outbox = MRT.Outbox(
                epoch: UInt64.random(in: 1...UInt64.max), resultsSeen: 0, highestUsed: 0)
        }
        source.withUnsafeBytes { source in
            loop.write(packet.encodedByteCount, to: connection) { writer in
                packet.write(to: &writer, from: source)
            }
        }
    }

    static func writeSubscribe(
        _ topic: [UInt8], grade: MRT.Grade, to connection: ConnectionID, in loop: inout EventLoop
    ) {
        let filter = ByteRange(offset: 0, count: topic.count)
        let packet = MRT.OutgoingRequest(
            identifier: 1, operation: .subscribe,
            part: MRT.Subscribe(highestGrade: grade, filter: filter))
        topic.withUnsafeBytes { source in
            loop.write(packet.encodedByteCount, to: connection) { writer in
                packet.write(to: &writer, from: source)
            }
        }
    }

    /// `source` holds the address and, behind it, the payload.
    ///
    /// - Parameter number: 0 for a transient send.
    static func writeSend(
        addressByteCount: Int, isUser: Bool, grade: MRT.Grade, number: UInt64,
        _ source: UnsafeRawBufferPointer, to connection: ConnectionID, in loop: inout EventLoop
    ) {
        let address = ByteRange(offset: 0, count: addressByteCount)
        var packet = MRT.Send(
            grade: grade, number: number, target: isUser ? .user(address) : .topic(address),
            payload: ByteRange(
                offset: addressByteCount, count: source.count - addressByteCount))
        packet.isRaw = !isUser
        loop.write(packet.encodedByteCount, to: connection) { writer in
            packet.write(to: &writer, from: source)
        }
    }

    /// Acknowledges deliveries and results, each up to a number; 0 where there is nothing to say.
    static func writeAck(
        inbox: UInt64, resultsSeen: UInt64, to connection: ConnectionID, in loop: inout EventLoop
    ) {
        let packet = MRT.Ack(inboxNumber: inbox, resultsSeen: resultsSeen)
        loop.write(packet.encodedByteCount, to: connection) { packet.write(to: &$0) }
    }

    static func read(_ frame: PacketFrame, in bytes: UnsafeRawBufferPointer) -> Incoming {
        do throws(WireError) {
            return try decode(frame, frame.body.bytes(in: bytes), at: Int(frame.body.offset))
        } catch {
            return .malformed
        }
    }

    private static func decode(
        _ frame: PacketFrame, _ body: UnsafeRawBufferPointer, at base: Int
    ) throws(WireError) -> Incoming {
        switch try MRT.PacketType(frame, from: .broker) {
        case .deliver:
            let packet = try MRT.Deliver(flags: frame.flags, body: body)
            return .delivery(
                payload: payload(of: packet).shifted(by: base), acknowledgement: packet.number)
        case .result:
            let packet = try MRT.SendResult(flags: frame.flags, body: body)
            return packet.reason == .sent
                ? .confirmed(number: packet.number)
                : .sendRefused(number: packet.number, code: packet.reason.rawValue)
        case .connack:
            switch try MRT.Connack(body: body) {
            case .accepted: return .connected
            case .refused(let refusal): return .refused(code: refusal.reason.rawValue)
            }
        case .response:
            let packet = try MRT.Response(body: body)
            return packet.reason == .success
                ? .subscribed : .refused(code: packet.reason.rawValue)
        case .disconnect:
            return .disconnected(code: body.first ?? 0)
        case .pingResponse:
            return .ignored
        case .connect, .send, .ack, .request, .channel, .pingRequest, .auth:
            throw .protocolError
        }
    }

    /// A text message's payload begins behind its type.
    private static func payload(of packet: MRT.Deliver) -> ByteRange {
        packet.isRaw
            ? packet.payload
            : ByteRange(
                offset: Int(packet.payload.offset) + 1, count: Int(packet.payload.count) - 1)
    }
}

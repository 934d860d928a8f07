// The client's half of MRT, as far as a load needs it. WireFormat encodes the packets.

import BrokerTerms
import NetTransport
import Primitives
import WireFormat

enum MRTCodec {
    // MARK: - Connecting

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
        if let used = identity.numbersUsed {
            packet.outbox = MRT.Outbox(
                epoch: UInt64.random(in: 1...UInt64.max), resultsSeen: used, highestUsed: used)
        }
        loop.write(packet, from: source, to: connection)
    }

    static func writeSubscribe(
        _ topic: [UInt8], grade: MRT.Grade, to connection: ConnectionID, in loop: inout EventLoop
    ) {
        let filter = ByteRange(offset: 0, count: topic.count)
        let part = MRT.Subscribe(highestGrade: grade, filter: filter)
        write(.subscribe, part, from: topic, to: connection, in: &loop)
    }

    /// Requests a group that everybody may join; its id is the content of the answer.
    static func writeGroupCreate(to connection: ConnectionID, in loop: inout EventLoop) {
        let title = Array("martlet-bench".utf8)
        let part = MRT.GroupCreate(
            key: UInt64.random(in: 0...UInt64.max),
            title: ByteRange(offset: 0, count: title.count), meta: .empty, allowList: .everybody)
        write(.groupCreate, part, from: title, to: connection, in: &loop)
    }

    static func writeGroupJoin(
        _ group: [UInt8], to connection: ConnectionID, in loop: inout EventLoop
    ) {
        let part = MRT.GroupName(group: ByteRange(offset: 0, count: group.count))
        write(.groupJoin, part, from: group, to: connection, in: &loop)
    }

    static func writeWill(
        _ will: OutgoingSource, to connection: ConnectionID, in loop: inout EventLoop
    ) {
        let bytes = Array(will.bytes)
        let part = MRT.Will(
            delaySeconds: 0,
            target: will.target, isRaw: will.isRaw,
            payload: ByteRange(
                offset: will.addressByteCount, count: bytes.count - will.addressByteCount))
        write(.setWill, part, from: bytes, to: connection, in: &loop)
    }

    private static func write(
        _ operation: MRT.Operation, _ part: some RequestPart, from source: [UInt8],
        to connection: ConnectionID, in loop: inout EventLoop
    ) {
        loop.write(
            MRT.OutgoingRequest(identifier: 1, operation: operation, part: part), from: source,
            to: connection)
    }

    static func writeDisconnect(to connection: ConnectionID, in loop: inout EventLoop) {
        loop.write(MRT.ClientDisconnect(), to: connection)
    }

    // MARK: - Messages

    /// - Parameters:
    ///   - number: 0 for a transient send.
    ///   - isKept: whether it is kept in history.
    @inline(__always)
    static func writeSend(
        _ source: OutgoingSource, grade: MRT.Grade, number: UInt64, isKept: Bool,
        to connection: ConnectionID, in loop: inout EventLoop
    ) {
        var packet = MRT.Send(
            grade: grade, number: number, target: source.target,
            payload: ByteRange(
                offset: source.addressByteCount,
                count: source.bytes.count - source.addressByteCount))
        packet.isRaw = source.isRaw
        packet.isKept = isKept
        loop.write(packet.encodedByteCount, to: connection) { writer in
            packet.write(to: &writer, from: UnsafeRawBufferPointer(source.bytes).bytes)
        }
    }

    /// Acknowledges deliveries and results, each up to a number; 0 for nothing to acknowledge.
    static func writeAck(
        inbox: UInt64, resultsSeen: UInt64, to connection: ConnectionID, in loop: inout EventLoop
    ) {
        let packet = MRT.Ack(inboxNumber: inbox, resultsSeen: resultsSeen)
        loop.write(packet.encodedByteCount, to: connection) { packet.write(to: &$0) }
    }

    // MARK: - From the broker

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
            let packet = try MRT.Deliver(flags: frame.flags, body: body.bytes)
            switch packet.kind {
            case .topic, .unicast, .group, .broadcast:
                return .delivery(
                    payload: payload(of: packet).shifted(by: base),
                    acknowledgement: packet.number, qos: packet.grade.rawValue)
            case .kickedOut, .groupEvent, .presence, .receipt, .recall, .update, .brokerEvent:
                return .notice(acknowledgement: packet.number)
            }
        case .result:
            let packet = try MRT.SendResult(flags: frame.flags, body: body.bytes)
            return packet.reason == .sent
                ? .confirmed(number: packet.number)
                : .sendRefused(number: packet.number, code: packet.reason.rawValue)
        case .connack:
            switch try MRT.Connack(body: body.bytes) {
            case .accepted: return .connected(sendsMaximum: .max)
            case .refused(let refusal): return .refused(code: refusal.reason.rawValue)
            }
        case .response:
            let packet = try MRT.Response(body: body.bytes)
            return packet.reason == .success
                ? .granted(content: packet.content.shifted(by: base))
                : .refused(code: packet.reason.rawValue)
        case .disconnect:
            return .disconnected(code: body.first ?? 0)
        case .pingResponse:
            return .ignored
        case .connect, .send, .ack, .request, .channel, .pingRequest, .auth:
            throw .protocolError
        }
    }

    /// The payload of a text message begins after its type.
    private static func payload(of packet: MRT.Deliver) -> ByteRange {
        packet.isRaw
            ? packet.payload
            : ByteRange(
                offset: Int(packet.payload.offset) + 1, count: Int(packet.payload.count) - 1)
    }
}

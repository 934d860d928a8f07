// The connection of one device, as far as the gateway processes it: the ends of packets, the
// packets that a device may send, the CONNECT that the gateway writes in the device's place, and
// the keep-alive. Device and broker interpret the content of all other packets.

import BrokerTerms
import Primitives
import WireFormat

/// The identity of the device on a line. Only the gateway's options determine it; a device cannot.
struct LineIdentity: Hashable {
    let user: [UInt8]
    let device: [UInt8]
}

/// The reason why a device's packet is not passed to the broker.
struct DeviceFault: Error {
    let reason: ReasonCode

    /// Decodes a device's bytes. An error is the device's fault.
    static func read<Value>(
        _ bytes: [UInt8], _ decode: (UnsafeRawBufferPointer) throws(WireError) -> Value
    ) throws(DeviceFault) -> Value {
        let result = bytes.withUnsafeBytes { bytes in
            Result { () throws(WireError) in try decode(bytes) }
        }
        switch result {
        case .success(let value): return value
        case .failure(let error): throw DeviceFault(reason: error.reason)
        }
    }
}

/// The stream of one device, packet by packet. Every call is valid in every phase, for any bytes.
struct NodeConversation {
    enum Phase: CaseIterable {
        /// Only CONNECT is allowed.
        case idle
        /// CONNECT was sent to the broker. Further packets wait.
        case asked
        case open
        /// The broker has ended the connection. A CONNECT begins another; other packets were sent
        /// before the device knew of the end.
        case ended
    }

    private(set) var phase = Phase.idle
    /// Whether the device has authenticated with a credential of its own.
    private var hasOwnCredential = false
    /// Bytes of the device that were not passed on.
    private var pending: [UInt8] = []
    /// 0 if the device requested none.
    private(set) var silenceMillisecondsMaximum: UInt64 = 0

    /// How to treat the device's next packet.
    enum Step: Equatable {
        /// Pass it to the broker.
        case packet([UInt8])
        /// A CONNECT that cannot be passed to the broker yet.
        case waiting
        /// The device violates the protocol: its connection ends with this reason.
        case refused(ReasonCode)
    }

    mutating func append(_ bytes: ArraySlice<UInt8>) { pending += bytes }

    /// Whether more of the device's bytes may be appended: bytes that cannot be passed on yet are
    /// limited, and otherwise less than a packet remains.
    func takesMore(isConnectHeld: Bool) -> Bool {
        let isHeld = phase == .asked || isConnectHeld && phase != .open
        return !isHeld || pending.count < GatewayLimits.pendingMaximum
    }

    /// The next complete packet; nil if there is none, or it must wait for CONNACK.
    ///
    /// - Parameter holdsConnect: whether a CONNECT must wait.
    mutating func next(
        as identity: LineIdentity, packetMaximum: Int, holdsConnect: Bool = false
    ) -> Step? {
        while phase != .asked {
            let result = pending.withUnsafeBytes {
                PacketFrame.next(in: $0.bytes, at: 0, packetMaximum: packetMaximum)
            }
            switch result {
            case .incomplete: return nil
            case .malformed: return .refused(.malformedPacket)
            case .tooLarge: return .refused(.packetTooLarge)
            case .packet(let frame):
                let isConnect = frame.type == MRT.PacketType.connect.rawValue
                if isConnect, phase != .open, holdsConnect { return .waiting }
                let packet = Array(pending[..<frame.endOffset])
                pending.removeFirst(frame.endOffset)
                if phase == .ended, !isConnect { continue }
                do throws(DeviceFault) {
                    return .packet(
                        try forwarded(
                            frame, packet: packet, identity: identity, packetMaximum: packetMaximum)
                    )
                } catch {
                    return .refused(error.reason)
                }
            }
        }
        return nil
    }

    /// The packet for the broker in place of a device's packet. This is the complete list of
    /// packets that a device may send through a gateway.
    private mutating func forwarded(
        _ frame: PacketFrame, packet: [UInt8], identity: LineIdentity, packetMaximum: Int
    ) throws(DeviceFault) -> [UInt8] {
        let body = Array(packet[Int(frame.body.offset)...])
        let type = try DeviceFault.read(packet) { _ throws(WireError) in
            try MRT.PacketType(frame, from: .client)
        }
        switch type {
        case .connect:
            guard phase != .open else { throw DeviceFault(reason: .protocolError) }
            return try connect(body, identity: identity, packetMaximum: packetMaximum)
        case .send, .ack, .request, .pingRequest, .disconnect:
            guard phase == .open else { throw DeviceFault(reason: .protocolError) }
            return packet
        case .auth:
            guard phase == .open else { throw DeviceFault(reason: .protocolError) }
            guard try isOwnCredential(body) else {
                throw DeviceFault(reason: .badAuthenticationMethod)
            }
            return packet
        case .channel, .connack, .result, .deliver, .response, .pingResponse:
            throw DeviceFault(reason: .protocolError)
        }
    }

    /// A new credential is allowed only after one of the device's own: otherwise the gateway's
    /// identity applies.
    private func isOwnCredential(_ body: [UInt8]) throws(DeviceFault) -> Bool {
        let auth = try DeviceFault.read(body) { bytes throws(WireError) in
            try MRT.ClientAuth(body: bytes.bytes)
        }
        if case .attached = auth.credential { return false }
        return hasOwnCredential
    }

    /// The CONNECT for the broker, with the line's identity and the parameters that a device may
    /// choose.
    private mutating func connect(
        _ body: [UInt8], identity: LineIdentity, packetMaximum: Int
    ) throws(DeviceFault) -> [UInt8] {
        let asked = try DeviceFault.read(body) { bytes throws(WireError) in
            try MRT.Connect(body: bytes.bytes)
        }
        let source = body + identity.user + identity.device
        let user = ByteRange(offset: body.count, count: identity.user.count)
        var connect = MRT.Connect()
        connect.device = ByteRange(offset: user.endOffset, count: identity.device.count)
        switch asked.credential {
        case .none: connect.credential = .attached(user: user)
        case .token: connect.credential = asked.credential
        case .appKey(_, _, let claimed):
            guard body[Int(claimed.offset)..<claimed.endOffset].elementsEqual(identity.user)
            else { throw DeviceFault(reason: .notAuthorized) }
            connect.credential = asked.credential
        case .attached:
            // A device may not attach other devices.
            throw DeviceFault(reason: .badAuthenticationMethod)
        }
        connect.isCleanStart = asked.isCleanStart
        connect.isReconnect = asked.isReconnect
        connect.keepAliveSeconds = asked.keepAliveSeconds
        connect.inboxWindow = asked.inboxWindow
        connect.packetMaximum = asked.packetMaximum
        connect.resume = asked.resume
        connect.cookie = asked.cookie
        connect.outbox = asked.outbox
        connect.sessionExpirySeconds = asked.sessionExpirySeconds
        connect.information = asked.information
        let byteCount = connect.encodedByteCount
        guard byteCount <= packetMaximum else { throw DeviceFault(reason: .packetTooLarge) }
        var written = [UInt8](repeating: 0, count: byteCount)
        written.withUnsafeMutableBytes { room in
            var writer = PacketWriter(room.mutableBytes)
            source.withUnsafeBytes { connect.write(to: &writer, from: $0.bytes) }
        }
        hasOwnCredential = asked.credential != .none
        phase = .asked
        return written
    }

    // MARK: - From the broker

    /// The meaning of a packet of the broker for the connection.
    enum Verdict: Equatable {
        case goesOn
        /// The device is logged in; this packet tells it.
        case goesOnAs([UInt8])
        /// The connection ends with this packet.
        case isLast
        /// The same, because the login is refused.
        case isRefusal(ReasonCode, hasOwnCredential: Bool)
        /// The broker has logged in another user than the line's: the device's own credential
        /// belongs to another user.
        case isSomebodyElse
    }

    /// Examines a packet of the broker for the device.
    mutating func passed(
        _ packet: UnsafeRawBufferPointer, as identity: LineIdentity
    ) -> Verdict {
        switch Self.answer(packet) {
        case .end:
            phase = .ended
            return .isLast
        case .refused(let reason):
            phase = .ended
            return .isRefusal(reason, hasOwnCredential: hasOwnCredential)
        case .accepted(let accepted, let user):
            guard phase == .asked else { return .goesOn }
            phase = .open
            guard user == identity.user else { return .isSomebodyElse }
            // The same factor as the broker's for connections [MQTT-3.1.2-22]; the broker does not
            // watch channels.
            silenceMillisecondsMaximum = UInt64(accepted.keepAliveSeconds) * 1500
            return Self.bounded(accepted, user).map { .goesOnAs($0) } ?? .goesOn
        case .other: return .goesOn
        }
    }

    /// A broker may accept larger packets than the gateway: the device is told the smaller maximum.
    /// Nil if the broker's is.
    private static func bounded(_ accepted: MRT.ConnectAccepted, _ user: [UInt8]) -> [UInt8]? {
        let maximum = UInt32(GatewayLimits.devicePacketMaximum)
        guard accepted.packetMaximum > maximum else { return nil }
        var accepted = accepted
        accepted.packetMaximum = maximum
        accepted.user = ByteRange(offset: 0, count: user.count)
        var written = [UInt8](repeating: 0, count: accepted.encodedByteCount)
        written.withUnsafeMutableBytes { room in
            var writer = PacketWriter(room.mutableBytes)
            user.withUnsafeBytes { accepted.write(to: &writer, from: $0.bytes) }
        }
        return written
    }

    /// The meaning of a packet of the broker for its channel.
    enum Answer {
        case accepted(MRT.ConnectAccepted, user: [UInt8])
        /// The login is refused, and no packet follows.
        case refused(ReasonCode)
        /// No packet follows on this channel.
        case end
        case other
    }

    /// A malformed packet ends the connection.
    static func answer(_ packet: UnsafeRawBufferPointer) -> Answer {
        guard
            case .packet(let frame) = PacketFrame.next(in: packet.bytes, at: 0, packetMaximum: .max)
        else { return .end }
        let body = frame.body.bytes(in: packet)
        switch frame.type {
        case MRT.PacketType.disconnect.rawValue: return .end
        case MRT.PacketType.connack.rawValue:
            switch try? MRT.Connack(body: body.bytes) {
            case .accepted(let accepted)?:
                return .accepted(accepted, user: Array(accepted.user.bytes(in: body)))
            case .refused(let refused)?: return .refused(refused.reason)
            case nil: return .end
            }
        default: return .other
        }
    }
}

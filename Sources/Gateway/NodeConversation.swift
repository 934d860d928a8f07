// One device's conversation with the broker, as far as the gateway looks at it: where packets
// begin, which of them a device may send, the CONNECT that the gateway writes in the device's
// place, and how long the device may be silent. The content of all other packets is a matter of the
// device and the broker, who judges them.

import Primitives
import WireFormat

/// Who is at the end of a line. The gateway decides that, and nobody else: neither a device nor
/// what a device was told by another one.
struct LineIdentity: Hashable {
    let user: [UInt8]
    let device: [UInt8]
}

/// Why a device's packet does not go to the broker.
struct DeviceFault: Error {
    let reason: ReasonCode

    /// What bytes of a device's say. That they cannot be read is the device's fault.
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

/// The stream of one device, packet by packet. Whatever the bytes are, every call has an answer in
/// every phase.
struct NodeConversation {
    enum Phase: CaseIterable {
        /// Only CONNECT may come.
        case idle
        /// CONNECT is at the broker. What follows it waits.
        case asked
        case open
        /// The broker has ended it. A CONNECT begins anew; what else comes was sent before the
        /// device knew of the end.
        case ended
    }

    private(set) var phase = Phase.idle
    /// Whether the device has proved with a credential of its own who it is.
    private var hasOwnCredential = false
    /// What the device sent and was not passed on.
    private var pending: [UInt8] = []
    /// 0 where the device asked for none.
    private(set) var silenceMillisecondsMaximum: UInt64 = 0

    /// What to do with the device's next packet.
    enum Step: Equatable {
        /// It goes to the broker.
        case packet([UInt8])
        /// A CONNECT that cannot go to the broker yet.
        case waiting
        /// The device breaks the rules: its connection ends with this reason.
        case refused(ReasonCode)
    }

    mutating func append(_ bytes: ArraySlice<UInt8>) { pending += bytes }

    /// Whether more of the device's bytes may be appended: those that cannot be passed on yet have
    /// a bound, and of the others less than a packet is left.
    func takesMore(isConnectHeld: Bool) -> Bool {
        let isHeld = phase == .asked || isConnectHeld && phase != .open
        return !isHeld || pending.count < GatewayLimits.pendingMaximum
    }

    /// The next whole packet; nil while there is none, or it has to wait for CONNACK.
    ///
    /// - Parameter holdsConnect: a CONNECT stays where it is.
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

    /// What goes to the broker in place of a device's packet. This is the list of all that a device
    /// may send through a gateway; nothing else passes.
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

    /// A new credential may follow only one of the device's own: for a device without any the
    /// gateway speaks, and the gateway alone.
    private func isOwnCredential(_ body: [UInt8]) throws(DeviceFault) -> Bool {
        let auth = try DeviceFault.read(body) { bytes throws(WireError) in
            try MRT.ClientAuth(body: bytes.bytes)
        }
        if case .attached = auth.credential { return false }
        return hasOwnCredential
    }

    /// The CONNECT that the broker gets: written here, of the line's identity and of what a device
    /// may say about itself.
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
            // A device may not vouch for other devices.
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

    /// What a packet of the broker's means for the conversation.
    enum Verdict: Equatable {
        case goesOn
        /// The device is in, and is told so in these words.
        case goesOnAs([UInt8])
        /// The conversation is over with it.
        case isLast
        /// The broker has logged in another user than the line's: the device's own credential is
        /// another user's.
        case isSomebodyElse
    }

    /// Looks at a packet of the broker's, which is for the device.
    mutating func passed(
        _ packet: UnsafeRawBufferPointer, as identity: LineIdentity
    ) -> Verdict {
        switch Self.answer(packet) {
        case .end:
            phase = .ended
            return .isLast
        case .accepted(let accepted, let user):
            guard phase == .asked else { return .goesOn }
            phase = .open
            guard user == identity.user else { return .isSomebodyElse }
            // As the broker counts for connections [MQTT-3.1.2-22]; it does not watch channels.
            silenceMillisecondsMaximum = UInt64(accepted.keepAliveSeconds) * 1500
            return Self.bounded(accepted, user).map { .goesOnAs($0) } ?? .goesOn
        case .other: return .goesOn
        }
    }

    /// A broker may take larger packets than the gateway: the device is told what both take. Nil
    /// where the broker has said so itself.
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

    /// What a packet of the broker's says about the state of its channel.
    enum Answer {
        case accepted(MRT.ConnectAccepted, user: [UInt8])
        /// Nothing follows on this channel.
        case end
        case other
    }

    /// A packet that cannot be read is an end: who cannot be understood is not gone on with.
    static func answer(_ packet: UnsafeRawBufferPointer) -> Answer {
        guard
            case .packet(let frame) = PacketFrame.next(in: packet.bytes, at: 0, packetMaximum: .max)
        else { return .end }
        let body = frame.body.bytes(in: packet)
        switch frame.type {
        case MRT.PacketType.disconnect.rawValue: return .end
        case MRT.PacketType.connack.rawValue:
            guard case .accepted(let accepted)? = try? MRT.Connack(body: body.bytes) else {
                return .end
            }
            return .accepted(accepted, user: Array(accepted.user.bytes(in: body)))
        default: return .other
        }
    }
}

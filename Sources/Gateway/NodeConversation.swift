// One device's conversation with the broker, as far as the gateway looks at it: where packets
// begin, the CONNECT that gets the gateway's word for the user, and how long the device may be
// silent. All else is the device's and the broker's, and passes as it is.

import Primitives
import WireFormat

/// The stream of one device, packet by packet.
struct NodeConversation {
    /// Bytes that may wait for the rest of their packet, or for CONNACK.
    static let pendingMaximum = 8 * 1024

    enum Phase { case closed, awaitingAnswer, open }

    private(set) var phase = Phase.closed
    /// What the device said and has not been passed on.
    private var pending: [UInt8] = []
    /// 0 where the device asked for none.
    private(set) var silenceMillisecondsMaximum: UInt64 = 0

    /// A packet for the broker, or why the conversation cannot go on.
    enum Step: Equatable {
        case packet([UInt8])
        /// The device breaks the protocol: its line is closed.
        case faulty
    }

    mutating func append(_ bytes: ArraySlice<UInt8>) { pending += bytes }

    /// The next whole packet for the broker; nil while there is none, or it has to wait.
    mutating func next(user: [UInt8], packetMaximum: Int) -> Step? {
        guard phase != .awaitingAnswer else {
            return pending.count > Self.pendingMaximum ? .faulty : nil
        }
        let result = pending.withUnsafeBytes {
            PacketFrame.next(in: $0, at: 0, packetMaximum: packetMaximum)
        }
        switch result {
        case .incomplete: return nil
        case .malformed, .tooLarge: return .faulty
        case .packet(let frame):
            let isConnect = frame.type == MRT.PacketType.connect.rawValue
            guard isConnect == (phase == .closed) else { return .faulty }
            let packet = Array(pending[..<frame.endOffset])
            pending.removeFirst(frame.endOffset)
            guard isConnect else { return .packet(packet) }
            phase = .awaitingAnswer
            return connect(frame, packet, user).map(Step.packet) ?? .faulty
        }
    }

    /// A device without a credential is attached as the user of its line.
    private func connect(
        _ frame: PacketFrame, _ packet: [UInt8], _ user: [UInt8]
    ) -> [UInt8]? {
        let body = Array(packet[Int(frame.body.offset)...])
        guard var connect = try? body.withUnsafeBytes({ try MRT.Connect(body: $0) }) else {
            return nil
        }
        guard connect.credential == .none else { return packet }
        connect.credential = .attached(user: ByteRange(offset: body.count, count: user.count))
        var rewritten = [UInt8](repeating: 0, count: connect.encodedByteCount)
        rewritten.withUnsafeMutableBytes { room in
            var writer = PacketWriter(room)
            (body + user).withUnsafeBytes { connect.write(to: &writer, from: $0) }
        }
        return rewritten
    }

    /// Looks at a packet of the broker's. False when it was the last one of the conversation.
    mutating func passed(_ packet: UnsafeRawBufferPointer) -> Bool {
        guard
            case .packet(let frame) = PacketFrame.next(in: packet, at: 0, packetMaximum: .max)
        else { preconditionFailure("an inner packet that the codec should have refused") }
        if frame.type == MRT.PacketType.disconnect.rawValue { return false }
        guard frame.type == MRT.PacketType.connack.rawValue else { return true }
        guard case .accepted(let accepted)? = try? MRT.Connack(body: frame.body.bytes(in: packet))
        else { return false }
        phase = .open
        // As the broker counts for connections [MQTT-3.1.2-22]; it does not watch channels.
        silenceMillisecondsMaximum = UInt64(accepted.keepAliveSeconds) * 1500
        return true
    }
}

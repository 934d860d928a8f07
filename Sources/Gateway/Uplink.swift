// The gateway's own connection to the broker: the client machine, its memory, and the wrapping of
// the devices' packets. It opens no socket.

import BrokerTerms
import ClientCore
import MartletClient
import Primitives
import WireFormat

/// The gateway as a client of the broker.
struct Uplink: ~Copyable {
    /// The largest packet from the broker: a device's largest, with its prefix.
    private static let receiveByteCount = 128 * 1024
    /// The gateway itself only sets a will.
    private static let outboxByteCount = 8 * 1024
    /// Detects within a minute that the broker is lost.
    private static let keepAliveSeconds: UInt16 = 30

    var machine: ClientMachine
    private let identity: UnsafeMutableRawBufferPointer
    private let receive: UnsafeMutableRawBufferPointer
    private let outbox: UnsafeMutableRawBufferPointer
    private let transmit: UnsafeMutableRawBufferPointer
    private let willUser: [UInt8]
    private let willText: [UInt8]
    /// The maximum of a device's packet.
    private(set) var packetMaximum = 0

    init(_ settings: GatewaySettings, jitterSeed: UInt64, outboxEpoch: UInt64) {
        func room(_ byteCount: Int) -> UnsafeMutableRawBufferPointer {
            .allocate(byteCount: byteCount, alignment: 16)
        }
        let token = Array(settings.token.utf8)
        let servers = ServerAddress.names(settings.servers)
        identity = room(token.count + servers.count)
        identity.copyBytes(from: token + servers)
        receive = room(Self.receiveByteCount)
        outbox = room(Self.outboxByteCount)
        willUser = Array((settings.willUser ?? "").utf8)
        willText = Array(settings.willText.utf8)
        var connect = MRT.Connect()
        connect.keepAliveSeconds = Self.keepAliveSeconds
        connect.credential = .token(ByteRange(offset: 0, count: token.count))
        // Its session ends with the connection: it has no messages of its own.
        connect.sessionExpirySeconds = 0
        machine = ClientMachine(
            identity: ClientIdentity(
                connect: connect,
                servers: ByteRange(offset: token.count, count: servers.count),
                bytes: UnsafeRawBufferPointer(identity)),
            memory: ClientMemory(receive: receive, outbox: outbox),
            record: ClientRecord(outboxEpoch: outboxEpoch),
            options: ClientOptions(jitterSeed: jitterSeed))
        transmit = room(max(4096, machine.transmitByteCountMinimum))
    }

    deinit {
        for memory in [identity, receive, outbox, transmit] { memory.deallocate() }
    }

    /// The broker has accepted the gateway's login.
    mutating func connected(_ accepted: MRT.ConnectAccepted) {
        packetMaximum =
            Int(clamping: accepted.packetMaximum) - MRT.Channel.prefixByteCountMaximum
        guard !willUser.isEmpty, !accepted.hasWill else { return }
        let text = willUser + [0] + willText
        let will = MRT.Will(
            delaySeconds: 0, target: .user(ByteRange(offset: 0, count: willUser.count)),
            isRaw: false,
            payload: ByteRange(offset: willUser.count, count: text.count - willUser.count))
        // A request without an answer is repeated by the machine; then there is room for this one.
        text.withUnsafeBytes { _ = try? machine.request(.setWill, will, from: $0) }
    }

    /// The machine's next bytes for the broker; empty if there are none.
    mutating func nextBytes(now: Instant) -> UnsafeRawBufferPointer {
        let count = machine.transmit(into: transmit, now: now)
        return UnsafeRawBufferPointer(rebasing: transmit[..<count])
    }

    /// Appends a CHANNEL with a device's packet.
    static func wrap(_ packet: [UInt8], channel: UInt32, into bytes: inout [UInt8]) {
        let byteCount = MRT.Channel.prefixByteCount(
            channel: channel, innerByteCount: packet.count)
        withUnsafeTemporaryAllocation(byteCount: byteCount, alignment: 1) { room in
            var writer = PacketWriter(room.mutableBytes)
            MRT.Channel.writePrefix(
                channel: channel, innerByteCount: packet.count, to: &writer)
            bytes += room
        }
        bytes += packet
    }

    /// The packet that ends the channel of a lost device.
    static let loss: [UInt8] = [
        MRT.PacketType.disconnect.rawValue << 4, 1, ReasonCode.unspecifiedError.rawValue,
    ]

    /// The packet that ends a device's connection, with the reason.
    static func refusal(_ reason: ReasonCode, isConnected: Bool) -> [UInt8] {
        if isConnected {
            return [MRT.PacketType.disconnect.rawValue << 4, 1, reason.rawValue]
        }
        // Without an advised wait, and without text.
        return [MRT.PacketType.connack.rawValue << 4, 2, reason.rawValue, 0]
    }
}

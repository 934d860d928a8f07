// A client that is a gateway: it carries the packets of devices over its own connection, each in a
// channel. It knows only where a packet ends and which packet is the last (docs/PROTOCOL.md,
// CHANNEL).

import ClientCore
import Primitives
import WireFormat

/// The devices that a gateway carries.
struct GatewayChannels {
    /// Their links by channel.
    var links: [UInt32: Int] = [:]
    var channels: [Int: UInt32] = [:]
    /// Channels without a device whose end the broker has not confirmed.
    var ending: Set<UInt32> = []
    /// Bytes of each device that are no complete packet yet.
    var streams: [Int: WireTap] = [:]

    /// The lowest free channel: numbers are reused at once.
    var freeChannel: UInt32 {
        var channel: UInt32 = 0
        while links[channel] != nil || ending.contains(channel) { channel += 1 }
        return channel
    }

    mutating func remove(_ link: Int) -> UInt32? {
        streams[link] = nil
        guard let channel = channels.removeValue(forKey: link) else { return nil }
        links[channel] = nil
        return channel
    }
}

extension SimulatedClient {
    // MARK: Devices

    /// A device connects. False if there is no connection to carry it.
    func takeDevice(_ deviceLink: Int) -> Bool {
        guard isConnected, let link else { return false }
        let channel = gatewayChannels.freeChannel
        gatewayChannels.links[channel] = deviceLink
        gatewayChannels.channels[deviceLink] = channel
        gatewayChannels.streams[deviceLink] = WireTap()
        network.carried(deviceLink, over: link)
        let device = network.links[deviceLink].client
        oracle.gatewaysByClient[device] = index
        oracle.history.note(.client(index), "carries client \(device) in channel \(channel)")
        return true
    }

    /// Bytes arrive from a device.
    func carry(_ bytes: [UInt8], from deviceLink: Int) {
        guard isConnected, !bytes.isEmpty, let channel = gatewayChannels.channels[deviceLink] else {
            return
        }
        var packets: [[UInt8]] = []
        _ = gatewayChannels.streams[deviceLink, default: WireTap()].take(bytes) { frame, body in
            packets.append(GatewayChannels.packet(frame, body))
        }
        for packet in packets { write(packet, in: channel) }
        if survives() { runOn() }
    }

    /// A device has disconnected. If it sent no DISCONNECT, the gateway reports its loss.
    func loseDevice(_ deviceLink: Int) {
        guard let channel = gatewayChannels.remove(deviceLink) else { return }
        gatewayChannels.ending.insert(channel)
        guard isConnected else { return }
        let lost = MRT.ClientDisconnect(reason: .unspecifiedError)
        var packet = [UInt8](repeating: 0, count: lost.encodedByteCount)
        packet.withUnsafeMutableBytes { bytes in
            var writer = PacketWriter(bytes.mutableBytes)
            lost.write(to: &writer)
        }
        write(packet, in: channel)
        runOn()
    }

    /// Its own connection is lost, or its power: its devices are told, or detect it.
    func dropDevices(_ drop: (Int) -> Void) {
        for link in gatewayChannels.channels.keys.sorted() { drop(link) }
        gatewayChannels = GatewayChannels()
    }

    // MARK: Packets

    /// A packet of the broker for a device.
    func deliver(_ channel: MRT.Channel) {
        let whole = bytes(through: channel.inner.endOffset)
        let packet = Array(channel.inner.bytes(in: whole))
        let isLast = packet.withUnsafeBytes { GatewayChannels.isLast($0) }
        if isLast { gatewayChannels.ending.remove(channel.channel) }
        guard let deviceLink = gatewayChannels.links[channel.channel] else { return }
        network.write(packet[...], on: deviceLink, towards: .client)
        guard isLast else { return }
        _ = gatewayChannels.remove(deviceLink)
        network.closedByBroker(deviceLink)
    }

    private func write(_ packet: [UInt8], in channel: UInt32) {
        guard let link else { return }
        let wrapped = MRT.Channel(
            channel: channel, inner: ByteRange(offset: 0, count: packet.count))
        var bytes = [UInt8](repeating: 0, count: wrapped.encodedByteCount)
        packet.withUnsafeBytes { packet in
            bytes.withUnsafeMutableBytes { bytes in
                var writer = PacketWriter(bytes.mutableBytes)
                wrapped.write(to: &writer, from: packet.bytes)
            }
        }
        network.write(bytes[...], on: link, towards: .broker)
    }
}

extension GatewayChannels {
    /// A packet with its header, as in its stream.
    fileprivate static func packet(
        _ frame: PacketFrame, _ body: UnsafeRawBufferPointer
    ) -> [UInt8] {
        var packet = [UInt8](repeating: 0, count: frame.byteCount)
        packet.withUnsafeMutableBytes { bytes in
            var writer = PacketWriter(bytes.mutableBytes)
            writer.write(
                typeAndFlags: frame.type << 4 | frame.flags, bodyByteCount: body.count)
            writer.write(bytes: body.bytes)
        }
        return packet
    }

    /// Whether this is the last packet of the broker on its channel.
    fileprivate static func isLast(_ packet: UnsafeRawBufferPointer) -> Bool {
        guard
            case .packet(let frame) = PacketFrame.next(in: packet.bytes, at: 0, packetMaximum: .max)
        else { return false }
        switch MRT.PacketType(rawValue: frame.type) {
        case .disconnect: return true
        case .connack:
            guard case .refused? = try? MRT.Connack(body: frame.body.bytes(in: packet.bytes)) else {
                return false
            }
            return true
        default: return false
        }
    }
}

// The channels of a loop: conversations that gateways carry over their connections. A channel has a
// ConnectionID of its own, so that core and encoder treat its conversation like every other; here
// is only which connection carries it, and under which number.

import BrokerCore
import BrokerTerms
import Primitives
import WireFormat

/// The channels of one loop, by place.
struct ChannelTable: ~Copyable {
    private struct Channel {
        /// Which use of the place this is. It is raised when a place is taken, so that of a channel
        /// that has ended its gateway is known until then: log events about the end come after it.
        var generation: UInt32
        var isOpen = false
        var number: UInt32
        var gateway: ConnectionID
        /// The gateway's other channels.
        var previous = ChannelTable.none
        var next = ChannelTable.none
    }

    /// The channels of one gateway: the one that was opened last, and how many there are.
    private struct Gateway {
        var first: UInt32
        var count: Int
    }

    private static let none = UInt32.max

    private var channels: ContiguousArray<Channel> = []
    private var freePlaces: ContiguousArray<UInt32> = []
    /// Places by the gateway's slot and the channel's number.
    private var places = NumberTable()
    private var gateways: [ConnectionID: Gateway] = [:]
    private let loop: UInt8

    init(loop: UInt8) {
        self.loop = loop
    }

    private static func key(_ number: UInt32, _ gateway: ConnectionID) -> UInt64 {
        UInt64(gateway.slot) << 32 | UInt64(number)
    }

    private func name(of place: UInt32) -> ConnectionID {
        ConnectionID(
            loop: loop, slot: ConnectionID.channelSlotsStart + Int(place),
            generation: channels[Int(place)].generation)
    }

    /// The open channel of that number.
    func channel(_ number: UInt32, of gateway: ConnectionID) -> ConnectionID? {
        guard let place = places.value(for: Self.key(number, gateway)) else { return nil }
        return name(of: place)
    }

    /// Channels that a gateway has open.
    func count(of gateway: ConnectionID) -> Int { gateways[gateway]?.count ?? 0 }

    /// Who carries a channel, or did until it ended, and its number; nil for a name that is older.
    func origin(of connection: ConnectionID) -> (gateway: ConnectionID, number: UInt32)? {
        guard connection.place < channels.count,
            channels[connection.place].generation == connection.generation
        else { return nil }
        return (channels[connection.place].gateway, channels[connection.place].number)
    }

    /// Opens a channel; the gateway has none of that number open.
    mutating func open(_ number: UInt32, of gateway: ConnectionID) -> ConnectionID {
        let place: UInt32
        if let free = freePlaces.popLast() {
            place = free
        } else {
            place = UInt32(channels.count)
            channels.append(Channel(generation: 0, number: 0, gateway: gateway))
        }
        let next = gateways[gateway]?.first ?? Self.none
        let generation = channels[Int(place)].generation &+ 1
        channels[Int(place)] = Channel(
            generation: generation == 0 ? 1 : generation, isOpen: true, number: number,
            gateway: gateway, next: next)
        if next != Self.none { channels[Int(next)].previous = place }
        gateways[gateway] = Gateway(first: place, count: count(of: gateway) + 1)
        places.set(place, for: Self.key(number, gateway))
        return name(of: place)
    }

    /// A channel has ended; its number may be used again.
    mutating func close(_ connection: ConnectionID) {
        let place = connection.place
        precondition(
            channels[place].isOpen && channels[place].generation == connection.generation,
            "\(connection) is not an open channel")
        let channel = channels[place]
        if channel.next != Self.none { channels[Int(channel.next)].previous = channel.previous }
        if channel.previous != Self.none { channels[Int(channel.previous)].next = channel.next }
        if let gateway = gateways[channel.gateway], gateway.count > 1 {
            gateways[channel.gateway] = Gateway(
                first: gateway.first == UInt32(place) ? channel.next : gateway.first,
                count: gateway.count - 1)
        } else {
            gateways[channel.gateway] = nil
        }
        places.remove(Self.key(channel.number, channel.gateway))
        channels[place].isOpen = false
        freePlaces.append(UInt32(place))
    }

    /// One of a gateway's open channels; nil when none is left.
    func anyChannel(of gateway: ConnectionID) -> ConnectionID? {
        guard let known = gateways[gateway] else { return nil }
        return name(of: known.first)
    }
}

/// Limits of what one connection may carry.
enum ChannelLimits {
    /// Channels of one connection: room for a large site's thousand sensors.
    static let countMaximum = 1_024
    /// The largest inbox window of a channel. All windows of a full gateway, with messages of
    /// 1 KiB, are 4.5 MB: they fit into what may wait for one connection (8 MiB).
    static let inboxWindowMaximum: UInt16 = 4
}

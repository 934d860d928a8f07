// The channels of a loop: connections of devices that gateways carry inside their own connection. A
// channel has a ConnectionID of its own, so core and encoder treat it like every other connection.
// This table maps it to the connection that carries it and to its channel number.

import BrokerCore
import BrokerTerms
import Primitives
import WireFormat

/// The channels of one loop, by place.
struct ChannelTable: ~Copyable {
    private struct Channel {
        /// The generation of the slot. It increases when the slot is taken and not when the channel
        /// ends, so that the gateway of an ended channel is known until then: log events about the
        /// end come later.
        var generation: UInt32
        var isOpen = false
        var number: UInt32
        var gateway: ConnectionID
        /// The next and the previous channel of the same gateway.
        var previous = ChannelTable.none
        var next = ChannelTable.none
    }

    /// The channels of one gateway: the one that was opened last, and their number.
    private struct Gateway {
        var first: UInt32
        var count: Int
    }

    private static let none = UInt32.max

    private var channels: ContiguousArray<Channel> = []
    private var freePlaces: ContiguousArray<UInt32> = []
    /// Slots of channels, by the gateway's slot and the channel's number.
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

    /// The open channel with that number.
    func channel(_ number: UInt32, of gateway: ConnectionID) -> ConnectionID? {
        guard let place = places.value(for: Self.key(number, gateway)) else { return nil }
        return name(of: place)
    }

    /// The number of open channels of a gateway.
    func count(of gateway: ConnectionID) -> Int { gateways[gateway]?.count ?? 0 }

    /// The connection that carries a channel, or carried it until it ended, and its number; nil if
    /// the slot has a newer channel.
    func origin(of connection: ConnectionID) -> (gateway: ConnectionID, number: UInt32)? {
        guard connection.place < channels.count,
            channels[connection.place].generation == connection.generation
        else { return nil }
        return (channels[connection.place].gateway, channels[connection.place].number)
    }

    /// Opens a channel; the gateway must have no open channel with that number.
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

    /// A channel has ended; its number can be used again.
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

    /// One of a gateway's open channels; nil if none is left.
    func anyChannel(of gateway: ConnectionID) -> ConnectionID? {
        guard let known = gateways[gateway] else { return nil }
        return name(of: known.first)
    }
}

/// Limits of what one connection may carry.
enum ChannelLimits {
    /// Maximum of channels per connection: enough for the thousand sensors of a large site.
    static let countMaximum = 1_024
    /// The largest inbox window of a channel. The windows of 1,000 channels with messages of 1 KiB
    /// take 4.5 MB, which fits into the outgoing buffer of one connection (8 MiB).
    static let inboxWindowMaximum: UInt16 = 4
}

// Conversations in channels: read as if each had a connection of its own, written with the
// channel's prefix into the gateway's, and lost with it.

import BrokerCore
import Primitives
import Testing
import WireFormat

@testable import Dialects

@Suite("Channels of a gateway") struct ChannelTests {
    private let lane = Lane()

    init() { lane.establish() }

    /// CHANNEL around a packet.
    private func channel(_ number: UInt32, _ inner: [UInt8]) -> [UInt8] {
        var bytes = [UInt8](
            repeating: 0,
            count: MRT.Channel.prefixByteCount(channel: number, innerByteCount: inner.count))
        bytes.withUnsafeMutableBytes { room in
            var writer = PacketWriter(room)
            MRT.Channel.writePrefix(channel: number, innerByteCount: inner.count, to: &writer)
        }
        return bytes + inner
    }

    private func name(_ place: Int, generation: UInt32 = 1) -> ConnectionID {
        ConnectionID(
            lane: 0, slot: ConnectionID.channelSlotsStart + place, generation: generation)
    }

    /// Opens a channel, which the core accepts.
    private func open(_ number: UInt32, as connection: ConnectionID) {
        #expect(lane.receive(channel(number, packet("connect-attached"))).count == 1)
        accept(connection)
        lane.host.written = []
    }

    private func accept(_ connection: ConnectionID) {
        let user = lane.text("alice")
        lane.carryOut { $0.append(.accept(connection, acceptance(user: user))) }
    }

    @Test func `attach a user whom the gateway vouches for`() {
        #expect(
            lane.receive("channel-connect") == [
                "connect plant7-12 attached by 0.3.1 device  keepalive 60 window 4 3,4"
            ])
        accept(name(0))
        // Ten bytes less than the connection takes, for the prefix.
        var connack = packet("connack-new-session")
        let range = connack.firstRange(of: [0x80, 0x80, 0x04])!
        connack.replaceSubrange(range, with: [0xF6, 0xFF, 0x03])
        #expect(lane.written() == channel(12, connack))
        #expect(lane.phase == .established)
    }

    @Test func `are granted a small window`() {
        var connect = MRT.Connect()
        connect.inboxWindow = 100
        connect.credential = .token(ByteRange(offset: 0, count: 1))
        #expect(
            lane.receive(channel(1, encode(connect, "t"))) == [
                "connect token t device  keepalive 0 window 4 3,4"
            ])
    }

    @Test func `carry packets both ways, and answer pings themselves`() {
        open(200, as: name(0))
        #expect(lane.receive("channel-ping") == [])
        #expect(lane.written() == channel(200, packet("pingresp")))
        #expect(lane.receive(channel(200, packet("ack-inbox"))) == ["acknowledged 1742"])
        #expect(
            lane.receive(channel(200, packet("send-user-durable")))
                == ["send #17 durable to bob 21 bytes"])
        let publication = lane.publish(.unicast, payload: [0] + Array("hello".utf8))
        lane.carryOut {
            $0.append(
                .deliver(
                    Delivery(
                        connection: name(0), number: 1742, publication: publication,
                        grade: .durable)))
        }
        #expect(lane.written() == channel(200, packet("deliver-unicast")))
    }

    @Test func `do not let anything overtake CONNACK, and do not hold the gateway up`() {
        #expect(lane.receive(channel(1, packet("connect-attached"))).count == 1)
        #expect(!lane.host.isHeld)
        #expect(lane.receive(channel(1, packet("ack-inbox"))) == ["fault protocolError"])
        lane.carryOut { $0.append(.close(name(0), .protocolError)) }
        #expect(lane.written() == channel(1, [0x20, 0x02, 0x82, 0x00]))
        #expect(lane.receive(channel(1, packet("ack-inbox"))) == [])
        #expect(lane.phase == .established)
    }

    @Test func `end with their last packet, and late ones are nobody's`() {
        open(7, as: name(0))
        lane.carryOut { $0.append(.close(name(0), .sessionTakenOver)) }
        #expect(lane.written() == channel(7, [0xE0, 0x01, 0x8E]))
        #expect(lane.receive(channel(7, packet("send-user-durable"))) == [])
        #expect(lane.receive(channel(7, packet("pingreq"))) == [])
        #expect(lane.written() == [])
        // Effects for the old conversation do not reach the one that follows.
        open(7, as: name(0, generation: 2))
        lane.carryOut { $0.append(.close(name(0), .keepAliveTimeout)) }
        #expect(lane.written() == [])
        #expect(lane.receive(channel(7, packet("pingreq"))) == [])
        #expect(lane.written() == channel(7, packet("pingresp")))
    }

    @Test func `end by themselves for a fault`() {
        open(1, as: name(0))
        open(2, as: name(1))
        #expect(lane.receive(channel(1, packet("connect-token"))) == ["fault protocolError"])
        #expect(lane.receive(channel(2, packet("ack-inbox"))) == ["acknowledged 1742"])
        #expect(lane.phase == .established)
    }

    @Test(
        arguments: [
            (
                [0x10, 0x07, 0x00, 0x04, 0x4D, 0x51, 0x54, 0x54, 0x05],
                ReasonCode.unsupportedProtocolVersion
            ),
            ([0x10, 0x01, 0x00], .malformedPacket),
            ([0x10, 0x07, 0x00, 0x03, 0x4D, 0x52, 0x54, 0x01, 0x00], .malformedPacket),
        ] as [([UInt8], ReasonCode)])
    func `refuse a CONNECT that is none of theirs`(connect: [UInt8], reason: ReasonCode) {
        #expect(lane.receive(channel(5, connect)) == [])
        #expect(lane.written() == channel(5, [0x20, 0x02, reason.rawValue, 0x00]))
        #expect(lane.notes.refusals == [reason])
        // The number is free again.
        #expect(lane.receive(channel(5, packet("connect-attached"))).count == 1)
    }

    @Test func `are lost with their gateway`() {
        open(1, as: name(0))
        open(2, as: name(1))
        open(3, as: name(2))
        lane.carryOut { $0.append(.close(name(1), .sessionTakenOver)) }
        lane.desk.closed(lane.connection, .lost)
        let closed = lane.desk.events.map { event -> ConnectionID? in
            if case .connectionClosed(let connection, .lost) = event { connection } else { nil }
        }
        #expect(closed == [name(2), name(0), lane.connection])
        lane.desk.events.removeAll()
    }

    @Test func `end when the core closes their gateway`() {
        open(1, as: name(0))
        #expect(
            lane.carryOut { $0.append(.close(lane.connection, .notAuthorized)) }
                == ["closed closedByBroker"])
        #expect(lane.host.isClosed)
    }

    @Test func `are limited`() {
        for number in 0..<1_024 {
            #expect(lane.receive(channel(UInt32(number), packet("connect-attached"))).count == 1)
        }
        #expect(lane.receive(channel(1_024, packet("connect-attached"))) == [])
        #expect(lane.written() == channel(1_024, [0x20, 0x02, 0x97, 0x00]))
    }

    @Test func `take what their gateway takes at most`() {
        let lane = Lane()
        lane.establish(packetMaximum: 128)
        #expect(lane.receive(channel(1, packet("connect-attached"))).count == 1)
        let text = [UInt8](repeating: UInt8(ascii: "x"), count: 104)
        let publication = lane.publish(.unicast, payload: [0] + text)
        func deliver() -> [String] {
            lane.carryOut {
                $0.append(
                    .deliver(
                        Delivery(
                            connection: name(0), number: 1, publication: publication,
                            grade: .durable)))
            }
        }
        #expect(deliver() == ["too large 1"])
    }

    @Test func `do not exist before the gateway is let in, nor in channels`() {
        let lane = Lane()
        #expect(lane.receive("channel-connect") == [])
        #expect(lane.host.isClosed)
        #expect(self.lane.receive("channel-in-channel") == ["fault malformedPacket"])
    }

    @Test func `are what credential 3 is for, and nothing else`() {
        let lane = Lane()
        #expect(lane.receive("connect-attached") == [])
        #expect(lane.written() == [0x20, 0x02, 0x8C, 0x00])
    }
}

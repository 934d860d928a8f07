// Connections in channels: decoded like separate connections, written with the channel's prefix
// into the gateway's, and lost with it.

import BrokerCore
import BrokerTerms
import Primitives
import Testing
import WireFormat

@testable import Dialects

@Suite("Channels of a gateway") struct ChannelTests {
    private let loop = TestLoop()

    init() { loop.establish() }

    /// CHANNEL around a packet.
    private func channel(_ number: UInt32, _ inner: [UInt8]) -> [UInt8] {
        var bytes = [UInt8](
            repeating: 0,
            count: MRT.Channel.prefixByteCount(channel: number, innerByteCount: inner.count))
        bytes.withUnsafeMutableBytes { room in
            var writer = PacketWriter(room.mutableBytes)
            MRT.Channel.writePrefix(channel: number, innerByteCount: inner.count, to: &writer)
        }
        return bytes + inner
    }

    private func name(_ place: Int, generation: UInt32 = 1) -> ConnectionID {
        ConnectionID(
            loop: 0, slot: ConnectionID.channelSlotsStart + place, generation: generation)
    }

    /// Opens a channel, which the core accepts.
    private func open(_ number: UInt32, as connection: ConnectionID) {
        #expect(loop.receive(channel(number, packet("connect-attached"))).count == 1)
        accept(connection)
        loop.host.written = []
    }

    private func accept(_ connection: ConnectionID) {
        let user = loop.text("alice")
        loop.carryOut { $0.append(.accept(connection, acceptance(user: user))) }
    }

    @Test func `attach a user without a credential`() {
        #expect(
            loop.receive("channel-connect") == [
                "connect plant7-12 attached by 0.3.1 device  keepalive 60 window 4 3,4"
            ])
        accept(name(0))
        // Ten bytes less than the connection takes, for the prefix.
        var connack = packet("connack-new-session")
        let range = connack.firstRange(of: [0x80, 0x80, 0x04])!
        connack.replaceSubrange(range, with: [0xF6, 0xFF, 0x03])
        #expect(loop.written() == channel(12, connack))
        #expect(loop.phase == .established)
    }

    @Test func `are granted a small window`() {
        var connect = MRT.Connect()
        connect.inboxWindow = 100
        connect.credential = .token(ByteRange(offset: 0, count: 1))
        #expect(
            loop.receive(channel(1, encode(connect, "t"))) == [
                "connect token t device  keepalive 0 window 4 3,4"
            ])
    }

    @Test func `carry packets in both directions, and answer pings directly`() {
        open(200, as: name(0))
        #expect(loop.receive("channel-ping") == [])
        #expect(loop.written() == channel(200, packet("pingresp")))
        #expect(loop.receive(channel(200, packet("ack-inbox"))) == ["acknowledged 1742"])
        #expect(
            loop.receive(channel(200, packet("send-user-durable")))
                == ["send #17 durable to bob 21 bytes"])
        let publication = loop.publish(.unicast, payload: [0] + Array("hello".utf8))
        loop.carryOut {
            $0.append(
                .deliver(
                    Delivery(
                        connection: name(0), number: 1742, publication: publication,
                        grade: .durable)))
        }
        #expect(loop.written() == channel(200, packet("deliver-unicast")))
    }

    @Test func `keep packets behind CONNACK without blocking the gateway`() {
        #expect(loop.receive(channel(1, packet("connect-attached"))).count == 1)
        #expect(!loop.host.isHeld)
        #expect(loop.receive(channel(1, packet("ack-inbox"))) == ["fault protocolError"])
        loop.carryOut { $0.append(.close(name(0), .protocolError)) }
        #expect(loop.written() == channel(1, worded(0x20, [0x82, 0x00], .protocolError)))
        #expect(loop.receive(channel(1, packet("ack-inbox"))) == [])
        #expect(loop.phase == .established)
    }

    @Test func `end with their last packet, and later packets are discarded`() {
        open(7, as: name(0))
        loop.carryOut { $0.append(.close(name(0), .sessionTakenOver)) }
        #expect(loop.written() == channel(7, worded(0xE0, [0x8E], .sessionTakenOver)))
        #expect(loop.receive(channel(7, packet("send-user-durable"))) == [])
        #expect(loop.receive(channel(7, packet("pingreq"))) == [])
        #expect(loop.written() == [])
        // Effects for the old conversation do not reach the one that follows.
        open(7, as: name(0, generation: 2))
        loop.carryOut { $0.append(.close(name(0), .keepAliveTimeout)) }
        #expect(loop.written() == [])
        #expect(loop.receive(channel(7, packet("pingreq"))) == [])
        #expect(loop.written() == channel(7, packet("pingresp")))
    }

    @Test func `end alone after a fault`() {
        open(1, as: name(0))
        open(2, as: name(1))
        #expect(loop.receive(channel(1, packet("connect-token"))) == ["fault protocolError"])
        #expect(loop.receive(channel(2, packet("ack-inbox"))) == ["acknowledged 1742"])
        #expect(loop.phase == .established)
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
    func `refuse a CONNECT of another dialect`(connect: [UInt8], reason: ReasonCode) {
        #expect(loop.receive(channel(5, connect)) == [])
        #expect(loop.written() == channel(5, [0x20, 0x02, reason.rawValue, 0x00]))
        #expect(loop.log.refusals == [reason])
        // The number is free again.
        #expect(loop.receive(channel(5, packet("connect-attached"))).count == 1)
    }

    @Test func `are lost with their gateway`() {
        open(1, as: name(0))
        open(2, as: name(1))
        open(3, as: name(2))
        loop.carryOut { $0.append(.close(name(1), .sessionTakenOver)) }
        loop.decoder.closed(loop.connection, .lost)
        let closed = loop.decoder.events.map { event -> ConnectionID? in
            if case .connectionClosed(let connection, .lost) = event { connection } else { nil }
        }
        #expect(closed == [name(2), name(0), loop.connection])
        loop.decoder.events.removeAll()
    }

    @Test func `end when the core closes their gateway`() {
        open(1, as: name(0))
        #expect(
            loop.carryOut { $0.append(.close(loop.connection, .notAuthorized)) }
                == ["closed closedByBroker"])
        #expect(loop.host.isClosed)
    }

    @Test func `are limited`() {
        for number in 0..<1_024 {
            #expect(loop.receive(channel(UInt32(number), packet("connect-attached"))).count == 1)
        }
        #expect(loop.receive(channel(1_024, packet("connect-attached"))) == [])
        #expect(loop.written() == channel(1_024, [0x20, 0x02, 0x97, 0x00]))
    }

    @Test func `accept packets up to the maximum of their gateway`() {
        let loop = TestLoop()
        loop.establish(packetMaximum: 128)
        #expect(loop.receive(channel(1, packet("connect-attached"))).count == 1)
        let text = [UInt8](repeating: UInt8(ascii: "x"), count: 104)
        let publication = loop.publish(.unicast, payload: [0] + text)
        func deliver() -> [String] {
            loop.carryOut {
                $0.append(
                    .deliver(
                        Delivery(
                            connection: name(0), number: 1, publication: publication,
                            grade: .durable)))
            }
        }
        #expect(deliver() == ["too large 1"])
    }

    @Test func `do not exist before the gateway's login, nor inside channels`() {
        let loop = TestLoop()
        #expect(loop.receive("channel-connect") == [])
        #expect(loop.host.isClosed)
        #expect(self.loop.receive("channel-in-channel") == ["fault malformedPacket"])
    }

    @Test func `are the only place for credential 3`() {
        let loop = TestLoop()
        #expect(loop.receive("connect-attached") == [])
        #expect(loop.written() == [0x20, 0x02, 0x8C, 0x00])
    }
}

// Sensors that a gateway attaches, with a real broker: a thousand on one connection, each a
// separate client.

import BrokerTerms
import Foundation
import MartletClient
import NetTransport
import Primitives
import TestSurroundings
import Testing
import WireFormat

/// A gateway of which the test decides every packet.
private final class WireGateway {
    struct Packet {
        var channel: UInt32
        var type: MRT.PacketType
        var flags: UInt8
        var body: [UInt8]
    }

    let wire: WireClient
    private var unsent: [UInt8] = []

    init(_ broker: TestBroker, user: String = "gate") throws {
        let context = try ClientTLSContext(trust: .authorityFile(broker.authority))
        wire = try WireClient(port: broker.tlsPort, tls: context)
        let token = try broker.token(user, rights: ["attach:plant7-*", "send:*"])
        guard case .accepted = try wire.login(token: token) else {
            throw TestFailure("the gateway is not let in")
        }
    }

    /// Puts a packet onto a channel; ``flush()`` sends it.
    func append(_ packet: some MRT.Packet, _ source: [UInt8] = [], to channel: UInt32) {
        let byteCount = packet.encodedByteCount
        var bytes = [UInt8](
            repeating: 0,
            count: byteCount
                + MRT.Channel.prefixByteCount(channel: channel, innerByteCount: byteCount))
        bytes.withUnsafeMutableBytes { room in
            var writer = PacketWriter(room.mutableBytes)
            MRT.Channel.writePrefix(channel: channel, innerByteCount: byteCount, to: &writer)
            source.withUnsafeBytes { packet.write(to: &writer, from: $0.bytes) }
        }
        unsent += bytes
    }

    func flush() throws {
        try wire.send(unsent)
        unsent = []
    }

    func appendConnect(
        _ channel: UInt32, _ user: String, _ change: (inout MRT.Connect) -> Void = { _ in }
    ) {
        var connect = MRT.Connect()
        connect.inboxWindow = 4
        connect.credential = .attached(user: ByteRange(offset: 0, count: user.utf8.count))
        connect.outbox = MRT.Outbox(epoch: 7, resultsSeen: 0, highestUsed: 0)
        change(&connect)
        append(connect, Array(user.utf8), to: channel)
    }

    func appendSend(_ channel: UInt32, _ number: UInt64, to user: String, _ text: String) {
        let source = Array(user.utf8) + [0] + Array(text.utf8)
        let count = user.utf8.count
        append(
            MRT.Send(
                grade: .durable, number: number, target: .user(ByteRange(offset: 0, count: count)),
                payload: ByteRange(offset: count, count: source.count - count)),
            source, to: channel)
    }

    /// Sets a will of the text `lost` to a user, for a channel or for the gateway itself.
    func setWill(of channel: UInt32?, to user: String) throws {
        let text = Array(user.utf8) + [0] + Array("lost".utf8)
        let count = user.utf8.count
        let will = MRT.Will(
            delaySeconds: 0, target: .user(ByteRange(offset: 0, count: count)), isRaw: false,
            payload: ByteRange(offset: count, count: text.count - count))
        let request = MRT.OutgoingRequest(identifier: 1, operation: .setWill, part: will)
        if let channel {
            append(request, text, to: channel)
            try flush()
            _ = try next(.response)
        } else {
            try wire.send(request, text)
            let response = try wire.nextPacket()
            #expect(response.type == MRT.PacketType.response.rawValue)
        }
    }

    /// The next packet of any channel, which has to be of this type.
    func next(_ type: MRT.PacketType) throws -> Packet {
        let outer = try wire.nextPacket()
        guard outer.type == MRT.PacketType.channel.rawValue else {
            throw TestFailure("packet \(outer.type) in place of CHANNEL")
        }
        let packet = try outer.body.withUnsafeBytes { body in
            let channel = try MRT.Channel(body: body.bytes)
            let bytes = channel.inner.bytes(in: body)
            guard
                case .packet(let frame) = PacketFrame.next(
                    in: bytes.bytes, at: 0, packetMaximum: .max)
            else { throw TestFailure("no packet in CHANNEL") }
            return Packet(
                channel: channel.channel, type: try MRT.PacketType(frame, from: .broker),
                flags: frame.flags, body: Array(frame.body.bytes(in: bytes)))
        }
        guard packet.type == type else {
            throw TestFailure("\(packet.type) in place of \(type) on channel \(packet.channel)")
        }
        return packet
    }

    /// The next CONNACK, which has to let the channel in.
    func nextAcceptance() throws -> (channel: UInt32, MRT.ConnectAccepted) {
        let packet = try next(.connack)
        let connack = try packet.body.withUnsafeBytes { try MRT.Connack(body: $0.bytes) }
        guard case .accepted(let accepted) = connack else {
            throw TestFailure("channel \(packet.channel) is refused: \(connack)")
        }
        return (packet.channel, accepted)
    }

    /// The next delivery: its channel, number and text.
    func nextDelivery() throws -> (channel: UInt32, number: UInt64, text: String) {
        let packet = try next(.deliver)
        return try packet.body.withUnsafeBytes { body in
            let deliver = try MRT.Deliver(flags: packet.flags, body: body.bytes)
            let text = String(decoding: deliver.payload.bytes(in: body).dropFirst(), as: UTF8.self)
            return (packet.channel, deliver.number, text)
        }
    }
}

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(3 * Sanitizer.patience))) struct AttachTests {
        private static let sensorCount = 1_000

        private static func sensor(_ channel: UInt32) -> String { "plant7-\(channel)" }

        @Test func `a thousand sensors on one connection are a thousand clients`() async throws {
            let broker = try await TestBroker()
            let bob = try await broker.client("bob")
            let gateway = try WireGateway(broker)
            let channels = 1...UInt32(Self.sensorCount)
            for channel in channels { gateway.appendConnect(channel, Self.sensor(channel)) }
            try gateway.flush()
            var attached: Set<UInt32> = []
            for _ in channels { attached.insert(try gateway.nextAcceptance().channel) }
            #expect(attached.count == Self.sensorCount)
            #expect(try broker.counter("clients/connected") == UInt64(Self.sensorCount) + 2)

            // Each sends as itself.
            for channel in channels { gateway.appendSend(channel, 1, to: "bob", "\(channel)") }
            try gateway.flush()
            var senders: [String: String] = [:]
            for _ in channels {
                let message = try await bob.nextMessage()
                bob.acknowledge(message)
                senders[message.from] = message.text
            }
            for channel in channels { #expect(senders[Self.sensor(channel)] == "\(channel)") }
            for _ in channels { _ = try gateway.next(.result) }

            // Each has an inbox of its own.
            for first in stride(from: 1, to: UInt32(Self.sensorCount), by: 250) {
                let users = (first..<first + 250).map(Self.sensor)
                _ = try await bob.send(OutgoingMessage(to: .users(users), text: "command"))
            }
            var commanded: Set<UInt32> = []
            for _ in channels {
                let delivery = try gateway.nextDelivery()
                #expect(delivery.text == "command")
                commanded.insert(delivery.channel)
                gateway.append(MRT.Ack(inboxNumber: delivery.number), to: delivery.channel)
            }
            #expect(commanded.count == Self.sensorCount)
            try gateway.flush()
            #expect(!gateway.wire.isClosed)
        }

        @Test func `the sensors of a lost gateway are disconnected, and their messages wait`()
            async throws
        {
            let broker = try await TestBroker()
            let bob = try await broker.client("bob")
            var gateway: WireGateway? = try WireGateway(broker)
            var epoch: UInt64 = 0
            for channel in 1...3 as ClosedRange<UInt32> {
                gateway!.appendConnect(channel, Self.sensor(channel))
                try gateway!.flush()
                epoch = try gateway!.nextAcceptance().1.sessionEpoch
            }
            try gateway!.setWill(of: nil, to: "bob")
            try gateway!.setWill(of: 1, to: "bob")
            try gateway!.setWill(of: 2, to: "bob")
            // One says good-bye, and its will is not sent.
            gateway!.append(MRT.ClientDisconnect(), to: 2)
            try gateway!.flush()
            _ = try gateway!.next(.disconnect)
            gateway = nil
            var lost: Set<String> = []
            for _ in 0..<2 {
                let message = try await bob.nextMessage()
                bob.acknowledge(message)
                #expect(message.text == "lost")
                lost.insert(message.from)
            }
            #expect(lost == ["plant7-1", "gate"])
            _ = try await bob.send(OutgoingMessage(to: .user("plant7-3"), text: "wait"))
            // It comes back, on another gateway.
            let other = try WireGateway(broker, user: "gate2")
            other.appendConnect(9, "plant7-3") {
                $0.resume = MRT.Resume(epoch: epoch, lastNumber: 0)
            }
            try other.flush()
            #expect(try other.nextAcceptance().1.isSessionPresent)
            let delivery = try other.nextDelivery()
            #expect(delivery.channel == 9)
            #expect(delivery.text == "wait")
            #expect(try broker.counter("wills/sent") == 2)
        }

        @Test func `a sensor that attaches elsewhere moves, and late packets are ignored`()
            async throws
        {
            let broker = try await TestBroker()
            let bob = try await broker.client("bob")
            let first = try WireGateway(broker)
            let second = try WireGateway(broker, user: "gate2")
            first.appendConnect(1, "plant7-1")
            first.appendConnect(2, "plant7-2")
            try first.flush()
            for _ in 0..<2 { _ = try first.nextAcceptance() }
            second.appendConnect(1, "plant7-1")
            try second.flush()
            #expect(try second.nextAcceptance().1.isSessionPresent)
            let end = try first.next(.disconnect)
            #expect(end.channel == 1)
            #expect(end.body.first == ReasonCode.sessionTakenOver.rawValue)
            // What the first gateway sends in its name is nobody's; its other sensor goes on.
            first.appendSend(1, 1, to: "bob", "late")
            first.appendSend(2, 1, to: "bob", "in time")
            try first.flush()
            #expect(try first.next(.result).channel == 2)
            #expect(try await bob.nextTexts(1) == ["in time"])
            second.appendSend(1, 1, to: "bob", "moved")
            try second.flush()
            #expect(try second.next(.result).channel == 1)
            #expect(try await bob.nextTexts(1) == ["moved"])
        }

        @Test func `a missing right to attach refuses only that channel`() async throws {
            let broker = try await TestBroker()
            let gateway = try WireGateway(broker)
            gateway.appendConnect(1, "bob")
            try gateway.flush()
            #expect(
                try gateway.next(.connack).body.first == ReasonCode.notAuthorized.rawValue)
            gateway.appendConnect(1, "plant7-1")
            try gateway.flush()
            #expect(try gateway.nextAcceptance().channel == 1)
        }
    }
}

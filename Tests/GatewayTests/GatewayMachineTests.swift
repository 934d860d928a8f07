// The gateway as a value, with a correct broker and faulty devices: no device can act as another
// one, and none costs another one its connection.

import GatewayModel
import MartletClient
import PacketMeanings
import Primitives
import Testing
import WireFormat

@testable import Gateway

@Suite("A gateway") struct GatewayMachineTests {
    private static let names = ["plant7-a", "plant7-b", "plant7-c/pump"]
    private let ping = MRT.Ping(isResponse: false)

    private func identity(_ user: String, _ device: String = "") -> ModelBroker.Identity {
        ModelBroker.Identity(user: user, device: device)
    }

    /// Logs a device in; the line is open.
    private func login(
        _ device: inout ModelDevice, _ index: Int, _ site: GatewaySite
    ) throws {
        site.receive(device.login(), on: index)
        let packets = device.take(site.takeWritten(index))
        try #require(packets.last?.first == MRT.PacketType.connack.rawValue << 4)
    }

    /// Whether a ping goes to the broker and back.
    private func isAlive(
        _ device: inout ModelDevice, _ index: Int, _ site: GatewaySite
    ) -> Bool {
        _ = site.takeWritten(index)
        site.receive(device.frames(ping), on: index)
        return device.take(site.takeWritten(index)) == [encode(MRT.Ping(isResponse: true))]
    }

    // MARK: - Who a line is

    @Test func `a device without a credential has the identity of its line`() throws {
        let site = GatewaySite.ready(Self.names)
        var device = ModelDevice()
        try login(&device, 2, site)
        #expect(site.broker.logins == [identity("plant7-c", "pump")])
        #expect(isAlive(&device, 2, site))
    }

    @Test func `a device that claims another identity is refused with a reason`() throws {
        let site = GatewaySite.ready(Self.names)
        var (honest, liar) = (ModelDevice(), ModelDevice())
        try login(&honest, 1, site)
        var connect = MRT.Connect()
        connect.credential = .attached(user: ByteRange(offset: 0, count: 8))
        let open = liar.open()
        site.receive(open + liar.frames(connect, Array("plant7-b".utf8)), on: 0)
        #expect(
            liar.take(site.takeWritten(0))
                == [encode(MRT.ConnectRefused(reason: .badAuthenticationMethod))])
        #expect(liar.kinds == [.opened, .close])
        #expect(site.broker.logins == [identity("plant7-b")])
        #expect(isAlive(&honest, 1, site))
        #expect(site.log.contains { $0.contains("event=device_faulty user=plant7-a") })
    }

    @Test func `a token of another user ends the connection`() throws {
        let site = GatewaySite.ready(Self.names)
        site.broker.tokens = [[1]: "plant7-b", [2]: "plant7-a"]
        var device = ModelDevice()
        var connect = MRT.Connect()
        connect.credential = .token(ByteRange(offset: 0, count: 1))
        let open = device.open()
        site.receive(open + device.frames(connect, [1]), on: 0)
        #expect(
            device.take(site.takeWritten(0)) == [encode(MRT.ConnectRefused(reason: .notAuthorized))]
        )
        #expect(site.broker.channelCount == 0)
        let again = device.open()
        site.receive(again + device.frames(connect, [2]), on: 0)
        #expect(isAlive(&device, 0, site))
    }

    @Test func `a device that returns under other names leaves no open connection`() throws {
        let site = GatewaySite.ready(Self.names)
        var device = ModelDevice()
        for round in 0..<64 {
            let name = Array("d\(round)".utf8)
            var connect = MRT.Connect()
            connect.device = ByteRange(offset: 0, count: name.count)
            let open = device.open()
            site.receive(open + device.frames(connect, name), on: 0)
            #expect(site.broker.channelCount == 1)
        }
        #expect(Set(site.broker.logins) == [identity("plant7-a")])
        site.loseLine(0)
        #expect(site.broker.channelCount == 0)
        #expect(site.broker.losses == [identity("plant7-a")])
    }

    @Test func `a stale connection whose device does not return is lost`() throws {
        let site = GatewaySite.ready(Self.names)
        var device = ModelDevice()
        try login(&device, 0, site)
        site.receive(ModelDevice.frame(.data, 99, [1]), on: 0)
        #expect(site.broker.isConnected(identity("plant7-a")))
        site.pass(milliseconds: 14_999)
        #expect(site.broker.losses == [])
        site.pass(milliseconds: 1)
        #expect(site.broker.losses == [identity("plant7-a")])
        #expect(site.broker.channelCount == 0)
    }

    // MARK: - Everything in one read

    /// What a device may put into one read.
    enum Piece: CaseIterable {
        case open, noise, ping, connect, fault, channel, close
    }

    private func bytes(_ piece: Piece, _ device: inout ModelDevice) -> [UInt8] {
        switch piece {
        case .open: device.open()
        case .noise: [0x33, 0x44, 0x00]
        case .ping: device.frames(ping)
        case .connect: device.frames(MRT.Connect())
        case .fault: device.frames([0xC0, 0x80, 0x80, 0x80, 0x80, 0x01])
        case .channel: device.frames([0xA0, 0x04, 0x01, 0xC0, 0x00, 0x00])
        case .close: ModelDevice.frame(.close, 1)
        }
    }

    @Test(arguments: Piece.allCases, [true, false])
    func
        `whatever one read brings, the device can log in afterwards, and the others notice nothing`(
            first: Piece, isBrokerThere: Bool
        ) throws
    {
        for second in Piece.allCases {
            for third in Piece.allCases {
                for fourth in Piece.allCases {
                    let site = GatewaySite(Self.names)
                    for index in Self.names.indices { site.openLine(index) }
                    var (honest, device) = (ModelDevice(), ModelDevice())
                    if isBrokerThere {
                        site.openUplink()
                        try login(&honest, 1, site)
                    }
                    var read: [UInt8] = []
                    for piece in [first, second, third, fourth] { read += bytes(piece, &device) }
                    site.receive(read, on: 0)
                    if isBrokerThere {
                        #expect(isAlive(&honest, 1, site))
                    } else {
                        site.openUplink()
                    }
                    device = ModelDevice()
                    _ = site.takeWritten(0)
                    try login(&device, 0, site)
                    #expect(site.isUplinkOpen)
                    #expect(site.broker.channelCount(of: identity("plant7-a")) == 1)
                }
            }
        }
    }

    @Test func `a gateway that was stopped answers every repeated OPEN`() throws {
        let site = GatewaySite.ready(Self.names)
        var device = ModelDevice()
        // The C client's schedule: after 0, 250 and 750 ms, then it stood still for 1.5 s.
        let opens = (0..<3).flatMap { _ in device.open() }
        site.receive(opens, on: 0)
        #expect(device.take(site.takeWritten(0)).isEmpty)
        #expect(device.kinds == [.opened, .opened, .opened])
        site.receive(device.frames(MRT.Connect()), on: 0)
        #expect(isAlive(&device, 0, site))
    }

    @Test func `a CHANNEL from a device ends only that device's connection`() throws {
        let site = GatewaySite.ready(Self.names)
        var (honest, other) = (ModelDevice(), ModelDevice())
        try login(&honest, 1, site)
        try login(&other, 0, site)
        site.receive(other.frames([0xA0, 0x04, 0x01, 0xC0, 0x00, 0x00]), on: 0)
        #expect(
            other.take(site.takeWritten(0)).last
                == encode(MRT.BrokerDisconnect(reason: .protocolError)))
        #expect(site.isUplinkOpen)
        #expect(isAlive(&honest, 1, site))
        #expect(site.broker.losses == [identity("plant7-a")])
    }

    @Test(arguments: [UInt32(1_000), 100_000, 131_072, 131_073, 262_144, .max])
    func `a device is told the largest packet that gateway and broker accept`(
        maximum: UInt32
    ) throws {
        let site = GatewaySite.ready(Self.names)
        site.broker.packetMaximum = maximum
        var device = ModelDevice()
        site.receive(device.login(), on: 0)
        let connack = try #require(device.take(site.takeWritten(0)).first)
        let body = try #require(frame(connack)).body
        let answer = try connack.withUnsafeBytes { try MRT.Connack(body: body.bytes(in: $0.bytes)) }
        guard case .accepted(let accepted) = answer else {
            Issue.record("refused")
            return
        }
        #expect(accepted.packetMaximum == min(maximum, 128 * 1024))
        #expect(accepted.keepAliveSeconds == 10)
        let text = connack[Int(body.offset)...].dropFirst(Int(accepted.user.offset))
        #expect(text.prefix(Int(accepted.user.count)).elementsEqual("plant7-a".utf8))
        // As much as was said passes, and no byte more than the gateway takes.
        func send(_ byteCount: Int) -> [UInt8] {
            let source = [UInt8(0x62)] + [UInt8](repeating: 0x61, count: byteCount)
            var packet = MRT.Send(
                grade: .transient, number: 0, target: .user(ByteRange(offset: 0, count: 1)),
                payload: ByteRange(offset: 1, count: byteCount))
            packet.payload.count -= UInt32(encode(packet, source).count - byteCount)
            return encode(packet, source)
        }
        let largest = send(Int(accepted.packetMaximum))
        #expect(largest.count == Int(accepted.packetMaximum))
        for start in stride(from: 0, to: largest.count, by: 2_048) {
            let end = min(start + 2_048, largest.count)
            site.receive(device.frames(Array(largest[start..<end])), on: 0)
        }
        #expect(site.broker.packets.map(\.type) == [MRT.PacketType.send.rawValue])
        #expect(isAlive(&device, 0, site))
    }

    // MARK: - One line and the others

    @Test func `a stalled broker holds lines back without loss`() throws {
        let site = GatewaySite.ready(Self.names)
        var (flood, quiet) = (ModelDevice(), ModelDevice())
        try login(&flood, 0, site)
        try login(&quiet, 1, site)
        site.stalledByteCount = GatewayLimits.uplinkBacklogMaximum
        var sent = 0
        while !site.machine.summary(of: 0).isPaused {
            site.receive(flood.frames(ping), on: 0)
            sent += 1
            try #require(sent < 10_000)
        }
        site.receive(quiet.frames(ping), on: 1)
        #expect(!site.machine.summary(of: 1).isPaused)
        #expect(
            site.machine.summary(of: 0).incomingByteCount
                <= GatewayLimits.lineInputMaximum + SerialFrame.encodedMaximum + 1)
        // As long as it is not read, nobody can say that it is silent; the other one can be heard.
        for _ in 0..<10 {
            site.pass(milliseconds: 4_000)
            site.receive(quiet.frames(ping), on: 1)
        }
        #expect(site.broker.losses == [])
        site.stalledByteCount = 0
        site.pass(milliseconds: 1)
        #expect(!site.machine.summary(of: 0).isPaused)
        let pings = site.broker.packets.filter { $0.identity == identity("plant7-a") }
        #expect(pings.count == sent)
        #expect(isAlive(&quiet, 1, site))
    }

    @Test func `lines take turns regardless of their input`() throws {
        let site = GatewaySite.ready(Self.names)
        var devices = [ModelDevice(), ModelDevice(), ModelDevice()]
        for index in devices.indices { try login(&devices[index], index, site) }
        site.stalledByteCount = GatewayLimits.uplinkBacklogMaximum
        // As much as one read brings, of two lines; behind them one ping of the third.
        for index in 0..<2 {
            site.receive(
                (0..<400).flatMap { _ in devices[index].frames(ping) }, on: index)
        }
        site.receive(devices[2].frames(ping), on: 2)
        site.stalledByteCount = 0
        site.pass(milliseconds: 1)
        let order = site.broker.packets.map(\.identity)
        let place = try #require(order.firstIndex(of: identity("plant7-c", "pump")))
        #expect(place <= 4)
        #expect(order.count == 801)
    }

    @Test func `a device that reconnects endlessly has at most three channels`() throws {
        let site = GatewaySite.ready(Self.names)
        site.broker.holdsAnswers = true
        var (device, honest) = (ModelDevice(), ModelDevice())
        for _ in 0..<2_000 {
            let open = device.open()
            site.receive(open + device.frames(MRT.Connect()), on: 0)
        }
        #expect(site.broker.channelCount <= 3)
        site.broker.answerHeld()
        site.receiveFromBroker(site.broker.takeAnswers())
        try login(&honest, 1, site)
        try login(&device, 0, site)
        #expect(site.broker.channelCount == 2)
    }

    @Test func `a thousand devices that reconnect at once are all accepted`() throws {
        let names = (0..<GatewayLimits.linesMaximum).map { "u\($0)" }
        let site = GatewaySite(names)
        site.checksInvariants = false
        for index in names.indices { site.openLine(index) }
        site.openUplink()
        var devices = names.map { _ in ModelDevice() }
        for index in names.indices { try login(&devices[index], index, site) }
        site.broker.holdsAnswers = true
        for index in names.indices { site.receive(devices[index].login(), on: index) }
        #expect(site.broker.channelCount == GatewayLimits.channelsMaximum)
        site.broker.answerHeld()
        site.receiveFromBroker(site.broker.takeAnswers())
        for index in names.indices { #expect(isAlive(&devices[index], index, site)) }
        site.machine.checkInvariants()
        #expect(site.broker.channelCount == names.count)
        #expect(site.broker.losses == [])
    }

    @Test
    func `a device that does not read uses bounded memory, and loses only transient messages`()
        throws
    {
        let site = GatewaySite.ready(Self.names)
        var device = ModelDevice()
        try login(&device, 0, site)
        // What the line does not take stays with the machine.
        let source = Array("bob".utf8) + [UInt8](repeating: 0x61, count: 1_000)
        func deliver(_ grade: MRT.Grade, _ number: UInt64) -> [UInt8] {
            let packet = encode(
                MRT.Deliver(
                    grade: grade, number: number, kind: .unicast,
                    from: ByteRange(offset: 0, count: 3), time: 1,
                    payload: ByteRange(offset: 3, count: 1_000)), source)
            return encode(
                MRT.Channel(
                    channel: site.machine.summary(of: 0).channel!,
                    inner: ByteRange(offset: 0, count: packet.count)), packet)
        }
        let flood = deliver(.transient, 0)
        for _ in 0..<2_000 {
            flood.withUnsafeBytes { site.machine.uplinkReceived($0, now: site.now) }
        }
        let held = site.machine.summary(of: 0).outgoingByteCount
        #expect(held <= GatewayLimits.lineBacklogMaximum * 9 / 8)
        #expect(site.machine.summary(of: 0).isConnected)
        let numbered = deliver(.durable, 1)
        numbered.withUnsafeBytes { site.machine.uplinkReceived($0, now: site.now) }
        #expect(!site.machine.summary(of: 0).isConnected)
        #expect(site.machine.summary(of: 0).outgoingByteCount < 32)
        site.turn()
        #expect(site.broker.losses == [identity("plant7-a")])
        #expect(site.log.contains { $0.contains("event=line_overrun") })
    }

    @Test func `noise has ten log lines a minute`() throws {
        let site = GatewaySite.ready(Self.names)
        var device = ModelDevice()
        let lineCount = site.log.count
        for _ in 0..<1_000 {
            site.receive(device.open() + [0x55, 0x00], on: 0)
        }
        #expect(site.log.count - lineCount <= GatewayLimits.logLinesMaximum)
        site.pass(milliseconds: GatewayLimits.logPeriodMilliseconds)
        site.receive(device.open() + [0x55, 0x00], on: 0)
        #expect(site.log.last?.contains("suppressed=99") == true)
    }

    // MARK: - The broker

    @Test func `without the broker a device waits for its connection`()
        throws
    {
        let site = GatewaySite.ready(Self.names)
        var device = ModelDevice()
        try login(&device, 0, site)
        site.loseUplink()
        #expect(device.take(site.takeWritten(0)).isEmpty)
        #expect(device.kinds == [.opened, .close])
        site.receive(device.open(), on: 0)
        #expect(site.takeWritten(0).isEmpty)
        site.pass(milliseconds: 120_000)
        site.openUplink()
        #expect(device.take(site.takeWritten(0)).count == 0)
        #expect(device.kinds.last == .opened)
    }

    @Test func `the gateway continues after any bytes of a broker`() throws {
        // Every channel packet of two bytes within, on the device's channel and another one.
        for type in UInt8(0)...15 {
            for first in [UInt8(0), 1, 5, 0x80, 0x8E, 0xFF] {
                let site = GatewaySite.ready(Self.names)
                var device = ModelDevice()
                try login(&device, 0, site)
                for channel in [UInt8(1), 9] {
                    site.receiveFromBroker([0xA0, 4, channel, type << 4, 1, first])
                    site.receiveFromBroker([type << 4, 1, first])
                }
                site.pass(milliseconds: 200_000)
                site.openUplink()
                #expect(site.failure != nil || site.isUplinkOpen)
            }
        }
    }

    @Test func `the end of the gateway tells every device`() throws {
        let site = GatewaySite.ready(Self.names)
        var device = ModelDevice()
        try login(&device, 0, site)
        site.machine.stop(now: site.now)
        site.turn()
        _ = device.take(site.takeWritten(0))
        #expect(device.kinds.last == .close)
        #expect(site.log.contains { $0.hasPrefix("event=gateway_stopping") })
    }
}

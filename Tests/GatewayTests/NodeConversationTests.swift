// The connection of a device through the gateway: the packets that pass, and the rewriting of
// CONNECT.

import BrokerTerms
import MartletClient
import PacketMeanings
import Primitives
import Testing
import WireFormat

@testable import Gateway

@Suite("A device's conversation") struct NodeConversationTests {
    private var conversation = NodeConversation()
    private static let identity = LineIdentity(
        user: Array("plant7-1".utf8), device: Array("pump".utf8))

    private mutating func next(holdsConnect: Bool = false) -> NodeConversation.Step? {
        conversation.next(as: Self.identity, packetMaximum: 2_000, holdsConnect: holdsConnect)
    }

    private mutating func passed(_ packet: [UInt8]) -> NodeConversation.Verdict {
        packet.withUnsafeBytes { conversation.passed($0, as: Self.identity) }
    }

    private static func accepted(_ user: String = "plant7-1") -> [UInt8] {
        var packet = MRT.ConnectAccepted()
        packet.sessionEpoch = 1
        packet.keepAliveSeconds = 10
        packet.packetMaximum = 2_000
        packet.user = ByteRange(offset: 0, count: user.utf8.count)
        return encode(packet, Array(user.utf8))
    }

    private static func connect(_ credential: MRT.Credential, _ source: [UInt8]) -> [UInt8] {
        var connect = MRT.Connect()
        connect.credential = credential
        return encode(connect, source)
    }

    /// Brings the conversation into a phase.
    private static func inPhase(_ phase: NodeConversation.Phase) -> NodeConversationTests {
        var suite = NodeConversationTests()
        guard phase != .idle else { return suite }
        suite.conversation.append(connect(.token(ByteRange(offset: 0, count: 1)), [0x74])[...])
        _ = suite.next()
        if phase != .asked { _ = suite.passed(accepted()) }
        if phase == .ended { _ = suite.passed(encode(MRT.BrokerDisconnect(reason: .serverBusy))) }
        return suite
    }

    // MARK: - CONNECT

    @Test
    mutating func `CONNECT is rewritten with the line's identity and the device's parameters`()
        throws
    {
        var asked = MRT.Connect()
        asked.device = ByteRange(offset: 0, count: 5)
        asked.isReconnect = true
        asked.keepAliveSeconds = 30
        asked.inboxWindow = 3
        asked.packetMaximum = 512
        asked.cookie = 77
        asked.resume = MRT.Resume(epoch: 5, lastNumber: 6)
        asked.outbox = MRT.Outbox(epoch: 7, resultsSeen: 8, highestUsed: 9)
        asked.sessionExpirySeconds = 100
        asked.information = ByteRange(offset: 5, count: 2)
        conversation.append(encode(asked, Array("other{}".utf8))[...])
        guard case .packet(let packet)? = next() else {
            Issue.record("no packet")
            return
        }
        try packet.withUnsafeBytes { bytes in
            let found = try #require(frame(packet))
            let body = found.body.bytes(in: bytes)
            let written = try MRT.Connect(body: body.bytes)
            guard case .attached(let name) = written.credential else {
                Issue.record("not attached")
                return
            }
            #expect(Array(name.bytes(in: body)) == Self.identity.user)
            #expect(Array(written.device.bytes(in: body)) == Self.identity.device)
            #expect(written.isReconnect && !written.isCleanStart)
            #expect(written.keepAliveSeconds == 30)
            #expect(written.inboxWindow == 3)
            #expect(written.packetMaximum == 512)
            #expect(written.cookie == 77)
            #expect(written.resume == asked.resume)
            #expect(written.outbox == asked.outbox)
            #expect(written.sessionExpirySeconds == 100)
            #expect(Array(written.information.bytes(in: body)) == Array("{}".utf8))
        }
    }

    @Test mutating func `a device cannot attach users`() {
        let source = Array("plant7-2".utf8)
        conversation.append(
            Self.connect(.attached(user: ByteRange(offset: 0, count: 8)), source)[...])
        #expect(next() == .refused(.badAuthenticationMethod))
        // Not even for itself.
        conversation = NodeConversation()
        conversation.append(
            Self.connect(.attached(user: ByteRange(offset: 0, count: 8)), Self.identity.user)[...])
        #expect(next() == .refused(.badAuthenticationMethod))
    }

    @Test mutating func `a device's own token must belong to the user of its line`() {
        let token = MRT.Credential.token(ByteRange(offset: 0, count: 1))
        conversation.append(Self.connect(token, [0x74])[...])
        var expected = MRT.Connect()
        expected.credential = token
        expected.device = ByteRange(offset: 1, count: 4)
        #expect(next() == .packet(encode(expected, [0x74] + Self.identity.device)))
        #expect(passed(Self.accepted("plant7-2")) == .isSomebodyElse)
        // The one that is the line's.
        self = Self.inPhase(.asked)
        #expect(passed(Self.accepted()) == .goesOn)
    }

    @Test mutating func `an app key is valid only for the user of the line`() {
        func connect(_ user: String) -> [UInt8] {
            Self.connect(
                .appKey(
                    app: ByteRange(offset: 0, count: 1), key: ByteRange(offset: 1, count: 1),
                    user: ByteRange(offset: 2, count: user.utf8.count)), [0x61, 0x6B] + user.utf8)
        }
        conversation.append(connect("plant7-2")[...])
        #expect(next() == .refused(.notAuthorized))
        conversation = NodeConversation()
        conversation.append(connect("plant7-1")[...])
        guard case .packet? = next() else {
            Issue.record("refused")
            return
        }
    }

    @Test mutating func `a CONNECT that becomes too large for the broker is refused`() {
        var asked = MRT.Connect()
        asked.information = ByteRange(offset: 0, count: 1_980)
        conversation.append(encode(asked, [UInt8](repeating: 0x20, count: 1_980))[...])
        #expect(next() == .refused(.packetTooLarge))
    }

    @Test mutating func `a CONNECT waits while the broker has no room for it`() {
        conversation.append(encode(MRT.Connect())[...])
        #expect(next(holdsConnect: true) == .waiting)
        #expect(conversation.takesMore(isConnectHeld: true))
        conversation.append([UInt8](repeating: 0, count: GatewayLimits.pendingMaximum)[...])
        #expect(!conversation.takesMore(isConnectHeld: true))
        guard case .packet? = next() else {
            Issue.record("held for ever")
            return
        }
    }

    // MARK: - The list of packets

    private enum Outcome: Equatable { case passes, ignored, waits, refused(ReasonCode) }

    /// What becomes of a sound packet of each type, by its number.
    private static func outcome(
        _ type: UInt8, _ phase: NodeConversation.Phase
    ) -> Outcome {
        let isConnect = type == MRT.PacketType.connect.rawValue
        switch phase {
        case .asked: return .waits
        case .ended where !isConnect: return .ignored
        case .idle, .ended, .open: break
        }
        switch MRT.PacketType(rawValue: type) {
        case nil: return .refused(.malformedPacket)
        case .connect: return phase == .open ? .refused(.protocolError) : .passes
        case .send, .ack, .request, .pingRequest, .disconnect, .auth:
            return phase == .open ? .passes : .refused(.protocolError)
        case .connack, .result, .deliver, .response, .pingResponse, .channel:
            return .refused(.protocolError)
        }
    }

    private static func packet(_ type: UInt8) -> [UInt8] {
        switch MRT.PacketType(rawValue: type) {
        case .connect: encode(MRT.Connect())
        case .auth: encode(MRT.ClientAuth(credential: .token(ByteRange(offset: 0, count: 1))), [1])
        // A ping on another device's channel.
        case .channel: [0xA0, 0x04, 0x01, 0xC0, 0x00, 0x00]
        default: [type << 4, 0]
        }
    }

    @Test(arguments: 0..<UInt8(16), NodeConversation.Phase.allCases)
    mutating func `each type of packet passes or is refused in each phase`(
        type: UInt8, phase: NodeConversation.Phase
    ) {
        self = Self.inPhase(phase)
        conversation.append(Self.packet(type)[...])
        switch Self.outcome(type, phase) {
        case .waits, .ignored: #expect(next() == nil)
        case .refused(let reason): #expect(next() == .refused(reason))
        case .passes:
            guard case .packet(let packet)? = next() else {
                Issue.record("type \(type) does not pass")
                return
            }
            #expect(packet[0] == type << 4)
        }
    }

    @Test mutating func `a connection that the broker ended begins again with CONNECT`() {
        self = Self.inPhase(.ended)
        conversation.append(encode(MRT.Ping(isResponse: false))[...])
        conversation.append(encode(MRT.Connect())[...])
        guard case .packet(let packet)? = next() else {
            Issue.record("no CONNECT")
            return
        }
        #expect(packet[0] >> 4 == MRT.PacketType.connect.rawValue)
    }

    @Test mutating func `a new credential follows only one of the device's own`() {
        let auth = encode(MRT.ClientAuth(credential: .token(ByteRange(offset: 0, count: 1))), [1])
        conversation.append(encode(MRT.Connect())[...])
        _ = next()
        _ = passed(Self.accepted())
        conversation.append(auth[...])
        #expect(next() == .refused(.badAuthenticationMethod))
        self = Self.inPhase(.open)
        conversation.append(auth[...])
        #expect(next() == .packet(auth))
        let attached = MRT.ClientAuth(credential: .attached(user: ByteRange(offset: 0, count: 8)))
        conversation.append(encode(attached, Array("plant7-2".utf8))[...])
        #expect(next() == .refused(.badAuthenticationMethod))
    }

    @Test mutating func `nothing overtakes CONNACK`() {
        conversation.append(encode(MRT.Connect())[...])
        _ = next()
        let ping = encode(MRT.Ping(isResponse: false))
        conversation.append(ping[...])
        #expect(next() == nil)
        #expect(passed(Self.accepted()) == .goesOn)
        #expect(conversation.silenceMillisecondsMaximum == 15_000)
        #expect(next() == .packet(ping))
        #expect(next() == nil)
    }

    @Test mutating func `packets are passed on when they are complete`() {
        self = Self.inPhase(.open)
        let ping = encode(MRT.Ping(isResponse: false))
        conversation.append(ping[..<1])
        #expect(next() == nil)
        conversation.append(ping[1...])
        #expect(next() == .packet(ping))
    }

    @Test mutating func `a malformed or too large packet is a fault with its reason`() {
        self = Self.inPhase(.open)
        conversation.append([0x30, 0xFF, 0xFF, 0x03])
        #expect(next() == .refused(.packetTooLarge))
        self = Self.inPhase(.open)
        conversation.append([0xC0, 0x80, 0x80, 0x80, 0x80, 0x01])
        #expect(next() == .refused(.malformedPacket))
    }

    // MARK: - From the broker

    @Test mutating func `the conversation ends with DISCONNECT or a refusal`() {
        self = Self.inPhase(.open)
        #expect(passed(encode(MRT.BrokerDisconnect(reason: .sessionTakenOver))) == .isLast)
        self = Self.inPhase(.asked)
        #expect(
            passed(encode(MRT.ConnectRefused(reason: .notAuthorized)))
                == .isRefusal(.notAuthorized, hasOwnCredential: true))
    }

    @Test(arguments: NodeConversation.Phase.allCases)
    mutating func `every packet of the broker is handled in every phase`(
        phase: NodeConversation.Phase
    ) {
        let packets: [[UInt8]] = [
            [], [0x20], [0x20, 0], [0x20, 1, 5], [0xE0, 0], [0xF0, 1, 0], Self.accepted(),
            Self.accepted("x"), [0xC0, 0], [0x50, 0], [0xA0, 0],
        ]
        for packet in packets {
            self = Self.inPhase(phase)
            _ = passed(packet)
            _ = next()
        }
    }
}

@Suite struct LineSettingsTests {
    @Test func `a line is written as a user, perhaps a device, and a place`() {
        #expect(
            LineSettings("plant7-1=/dev/ttyUSB0")?.endpoint
                == .terminal(path: "/dev/ttyUSB0", baud: 115_200))
        #expect(
            LineSettings("plant7-1=/dev/ttyUSB0@57600")?.endpoint
                == .terminal(path: "/dev/ttyUSB0", baud: 57_600))
        let line = LineSettings("plant7-1/pump=/dev/ttyUSB0")
        #expect(line?.user == "plant7-1")
        #expect(line?.device == "pump")
        guard case .tcp(let server)? = LineSettings("a=tcp://127.0.0.1:7001")?.endpoint else {
            Issue.record("not TCP")
            return
        }
        #expect(server.port == 7001)
    }

    @Test(arguments: [
        "", "a", "a=", "=/dev/x", "a=dev/x", "a=/dev/x@12", "a=/dev/x@9600@1", "a=tcp://",
        "a/=/dev/x", "a/b/c=/dev/x", "a+=/dev/x", "/b=/dev/x",
        "\(String(repeating: "a", count: 65))=/dev/x",
    ])
    func `anything else is refused`(text: String) {
        #expect(LineSettings(text) == nil)
    }

    @Test func `two lines are never the same device`() {
        var settings = GatewaySettings(
            servers: [ServerAddress(transport: .tcp, host: "127.0.0.1", port: 1)], tls: nil,
            token: "t", lines: ["a=/dev/x", "a/b=/dev/y", "b=/dev/z"].map { LineSettings($0)! })
        #expect(settings.fault == nil)
        settings.lines.append(LineSettings("a/b=/dev/w")!)
        #expect(settings.fault?.contains("a/b") == true)
        settings.lines = (0...GatewayLimits.linesMaximum).map { LineSettings("u\($0)=/dev/x")! }
        #expect(settings.fault?.contains("1000") == true)
        settings.lines = []
        settings.willUser = "no/body"
        #expect(settings.fault?.contains("no/body") == true)
    }
}

// A device's conversation on its way through the gateway: only CONNECT is touched.

import Primitives
import Testing
import WireFormat

@testable import Gateway

@Suite struct NodeConversationTests {
    private var conversation = NodeConversation()
    private let user = Array("plant7-1".utf8)

    private func encode(_ packet: some MRT.Packet, _ source: [UInt8] = []) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: packet.encodedByteCount)
        bytes.withUnsafeMutableBytes { room in
            var writer = PacketWriter(room)
            source.withUnsafeBytes { packet.write(to: &writer, from: $0) }
        }
        return bytes
    }

    private mutating func next() -> NodeConversation.Step? {
        conversation.next(user: user, packetMaximum: 2_000)
    }

    private var accepted: [UInt8] {
        var packet = MRT.ConnectAccepted()
        packet.sessionEpoch = 1
        packet.keepAliveSeconds = 10
        packet.sendWindow = 1
        packet.inboxWindow = 1
        packet.packetMaximum = 2_000
        packet.user = ByteRange(offset: 0, count: 1)
        return encode(packet, [0x61])
    }

    private mutating func open() {
        conversation.append(encode(MRT.Connect())[...])
        _ = next()
        #expect(accepted.withUnsafeBytes { conversation.passed($0) })
    }

    @Test mutating func `a device without a credential is attached as the user of its line`()
        throws
    {
        var connect = MRT.Connect()
        connect.device = ByteRange(offset: 0, count: 4)
        connect.keepAliveSeconds = 30
        conversation.append(encode(connect, Array("pump".utf8))[...])
        guard case .packet(let packet)? = next() else {
            Issue.record("no packet")
            return
        }
        try packet.withUnsafeBytes { bytes in
            let body = UnsafeRawBufferPointer(rebasing: bytes[2...])
            let rewritten = try MRT.Connect(body: body)
            guard case .attached(let name) = rewritten.credential else {
                Issue.record("not attached")
                return
            }
            #expect(Array(name.bytes(in: body)) == user)
            #expect(Array(rewritten.device.bytes(in: body)) == Array("pump".utf8))
            #expect(rewritten.keepAliveSeconds == 30)
        }
    }

    @Test mutating func `a device with a token of its own keeps it`() {
        var connect = MRT.Connect()
        connect.credential = .token(ByteRange(offset: 0, count: 1))
        let packet = encode(connect, [0x74])
        conversation.append(packet[...])
        #expect(next() == .packet(packet))
    }

    @Test mutating func `nothing overtakes CONNACK`() {
        conversation.append(encode(MRT.Connect())[...])
        _ = next()
        let ping = encode(MRT.Ping(isResponse: false))
        conversation.append(ping[...])
        #expect(next() == nil)
        #expect(accepted.withUnsafeBytes { conversation.passed($0) })
        #expect(conversation.silenceMillisecondsMaximum == 15_000)
        #expect(next() == .packet(ping))
        #expect(next() == nil)
    }

    @Test mutating func `packets are passed on when they are whole`() {
        open()
        let ping = encode(MRT.Ping(isResponse: false))
        conversation.append(ping[..<1])
        #expect(next() == nil)
        conversation.append(ping[1...])
        #expect(next() == .packet(ping))
    }

    @Test mutating func `what is no packet, or too large, is a fault`() {
        open()
        conversation.append([0x30, 0xFF, 0xFF, 0x03])
        #expect(next() == .faulty)
    }

    @Test mutating func `it begins with CONNECT, once`() {
        conversation.append(encode(MRT.Ping(isResponse: false))[...])
        #expect(next() == .faulty)
    }

    @Test mutating func `it ends with DISCONNECT or a refusal`() {
        open()
        let end = encode(MRT.BrokerDisconnect(reason: .sessionTakenOver))
        #expect(!end.withUnsafeBytes { conversation.passed($0) })
        let refusal = encode(MRT.ConnectRefused(reason: .notAuthorized))
        var other = NodeConversation()
        #expect(!refusal.withUnsafeBytes { other.passed($0) })
    }
}

@Suite struct LineSettingsTests {
    @Test func `a line is written as a user and a place`() {
        #expect(
            LineSettings("plant7-1=/dev/ttyUSB0")?.endpoint
                == .terminal(path: "/dev/ttyUSB0", baud: 115_200))
        #expect(
            LineSettings("plant7-1=/dev/ttyUSB0@57600")?.endpoint
                == .terminal(path: "/dev/ttyUSB0", baud: 57_600))
        guard case .tcp(let server)? = LineSettings("a=tcp://127.0.0.1:7001")?.endpoint else {
            Issue.record("not TCP")
            return
        }
        #expect(server.port == 7001)
    }

    @Test(arguments: [
        "", "a", "a=", "=/dev/x", "a=dev/x", "a=/dev/x@12", "a=/dev/x@9600@1", "a=tcp://",
    ])
    func `anything else is refused`(text: String) {
        #expect(LineSettings(text) == nil)
    }
}

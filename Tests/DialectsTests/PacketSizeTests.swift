// No packet is larger than its receiver accepts: every kind of packet, with small maximums.

import BrokerTerms
import Primitives
import Testing
import WireFormat

@testable import BrokerCore
@testable import Dialects

@Suite struct `A packet to an MRT client` {
    /// Every effect that becomes a packet, as large as it can be.
    private func effects(_ loop: TestLoop) -> [Effect] {
        let connection = loop.connection
        let long = loop.text(String(repeating: "x", count: 2_000))
        let identifier = loop.text(String(repeating: "m", count: 64))
        for index in 0..<256 as Range<UInt32> {
            loop.effects.refusals.append(Refusal(index: index, reason: .topicNameInvalid))
        }
        let result = BrokerCore.SendResult(
            connection: connection, number: 1 << 62, reason: .sent, messageIdentifier: identifier,
            refusedCount: 256, firstRefusal: 0, namedRefusalCount: 256)
        return [
            .reportResult(result),
            .mrt(.respond(connection, requestIdentifier: 1 << 62, .success, body: long)),
            .mrt(.respond(connection, requestIdentifier: 1 << 62, .quotaExceeded, body: long)),
            .mrt(.reportGroups(connection, requestIdentifier: 1, hasMore: true, entries: long)),
            .mrt(
                .reportPresence(
                    connection, requestIdentifier: 1, isOnline: true, sinceUnixMilliseconds: 1,
                    devices: long, count: 1)),
            .answerCredential(connection, .success),
            .close(connection, .sessionTakenOver),
        ]
    }

    @Test(arguments: [128, 129, 200, 600, 1_000] as [UInt32])
    func `is no larger than its client accepts`(maximum: UInt32) throws {
        for index in 0..<7 {
            let loop = TestLoop()
            loop.establish(packetMaximum: maximum)
            let effect = effects(loop)[index]
            #expect(loop.carryOut { $0.append(effect) } == [])
            let bytes = loop.written()
            #expect(!bytes.isEmpty && bytes.count <= Int(maximum), "\(effect)")
        }
    }

    @Test func `names as many refused receivers as fit, and counts all`() throws {
        let loop = TestLoop()
        loop.establish(packetMaximum: 128)
        let effect = effects(loop)[0]
        loop.carryOut { $0.append(effect) }
        let bytes = loop.written()
        // Two bytes of header, nine of number, 65 of message id, two of the count: 50 are left for
        // pairs of two bytes.
        #expect(bytes.count == 128)
        try bytes.withUnsafeBytes { bytes in
            guard
                case .packet(let frame) = PacketFrame.next(
                    in: bytes.bytes, at: 0, packetMaximum: 128)
            else { return #expect(Bool(false), "no packet") }
            let body = frame.body.bytes(in: bytes)
            let result = try MRT.SendResult(flags: frame.flags, body: body.bytes)
            #expect(result.refusedCount == 256)
            var list = MRT.RefusalList(result.refusals, in: body.bytes)
            var indices: [UInt32] = []
            while let refusal = list.next() { indices.append(refusal.index) }
            #expect(indices == Array(0..<25))
        }
    }

    @Test func `reports that it is too large if a result does not fit`() {
        let loop = TestLoop()
        loop.establish(packetMaximum: 128)
        let effect = effects(loop)[3]
        loop.carryOut { $0.append(effect) }
        #expect(loop.written() == [0x80, 2, 1, 0x95])
    }

    @Test(arguments: [128, 200, 300] as [UInt32])
    func `on a channel fits its gateway's maximum`(maximum: UInt32) throws {
        var connect = MRT.Connect()
        connect.inboxWindow = 1
        connect.credential = .token(ByteRange(offset: 0, count: 6))
        let inner = encode(connect, "s3cr3t")
        for index in 0..<7 {
            let loop = TestLoop()
            loop.establish(packetMaximum: maximum)
            loop.receive(
                encode(
                    MRT.Channel(channel: .max, inner: ByteRange(offset: 0, count: inner.count)),
                    inner))
            let found = loop.decoder.conversations.channels.channel(.max, of: loop.connection)
            let channel = try #require(found)
            loop.carryOut { $0.append(.accept(channel, acceptance(user: .empty))) }
            #expect(loop.written().count <= Int(maximum))
            let effect = moved(effects(loop)[index], to: channel)
            loop.carryOut { $0.append(effect) }
            #expect(loop.written().count <= Int(maximum), "\(effect)")
        }
    }

    private func moved(_ effect: Effect, to channel: ConnectionID) -> Effect {
        switch effect {
        case .reportResult(var result):
            result.connection = channel
            return .reportResult(result)
        case .mrt(.respond(_, let number, let reason, let body)):
            return .mrt(.respond(channel, requestIdentifier: number, reason, body: body))
        case .close(_, let reason): return .close(channel, reason)
        default: return .answerCredential(channel, .success)
        }
    }

    @Test func `that accepts a channel and does not fit refuses the login`() throws {
        let loop = TestLoop()
        loop.establish(packetMaximum: 128)
        let inner: [UInt8] = [
            0x10, 0x0E, 0, 3, 0x4D, 0x52, 0x54, 1, 0x40, 0, 1, 0, 0, 3, 1, 0x61,
        ]
        loop.receive([0xA0, UInt8(1 + inner.count), 7] + inner)
        let found = loop.decoder.conversations.channels.channel(7, of: loop.connection)
        let channel = try #require(found)
        let acceptance = Acceptance(
            isSessionPresent: true, hasWill: true, epoch: 1, cookie: 1,
            unixMilliseconds: 1 << 62, keepAliveSeconds: 65_535, sessionExpirySeconds: .max,
            sendWindow: .max, inboxWindow: .max, messageMaximum: .max, payloadMaximum: .max,
            user: loop.text(String(repeating: "u", count: 64)))
        #expect(
            loop.carryOut { $0.append(.accept(channel, acceptance)) }
                == ["fault packetTooLarge"])
        let bytes = loop.written()
        #expect(bytes.starts(with: [0xA0, UInt8(bytes.count - 2), 7, 0x20]))
        #expect(bytes[5] == 0x95 && bytes.count <= 128)
        #expect(loop.decoder.conversations[channel] == nil)
    }
}

@Suite struct `A packet to an MQTT client` {
    /// A 5.0 CONNECT that takes packets of so many bytes.
    private func connect(_ maximum: UInt32) -> [UInt8] {
        let properties: [UInt8] =
            [0x27] + (0..<4).reversed().map { UInt8(truncatingIfNeeded: maximum >> ($0 * 8)) }
        let body: [UInt8] =
            [0, 4] + Array("MQTT".utf8) + [5, 0xC2, 0, 60, UInt8(properties.count)] + properties
            + [0, 1, 0x63, 0, 1, 0x75, 0, 1, 0x70]
        return [0x10, UInt8(body.count)] + body
    }

    private func refused(_ loop: TestLoop) -> Bool {
        loop.phase == .closing && loop.host.isClosed
    }

    @Test(arguments: 1...200 as ClosedRange<UInt32>)
    func `is no larger than its client accepts`(maximum: UInt32) {
        for index in 0..<9 {
            let loop = TestLoop()
            loop.receive(connect(maximum))
            let events = loop.carryOut {
                $0.append(.accept(loop.connection, acceptance(user: .empty)))
            }
            let connack = loop.written()
            #expect(connack.count <= Int(maximum))
            if refused(loop) {
                // Without topic aliases its CONNACK is 21 bytes.
                #expect(maximum < 21)
                #expect(events.count == 1)
                #expect(connack == (maximum >= 5 ? [0x20, 3, 0, 0x95, 0] : []))
                // What the core has sent meanwhile is not written.
                loop.carryOut { $0.append(.close(loop.connection, .packetTooLarge)) }
                #expect(loop.written() == [])
                continue
            }
            #expect(connack[3] == 0)
            let long = loop.text(String(repeating: "x", count: 100))
            var answer = PacketAnswer(
                to: loop.connection, packet: 7, step: .received, reason: .quotaExceeded)
            answer.messageIdentifier = long
            let effects: [Effect] = [
                .mqtt(.answerPacket(answer)),
                .mqtt(
                    .answerPacket(
                        PacketAnswer(
                            to: loop.connection, packet: 7, step: .release,
                            reason: .packetIdentifierNotFound))),
                .mqtt(.answerPacket(PacketAnswer(to: loop.connection, packet: 7, step: .complete))),
                .mqtt(.answerFilters(filterAnswer(loop.connection, .subscribe, codes: long))),
                .mqtt(.answerFilters(filterAnswer(loop.connection, .unsubscribe, codes: long))),
                .answerCredential(loop.connection, .success),
                .close(loop.connection, .sessionTakenOver),
                .refuse(loop.connection, .serverBusy, retryAfterSeconds: 1),
                .mqtt(.answerPacket(PacketAnswer(to: loop.connection, packet: 7, step: .accepted))),
            ]
            let faults = loop.carryOut { $0.append(effects[index]) }
            let bytes = loop.written()
            #expect(bytes.count <= Int(maximum))
            // Either it is told, or its connection ends with a reason.
            #expect(bytes.isEmpty == !faults.isEmpty, "\(effects[index]) to \(maximum)")
        }
    }

    @Test func `that refuses a login is not sent to a client with a smaller maximum`() {
        let loop = TestLoop()
        loop.receive(connect(2))
        loop.carryOut {
            $0.append(.refuse(loop.connection, .badUserNameOrPassword, retryAfterSeconds: 0))
        }
        #expect(loop.written() == [])
        #expect(refused(loop))
    }
}

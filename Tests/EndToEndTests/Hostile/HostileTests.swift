// Hostile and faulty clients, each while two others exchange messages: these lose nothing, and wait
// no longer than a busy machine makes them. The broker's memory stays within limits.

import Administration
import BrokerTerms
import MartletClient
import NetTransport
import Primitives
import TestSurroundings
import Testing
import WireFormat

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(2 * Sanitizer.patience))) struct HostileTests {
        /// What an attack may cost the broker in memory: its limits leave it less than this.
        private static let growthMaximum = 96 << 20

        /// Runs an attack beside the bystanders.
        private func attack(
            _ name: String, _ settings: [String] = [],
            _ body: (TestBroker) async throws -> Void
        ) async throws {
            let broker = try await TestBroker(settings: settings)
            let bystanders = try await Bystanders(broker)
            let before = try broker.residentBytes()
            var largest = before
            let report = try await bystanders.watch {
                try await body(broker)
                largest = max(largest, try broker.residentBytes())
            }
            print("hostile, \(name): \(report), memory +\((largest - before) >> 20) MiB")
            #expect(report.lossCount == 0)
            // Nobody is shut out for the length of an attack. Figures stand in PERFORMANCE.md.
            #expect(
                report.longestMilliseconds < 15_000 * Double(Sanitizer.slowdown), "\(report)")
            // A sanitizer keeps what is freed.
            if Sanitizer.isThere { return print("memory is not compared under a sanitizer") }
            #expect(largest - before < Self.growthMaximum, "\(before) bytes, then \(largest)")
        }

        private static let tlsBeginning: [UInt8] = [0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00]

        @Test func `silent connections and partial handshakes are closed`() async throws {
            try await attack("silent", ["limits.authenticationSeconds=2"]) { broker in
                var sockets: [RawSocket] = []
                for _ in 0..<200 {
                    sockets.append(try RawSocket(port: broker.plainPort))
                    sockets.append(try RawSocket(port: broker.tlsPort))
                    sockets.last!.send(Self.tlsBeginning)
                }
                try await eventually("the end of all of them") {
                    sockets.allSatisfy(\.isClosed)
                }
                // Counters are published at the end of the turn in which the last one was closed.
                try await eventually("nobody is waited for") {
                    (try? broker.counter("sockets/pending")) == 0
                }
            }
        }

        @Test func `a client that sends byte by byte is closed too`() async throws {
            try await attack("dripping", ["limits.authenticationSeconds=1"]) { broker in
                let connect = try broker.connectPacket("drip")
                let sockets = try (0..<50).map { _ in try RawSocket(port: broker.plainPort) }
                var offset = 0
                try await eventually("the end of all of them") {
                    // One byte now and then: never silent, and never done.
                    if offset % 20 == 0, offset / 20 < connect.count - 1 {
                        for socket in sockets { socket.send([connect[offset / 20]]) }
                    }
                    offset += 1
                    return sockets.allSatisfy(\.isClosed)
                }
            }
        }

        @Test func `silent connections do not prevent logins`() async throws {
            let settings = ["limits.pendingLogins=64", "limits.handshakes=32"]
            try await attack("others kept out", settings) { broker in
                let silent = try (0..<120).map { number in
                    try RawSocket(port: number % 2 == 0 ? broker.plainPort : broker.tlsPort)
                }
                // Behind all of these, and in before their fifteen seconds are over.
                let late = try await broker.client("late")
                await late.close()
                #expect(try broker.counter("sockets/accept_pauses") > 0)
                withExtendedLifetime(silent) {}
            }
        }

        @Test func `a flooding client is slowed down, and disconnected if it continues`()
            async throws
        {
            let settings = ["limits.messagesPerSecond=2000", "limits.rateToleranceSeconds=1"]
            try await attack("flooding within a rate", settings) { broker in
                let flooder = try RawSocket(port: broker.plainPort)
                flooder.send(try broker.connectPacket("flooder"))
                let burst = Self.transientSends(500, to: "flooder")
                var isOver = false
                try await eventually("its end") {
                    for _ in 0..<20 where !isOver { isOver = flooder.send(burst) == nil }
                    return isOver
                }
                #expect(try broker.counter("clients/floods") == 1)
            }
        }

        @Test func `a flooding client without a rate limit takes turns with the others`()
            async throws
        {
            try await attack("flooding") { broker in
                let flooder = try RawSocket(port: broker.plainPort)
                flooder.send(try broker.connectPacket("flooder"))
                let burst = Self.transientSends(500, to: "flooder")
                let start = try broker.counter("bytes/received")
                var rest: ArraySlice<UInt8> = []
                try await eventually("a few megabytes") {
                    for _ in 0..<20 {
                        if rest.isEmpty { rest = burst[...] }
                        guard let count = flooder.send(Array(rest)) else { return true }
                        rest = rest.dropFirst(count)
                        if count == 0 { break }
                    }
                    _ = flooder.isClosed
                    return try broker.counter("bytes/received") > start + 3_000_000
                }
            }
        }

        @Test func `a client that never reads uses a bounded buffer`() async throws {
            try await attack("never reading") { broker in
                let deaf = try RawSocket(port: broker.plainPort)
                deaf.send(try broker.connectPacket("deaf"))
                let talker = try await broker.client("talker")
                let text = String(repeating: "x", count: 1_000)
                for _ in 0..<6_000 {
                    try await talker.send(
                        OutgoingMessage(to: .user("deaf"), text: text, grade: .transient))
                }
                for _ in 0..<500 {
                    try await talker.send(OutgoingMessage(to: .user("deaf"), text: text))
                }
                await talker.close()
                #expect(try broker.counter("messages/dropped/slow_reader") > 0)
                #expect(try broker.counter("messages/stored") >= 400)
            }
        }

        @Test func `two clients that take each other's session over are delayed and logged`()
            async throws
        {
            try await attack("taking over each other") { broker in
                let connect = try broker.connectPacket("twins", device: "d")
                var sockets: [RawSocket] = []
                for _ in 0..<300 {
                    sockets.append(try RawSocket(port: broker.plainPort))
                    sockets.last!.send(connect)
                }
                try await eventually("all answers but one") {
                    sockets.count { $0.isClosed } == 299
                }
                #expect(try broker.counter("connects/takeovers") <= 10)
                #expect(try broker.counter("connects/refused/damped") >= 289)
                let line = try await broker.process.line(with: "event=duplicate_login")
                #expect(line.contains("address=127.0.0.2:") && line.contains("other=127.0.0.2:"))
                let told = broker.process.lines.count { $0.contains("event=duplicate_login") }
                #expect(told < 289, "a storm of logins is no storm of lines")
            }
        }

        @Test func `a client that subscribes endlessly reaches the limit of its session`()
            async throws
        {
            try await attack("subscribing without end") { broker in
                let client = try WireClient(port: broker.plainPort)
                _ = try client.login(token: broker.token("greedy"))
                var packets: [UInt8] = []
                for number in 1...3_000 {
                    packets += requestBytes(
                        identifier: number, .subscribe,
                        parameters: [2] + Array("\(number)/+/#".utf8))
                }
                try client.send(packets)
                var reasons: [ReasonCode: Int] = [:]
                for _ in 1...3_000 { reasons[try client.nextReason(), default: 0] += 1 }
                #expect(reasons == [.success: 1_000, .quotaExceeded: 2_000])
                #expect(try broker.counter("subscriptions/count") == 1_000)
                #expect(try broker.counter("subscriptions/refused/quota") == 2_000)
            }
        }

        @Test func `a client that sets wills endlessly has one`() async throws {
            try await attack("wills without end") { broker in
                let client = try await broker.client("gloomy")
                for number in 0..<500 {
                    try await client.setWill(
                        to: .topic("wills"), .text("\(number)"), delaySeconds: 0)
                }
                #expect(try broker.counter("wills/count") == 1)
                await client.close()
                try await eventually("the end of the will") {
                    try broker.counter("wills/count") == 0
                }
            }
        }

        @Test func `the broker does not wait for a huge first packet`() async throws {
            try await attack("huge CONNECT") { broker in
                var sockets: [RawSocket] = []
                for _ in 0..<50 {
                    sockets.append(try RawSocket(port: broker.plainPort))
                    // 256 MiB are announced, and some of them sent.
                    sockets.last!.send([0x10, 0xFF, 0xFF, 0xFF, 0x7F])
                    sockets.last!.send([UInt8](repeating: 0x41, count: 20_000))
                }
                try await eventually("the end of all of them") {
                    sockets.allSatisfy(\.isClosed)
                }
            }
        }

        @Test func `an address that connects endlessly gets its share`() async throws {
            try await attack("connection flood", ["limits.connectionsPerAddress=40"]) { broker in
                var sockets: [RawSocket] = []
                for _ in 0..<3_000 {
                    sockets.append(try RawSocket(port: broker.plainPort))
                    if sockets.count > 300 { sockets.removeFirst() }
                }
                try await eventually("refusals") {
                    try broker.counter("sockets/refused/address") > 2_000
                }
                let line = try await broker.process.line(with: "event=connection_refused")
                let told = broker.process.lines.count { $0.contains("event=connection_refused") }
                #expect(told > 0 && told < 2_000, "\(told) lines")
                #expect(line.contains("address=127.0.0.2:") && line.contains("cause=address"))
            }
        }

        @Test func `a client that queries presence endlessly is answered and delays nobody`()
            async throws
        {
            try await attack("presence queries") { broker in
                let client = try WireClient(port: broker.plainPort)
                _ = try client.login(token: broker.token("curious"))
                let name = Array("bystander-bob".utf8)
                var packets: [UInt8] = []
                for number in 1...5_000 {
                    packets += requestBytes(
                        identifier: number, .presence, parameters: [UInt8(name.count)] + name)
                }
                try client.send(packets)
                for _ in 1...5_000 { #expect(try client.nextReason() == .success) }
            }
        }

        // MARK: - Packets

        private static func transientSends(_ count: Int, to user: String) -> [UInt8] {
            let source = Array(user.utf8) + [0] + Array("flood".utf8)
            let send = MRT.Send(
                grade: .transient, number: 0,
                target: .user(ByteRange(offset: 0, count: user.utf8.count)),
                payload: ByteRange(offset: user.utf8.count, count: 6))
            let one = packetBytes(send, source)
            return (0..<count).flatMap { _ in one }
        }
    }
}

extension TestBroker {
    /// The CONNECT of a client with a fresh token.
    func connectPacket(_ user: String, device: String = "") throws -> [UInt8] {
        connectBytes(token: try token(user), device: device)
    }
}

extension WireClient {
    /// The reason of the RESPONSE that comes next.
    fileprivate func nextReason() throws -> ReasonCode {
        let packet = try nextPacket()
        guard packet.type == MRT.PacketType.response.rawValue else {
            throw TestFailure("packet \(packet.type) in place of RESPONSE")
        }
        return try packet.body.withUnsafeBytes { try MRT.Response(body: $0.bytes).reason }
    }
}

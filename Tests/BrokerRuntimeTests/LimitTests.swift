// Limits on real connections: each refuses or slows a client that exceeds it, is counted, and does
// not affect others.
import Administration
import BrokerCore
import BrokerTerms
import Configuration
import TestSurroundings
import Testing
import WireFormat

@testable import BrokerRuntime

@Suite(.timeLimit(.minutes(2 * Sanitizer.patience))) struct LimitTests {
    private func broker(_ change: (inout BrokerSettings) -> Void) throws -> RunningBroker {
        let broker = try RunningBroker(change)
        try broker.makeApp()
        return broker
    }

    private func count(_ name: String, _ broker: RunningBroker) throws -> UInt64 {
        let counters = try broker.administrator().send(ReadStatistics()).counters
        return try #require(counters.first { $0.name == name }).value
    }

    /// Waits for a counter: a loop gives its own away at the end of a turn, after what it wrote.
    private func expect(_ name: String, _ value: UInt64, _ broker: RunningBroker) throws {
        while try count(name, broker) < value {}
        #expect(try count(name, broker) == value)
    }

    /// Sends of grade transient, which no window holds back, in one piece.
    private func transientSends(_ count: Int, to user: String) -> [UInt8] {
        var packets: [UInt8] = []
        for number in 0..<count {
            var source = Source()
            let target = MRT.Target.user(source.add(user))
            let payload = source.add("\0\(number)")
            let send = MRT.Send(grade: .transient, number: 0, target: target, payload: payload)
            packets += Peer.bytes(of: send, source.bytes)
        }
        return packets
    }

    @Test func `a burst above the rate is read at the rate without loss`() throws {
        let broker = try broker { $0.limits.messagesPerSecond = 100 }
        let tokens = try broker.makeTokens("alice", "bob")
        let (peer, other) = (try Peer(port: broker.port), try Peer(port: broker.port))
        #expect(peer.login(token: tokens[0]) == .connected)
        #expect(other.login(token: tokens[1]) == .connected)
        peer.write(transientSends(150, to: "bob"))
        for number in 0..<150 { #expect(other.delivery() == "\(number)") }
        #expect(try count("clients/paused", broker) > 0)
        #expect(try count("clients/floods", broker) == 0)
    }

    @Test func `bytes above the rate wait too`() throws {
        let broker = try broker { $0.limits.bytesPerSecond = 2_000 }
        let tokens = try broker.makeTokens("alice", "bob")
        let (peer, other) = (try Peer(port: broker.port), try Peer(port: broker.port))
        #expect(peer.login(token: tokens[0]) == .connected)
        #expect(other.login(token: tokens[1]) == .connected)
        // About 2,400 bytes: the bucket and a fifth of a second.
        let burst = transientSends(220, to: "bob")
        #expect(burst.count > 2_000 && burst.count < 4_000)
        peer.write(burst)
        for number in 0..<220 { #expect(other.delivery() == "\(number)") }
        // It is not read from now, and goes on as if nothing had been.
        #expect(peer.send("after", to: "bob") == .sent)
        #expect(try count("clients/paused", broker) > 0)
    }

    @Test func `a flood ends its connection with its reason`() throws {
        let broker = try broker {
            $0.limits.messagesPerSecond = 1
            $0.limits.rateToleranceSeconds = 1
        }
        let tokens = try broker.makeTokens("alice", "bob")
        let (peer, other) = (try Peer(port: broker.port), try Peer(port: broker.port))
        #expect(peer.login(token: tokens[0]) == .connected)
        #expect(other.login(token: tokens[1]) == .connected)
        peer.write(transientSends(60, to: "bob"))
        #expect(peer.farewell() == .messageRateTooHigh)
        try expect("clients/floods", 1, broker)
        #expect(other.presence("alice") == .success)
    }

    @Test(arguments: [UInt8(4), 5])
    func `a flood of MQTT ends its connection, with a reason if its version has one`(level: UInt8)
        throws
    {
        let broker = try broker {
            $0.limits.messagesPerSecond = 1
            $0.limits.rateToleranceSeconds = 1
        }
        let peer = try Peer(port: broker.port)
        #expect(peer.mqttLogin(level: level, token: try broker.makeTokens("alice")[0]) == 0)
        var packets: [UInt8] = []
        for number in 0..<60 {
            packets += Peer.mqttPublish(level: level, "\(number)", on: "t")
        }
        peer.write(packets)
        let last = peer.readFrame()
        #expect(last?.type == (level == 5 ? 14 : nil))
        #expect(last?.body.first == (level == 5 ? 0x96 : nil))
        try expect("clients/floods", 1, broker)
    }

    @Test func `exceeding the granted window ends the connection`() throws {
        let broker = try broker {
            $0.limits.sendWindow = 2
            $0.mqtt.receiveMaximum = 2
            $0.mqtt.enforcesReceiveMaximum = true
        }
        let token = try broker.makeTokens("alice")[0]
        let peer = try Peer(port: broker.port)
        #expect(peer.login(token: token) == .connected)
        // Results that came and were never said to have been seen.
        for _ in 0..<2 { #expect(peer.send("x", to: "alice") == .sent) }
        var source = Source()
        let target = MRT.Target.user(source.add("alice"))
        let payload = source.add("\0x")
        peer.write(
            MRT.Send(grade: .durable, number: 3, target: target, payload: payload), source.bytes)
        #expect(peer.farewell() == .receiveMaximumExceeded)
        let mqtt = try Peer(port: broker.port)
        #expect(mqtt.mqttLogin(level: 5, client: "m", token: token) == 0)
        for identifier in 1...3 as ClosedRange<UInt16> {
            var publish = Peer.mqttPublish(level: 5, "x", on: "t", identifier: identifier)
            publish[0] = 0x34
            mqtt.write(publish)
        }
        var types: [UInt8] = []
        while let frame = mqtt.readFrame() {
            types.append(frame.type)
            if frame.type == 14 { #expect(frame.body.first == 0x93) }
        }
        #expect(types.last == 14)
    }

    @Test func `the subscriptions of a session are limited`() throws {
        let broker = try broker { $0.limits.subscriptionsPerSession = 2 }
        let token = try broker.makeTokens("alice")[0]
        let peer = try Peer(port: broker.port)
        #expect(peer.login(token: token) == .connected)
        #expect(peer.subscribe("a") == .success)
        #expect(peer.subscribe("b") == .success)
        #expect(peer.subscribe("c") == .quotaExceeded)
        // One that it has is no new one.
        #expect(peer.subscribe("a") == .success)
        for (level, code): (UInt8, UInt8) in [(4, 0x80), (5, 0x97)] {
            let mqtt = try Peer(port: broker.port)
            #expect(mqtt.mqttLogin(level: level, client: "m\(level)", token: token) == 0)
            #expect(mqtt.mqttSubscribe(level: level, "a", "b", "c") == [1, 1, code])
        }
        try expect("subscriptions/refused/quota", 3, broker)
    }

    @Test func `the queue of a session is limited, and the sender is told`() throws {
        let broker = try broker { $0.queues.messages = 1 }
        let tokens = try broker.makeTokens("alice", "bob")
        let peer = try Peer(port: broker.port)
        #expect(peer.login(token: tokens[0]) == .connected)
        #expect(peer.send("1", to: "bob") == .sent)
        #expect(peer.send("2", to: "bob") == .quotaExceeded)
        let mqtt = try Peer(port: broker.port)
        #expect(mqtt.mqttLogin(level: 5, token: tokens[0]) == 0)
        mqtt.write(
            Peer.mqttPublish(level: 5, #"{"t":"0","b":"3"}"#, on: "$u/bob", identifier: 1))
        let answer = mqtt.readFrame()
        #expect(answer?.type == 4)
        #expect(answer?.body.dropFirst(2).first == 0x97)
        // 3.1.1 has no such answer, and a positive one would not be true.
        let older = try Peer(port: broker.port)
        #expect(older.mqttLogin(level: 4, client: "old", token: tokens[0]) == 0)
        older.write(
            Peer.mqttPublish(level: 4, #"{"t":"0","b":"4"}"#, on: "$u/bob", identifier: 1))
        #expect(older.readFrame() == nil)
        try expect("messages/refused", 3, broker)
    }

    @Test(arguments: [(UInt8(4), "149"), (UInt8(5), "151")])
    func `the log has the code that the sender of a large message gets, and the limit`(
        level: UInt8, code: String
    ) throws {
        let broker = try broker { _ in }
        let tokens = try broker.makeTokens("alice", "bob")
        let peer = try Peer(port: broker.port)
        #expect(peer.mqttLogin(level: level, token: tokens[0]) == 0)
        let text = #"{"t":"0","b":"\#(String(repeating: "x", count: 1_100))"}"#
        peer.write(Peer.mqttPublish(level: level, text, on: "$u/bob", identifier: 1))
        if level == 5 { #expect(peer.readFrame().map { $0.body[2] } == 151) }
        let line = try #require(broker.log.line { $0.contains("event=send_refused") })
        #expect(LogPipe.value("code", in: line) == code)
        #expect(LogPipe.value("detail", in: line) == "limits.messageMaximum")
    }

    @Test func `a keep-alive is limited to the maximum of the broker`() throws {
        let broker = try broker { $0.limits.keepAliveMaximumSeconds = 10 }
        let token = try broker.makeTokens("alice")[0]
        for (asked, granted): (UInt16, UInt16?) in [(5, nil), (60, 10), (0, 10)] {
            let peer = try Peer(port: broker.port)
            peer.write(
                Peer.mqttConnect(level: 5, token: token, keepAliveSeconds: asked))
            let connack = try #require(peer.readFrame())
            let packet = try connack.body.withUnsafeBytes { try MQTT.Connack(.v5, body: $0.bytes) }
            #expect(packet.reason == .success && packet.serverKeepAliveSeconds == granted)
        }
    }

    @Test func `the connections of an address are limited`() throws {
        let broker = try broker { $0.limits.connectionsPerAddress = 2 }
        let token = try broker.makeTokens("alice")[0]
        let first = try Peer(port: broker.port)
        let second = try Peer(port: broker.port)
        #expect(first.login(token: token, device: "1") == .connected)
        #expect(second.login(token: token, device: "2") == .connected)
        #expect(try Peer(port: broker.port).login(token: token, device: "3") == nil)
        let line = try #require(broker.log.line { $0.contains("event=connection_refused") })
        #expect(line.contains("address=127.0.0.1:") && line.contains("cause=address"))
        try expect("sockets/refused/address", 1, broker)
        first.close()
        _ = try #require(broker.log.line { $0.contains("event=client_disconnected") })
        #expect(try Peer(port: broker.port).login(token: token, device: "3") == .connected)
    }

    @Test func `the connections of all loops together are limited`() throws {
        let broker = try broker {
            $0.limits.connections = 2
            $0.loops = 2
        }
        let token = try broker.makeTokens("alice")[0]
        let first = try Peer(port: broker.port)
        let second = try Peer(port: broker.port)
        #expect(first.login(token: token, device: "1") == .connected)
        #expect(second.login(token: token, device: "2") == .connected)
        #expect(try Peer(port: broker.port).login(token: token, device: "3") == nil)
        try expect("sockets/refused", 1, broker)
        _ = try #require(broker.log.line { $0.contains("cause=total") })
    }

    @Test func `stalled handshakes delay later handshakes and no plain connection`() throws {
        let authority = TestAuthority()
        let broker = try broker {
            $0.tls.certificateFile = authority.file("server.pem")
            $0.tls.keyFile = authority.file("server.key")
            $0.listeners = [.loopback(.tls), .loopback(.tcp)]
            $0.limits.handshakes = 1
        }
        let token = try broker.makeTokens("alice")[0]
        let silent = try Peer(port: broker.ports[0])
        while try count("tls/handshakes/pending", broker) == 0 {}
        #expect(try Peer(port: broker.ports[1]).login(token: token) == .connected)
        // Waits in the kernel until the silent one has had its time.
        let waiting = try Peer(
            port: broker.ports[0], tls: PeerTLS(authorityFile: authority.certificate))
        #expect(waiting.login(token: token, device: "2") == .connected)
        #expect(try count("sockets/accept_pauses", broker) > 0)
        #expect(silent.readFrame() == nil)
    }

    @Test func `connections without a login make others wait, not fail`() throws {
        let broker = try broker { $0.limits.pendingLogins = 1 }
        let token = try broker.makeTokens("alice")[0]
        let silent = try Peer(port: broker.port)
        silent.write([0x10])
        let waiting = try Peer(port: broker.port)
        waiting.write(Peer.connectPacket(token: token))
        while try count("sockets/accept_pauses", broker) == 0 {}
        silent.close()
        #expect(waiting.read(.connack)?.body[0] == ReasonCode.connected.rawValue)
    }

    @Test func `the core applies the operator's settings`() {
        var settings = BrokerSettings()
        (settings.limits.groupsPerApp, settings.limits.groupsPerUser) = (11, 12)
        (settings.limits.membersPerGroup, settings.limits.retainedPerApp) = (13, 14)
        let limits = CoreLimits(settings)
        #expect(limits.groupsPerAppMaximum == 11 && limits.groupsPerUserMaximum == 12)
        #expect(limits.groupMembersMaximum == 13 && limits.retainedPerAppMaximum == 14)
    }

    @Test func `the sessions of an app are limited`() throws {
        let broker = try broker { $0.limits.sessionsPerApp = 1 }
        try broker.makeApp("other")
        let token = try broker.makeTokens("alice")[0]
        let first = try Peer(port: broker.port)
        #expect(first.login(token: token, device: "1") == .connected)
        #expect(try Peer(port: broker.port).login(token: token, device: "2") == .quotaExceeded)
        let stranger = try broker.makeTokens("alice", app: "other")[0]
        #expect(try Peer(port: broker.port).login(token: stranger, device: "1") == .connected)
        // Its own session is always let in.
        #expect(try Peer(port: broker.port).login(token: token, device: "1") == .connected)
        let mqtt = try Peer(port: broker.port)
        #expect(mqtt.mqttLogin(level: 5, client: "m", token: token) == 0x97)
        let older = try Peer(port: broker.port)
        #expect(older.mqttLogin(level: 4, client: "m", token: token) == 3)
        try expect("connects/refused/quota", 3, broker)
    }
}

// Limits on real connections: each refuses or slows who is beyond it, is counted, and leaves others
// alone.
import Administration
import Configuration
import Primitives
import Testing
import WireFormat

@testable import BrokerRuntime

@Suite struct LimitTests {
    private func broker(_ change: (inout BrokerSettings) -> Void) throws -> RunningBroker {
        let broker = try RunningBroker(change)
        try broker.makeApp()
        return broker
    }

    private func count(_ name: String, _ broker: RunningBroker) throws -> UInt64 {
        let counters = try broker.administrator().send(ReadStatistics()).counters
        return try #require(counters.first { $0.name == name }).value
    }

    @Test func `a client that is too fast is slowed, and everything arrives`() throws {
        let broker = try broker { $0.limits.messagesPerSecond = 20 }
        let tokens = try broker.makeTokens("alice", "bob")
        let peer = try Peer(port: broker.port)
        #expect(peer.login(token: tokens[0]) == .connected)
        for number in 0..<25 { #expect(peer.send("\(number)", to: "bob") == .sent) }
        #expect(try count("clients/paused", broker) > 0)
        #expect(try count("clients/floods", broker) == 0)
    }

    @Test func `a flood ends its connection with its reason`() throws {
        let broker = try broker { $0.limits.messagesPerSecond = 1 }
        let tokens = try broker.makeTokens("alice", "bob")
        let (peer, other) = (try Peer(port: broker.port), try Peer(port: broker.port))
        #expect(peer.login(token: tokens[0]) == .connected)
        #expect(other.login(token: tokens[1]) == .connected)
        var source = Source()
        let target = MRT.Target.user(source.add("bob"))
        let payload = source.add("\0x")
        // In one write: more than any pause makes up for.
        var packets: [UInt8] = []
        for _ in 0..<60 {
            let send = MRT.Send(grade: .transient, number: 0, target: target, payload: payload)
            packets += Peer.bytes(of: send, source.bytes)
        }
        peer.write(packets)
        #expect(peer.farewell() == .messageRateTooHigh)
        #expect(try count("clients/floods", broker) == 1)
        #expect(other.presence("alice") == .success)
    }

    @Test func `an address has no more connections than it may`() throws {
        let broker = try broker { $0.limits.connectionsPerAddress = 2 }
        let token = try broker.makeTokens("alice")[0]
        let first = try Peer(port: broker.port)
        let second = try Peer(port: broker.port)
        #expect(first.login(token: token, device: "1") == .connected)
        #expect(second.login(token: token, device: "2") == .connected)
        #expect(try Peer(port: broker.port).login(token: token, device: "3") == nil)
        #expect(try count("sockets/refused/address", broker) == 1)
        first.close()
        _ = try #require(broker.log.line { $0.contains("event=client_disconnected") })
        #expect(try Peer(port: broker.port).login(token: token, device: "3") == .connected)
    }

    @Test func `who has not logged in makes others wait, and not fail`() throws {
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

    @Test func `an app has no more sessions than it may`() throws {
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
    }
}

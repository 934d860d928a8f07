// Bytes in both directions, over plain TCP and TLS, in all relevant sizes and pieces.
import BrokerTerms
import NetTransport
import Testing

@Suite struct EchoTests {
    @Test(arguments: Security.allCases)
    func `bytes are echoed unchanged`(_ security: Security) throws {
        var bench = try Bench(security)
        let (client, server) = try bench.connect()
        bench.send(Array("hello".utf8), to: client)
        bench.turn { _, recorder in recorder.received[client]?.count == 5 }
        #expect(bench.recorder.received[client] == Array("hello".utf8))
        let version = bench.loop.tlsSummary(of: server)?.version
        switch security {
        case .plain: #expect(version == nil)
        case .tls12: #expect(version == "TLSv1.2")
        case .tls13: #expect(version == "TLSv1.3")
        }
    }

    @Test(arguments: Security.allCases)
    func `a frame cut at any byte is passed on complete`(_ security: Security) throws {
        var bench = try Bench(security)
        bench.recorder.manner = .echoFrames(byteCount: 40)
        let (client, server) = try bench.connect()
        let frame = pattern(40)
        for cut in 1..<40 {
            let showings = bench.recorder.showings
            bench.recorder.received[client] = nil
            bench.send(Array(frame[..<cut]), to: client)
            bench.turn { _, recorder in recorder.showings == showings + 1 }
            #expect(bench.recorder.received[client] == nil)
            bench.send(Array(frame[cut...]), to: client)
            bench.turn { _, recorder in recorder.received[client]?.count == 40 }
            #expect(bench.recorder.received[client] == frame)
        }
        #expect(bench.recorder.end(of: server) == nil)
    }

    @Test(arguments: Security.allCases)
    func `a megabyte is echoed through small kernel buffers`(_ security: Security) throws {
        var configuration = EventLoop.Configuration()
        configuration.kernelSendBufferBytes = 4096
        var bench = try Bench(security, configuration)
        let (client, _) = try bench.connect()
        let bytes = pattern(1 << 20)
        bench.send(bytes, to: client)
        bench.turn { _, recorder in recorder.received[client]?.count == bytes.count }
        #expect(bench.recorder.received[client] == bytes)
        #expect(bench.loop.counters.shortWrites > 0)
        #expect(bench.recorder.drains > 0)
        #expect(bench.loop.outgoingByteCount(of: client) == 0)
        #expect(bench.loop.counters.bytesSent == UInt64(2 * bytes.count))
    }

    @Test(arguments: Security.allCases)
    func `a packet of known length is passed on once, when it is complete`(
        _ security: Security
    ) throws {
        var bench = try Bench(security)
        let packet = pattern(700_000)
        bench.recorder.manner = .await(byteCount: packet.count)
        let (client, server) = try bench.connect()
        bench.loop.setPacketMaximum(packet.count, for: server)
        bench.send(packet, to: client)
        bench.turn { _, recorder in recorder.received[server] != nil }
        #expect(bench.recorder.received[server] == packet)
        #expect(bench.recorder.showings == 2)
    }

    @Test(arguments: Security.allCases)
    func `bytes appended in one turn are sent by one call`(_ security: Security) throws {
        var bench = try Bench(security)
        let (client, _) = try bench.connect()
        let before = bench.loop.counters
        for _ in 0..<16 { bench.send(pattern(100), to: client) }
        _ = bench.loop.turn(&bench.recorder, waitMaximum: 0)
        #expect(bench.loop.counters.sends == before.sends + 1)
        #expect(bench.loop.counters.bytesSent == before.bytesSent + 1600)
        #expect(bench.loop.counters.interestChanges == before.interestChanges)
    }

    @Test(arguments: [Security.plain, .tls13])
    func `a thousand connections echo`(_ security: Security) throws {
        var bench = try Bench(security)
        let count = security == .plain ? 1000 : 200
        for _ in 0..<count {
            _ = try bench.loop.connect(
                to: bench.address, tls: bench.clientContext, serverName: "localhost")
        }
        bench.turn { _, recorder in
            recorder.connected.count == count && recorder.accepted.count == count
        }
        for client in bench.recorder.connected { bench.send(pattern(50), to: client) }
        bench.turn { loop, _ in loop.counters.bytesReceived == UInt64(100 * count) }
        #expect(bench.recorder.received.values.allSatisfy { $0 == pattern(50) })
        #expect(bench.loop.connectionCount == 2 * count)
        for client in bench.recorder.connected { bench.loop.close(client, afterFlush: true) }
        bench.turn { loop, _ in loop.connectionCount == 0 }
        #expect(bench.recorder.ends.count == 2 * count)
        #expect(bench.loop.counters[closed: .peerClosed] == UInt64(count))
        #expect(bench.loop.counters[closed: .closedByHandler] == UInt64(count))
    }

    @Test func `more bytes than the arena holds arrive completely over several turns`() throws {
        var bench = try Bench()
        bench.recorder.manner = .collect
        var servers: [ConnectionID] = []
        for _ in 0..<40 { servers.append(try bench.connect().server) }
        let bytes = pattern(64 * 1024)
        for client in bench.recorder.connected { bench.send(bytes, to: client) }
        bench.turn { _, recorder in
            servers.allSatisfy { recorder.received[$0]?.count == bytes.count }
        }
        #expect(servers.allSatisfy { bench.recorder.received[$0] == bytes })
        #expect(bench.loop.counters.arenaFills > 0)
    }
}

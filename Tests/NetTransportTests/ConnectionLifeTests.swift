// How connections begin, wait, overflow and end.
import Glibc
import BrokerTerms
import NetTransport
import Primitives
import Testing

@Suite struct ConnectionLifeTests {
    @Test(arguments: Security.allCases)
    func `bytes appended before a close arrive before the end`(_ security: Security) throws {
        var bench = try Bench(security)
        let (client, server) = try bench.connect()
        bench.send(pattern(300_000), to: server)
        bench.loop.close(server, afterFlush: true)
        let isTaken = [UInt8(1)].withUnsafeBytes { bench.loop.append($0, to: server, .required) }
        #expect(!isTaken)
        bench.turn { loop, _ in loop.connectionCount == 0 }
        #expect(bench.recorder.received[client] == pattern(300_000))
        #expect(bench.recorder.end(of: client)?.cause == .peerClosed)
        #expect(bench.recorder.end(of: server)?.cause == .closedByHandler)
        #expect(bench.recorder.ends.count == 2)
    }

    @Test func `a close without flush discards unsent bytes`() throws {
        var bench = try Bench()
        let (client, server) = try bench.connect()
        bench.send(pattern(10), to: server)
        bench.loop.close(server, afterFlush: false)
        bench.turn { loop, _ in loop.connectionCount == 0 }
        #expect(bench.recorder.received[client] == nil)
    }

    @Test func `a peer that shuts down one direction still receives unsent bytes`() throws {
        var bench = try Bench()
        let socket = try connectedSocket(to: bench.address)
        defer { close(socket) }
        #expect(send(socket, "ping", 4, 0) == 4)
        #expect(shutdown(socket, Int32(SHUT_WR)) == 0)
        bench.turn { _, recorder in recorder.ends.count == 1 }
        var answer = [UInt8](repeating: 0, count: 16)
        #expect(recv(socket, &answer, 16, 0) == 4)
        #expect(recv(socket, &answer, 16, 0) == 0)
        #expect(bench.recorder.ends.first?.cause == .peerClosed)
    }

    @Test func `a reset is reported with the system's text`() throws {
        var bench = try Bench()
        let socket = try connectedSocket(to: bench.address)
        bench.turn { _, recorder in recorder.accepted.count == 1 }
        var reset = linger(l_onoff: 1, l_linger: 0)
        setsockopt(socket, SOL_SOCKET, SO_LINGER, &reset, socklen_t(MemoryLayout<linger>.size))
        close(socket)
        bench.turn { _, recorder in recorder.ends.count == 1 }
        #expect(bench.recorder.ends.first?.cause == .networkFailure)
        #expect(bench.recorder.ends.first?.detail.contains("errno 104") == true)
    }

    @Test func `droppable traffic of a slow reader is refused above its limit and counted`() throws
    {
        var bench = try Bench()
        let socket = try connectedSocket(to: bench.address)
        defer { close(socket) }
        bench.turn { _, recorder in recorder.accepted.count == 1 }
        let server = bench.recorder.accepted[0]
        bench.loop.setOutgoingMaximum(10_000, for: server)
        let bytes = pattern(4000)
        var refused = 0
        // The kernel takes some megabytes before anything waits here.
        for _ in 0..<4000 where refused < 3 {
            let isTaken = bytes.withUnsafeBytes { bench.loop.append($0, to: server, .droppable) }
            if !isTaken { refused += 1 }
            _ = bench.loop.turn(&bench.recorder, waitMaximum: 0)
            #expect(bench.loop.outgoingByteCount(of: server) <= 10_000)
        }
        #expect(refused == 3)
        #expect(bench.loop.counters.drops == 3)
        #expect(bench.recorder.end(of: server) == nil)
    }

    @Test func `traffic of a slow reader is refused in its order, and each class counted`() throws {
        var configuration = EventLoop.Configuration()
        configuration.outgoingMaximum = 40_000
        configuration.outgoingHardMaximum = 200_000
        var bench = try Bench(.plain, configuration)
        let (_, server) = try bench.connect()
        // Within one turn nothing is sent.
        func append(_ byteCount: Int, _ traffic: Traffic) -> Bool {
            pattern(byteCount).withUnsafeBytes { bench.loop.append($0, to: server, traffic) }
        }
        #expect(append(10_000, .droppedFirst))
        #expect(!append(1, .droppedFirst))
        #expect(append(30_000, .droppable))
        #expect(!append(1, .droppedFirst))
        #expect(!append(1, .droppable))
        #expect(append(40_000, .droppedLast))
        #expect(!append(1, .droppedLast))
        #expect(!append(1, .droppable))
        #expect(append(1_000, .required))
        #expect(bench.loop.counters.dropsFirst == 2)
        #expect(bench.loop.counters.drops == 2)
        #expect(bench.loop.counters.dropsLast == 1)
    }

    @Test func `traffic that is dropped last closes no connection`() throws {
        var configuration = EventLoop.Configuration()
        configuration.outgoingMaximum = 1_500
        configuration.outgoingHardMaximum = 2_000
        var bench = try Bench(.plain, configuration)
        let (_, server) = try bench.connect()
        bench.send(pattern(1_999), to: server)
        let isTaken = pattern(2).withUnsafeBytes {
            bench.loop.append($0, to: server, .droppedLast)
        }
        #expect(!isTaken)
        bench.turn { _, recorder in recorder.received.values.contains(pattern(1_999)) }
        #expect(bench.recorder.end(of: server) == nil)
    }

    @Test func `required traffic above the hard maximum closes the connection`() throws {
        var configuration = EventLoop.Configuration()
        configuration.outgoingMaximum = 1000
        configuration.outgoingHardMaximum = 2000
        var bench = try Bench(.plain, configuration)
        let (_, server) = try bench.connect()
        bench.send(pattern(2000), to: server)
        let isTaken = [UInt8(1)].withUnsafeBytes { bench.loop.append($0, to: server, .required) }
        #expect(!isTaken)
        bench.turn { _, recorder in recorder.end(of: server) != nil }
        #expect(bench.recorder.end(of: server)?.cause == .outgoingOverflow)
    }

    @Test func `if all connections hold too much, those above their share are closed`() throws {
        var configuration = EventLoop.Configuration()
        configuration.outgoingTotalMaximum = 65_536
        var bench = try Bench(.plain, configuration)
        let (first, holder) = try bench.connect()
        let (second, other) = try bench.connect()
        bench.send(pattern(60_000), to: holder)
        // A share is always there, and no more.
        let share = pattern(10_000)
        func append(_ traffic: Traffic) -> Bool {
            share.withUnsafeBytes { bench.loop.append($0, to: other, traffic) }
        }
        #expect(append(.droppable))
        #expect(!append(.droppable))
        #expect(bench.loop.counters.drops == 1)
        bench.turn { _, recorder in
            recorder.received[first] == pattern(60_000) && recorder.received[second] == share
        }
        // Nothing waits any more. What must not be missing is taken in the place of who holds most.
        bench.turn { loop, _ in loop.counters.outgoingHeld == 0 }
        bench.send(pattern(60_000), to: holder)
        #expect(append(.required))
        #expect(append(.required))
        bench.turn { _, recorder in recorder.received[second] == share + share + share }
        #expect(bench.recorder.end(of: holder)?.cause == .outgoingOverflow)
        #expect(bench.recorder.end(of: other) == nil)
        // Who wants the most itself is that one.
        let all = pattern(70_000)
        let isTaken = all.withUnsafeBytes { bench.loop.append($0, to: other, .required) }
        #expect(!isTaken)
        bench.turn { _, recorder in recorder.end(of: other)?.cause == .outgoingOverflow }
    }

    @Test(arguments: [Traffic.droppable, .required])
    func `if all connections hold too much, those that have not logged in are closed first`(
        _ traffic: Traffic
    ) throws {
        var configuration = EventLoop.Configuration()
        configuration.outgoingTotalMaximum = 340_000
        var bench = try Bench(.plain, configuration)
        let holders = try (0..<3).map { _ in try bench.connect().server }
        let (_, slow) = try bench.connect()
        let (_, client) = try bench.connect()
        bench.loop.clearDeadline(of: slow)
        bench.loop.clearDeadline(of: client)
        bench.send(pattern(100_000), to: slow)
        for holder in holders { bench.send(pattern(60_000), to: holder) }
        func append(_ byteCount: Int, to connection: ConnectionID) -> Bool {
            pattern(byteCount).withUnsafeBytes { bench.loop.append($0, to: connection, traffic) }
        }
        // The client takes the place of two of them, and the slow one keeps its own.
        #expect(append(120_000, to: client))
        let closed = holders.filter { !append(1, to: $0) }
        #expect(closed.count == 2)
        #expect(bench.loop.outgoingByteCount(of: slow) == 100_000)
        // Who has not logged in takes nothing from those who have.
        let last = try #require(holders.first { !closed.contains($0) })
        #expect(!append(300_000, to: last))
        #expect(bench.loop.outgoingByteCount(of: slow) == 100_000)
        #expect(bench.loop.outgoingByteCount(of: client) == 120_000)
    }

    @Test(arguments: Security.allCases)
    func `a paused connection gets its bytes again when it resumes`(
        _ security: Security
    ) throws {
        var bench = try Bench(security)
        bench.recorder.manner = .pause
        let (client, server) = try bench.connect()
        let bytes = pattern(3_000_000)
        bench.send(bytes, to: client)
        bench.turn { _, recorder in recorder.received[server] != nil }
        for _ in 0..<20 { _ = bench.loop.turn(&bench.recorder, waitMaximum: 1) }
        #expect(bench.recorder.showings == 1)
        let kept = bench.recorder.received[server]

        // Resuming without consuming shows the same bytes and gathers no more.
        bench.loop.resumeReading(server)
        bench.turn { _, recorder in recorder.showings == 2 }
        #expect(bench.recorder.received[server] == kept)

        bench.recorder.manner = .collect
        bench.recorder.received[server] = nil
        bench.loop.resumeReading(server)
        bench.turn { _, recorder in recorder.received[server]?.count == bytes.count }
        #expect(bench.recorder.received[server] == bytes)
    }

    @Test func `a packet beyond its maximum closes the connection`() throws {
        var bench = try Bench()
        bench.recorder.manner = .echoFrames(byteCount: 1000)
        let (client, server) = try bench.connect()
        bench.loop.setPacketMaximum(500, for: server)
        bench.send(pattern(501), to: client)
        bench.turn { _, recorder in recorder.end(of: server) != nil }
        #expect(bench.recorder.end(of: server)?.cause == .packetTooLarge)
    }

    @Test func `the id of a closed connection stays invalid after its slot is reused`()
        throws
    {
        var bench = try Bench()
        let (client, server) = try bench.connect()
        bench.loop.close(client, afterFlush: false)
        bench.turn { loop, _ in loop.connectionCount == 0 }
        let (newClient, newServer) = try bench.connect()
        #expect(Set([client.slot, server.slot]) == Set([newClient.slot, newServer.slot]))
        #expect(Set([client, server]).isDisjoint(with: [newClient, newServer]))
        for old in [client, server] {
            let isTaken = [UInt8(1)].withUnsafeBytes { bench.loop.append($0, to: old, .required) }
            #expect(!isTaken)
            bench.loop.close(old, afterFlush: false)
            #expect(bench.loop.outgoingByteCount(of: old) == 0)
        }
        bench.send([9], to: newClient)
        bench.turn { _, recorder in recorder.received[newClient] == [9] }
    }

    @Test func `a failed connect is reported with the system's text`() throws {
        var bench = try Bench()
        let port = try Listener(on: .loopback(port: 0)).address.port
        let client = try bench.loop.connect(to: .loopback(port: port))
        bench.turn { _, recorder in recorder.end(of: client) != nil }
        #expect(bench.recorder.end(of: client)?.cause == .networkFailure)
        #expect(bench.recorder.end(of: client)?.detail.contains("refused") == true)
        #expect(bench.recorder.connected.isEmpty)
    }

    @Test func `a connect uses its source address`() throws {
        var bench = try Bench()
        let source = try #require(SocketAddress(numericHost: "127.0.0.9", port: 0))
        _ = try bench.loop.connect(to: bench.address, from: source)
        bench.turn { _, recorder in recorder.accepted.count == 1 }
        #expect(bench.loop.peer(of: bench.recorder.accepted[0]).host == "127.0.0.9")
    }

    @Test func `a full table refuses further connections and continues`() throws {
        var configuration = EventLoop.Configuration()
        configuration.connectionsMaximum = 3
        var bench = try Bench(.plain, configuration)
        let (client, _) = try bench.connect()
        let refused = try bench.loop.connect(to: bench.address)
        #expect(throws: TransportError.connectionsMaximumReached(3)) {
            _ = try bench.loop.connect(to: bench.address)
        }
        bench.turn { _, recorder in recorder.end(of: refused) != nil }
        #expect(bench.loop.counters.refusedByMaximum == 1)
        bench.send([1, 2], to: client)
        bench.turn { _, recorder in recorder.received[client] == [1, 2] }
    }
}

/// A blocking client socket of the test's own, for what a well-behaved client never does.
func connectedSocket(to address: SocketAddress) throws -> Int32 {
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    var name = sockaddr_in()
    name.sin_family = sa_family_t(AF_INET)
    name.sin_port = address.port.bigEndian
    name.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    let result = withUnsafePointer(to: &name) {
        $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
            connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
        }
    }
    try #require(result == 0)
    return descriptor
}

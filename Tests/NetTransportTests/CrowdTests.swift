// Limits on connections that have not logged in: how many are accepted, which wait, and which are
// closed.
import BrokerTerms
import Glibc
import Testing

@testable import NetTransport

@Suite struct CrowdTests {
    private func configuration(
        _ change: (inout EventLoop.Configuration) -> Void
    ) -> EventLoop.Configuration {
        var configuration = EventLoop.Configuration()
        change(&configuration)
        return configuration
    }

    /// What a login does.
    private func logIn(_ connection: ConnectionID, _ bench: inout Bench) {
        bench.loop.setDeadline(.keepAlive, for: connection, afterMilliseconds: 60_000)
    }

    @Test func `waiting connections are accepted in order as soon as there is room`() throws {
        var bench = try Bench(
            .plain,
            configuration {
                $0.pendingMaximum = 1
                // Only room, and no clock, lets anybody in.
                $0.acceptPauseMilliseconds = 60_000
                $0.crowdedSilenceMilliseconds = 60_000
            })
        bench.recorder.manner = .collect
        var sockets: [Int32] = []
        for number in 0..<5 {
            sockets.append(try connectedSocket(to: bench.address))
            #expect(send(sockets[number], [UInt8(number)], 1, 0) == 1)
        }
        defer { for socket in sockets { close(socket) } }
        for number in 0..<5 {
            bench.turn { _, recorder in recorder.received.count == number + 1 }
            #expect(bench.loop.pendingCount == 1 && bench.recorder.accepted.count == number + 1)
            let connection = bench.recorder.accepted[number]
            #expect(bench.recorder.received[connection] == [UInt8(number)])
            logIn(connection, &bench)
        }
        #expect(bench.loop.counters.acceptPauses == 4)
    }

    @Test func `silent connections are closed while others wait, and active ones stay`() throws {
        var bench = try Bench(
            .plain,
            configuration {
                $0.pendingMaximum = 2
                $0.acceptPauseMilliseconds = 20
                $0.crowdedSilenceMilliseconds = 2_000
            })
        bench.recorder.manner = .collect
        let sockets = [
            try connectedSocket(to: bench.address), try connectedSocket(to: bench.address),
        ]
        defer { for socket in sockets { close(socket) } }
        bench.turn { _, recorder in recorder.accepted.count == 2 }
        let (silent, talker) = (bench.recorder.accepted[0], bench.recorder.accepted[1])
        // Nobody else wants in: silence costs nothing.
        let end = bench.loop.now.advanced(byMilliseconds: 2_200)
        bench.turn { loop, _ in loop.now >= end }
        #expect(bench.recorder.deadlines.isEmpty)
        #expect(send(sockets[1], "x", 1, 0) == 1)
        bench.turn { _, recorder in !recorder.received.isEmpty }
        let next = try connectedSocket(to: bench.address)
        defer { close(next) }
        bench.turn { _, recorder in recorder.accepted.count == 3 }
        #expect(bench.recorder.end(of: silent) != nil)
        #expect(bench.recorder.end(of: talker) == nil)
    }

    @Test func `a small message does not wait for a large fan-out`() throws {
        var bench = try Bench(.plain, configuration { $0.sendsPerTurn = 2 })
        bench.recorder.manner = .collect
        var sockets: [Int32] = []
        defer { for socket in sockets { close(socket) } }
        for number in 0..<8 {
            sockets.append(try connectedSocket(to: bench.address))
            bench.turn { _, recorder in recorder.accepted.count == number + 1 }
            logIn(bench.recorder.accepted[number], &bench)
        }
        let connections = bench.recorder.accepted
        for connection in connections[0..<7] { bench.send([1], to: connection) }
        let before = bench.loop.counters.sends
        var turns: [UInt64] = []
        _ = bench.loop.turn(&bench.recorder, waitMaximum: 0)
        turns.append(bench.loop.counters.sends - before)
        #expect(bench.loop.outgoingByteCount(of: connections[2]) == 1)
        bench.send([2], to: connections[7])
        _ = bench.loop.turn(&bench.recorder, waitMaximum: 0)
        turns.append(bench.loop.counters.sends - before)
        let isSameRound = !bench.loop.beginsRound
        #expect(isSameRound)
        // Two of those who waited, and the new one.
        #expect(bench.loop.outgoingByteCount(of: connections[7]) == 0)
        #expect(bench.loop.outgoingByteCount(of: connections[6]) == 1)
        bench.turn { loop, _ in loop.beginsRound }
        #expect(turns == [2, 5])
        #expect(bench.loop.counters.sends == before + 8)
        for (number, socket) in sockets.enumerated() {
            var byte: UInt8 = 0
            #expect(recv(socket, &byte, 1, 0) == 1 && byte == (number == 7 ? 2 : 1))
        }
    }

    @Test func `stalled handshakes do not delay plain connections`() throws {
        var bench = try Bench(
            .tls13,
            configuration {
                $0.handshakesMaximum = 2
                $0.acceptPauseMilliseconds = 20
                $0.crowdedSilenceMilliseconds = 300
            })
        let plain = try Listener(on: .loopback(port: 0), tls: nil, tag: 6)
        try bench.loop.listen(on: plain)
        let silent = [
            try connectedSocket(to: bench.address), try connectedSocket(to: bench.address),
        ]
        defer { for socket in silent { close(socket) } }
        bench.turn { loop, _ in loop.handshakingCount == 2 }
        let other = try connectedSocket(to: plain.address)
        defer { close(other) }
        bench.turn { _, recorder in recorder.accepted.count == 1 }
        let (_, server) = try bench.connect()
        #expect(bench.loop.counters[closed: .handshakeTimeout] > 0)
        #expect(bench.loop.tlsSummary(of: server) != nil)
        #expect(bench.loop.handshakingCount < 2)
    }

    @Test func `the counts of pending connections return to zero`() throws {
        var bench = try Bench(.tls13, configuration { $0.authenticationMilliseconds = 3_000 })
        // Garbage in place of a handshake, a reset, silence, and a handshake without a login.
        let garbage = try connectedSocket(to: bench.address)
        #expect(send(garbage, "GET / HTTP/1.0\r\n\r\n", 18, 0) == 18)
        let reset = try connectedSocket(to: bench.address)
        var option = linger(l_onoff: 1, l_linger: 0)
        setsockopt(reset, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
        close(reset)
        let silent = try connectedSocket(to: bench.address)
        defer { for socket in [garbage, silent] { close(socket) } }
        _ = try bench.connect()
        bench.turn { loop, _ in loop.pendingCount == 0 }
        #expect(bench.loop.handshakingCount == 0)
    }

    @Test func `all loops together accept no more connections than the limiter allows`() throws {
        let connectionLimiter = ConnectionLimiter(maximumPerAddress: 0, totalMaximum: 1)
        var first = try Bench(.plain, configuration { $0.connectionLimiter = connectionLimiter })
        var second = try Bench(.plain, configuration { $0.connectionLimiter = connectionLimiter })
        let one = try connectedSocket(to: first.address)
        first.turn { _, recorder in recorder.accepted.count == 1 }
        let two = try connectedSocket(to: second.address)
        defer { close(two) }
        second.turn { _, recorder in recorder.turnedAway == [.total] }
        close(one)
        first.turn { _, recorder in recorder.ends.count == 1 }
        let three = try connectedSocket(to: second.address)
        defer { close(three) }
        second.turn { _, recorder in recorder.accepted.count == 1 }
    }

    @Test func `a connection without a keep-alive is probed by the kernel`() throws {
        var bench = try Bench()
        let (_, server) = try bench.connect()
        func isProbed() -> Bool {
            var (value, size) = (Int32(0), socklen_t(MemoryLayout<Int32>.size))
            let descriptor = bench.loop.slots[server.slot].descriptor
            getsockopt(descriptor, SOL_SOCKET, SO_KEEPALIVE, &value, &size)
            return value == 1
        }
        logIn(server, &bench)
        #expect(!isProbed())
        bench.loop.clearDeadline(of: server)
        #expect(isProbed())
    }
}

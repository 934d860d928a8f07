// Connections of proxies: the PROXY header before everything else, TLS included, whose client the
// connection belongs to, and what is counted for whom. Headers are written here byte by byte.
import BrokerTerms
import COpenSSL
import Glibc
import Testing
import WireFormat

@testable import NetTransport

/// Headers, and the client that the line names.
private enum Header {
    static let line: [UInt8] = Array("PROXY TCP4 192.0.2.7 198.51.100.1 56324 8883\r\n".utf8)
    static let signature: [UInt8] = [
        0x0D, 0x0A, 0x0D, 0x0A, 0x00, 0x0D, 0x0A, 0x51, 0x55, 0x49, 0x54, 0x0A,
    ]
    static let local: [UInt8] = signature + [0x20, 0, 0, 0]
    static let client = SocketAddress(numericHost: "192.0.2.7", port: 56_324)!

    /// A header of version 2 for a client of IPv6, with so many bytes of TLVs.
    static func binary(valueByteCount: Int = 0) -> [UInt8] {
        let length = 36 + valueByteCount
        return signature + [0x21, 0x21, UInt8(length >> 8), UInt8(length & 0xFF)]
            + [0x20, 0x01, 0x0D, 0xB8] + [UInt8](repeating: 0, count: 11) + [7]
            + [UInt8](repeating: 0, count: 16) + [0xDC, 0x04, 0x22, 0xB3]
            + [UInt8](repeating: 0xEE, count: valueByteCount)
    }
}

@Suite("A connection of a proxy")
struct ProxyHeaderConnectionTests {
    private static func networks(_ text: String) throws -> ProxyNetworks {
        ProxyNetworks(headers: [try IPNetwork(text.utf8)])
    }

    private func bench(
        tls: Bool = false, from network: String = "127.0.0.0/8",
        _ change: (inout EventLoop.Configuration) -> Void = { _ in }
    ) throws -> Bench {
        var configuration = EventLoop.Configuration()
        change(&configuration)
        var bench = try Bench(
            tls: tls ? serverTLS() : nil, configuration, proxies: Self.networks(network))
        bench.recorder.manner = .collect
        return bench
    }

    private func write(_ bytes: some Collection<UInt8>, to socket: Int32) {
        let bytes = Array(bytes)
        #expect(send(socket, bytes, bytes.count, Int32(MSG_NOSIGNAL)) == bytes.count)
    }

    @Test func `belongs to the client that the header names`() throws {
        var bench = try bench()
        let headers: [([UInt8], SocketAddress)] = [
            (Header.line, Header.client),
            (Header.binary(), SocketAddress(numericHost: "2001:db8::7", port: 56_324)!),
            (
                Header.binary(valueByteCount: 4_044),
                SocketAddress(numericHost: "2001:db8::7", port: 56_324)!
            ),
        ]
        for (number, (header, client)) in headers.enumerated() {
            let socket = try connectedSocket(to: bench.address)
            defer { close(socket) }
            write(header + [1, 2, 3], to: socket)
            bench.turn { _, recorder in recorder.received.count == number + 1 }
            let connection = try #require(bench.recorder.accepted.last)
            #expect(bench.recorder.received[connection] == [1, 2, 3])
            #expect(bench.loop.peer(of: connection) == client)
            let isNamed = bench.loop.isPeerNamed(of: connection)
            #expect(isNamed)
        }
        #expect(bench.loop.counters.proxyHeaders == 3)
        #expect(bench.loop.counters.opened == 3)
    }

    @Test(arguments: [1, 7, 15, 1_000])
    func `is the same if the header comes in pieces`(step: Int) throws {
        var bench = try bench()
        let socket = try connectedSocket(to: bench.address)
        defer { close(socket) }
        let stream = Header.binary(valueByteCount: step == 1_000 ? 4_044 : 20) + [1, 2, 3]
        for start in stride(from: 0, to: stream.count, by: step) {
            write(stream[start..<min(start + step, stream.count)], to: socket)
            _ = bench.loop.turn(&bench.recorder, waitMaximum: 20)
        }
        bench.turn { _, recorder in
            recorder.received.values.reduce(0) { $0 + $1.count } == 3
        }
        let connection = try #require(bench.recorder.accepted.last)
        #expect(bench.recorder.received[connection] == [1, 2, 3])
        #expect(bench.loop.peer(of: connection).host == "2001:db8::7")
    }

    @Test func `does not keep the loop busy while its header is incomplete`() throws {
        var bench = try bench()
        let socket = try connectedSocket(to: bench.address)
        defer { close(socket) }
        write(Header.line[..<20], to: socket)
        bench.turn { loop, _ in loop.pendingCount == 1 }
        for _ in 0..<3 { _ = bench.loop.turn(&bench.recorder, waitMaximum: 20) }
        let before = bench.loop.counters.turns
        let end = bench.loop.now.advanced(byMilliseconds: 300)
        bench.turn { loop, _ in loop.now >= end }
        #expect(bench.loop.counters.turns - before <= 5)
        #expect(bench.recorder.accepted.isEmpty && bench.recorder.ends.isEmpty)
    }

    @Test(arguments: [Header.local, Array("PROXY UNKNOWN\r\n".utf8)])
    func `has its own address if the header names none`(header: [UInt8]) throws {
        var bench = try bench()
        let socket = try connectedSocket(to: bench.address)
        defer { close(socket) }
        write(header + [9], to: socket)
        bench.turn { _, recorder in !recorder.received.isEmpty }
        let connection = try #require(bench.recorder.accepted.last)
        #expect(bench.loop.peer(of: connection).host == "127.0.0.1")
        let isNamed = bench.loop.isPeerNamed(of: connection)
        #expect(!isNamed)
        #expect(bench.recorder.received[connection] == [9])
    }

    @Test func `from elsewhere is that of a client, whose header is data`() throws {
        var bench = try bench(from: "127.0.0.2")
        let socket = try connectedSocket(to: bench.address)
        defer { close(socket) }
        write(Header.line, to: socket)
        bench.turn { _, recorder in !recorder.received.isEmpty }
        let connection = try #require(bench.recorder.accepted.last)
        #expect(bench.recorder.received[connection] == Header.line)
        #expect(bench.loop.peer(of: connection).host == "127.0.0.1")
        #expect(bench.loop.counters.proxyHeaders == 0)
    }

    @Test(
        arguments: [
            (Array("GET / HTTP/1.1\r\n".utf8), ProxyHeaderFault.missing),
            ([0x16, 3, 1], .missingBeforeTLS), ([0x10], .missingBeforePacket),
            (Array("PROXY TCP4 1.2.3.4\r\n".utf8), .line),
            (Array("PROXY UNKNOWN ".utf8) + [UInt8](repeating: 0x20, count: 100), .lineTooLong),
            (Header.signature + [0x21, 0x11, 0xFF, 0xFF], .tooLong),
        ] as [([UInt8], ProxyHeaderFault)])
    func `ends if its header is missing or malformed`(
        bytes: [UInt8], fault: ProxyHeaderFault
    ) throws {
        var bench = try bench()
        let socket = try connectedSocket(to: bench.address)
        defer { close(socket) }
        write(bytes, to: socket)
        bench.turn { _, recorder in recorder.ends.count == 1 }
        let end = bench.recorder.ends[0]
        #expect(end.cause == .proxyHeaderFault)
        #expect(end.detail == "\(fault.text)")
        #expect(bench.loop.counters[closed: .proxyHeaderFault] == 1)
        #expect(bench.loop.counters.proxyHeaders == 0)
        #expect(bench.recorder.accepted.isEmpty && bench.loop.pendingCount == 0)
    }

    @Test func `that closes without a byte is no fault, within the header it is one`() throws {
        var bench = try bench()
        close(try connectedSocket(to: bench.address))
        bench.turn { _, recorder in recorder.ends.count == 1 }
        #expect(bench.recorder.ends[0].cause == .peerClosed)
        let socket = try connectedSocket(to: bench.address)
        write(Header.line.dropLast(), to: socket)
        close(socket)
        bench.turn { _, recorder in recorder.ends.count == 2 }
        #expect(bench.recorder.ends[1].cause == .proxyHeaderFault)
        #expect(bench.recorder.ends[1].detail == "\(ProxyHeaderFault.ended.text)")
        // The end that follows a header at once is that of an open connection.
        let other = try connectedSocket(to: bench.address)
        write(Header.line, to: other)
        close(other)
        bench.turn { _, recorder in recorder.ends.count == 3 }
        #expect(bench.recorder.ends[2].cause == .peerClosed)
        #expect(bench.recorder.accepted.count == 1)
    }

    @Test(arguments: [false, true])
    func `has the time for a login for its header, however slowly it comes`(tls: Bool) throws {
        var bench = try bench(tls: tls) { $0.authenticationMilliseconds = 300 }
        let silent = try connectedSocket(to: bench.address)
        let slow = try connectedSocket(to: bench.address)
        defer { for socket in [silent, slow] { close(socket) } }
        let start = bench.loop.now
        var sent = 0
        bench.turn { loop, recorder in
            if recorder.ends.isEmpty, sent < 40 {
                write([Header.line[sent]], to: slow)
                sent += 1
            }
            return recorder.ends.count == 2
        }
        for end in bench.recorder.ends {
            #expect(end.cause == .proxyHeaderFault && end.detail == "\(ProxyHeaderFault.late.text)")
        }
        #expect(bench.loop.now >= start.advanced(byMilliseconds: 300))
        #expect(bench.loop.pendingCount == 0 && bench.loop.handshakingCount == 0)
    }

    @Test func `that says nothing ends first while others wait`() throws {
        var bench = try bench(tls: true) {
            $0.handshakesMaximum = 1
            $0.acceptPauseMilliseconds = 20
            $0.crowdedSilenceMilliseconds = 100
        }
        let silent = try connectedSocket(to: bench.address)
        bench.turn { loop, _ in loop.handshakingCount == 1 }
        let next = try connectedSocket(to: bench.address)
        defer { for socket in [silent, next] { close(socket) } }
        bench.turn { _, recorder in !recorder.ends.isEmpty }
        #expect(bench.recorder.ends[0].cause == .proxyHeaderFault)
        bench.turn { loop, _ in loop.counters.accepted == 2 }
    }

    // MARK: - TLS

    /// Shakes hands over a socket that has sent a header.
    private func shakeHands(_ bench: inout Bench, over socket: Int32) throws {
        let context = try clientTLS()
        let session = try context.makeSession(
            descriptor: socket, serverName: "localhost", resuming: nil)
        defer { SSL_free(session) }
        _ = fcntl(socket, F_SETFL, O_NONBLOCK)
        var result: Int32 = 0
        bench.turn { _, recorder in
            if result != 1 { result = SSL_do_handshake(session) }
            return result == 1 && !recorder.accepted.isEmpty
        }
        #expect(SSL_write(session, "hello", 5) == 5)
        bench.turn { _, recorder in !recorder.received.isEmpty }
    }

    @Test(arguments: [0, 1, 11, 16, 51], [false, true])
    func `goes on with TLS after its header`(cut: Int, together: Bool) throws {
        var bench = try bench(tls: true)
        let socket = try connectedSocket(to: bench.address)
        defer { close(socket) }
        let header = Header.binary()
        if cut > 0 {
            write(header[..<cut], to: socket)
            bench.turn { loop, _ in loop.pendingCount == 1 }
            _ = bench.loop.turn(&bench.recorder, waitMaximum: 20)
        }
        let rest = Array(header[cut...])
        // With MSG_MORE the rest and the ClientHello are one segment.
        let flags = Int32(MSG_NOSIGNAL) | (together ? Int32(MSG_MORE) : 0)
        #expect(send(socket, rest, rest.count, flags) == rest.count)
        try shakeHands(&bench, over: socket)
        let connection = try #require(bench.recorder.accepted.last)
        #expect(bench.recorder.received[connection] == Array("hello".utf8))
        #expect(bench.loop.peer(of: connection).host == "2001:db8::7")
        #expect(bench.loop.tlsSummary(of: connection) != nil)
        #expect(bench.loop.handshakingCount == 0 && bench.loop.pendingCount == 1)
    }

    @Test(arguments: [[], Header.local, Header.line])
    func `that closes before TLS is a check of the port, and no fault`(header: [UInt8]) throws {
        var bench = try bench(tls: true)
        let socket = try connectedSocket(to: bench.address)
        if !header.isEmpty { write(header, to: socket) }
        bench.turn { loop, _ in loop.counters.accepted == 1 }
        close(socket)
        bench.turn { _, recorder in recorder.ends.count == 1 }
        #expect(bench.recorder.ends[0].cause == .peerClosed)
        #expect(bench.loop.counters[closed: .tlsFailure] == 0)
        #expect(bench.loop.pendingCount == 0 && bench.loop.handshakingCount == 0)
    }

    @Test func `whose client says no TLS fails in TLS`() throws {
        var bench = try bench(tls: true)
        let socket = try connectedSocket(to: bench.address)
        defer { close(socket) }
        write(Header.line + Array("GET / HTTP/1.0\r\n\r\n".utf8), to: socket)
        bench.turn { loop, _ in loop.handshakingCount == 0 && loop.counters.proxyHeaders == 1 }
        close(socket)
        bench.turn { _, recorder in recorder.ends.count == 1 }
        #expect(bench.recorder.ends[0].cause == .tlsFailure)
    }

    // MARK: - Limits

    /// A header for a client.
    private func line(_ host: String) -> [UInt8] {
        Array("PROXY TCP4 \(host) 198.51.100.1 1 2\r\n".utf8)
    }

    @Test(arguments: [false, true])
    func `counts for the address of its client, not for that of the proxy`(tls: Bool) throws {
        let limiter = ConnectionLimiter(maximumPerAddress: 1, totalMaximum: 4)
        var bench = try bench(tls: tls) { $0.connectionLimiter = limiter }
        var sockets: [Int32] = []
        defer { for socket in sockets { close(socket) } }
        func connect(_ header: [UInt8]) throws {
            sockets.append(try connectedSocket(to: bench.address))
            write(header, to: sockets[sockets.count - 1])
        }
        for host in ["192.0.2.1", "192.0.2.2"] { try connect(line(host)) }
        try connect(Header.local)
        bench.turn { loop, _ in loop.counters.proxyHeaders == 3 }
        #expect(bench.recorder.ends.isEmpty && bench.loop.pendingCount == 3)
        // One more of a client, and of the proxy itself.
        for header in [line("192.0.2.1"), Header.local] {
            try connect(header)
            let count = bench.recorder.ends.count + 1
            bench.turn { _, recorder in recorder.ends.count == count }
            #expect(bench.recorder.ends[count - 1].cause == .refused)
        }
        #expect(bench.recorder.turnedAway == [.address, .address])
        #expect(bench.loop.counters.refusedByAddress == 2)
        // A connection whose header has not come counts among all.
        try connect([])
        bench.turn { loop, _ in loop.connectionCount == 4 }
        try connect(line("192.0.2.9"))
        bench.turn { _, recorder in recorder.turnedAway.count == 3 }
        #expect(bench.recorder.turnedAway[2] == .total)
        // With all closed, each counts for nobody.
        for socket in sockets { close(socket) }
        sockets = []
        bench.turn { loop, _ in loop.connectionCount == 0 }
        for host in 1...4 { try connect(line("192.0.2.\(host)")) }
        bench.turn { loop, _ in loop.counters.proxyHeaders == 9 }
        #expect(bench.loop.connectionCount == 4 && bench.recorder.turnedAway.count == 3)
    }

    @Test func `of a forwarder counts for an address when a request has named it`() throws {
        let limiter = ConnectionLimiter(maximumPerAddress: 1)
        var configuration = EventLoop.Configuration()
        configuration.connectionLimiter = limiter
        var bench = try Bench(
            tls: nil, configuration,
            proxies: ProxyNetworks(requests: [try IPNetwork("127.0.0.1".utf8)]))
        let sockets = try (0..<4).map { _ in try connectedSocket(to: bench.address) }
        defer { for socket in sockets { close(socket) } }
        bench.turn { _, recorder in recorder.accepted.count == 4 }
        let connections = bench.recorder.accepted
        let other = SocketAddress(numericHost: "192.0.2.8", port: 1)!
        let answers = [
            bench.loop.namePeer(Header.client, of: connections[0]),
            bench.loop.namePeer(Header.client, of: connections[1]),
            bench.loop.namePeer(other, of: connections[1]),
            // Its own address, if no request named one.
            bench.loop.namePeer(bench.loop.peer(of: connections[2]), of: connections[2]),
            bench.loop.namePeer(bench.loop.peer(of: connections[3]), of: connections[3]),
        ]
        #expect(answers == [true, false, true, true, false])
        #expect(bench.loop.counters.refusedByAddress == 2)
        #expect(bench.loop.peer(of: connections[0]) == Header.client)
        #expect(bench.loop.peer(of: connections[1]) == other)
        #expect(bench.loop.peer(of: connections[2]).host == "127.0.0.1")
        bench.loop.close(connections[0], afterFlush: false)
        bench.turn { _, recorder in recorder.ends.count == 1 }
        let isFree = bench.loop.namePeer(Header.client, of: connections[3])
        #expect(isFree)
    }
}

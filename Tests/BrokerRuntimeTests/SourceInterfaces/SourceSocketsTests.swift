// Sockets of clients of Diuit in an event loop of the test: what is unread, and what a reload ends.

import BrokerTerms
import Configuration
import Glibc
import NetTransport
import Primitives
import SourceInterfaces
import Testing

@testable import BrokerRuntime

/// A connection in an event loop of the test, whose other threads are those of a broker.
private final class Site: CustomReflectable {
    let broker: RunningBroker
    let sockets: SourceSockets
    private var loop = TestLoop()

    init() throws {
        broker = try RunningBroker { $0.apps = Self.apps }
        let server = broker.server
        sockets = SourceSockets(
            server.web, loopIndex: 0, shards: server.shards, rates: server.rates,
            clock: server.clock, packetMaximum: 1 << 20, log: server.log)
        loop.now = server.clock.moment().instant
        sockets.open(loop.connection, .plain, in: &loop)
    }

    /// The interface is open for the app demo.
    static var apps: [AppSettings] {
        var app = AppSettings(app: "demo")
        app.interfaces = [.diuit]
        return [app]
    }

    /// Logs a user in, as the decoder and the core do.
    func logIn() throws {
        try broker.makeApp()
        let token = try broker.makeTokens("alice")[0]
        let event = #"{"event":"authenticate","id":1,"data":{"authToken":"\#(token)"}}"#
        #expect(sockets.take(Array(event.utf8), from: loop.connection, in: &loop) != nil)
        let answer = sockets.frames(
            of: Array(#"{"type":"connected"}"#.utf8), number: 0, to: loop.connection,
            user: Array("alice".utf8))
        #expect(String(decoding: answer, as: UTF8.self).contains(#""userId":"alice""#))
    }

    func answerPing() {
        let pong = Array(#"{"event":"pong"}"#.utf8)
        _ = sockets.take(pong, from: loop.connection, in: &loop)
    }

    var isPeerSlow: Bool {
        get { loop.isPeerSlow }
        set { loop.isPeerSlow = newValue }
    }

    /// Writes so many bytes to the client.
    func write(_ byteCount: Int) {
        if let target = loop.reservePacket(byteCount, for: loop.connection, .required) {
            target.initializeMemory(as: UInt8.self, repeating: 0, count: byteCount)
        }
        loop.commitPacket(byteCount, for: loop.connection)
    }

    /// Whether nothing of the client is read.
    func isHeld() -> Bool { sockets.holdUnread(loop.connection, in: &loop) }
    var pauses: ReadPause { loop.pauses }

    /// Ends a turn so many milliseconds later. Returns the connections that have read nothing.
    func endTurn(after milliseconds: UInt64 = 0) -> [ConnectionID] {
        loop.now = loop.now.advanced(byMilliseconds: milliseconds)
        loop.turn += 1
        return sockets.endTurn(&loop)
    }

    func takeSent() -> String { loop.takeSent() }
    var hasClosed: Bool { loop.closesAfterFlush != nil }
    var connection: ConnectionID { loop.connection }
    var customMirror: Mirror { Mirror(self, children: []) }
}

@Suite struct SourceSocketsTests {
    private static let many = 200_000

    /// What a client of Socket.IO costs beside a WebSocket of JSON, in pieces for 64 slots.
    @Test func `an idle socket takes less than 100 bytes`() {
        #expect(MemoryLayout<SourceSocket?>.stride < 100)
    }

    @Test func `a client that does not read is not read, until it has`() throws {
        let site = try Site()
        try site.logIn()
        #expect(!site.isHeld() && site.pauses.isEmpty)
        site.isPeerSlow = true
        site.write(Self.many)
        #expect(site.isHeld() && site.pauses == .answers)
        #expect(site.endTurn(after: 1_000).isEmpty && site.pauses == .answers)
        _ = site.takeSent()
        #expect(site.endTurn().isEmpty && site.pauses.isEmpty)
        #expect(!site.isHeld())
    }

    @Test func `a client that reads nothing for 45 s ends, and one that reads a little stays`()
        throws
    {
        let site = try Site()
        try site.logIn()
        site.isPeerSlow = true
        site.write(Self.many)
        #expect(site.isHeld())
        let silence = SocketLimits.silenceMilliseconds
        #expect(silence == 45_000)
        #expect(site.endTurn(after: silence - 1).isEmpty)
        // It has read some bytes since.
        _ = site.takeSent()
        site.write(Self.many - 1)
        #expect(site.endTurn(after: 1).isEmpty)
        #expect(site.endTurn(after: silence - 1).isEmpty)
        #expect(site.endTurn(after: 1) == [site.connection])
        // It is told of once.
        #expect(site.endTurn(after: silence).isEmpty)
    }

    @Test func `turns that come late delay a ping by one of them, and a pause doubles none`() throws
    {
        let site = try Site()
        try site.logIn()
        func hasPing(after milliseconds: UInt64) -> Bool {
            _ = site.endTurn(after: milliseconds)
            guard site.takeSent().contains("ping") else { return false }
            site.answerPing()
            return true
        }
        func pings(in turn: UInt64, until end: UInt64) -> [UInt64] {
            stride(from: turn, through: end, by: Int(turn)).filter { _ in hasPing(after: turn) }
        }
        let times = pings(in: 1_200, until: 120_000)
        #expect(times.count >= 4)
        for (one, next) in zip(times, times.dropFirst()) {
            #expect((23_800...26_200).contains(next - one), "\(times)")
        }
        let count = (hasPing(after: 100_000) ? 1 : 0) + pings(in: 1_000, until: 24_000).count
        #expect(count == 1)
    }

    @Test func `a socket that closes while it is unread is forgotten`() throws {
        let site = try Site()
        try site.logIn()
        site.isPeerSlow = true
        site.write(Self.many)
        #expect(site.isHeld())
        site.sockets.close(site.connection)
        #expect(site.endTurn(after: 2 * SocketLimits.silenceMilliseconds).isEmpty)
        #expect(site.sockets.isEmpty)
    }

    @Test func `a reload that closes Diuit ends its connections`() throws {
        let site = try Site()
        try site.logIn()
        for _ in 0..<30 { _ = site.endTurn(after: 1_000) }
        #expect(!site.hasClosed && site.takeSent().contains("ping"))
        var settings = site.broker.settings
        settings.apps = []
        site.broker.server.web.interfaces.change(settings)
        for _ in 0..<26 where !site.hasClosed { _ = site.endTurn(after: 1_000) }
        #expect(site.hasClosed && site.takeSent().contains(#""code":404"#))
    }
}

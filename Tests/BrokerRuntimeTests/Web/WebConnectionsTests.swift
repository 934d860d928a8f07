// The phases of a connection of a web listener: what its bytes are, what it waits for, and when it
// closes.

import Administration
import BrokerTerms
import Configuration
import Foundation
import Glibc
import NetTransport
import Primitives
import Testing
import WireFormat

@testable import BrokerRuntime

/// A connection of a web listener in an event loop of the test, whose other threads are those of a
/// broker.
private final class Site: CustomReflectable {
    private let broker: RunningBroker
    private var web: WebConnections
    private var loop = TestLoop()
    /// What has arrived and is not consumed.
    private var kept: [UInt8] = []

    init(_ change: (inout BrokerSettings) -> Void = { _ in }) throws {
        broker = try RunningBroker {
            $0.listeners = [.loopback(.tcp), .loopback(.http)]
            $0.web.metrics = .anyone
            change(&$0)
        }
        let server = broker.server
        web = WebConnections(
            server.web, loopIndex: 0, shards: server.shards, trust: server.trust,
            rates: server.rates, clock: server.clock, log: server.log)
        let isWebListener = (0...1).map { web.open(loop.connection, tag: $0) }
        #expect(isWebListener == [false, true])
    }

    /// Shows bytes of the client, and what was kept before. Returns what it was sent.
    func receive(_ text: String = "") -> String {
        kept += text.utf8
        let outcome = show()
        if case .consumed(let count) = outcome { kept.removeFirst(count) }
        return loop.takeSent()
    }

    func show() -> WebConnections.Outcome {
        let range = kept.withUnsafeBytes { loop.appendIncoming($0) }
        return web.receive(range, from: loop.connection, isDraining: false, in: &loop)
    }

    /// Ends the turn and begins the next one. Returns what the client was sent.
    func endTurn() -> String {
        loop.now = broker.server.clock.moment().instant
        web.endTurn(&loop)
        loop.turn += 1
        return loop.takeSent()
    }

    /// Ends turns until the client is sent something.
    func answer() -> String {
        let start = ContinuousClock.now
        while ContinuousClock.now - start < .seconds(60) {
            let sent = endTurn()
            if !sent.isEmpty { return sent }
            sched_yield()
        }
        return ""
    }

    func deadlineReached() -> String {
        web.deadlineReached(loop.connection, in: &loop)
        return loop.takeSent()
    }

    func keep(_ text: String) { kept += text.utf8 }
    func takeSent() -> String { loop.takeSent() }

    /// Returns the operator's token.
    @discardableResult
    func addOperator(_ name: String = "anna") throws -> String {
        try broker.administrator().send(AddOperator(operator: name, role: .own)).token
    }

    var keptCount: Int { kept.count }
    /// A failed expectation shows it, and cannot show values that are not copied.
    var customMirror: Mirror { Mirror(self, children: []) }

    var isOpen: Bool { loop.closesAfterFlush == nil }
    var closesAfterFlush: Bool? { loop.closesAfterFlush }
    var form: WebSocketForm? { loop.form }
    var isCrowded: Bool {
        get { loop.isCrowded }
        set { loop.isCrowded = newValue }
    }
    func makeApp() throws { try broker.makeApp() }
    var isPeerSlow: Bool {
        get { loop.isPeerSlow }
        set { loop.isPeerSlow = newValue }
    }
    var isPaused: Bool { loop.pauses.contains(.answers) }
}

@Suite("A connection of a web listener")
struct WebConnectionsTests {
    private static let health = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    private static let metrics = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"

    private static func request(
        _ target: String, token: String, _ fields: String = "", content: String = ""
    ) -> String {
        "\(target) HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \(token)\r\n\(fields)\r\n"
            + content
    }

    /// The status of each response.
    private static func statuses(_ sent: String) -> [String] {
        sent.matches(of: #/HTTP/1\.1 (\d+)/#).map { String($0.1) }
    }

    @Test func `has one answer unsent without a credential, and more with one`() throws {
        let site = try Site()
        site.isPeerSlow = true
        #expect(Self.statuses(site.receive(Self.health + Self.health)) == ["200"])
        #expect(site.isPaused && site.keptCount == Self.health.utf8.count)
        #expect(site.endTurn() == "" && !site.isPaused)
        #expect(Self.statuses(site.receive()) == ["200"])
        // A valid credential, in a request that is executed.
        let token = try site.addOperator()
        #expect(site.receive(Self.request("GET /api/v1/me", token: token)) == "")
        #expect(Self.statuses(site.answer()) == ["200"])
        #expect(Self.statuses(site.receive(Self.health + Self.health)) == ["200", "200"])
    }

    @Test func `verifies a few web tokens in a turn, and each of them once`() throws {
        let secret = String(repeating: "s", count: 32)
        let authority = TestAuthority()
        authority.write(secret, to: "k1.secret")
        let site = try Site { settings in
            settings.jwt.allowHS256 = true
            settings.jwt.keys = [
                WebTokenKeySettings(
                    app: "demo", kid: "k1", algorithm: .hs256, file: authority.file("k1.secret"))
            ]
        }
        try site.makeApp()
        let expiry = Int(Date().timeIntervalSince1970) + 600
        let requests = (1...6).map { number in
            let token = makeWebToken(
                ["iss": "demo", "sub": "u\(number)", "exp": expiry], secret: secret)
            return Self.request("GET /api/v1/openapi.json", token: token)
        }
        let perTurn = WebLimits.webTokensPerTurnMaximum
        let first = Self.statuses(site.receive(requests.joined()))
        #expect(first == [String](repeating: "200", count: perTurn))
        #expect(site.isPaused)
        #expect(site.endTurn() == "" && !site.isPaused)
        #expect(Self.statuses(site.receive()).count == 6 - perTurn)
        #expect(site.endTurn() == "" && site.keptCount == 0)
        // All are known now.
        #expect(Self.statuses(site.receive(requests.joined())).count == 6)
        // What is refused is verified each time.
        _ = site.endTurn()
        let wrong = makeWebToken(
            ["iss": "demo", "sub": "u1", "exp": expiry], secret: String(repeating: "x", count: 32))
        let refused = Self.request("GET /api/v1/openapi.json", token: wrong)
        let answers = Self.statuses(site.receive(String(repeating: refused, count: 6)))
        #expect(answers == [String](repeating: "401", count: perTurn))
    }

    @Test func `answers requests that arrive together, and one that arrives in pieces`() throws {
        let site = try Site()
        #expect(Self.statuses(site.receive(Self.health + Self.health)) == ["200", "200"])
        #expect(site.receive(String(decoding: Self.health.utf8.dropLast(), as: UTF8.self)) == "")
        #expect(site.keptCount == Self.health.utf8.count - 1)
        #expect(Self.statuses(site.receive("\n")) == ["200"])
        #expect(site.keptCount == 0 && site.isOpen)
    }

    @Test func `has a time for a request, and closes silently without one`() throws {
        let begun = try Site()
        #expect(begun.receive("GET /heal") == "")
        #expect(Self.statuses(begun.deadlineReached()) == ["408"])
        #expect(begun.closesAfterFlush == true)
        #expect(begun.receive(Self.health) == "", "nothing is answered any more")
        let idle = try Site()
        #expect(idle.deadlineReached() == "" && idle.closesAfterFlush == true)
    }

    @Test func `reads nothing after a request that closes it`() throws {
        let site = try Site()
        let last = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        #expect(Self.statuses(site.receive(last + Self.health)) == ["200"])
        #expect(site.closesAfterFlush == true && site.keptCount == 0)
        let crowded = try Site()
        crowded.isCrowded = true
        #expect(Self.statuses(crowded.receive(Self.health + Self.health)) == ["200"])
        #expect(!crowded.isOpen)
    }

    @Test func `continues in the next turn after as many requests as a turn answers`() throws {
        let site = try Site()
        let count = WebLimits.requestsPerTurnMaximum
        let sent = site.receive(String(repeating: Self.health, count: count + 3))
        #expect(Self.statuses(sent).count == count && site.isPaused)
        #expect(site.keptCount == 3 * Self.health.utf8.count)
        #expect(site.endTurn() == "" && !site.isPaused)
        #expect(Self.statuses(site.receive()).count == 3 && site.keptCount == 0)
    }

    @Test func `waits for the text of the metrics, and then reads on`() throws {
        let site = try Site()
        #expect(site.receive(Self.metrics + Self.health) == "")
        #expect(site.isPaused && site.keptCount == Self.health.utf8.count)
        #expect(site.answer().contains("martlet_build_info"))
        #expect(!site.isPaused)
        #expect(Self.statuses(site.receive()) == ["200"])
    }

    @Test func `reads the content of a request in pieces, and waits for its answer`() throws {
        let site = try Site()
        let token = try site.addOperator()
        let head = Self.request(
            "POST /api/v1/apps", token: token,
            "Content-Type: application/json\r\nContent-Length: 14\r\n")
        #expect(site.receive(head + #"{"app":"#) == "" && site.keptCount == 0)
        #expect(site.receive(#""demo"}"# + Self.health) == "")
        #expect(site.isPaused && site.keptCount == Self.health.utf8.count)
        let answer = site.answer()
        #expect(Self.statuses(answer) == ["201"] && answer.contains("mk1_"), "\(answer)")
        #expect(!site.isPaused && site.isOpen)
        #expect(Self.statuses(site.receive()) == ["200"])
    }

    @Test func `has a time for content, and refuses what is too large`() throws {
        let fields = "Content-Type: application/json\r\nContent-Length: "
        let late = try Site()
        let token = try late.addOperator()
        #expect(
            late.receive(Self.request("POST /api/v1/apps", token: token, fields + "14\r\n"))
                == "")
        #expect(Self.statuses(late.deadlineReached()) == ["408"] && !late.isOpen)
        let large = try Site()
        let other = try large.addOperator()
        let sent = large.receive(
            Self.request("POST /api/v1/apps", token: other, fields + "65537\r\n"))
        #expect(Self.statuses(sent) == ["413"] && !large.isOpen)
    }

    @Test func `asks for content that the client announces`() throws {
        let site = try Site()
        let token = try site.addOperator()
        let fields = """
            Content-Type: application/json\r\nContent-Length: 14\r\nExpect: 100-continue\r\n
            """
        let head = Self.request("POST /api/v1/apps", token: token, String(fields))
        #expect(Self.statuses(site.receive(head)) == ["100"])
        #expect(site.receive(#"{"app":"demo"}"#) == "")
        #expect(Self.statuses(site.answer()) == ["201"])
    }

    @Test func `is refused the API without a credential, and stays open`() throws {
        let site = try Site()
        let sent = site.receive("GET /api/v1/apps HTTP/1.1\r\nHost: localhost\r\n\r\n")
        #expect(Self.statuses(sent) == ["401"] && sent.contains("WWW-Authenticate: Bearer"))
        #expect(site.isOpen)
        let token = try site.addOperator()
        for (target, status) in [
            ("GET /api/v1/nothing", "404"), ("DELETE /api/v1/apps", "405"),
            ("GET /api/v1/apps?%zz", "400"), ("GET /api/v1/openapi.json", "200"),
        ] {
            let sent = site.receive(Self.request(target, token: token))
            #expect(Self.statuses(sent) == [status], "\(target)")
        }
        #expect(site.isOpen)
    }

    private static let handshake = """
        GET /mqtt HTTP/1.1\r
        Host: localhost\r
        Connection: Upgrade\r
        Upgrade: websocket\r
        Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r
        Sec-WebSocket-Version: 13\r
        Sec-WebSocket-Protocol: mqtt\r
        \r

        """

    @Test func `speaks WebSocket after a handshake that nothing follows`() throws {
        let site = try Site()
        site.keep(Self.handshake)
        guard case .webSocket(let client) = site.show() else {
            Issue.record("no WebSocket: \(site.takeSent())")
            return
        }
        #expect(client.terms == 1 && client.json == nil && client.actingUser == nil)
        #expect(site.form == .binary)
        #expect(Self.statuses(site.takeSent()) == ["101"])
        let hasty = try Site()
        #expect(Self.statuses(hasty.receive(Self.handshake + "x")) == ["400"])
        #expect(!hasty.isOpen && hasty.form == nil)
    }

    @Test func `is a stream of the log until it receives anything`() throws {
        let site = try Site()
        let token = try site.addOperator()
        let head = Self.request("GET /api/v1/events", token: token)
        let sent = site.receive(head)
        #expect(Self.statuses(sent) == ["200"] && sent.contains("text/event-stream"))
        try site.addOperator("berta")
        #expect(site.answer().contains("event: administration"))
        _ = site.receive("x")
        #expect(site.closesAfterFlush == false)
        let hasty = try Site()
        let other = try hasty.addOperator()
        let refused = hasty.receive(Self.request("GET /api/v1/events", token: other) + "x")
        #expect(Self.statuses(refused) == ["400"])
    }
}

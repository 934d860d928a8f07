// The log lines about clients: names, addresses and reasons.
import Foundation
import Glibc
import Testing

@testable import BrokerRuntime

@Suite struct ClientLogTests {
    @Test func `a lost connection is logged as lost, with its address`() throws {
        let broker = try RunningBroker()
        try broker.makeApp()
        let token = try broker.makeTokens("alice")[0]
        let peer = try Peer(port: broker.port)
        #expect(peer.login(token: token, device: "d1") == .connected)
        peer.close()
        let line = try #require(broker.log.line { $0.contains("event=client_disconnected") })
        #expect(LogPipe.value("address", in: line) == peer.address)
        #expect(LogPipe.value("reason", in: line) == "connection-lost")
        #expect(LogPipe.value("user", in: line) == "alice")
        #expect(LogPipe.value("device", in: line) == "d1")
    }

    @Test func `two devices with one name are both logged, each with its address`() throws {
        let broker = try RunningBroker()
        try broker.makeApp()
        let token = try broker.makeTokens("alice")[0]
        let (first, second) = (try Peer(port: broker.port), try Peer(port: broker.port))
        #expect(first.login(token: token, device: "d1") == .connected)
        #expect(second.login(token: token, device: "d1") == .connected)
        #expect(first.farewell() == .sessionTakenOver)
        let taken = try #require(broker.log.line { $0.contains("event=session_taken_over") })
        #expect(LogPipe.value("address", in: taken) == first.address)
        #expect(LogPipe.value("other", in: taken) == second.address)
        // They stay, so that each takes the session over from the one before it.
        var peers = [first, second]
        while peers.count < 20 {
            let peer = try Peer(port: broker.port)
            peers.append(peer)
            guard peer.login(token: token, device: "d1") != .connected else { continue }
            let damped = try #require(broker.log.line { $0.contains("event=duplicate_login") })
            #expect(LogPipe.value("other", in: damped) == peer.address)
            #expect(LogPipe.value("reason", in: damped) == "connection-rate-exceeded")
            break
        }
        #expect(peers.count == 7, "the first, five takeovers, and the one that is damped")
    }

    @Test func `the example filter for fail2ban finds the address of a failed login`() throws {
        let broker = try RunningBroker()
        try broker.makeApp()
        let peer = try Peer(port: broker.port)
        #expect(peer.login(token: Self.unknownToken, device: "d 1") == .badUserNameOrPassword)
        let line = try #require(broker.log.line { $0.contains("event=auth_failed") })
        let expression = try Regex(try failRegex())
        // journald takes the priority in front for itself.
        let shown = String(line.dropFirst("<4>".count))
        let match = try #require(try expression.firstMatch(in: shown), "\(line)")
        #expect(match.output[1].substring == "127.0.0.1")
        #expect(line.contains(#"device="d 1" reason=bad-user-name-or-password code=134"#))
        #expect(line.contains("the credential is unknown, revoked or expired"))
    }

    @Test func `a name cannot imitate an address in the log`() throws {
        let forged = #"address=10.0.0.1:1 user="" device="" reason=not-authorized"#
        let bytes = LogLine.bytes(
            LogRecord(
                .warning, .authenticationFailed,
                fields: [
                    "address": "192.0.2.7:5", "user": .text(forged), "device": .text(forged),
                ]),
            format: .logfmt, unixMilliseconds: nil, priority: false)
        let match = try Regex(try failRegex()).firstMatch(
            in: String(decoding: bytes.dropLast(), as: UTF8.self))
        #expect(match?.output[1].substring == "192.0.2.7")
    }

    /// Of the right form, and nobody's.
    private static let unknownToken =
        "mt1_" + String(repeating: "a", count: 12) + "_" + String(repeating: "b", count: 26)

    /// The filter's expression, with fail2ban's `<HOST>` for IPv4 written out.
    private func failRegex() throws -> String {
        let file = URL(filePath: #filePath).deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent()
            .appending(path: "docs/operating/fail2ban/filter.conf")
        let line = try #require(
            String(contentsOf: file, encoding: .utf8).split(separator: "\n")
                .first { $0.hasPrefix("failregex = ") })
        return String(line.dropFirst("failregex = ".count))
            .replacing("<HOST>", with: #"((?:\d{1,3}\.){3}\d{1,3})"#)
    }
}

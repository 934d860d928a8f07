// A broker that reads new files and settings while clients are connected: valid sessions stay,
// invalid ones end, and a faulty reload changes nothing.
import Administration
import COpenSSL
import Configuration
import Foundation
import Testing

@testable import BrokerRuntime

@Suite struct FileRenewalTests {
    private let authority = TestAuthority()

    /// A broker whose only listener asks for certificates if there are any.
    private func broker(_ change: (inout BrokerSettings) -> Void = { _ in }) throws -> RunningBroker
    {
        for name in ["server.pem", "server.key"] { copy(name, "live-" + name) }
        let broker = try RunningBroker { settings in
            authority.configure(&settings, server: "live-server", clients: .optional)
            change(&settings)
        }
        try broker.makeApp()
        return broker
    }

    private func copy(_ from: String, _ to: String) {
        try? FileManager.default.removeItem(atPath: authority.file(to))
        try! FileManager.default.copyItem(
            atPath: authority.file(from), toPath: authority.file(to))
    }

    private var tls: PeerTLS { PeerTLS(authorityFile: authority.certificate) }

    private func tls(_ name: String) -> PeerTLS {
        PeerTLS(
            authorityFile: authority.certificate, certificateFile: authority.file("\(name).pem"),
            keyFile: authority.file("\(name).key"))
    }

    private func line(_ event: String, _ broker: RunningBroker) throws -> String {
        try #require(broker.log.line { $0.contains("event=\(event)") })
    }

    @Test func `a renewed certificate is used for new connections, and open ones stay`() throws {
        let broker = try broker()
        let token = try broker.makeTokens("alice")[0]
        let before = try Peer(port: broker.port, tls: tls)
        #expect(before.login(token: token, device: "d1") == .connected)
        broker.server.renewChangedFiles()
        authority.issue("next", subject: "/CN=localhost", names: "DNS:localhost")
        copy("next.pem", "live-server.pem")
        copy("next.key", "live-server.key")
        broker.server.renewChangedFiles()
        #expect(try line("configuration_reloaded", broker).contains("live-server.pem"))
        let after = try Peer(port: broker.port, tls: tls)
        #expect(after.login(token: token, device: "d2") == .connected)
        #expect(after.brokerSerial != before.brokerSerial)
        #expect(before.presence("alice") == .success)
    }

    @Test func `a reload names the files that have changed`() throws {
        let broker = try broker()
        let start = try LoadedConfiguration(
            text: nil,
            overrides: [
                "dataDirectory=\"\(broker.directory)\"", "listeners=[\"tls://127.0.0.1:1\"]",
                "tls.certificateFile=\"\(authority.file("live-server.pem"))\"",
                "tls.keyFile=\"\(authority.file("live-server.key"))\"",
                "tls.clientAuthorityFile=\"\(authority.certificate)\"",
                "tls.clientApp=\"demo\"",
            ].map { SettingOverride(assignment: $0) })
        authority.issue("next", subject: "/CN=localhost", names: "DNS:localhost")
        copy("next.pem", "live-server.pem")
        copy("next.key", "live-server.key")
        let paths = ["live-server.key", "live-server.pem"].map(authority.file)
        #expect(
            broker.server.reload(start, startedWith: start)
                == .applied(changed: [], needsRestart: [], files: paths))
        let told = try line("configuration_reloaded", broker)
        #expect(told.contains("live-server.pem"))
        // The next one has nothing new.
        #expect(
            broker.server.reload(start, startedWith: start)
                == .applied(changed: [], needsRestart: [], files: []))
    }

    @Test func `a pair that does not match is refused, and the old one stays in use`() throws {
        let broker = try broker()
        let token = try broker.makeTokens("alice")[0]
        authority.issue("next", subject: "/CN=localhost", names: "DNS:localhost")
        copy("next.pem", "live-server.pem")
        broker.server.renewChangedFiles()
        #expect(try line("configuration_refused", broker).contains("live-server.key"))
        #expect(
            try Peer(port: broker.port, tls: tls).login(token: token, device: "d1") == .connected)
        // Its other half comes later, as most programs write them.
        copy("next.key", "live-server.key")
        broker.server.renewChangedFiles()
        _ = try line("configuration_reloaded", broker)
    }

    @Test func `a revoked certificate ends its own session only`() throws {
        for name in ["alice", "bob"] { authority.issue(name, subject: "/CN=\(name)") }
        let broker = try broker()
        let alice = try Peer(port: broker.port, tls: tls("alice"))
        let bob = try Peer(port: broker.port, tls: tls("bob"))
        #expect(alice.login(device: "d1") == .connected)
        #expect(bob.login(device: "d1") == .connected)
        authority.revoke("alice")
        broker.server.renewChangedFiles()
        #expect(alice.farewell() == .notAuthorized)
        #expect(bob.presence("alice") == .success)
        let again = try? Peer(port: broker.port, tls: tls("alice"))
        #expect(again?.login(device: "d1") == nil)
    }

    @Test func `a removed pre-shared key ends its session`() throws {
        let digits = String(repeating: "07", count: 16)
        authority.write("alice:\(digits)\nbob:\(digits)\n", to: "psk")
        let broker = try broker { $0.tls.pskFile = authority.file("psk") }
        let key = [UInt8](repeating: 7, count: 16)
        let alice = try Peer(port: broker.port, tls: PeerTLS(preSharedKey: ("alice", key)))
        let bob = try Peer(port: broker.port, tls: PeerTLS(preSharedKey: ("bob", key)))
        #expect(alice.login(device: "d1") == .connected)
        #expect(bob.login(device: "d1") == .connected)
        authority.write("bob:\(digits)\n", to: "psk")
        broker.server.renewChangedFiles()
        #expect(alice.farewell() == .notAuthorized)
        #expect(bob.presence("alice") == .success)
    }

    @Test(arguments: [TLS1_2_VERSION, TLS1_3_VERSION])
    func `a replaced pre-shared key ends the session of the old one`(
        _ version: Int32
    ) throws {
        func digits(_ digit: Int) -> String { String(repeating: "0\(digit)", count: 16) }
        func tls(_ name: String, _ byte: UInt8) -> PeerTLS {
            PeerTLS(
                preSharedKey: (name, [UInt8](repeating: byte, count: 16)), version: version)
        }
        authority.write("alice:\(digits(7))\nbob:\(digits(7))\n", to: "psk")
        let broker = try broker { $0.tls.pskFile = authority.file("psk") }
        let alice = try Peer(port: broker.port, tls: tls("alice", 7))
        let bob = try Peer(port: broker.port, tls: tls("bob", 7))
        // Its TLS is done, and nothing has been claimed.
        let early = try Peer(port: broker.port, tls: tls("alice", 7))
        #expect(alice.login(device: "d1") == .connected)
        #expect(bob.login(device: "d1") == .connected)
        authority.write("alice:\(digits(8))\nbob:\(digits(7))\n", to: "psk")
        broker.server.renewChangedFiles()
        #expect(alice.farewell() == .notAuthorized)
        #expect(early.login(device: "d2") != .connected)
        #expect(bob.presence("alice") == .success)
        let again = try Peer(port: broker.port, tls: tls("alice", 8))
        #expect(again.login(device: "d1") == .connected)
    }

    @Test func `pre-shared keys that a reload enables admit their devices`() throws {
        let digits = String(repeating: "07", count: 16)
        authority.write("alice:\(digits)\n", to: "psk")
        let broker = try broker { settings in
            settings.listeners[0].clientCertificates = .none
            settings.tls.clientAuthorityFile = nil
            settings.tls.crlFile = nil
        }
        func load(_ assignments: String...) throws -> LoadedConfiguration {
            let basis = [
                "dataDirectory=\"\(broker.directory)\"", "listeners=[\"tls://127.0.0.1:1\"]",
                "tls.certificateFile=\"\(authority.file("live-server.pem"))\"",
                "tls.keyFile=\"\(authority.file("live-server.key"))\"", "tls.clientApp=\"demo\"",
            ]
            return try LoadedConfiguration(
                text: nil,
                overrides: (basis + assignments).map { SettingOverride(assignment: $0) })
        }
        let start = try load()
        let turnedOn = try load("tls.pskFile=\"\(authority.file("psk"))\"")
        #expect(broker.server.reload(turnedOn, startedWith: start).isApplied)
        let told = try line("configuration_reloaded", broker)
        #expect(LogPipe.value("needs_restart", in: told) == "")
        let key = [UInt8](repeating: 7, count: 16)
        let alice = try Peer(port: broker.port, tls: PeerTLS(preSharedKey: ("alice", key)))
        #expect(alice.login(device: "d1") == .connected)
        #expect(broker.server.reload(start, from: turnedOn, startedWith: start).isApplied)
        #expect(alice.farewell() == .notAuthorized)
    }

    @Test func `the log and the statistics report a certificate that expires soon`() throws {
        let broker = try broker()
        broker.server.keepDaily()
        let line = try line("certificate_expires", broker)
        #expect(line.contains(#"what="server certificate""#))
        let days = UInt64(LogPipe.value("days", in: line) ?? "")
        // Made for two days, a moment ago.
        #expect(days == 1 || days == 2)
        let counters = try broker.administrator().send(ReadStatistics()).counters
        let shown = try #require(counters.first { $0.name == "tls/certificate/days" }?.value)
        #expect(shown == 1 || shown == 2)
    }
}

@Suite struct ConfigurationReloadTests {
    private let secret = String(repeating: "s", count: 32)

    /// A configuration on top of a running broker's own settings.
    private func load(
        _ broker: RunningBroker, _ assignments: String...
    ) throws -> LoadedConfiguration {
        let basis = [
            "dataDirectory=\"\(broker.settings.dataDirectory)\"",
            "listeners=[\"tcp://127.0.0.1:1\"]",
        ]
        return try LoadedConfiguration(
            text: nil,
            overrides: (basis + assignments).map { SettingOverride(assignment: $0) })
    }

    /// A broker that accepts the web tokens that ``secret`` signs.
    private func brokerWithKey(of authority: TestAuthority) throws -> RunningBroker {
        authority.write(secret, to: "k1")
        let broker = try RunningBroker { settings in
            settings.jwt.allowHS256 = true
            settings.jwt.keys = [
                WebTokenKeySettings(
                    app: "demo", kid: "k1", algorithm: .hs256, file: authority.file("k1"))
            ]
        }
        try broker.makeApp()
        return broker
    }

    private var claims: [String: Any] {
        ["iss": "demo", "sub": "alice", "exp": Int(Date().timeIntervalSince1970) + 600]
    }

    @Test func `changed limits apply to connected clients`() throws {
        let broker = try RunningBroker()
        try broker.makeApp()
        let tokens = try broker.makeTokens("alice", "bob")
        let alice = try Peer(port: broker.port)
        #expect(alice.login(token: tokens[0]) == .connected)
        let text = String(repeating: "x", count: 100)
        #expect(alice.send(text, to: "bob") == .sent)
        let old = try load(broker)
        let new = try load(
            broker, "limits.messageMaximum=64", "limits.connections=5", "log.level=warning")
        #expect(broker.server.reload(new, startedWith: old).isApplied)
        #expect(alice.send(text, to: "bob") == .packetTooLarge)
        // The level is the new one when the reload is told, so its line is not.
        #expect(!broker.log.writer.writes(.info))
    }

    @Test func `a setting that needs a restart is named and keeps its value`() throws {
        let broker = try RunningBroker()
        let new = try load(broker, "limits.connections=5", "queues.messages=7")
        #expect(broker.server.reload(new, startedWith: try load(broker)).isApplied)
        let line = try #require(broker.log.line { $0.contains("configuration_reloaded") })
        #expect(line.contains(#"changed="limits.connections queues.messages""#))
        #expect(LogPipe.value("needs_restart", in: line) == "limits.connections")
    }

    @Test func `a setting that was changed and changed back needs no restart`() throws {
        let broker = try RunningBroker()
        let start = try load(broker)
        let changed = try load(broker, "limits.connections=5", "loops=2")
        #expect(broker.server.reload(changed, startedWith: start).isApplied)
        let other = try load(broker, "loops=2", "queues.messages=7")
        #expect(broker.server.reload(other, from: changed, startedWith: start).isApplied)
        #expect(broker.server.reload(try load(broker), from: other, startedWith: start).isApplied)
        var lines: [String] = []
        _ = broker.log.line { line in
            if line.contains("configuration_reloaded") { lines.append(line) }
            return lines.count == 3
        }
        #expect(lines[0].contains(#"needs_restart="loops limits.connections""#), "\(lines)")
        #expect(lines[1].contains("needs_restart=loops"), "\(lines)")
        #expect(lines[2].contains(#"needs_restart="""#), "\(lines)")
    }

    @Test func `a removed key of an account server ends the sessions that it admitted`() throws {
        let authority = TestAuthority()
        let broker = try brokerWithKey(of: authority)
        let token = makeWebToken(claims, secret: secret)
        let (alice, bob) = (try Peer(port: broker.port), try Peer(port: broker.port))
        #expect(alice.login(token: token) == .connected)
        #expect(bob.login(token: try broker.makeTokens("bob")[0]) == .connected)
        let old = try load(broker)
        #expect(broker.server.reload(try load(broker), startedWith: old).isApplied)
        #expect(alice.farewell() == .notAuthorized)
        #expect(bob.presence("alice") == .success)
        #expect(try Peer(port: broker.port).login(token: token) == .badUserNameOrPassword)
    }

    @Test func `a replaced key of an account server ends the sessions that the old one admitted`()
        throws
    {
        let authority = TestAuthority()
        let broker = try brokerWithKey(of: authority)
        let token = makeWebToken(claims, secret: secret)
        let alice = try Peer(port: broker.port)
        #expect(alice.login(token: token) == .connected)
        let other = String(secret.reversed()) + "other"
        authority.write(other, to: "k1")
        broker.server.renewChangedFiles()
        #expect(alice.farewell() == .notAuthorized)
        #expect(try Peer(port: broker.port).login(token: token) == .badUserNameOrPassword)
        let fresh = try Peer(port: broker.port)
        #expect(fresh.login(token: makeWebToken(claims, secret: other)) == .connected)
        // The same key once more is no other one.
        authority.write(other, to: "k1")
        broker.server.renewChangedFiles()
        #expect(fresh.presence("alice") == .success)
    }

    @Test func `a reload with an unreadable file changes nothing`() throws {
        let broker = try RunningBroker()
        let new = try load(
            broker, "queues.messages=7",
            #"jwt.keys=[{app:"demo",kid:"k",algorithm:"ES256",file:"/nowhere.pem"}]"#)
        #expect(!broker.server.reload(new, startedWith: try load(broker)).isApplied)
        let line = try #require(broker.log.line { $0.contains("configuration_refused") })
        #expect(line.contains("/nowhere.pem"))
        #expect(broker.server.settings.queues.messages == 10_000)
    }
}

// The identity of a client: web tokens of every algorithm, certificates and their revocation,
// pre-shared keys, session tickets; the openssl program is the other side.

import Administration
import BrokerTerms
import Foundation
import MartletClient
import NetTransport
import Primitives
import TestSurroundings
import Testing
import WireFormat

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(2 * Sanitizer.patience))) struct IdentityTests {
        private static func claims(_ user: String, expiry: String) -> String {
            #"{"iss":"demo","sub":"\#(user)","exp":\#(expiry)}"#
        }

        private static var later: String { "\(Int(Date().timeIntervalSince1970) + 600)" }

        /// Logs in with a token over the plain port; nil where it was let in.
        private func refusal(of token: String, _ broker: TestBroker) throws -> ReasonCode? {
            let client = try WireClient(port: broker.plainPort)
            guard case .refused(let refused) = try client.login(token: token) else { return nil }
            return refused.reason
        }

        @Test func `tokens of an account server with every algorithm admit their users`()
            async throws
        {
            let identities = try Identities()
            var keys: [String] = []
            for algorithm in ["RS256", "ES256", "EdDSA", "HS256"] {
                try await identities.makeKey("k-\(algorithm)", algorithm)
                let file = identities.file("k-\(algorithm).pub")
                keys.append(
                    #"{app:"demo",kid:"k-\#(algorithm)",algorithm:"\#(algorithm)",file:"\#(file)"}"#
                )
            }
            let broker = try await TestBroker(settings: [
                "jwt.allowHS256=true", "jwt.keys=[\(keys.joined(separator: ","))]",
            ])
            for algorithm in ["RS256", "ES256", "EdDSA", "HS256"] {
                let user = "user-\(algorithm)"
                let token = try await identities.token(
                    "k-\(algorithm)", claims: Self.claims(user, expiry: Self.later),
                    algorithm: algorithm)
                #expect(try refusal(of: token, broker) == nil, "\(algorithm)")
                _ = try await broker.process.line(with: "event=client_connected", "user=\(user)")
            }
            // Times may be written as people write them.
            let written = try await identities.token(
                "k-ES256", claims: Self.claims("poet", expiry: #""2099-01-01T00:00:00Z""#),
                algorithm: "ES256")
            #expect(try refusal(of: written, broker) == nil)
            for (wrong, detail) in [
                (
                    try await identities.token(
                        "k-RS256", claims: Self.claims("eve", expiry: Self.later),
                        algorithm: "none",
                        signedAs: "none"), "no signature"
                ),
                // The public key, which is no secret, as the secret of an HMAC.
                (
                    try await identities.token(
                        "k-RS256", claims: Self.claims("eve", expiry: Self.later),
                        algorithm: "HS256"), "another algorithm"
                ),
                (
                    try await identities.token(
                        "k-ES256", claims: Self.claims("eve", expiry: Self.later),
                        algorithm: "EdDSA", signedAs: "ES256"), "another algorithm"
                ),
                (
                    try await identities.token(
                        "k-ES256", claims: Self.claims("eve", expiry: "1000000000"),
                        algorithm: "ES256"), "long over"
                ),
            ] {
                #expect(try refusal(of: wrong, broker) == .badUserNameOrPassword, "\(detail)")
            }
            try write(identities, copy: "k-ES256.key", as: "stranger.key")
            let unknown = try await identities.token(
                "stranger", claims: Self.claims("eve", expiry: Self.later), algorithm: "ES256")
            #expect(try refusal(of: unknown, broker) == .badUserNameOrPassword)
            try await eventually("five stable lines") {
                broker.process.lines.count { line in
                    line.contains("event=auth_failed address=127.0.0.1:")
                        && line.contains(" reason=bad-user-name-or-password code=134")
                } == 5
            }
        }

        private func write(_ identities: Identities, copy: String, as name: String) throws {
            try identities.write(try identities.read(copy), to: name)
        }

        @Test func `a session ends with its web token`() async throws {
            let identities = try Identities()
            try await identities.makeKey("k", "ES256")
            let key = identities.file("k.pub")
            let broker = try await TestBroker(
                #"jwt.keys=[{app:"demo",kid:"k",algorithm:"ES256",file:"\#(key)"}]"#)
            let expiry = Int(Date().timeIntervalSince1970) + 15
            let token = try await identities.token(
                "k", claims: Self.claims("mayfly", expiry: "\(expiry)"), algorithm: "ES256")
            let client = try WireClient(port: broker.plainPort)
            guard case .accepted = try client.login(token: token) else {
                throw TestFailure("a token with some seconds left was refused")
            }
            nonisolated(unsafe) let waiting = client
            let reason = try await onThread { try waiting.nextDisconnect() }
            #expect(reason == .maximumConnectTime)
            // Not a minute later, nor sooner by more than the milliseconds that clocks are read
            // in; how busy the machine is has room in between.
            let late = Date().timeIntervalSince1970 - Double(expiry)
            #expect((-0.01..<30).contains(late), "\(late) s")
            // It is valid in these milliseconds.
            try await eventually("the end of the token") {
                try refusal(of: token, broker) == .badUserNameOrPassword
            }
        }

        @Test func `a certificate is a credential until a reload revokes it`()
            async throws
        {
            let identities = try Identities()
            try await identities.makeAuthority()
            try await identities.issue("pump")
            try await identities.issue("valve")
            let broker = try await TestBroker(
                settings: [
                    "tls.clientAuthorityFile=\"\(identities.file("ca.pem"))\"",
                    "tls.crlFile=\"\(identities.file("crl.pem"))\"", "tls.clientApp=\"demo\"",
                ], tlsOptions: "?clientCertificates=optional")
            func login(_ user: String) throws -> (WireClient, MRT.Connack?) {
                let context = try ClientTLSContext(
                    trust: .authorityFile(broker.authority),
                    certificateChainFile: identities.file("\(user).pem"),
                    keyFile: identities.file("\(user).key"))
                let client = try WireClient(port: broker.tlsPort, tls: context)
                return (client, try? client.loginWithoutCredential(device: "d1"))
            }
            let (pump, first) = try login("pump")
            let (valve, second) = try login("valve")
            for answer in [first, second] {
                guard case .accepted? = answer else { throw TestFailure("\(answer as Any)") }
            }
            try await identities.revoke("pump")
            broker.process.signal(SIGHUP)
            #expect(try pump.nextDisconnect() == .notAuthorized)
            _ = try await broker.process.line(with: "event=credentials_withdrawn", "connections=1")
            let (refused, answer) = try login("pump")
            #expect(answer == nil && refused.isClosed)
            _ = try await broker.process.line(with: "event=connection_failed", "revoked")
            #expect(!valve.isClosed)
            try valve.send(MRT.Ping(isResponse: false))
            #expect(try valve.nextPacket().type == MRT.PacketType.pingResponse.rawValue)
        }

        @Test(arguments: ["-tls1_2 -cipher PSK-AES128-GCM-SHA256", "-tls1_3"])
        func `the openssl client logs in with a pre-shared key`(version: String) async throws {
            let identities = try Identities()
            let key = String(repeating: "5a", count: 16)
            try identities.write(Array("demo/meter:\(key)\n".utf8), to: "psk")
            let broker = try await TestBroker("tls.pskFile=\"\(identities.file("psk"))\"")
            func client(
                _ key: String, identity: String = "demo/meter"
            ) throws -> ChildProcess {
                let line =
                    "exec openssl s_client -connect 127.0.0.1:\(broker.tlsPort) -psk \(key)"
                    + " -psk_identity \(identity) -ign_eof \(version)"
                return try ChildProcess(
                    "/bin/sh", ["-c", line], input: Self.text(of: Self.connect(device: "d1")))
            }
            let known = try client(key)
            _ = try await broker.process.line(
                with: "event=client_connected", "user=meter device=d1")
            known.signal(SIGKILL)
            let wrong = try client(String(repeating: "5b", count: 16))
            #expect(try await wrong.exit() == .code(1))
            _ = try await broker.process.line(
                with: "event=connection_failed", "cause=tlsFailure",
                #"with the pre-shared identity \"demo/meter\""#)
            // In 1.2 the handshake fails, and in 1.3 the login.
            let unknown = try client(key, identity: "demo/löst")
            _ = try await unknown.exit()
            _ = try await broker.process.line(
                with: version == "-tls1_3" ? "event=auth_failed" : "event=connection_failed",
                "no pre-shared key has the identity", "demo/l??st")
            #expect(try broker.counter("connects/accepted") == 1)
        }

        @Test func `a session ticket survives a restart and does not replace the token`()
            async throws
        {
            let identities = try Identities()
            // OpenSSL asks about the ticket first as about an identity with a pre-shared key.
            try identities.write(
                Array("demo/meter:\(String(repeating: "5a", count: 16))\n".utf8), to: "psk")
            let broker = try await TestBroker("tls.pskFile=\"\(identities.file("psk"))\"")
            let token = try broker.token("alice")
            func client(_ options: String, _ connect: [UInt8]) throws -> ChildProcess {
                let line =
                    "exec openssl s_client -connect 127.0.0.1:\(broker.tlsPort) -CAfile"
                    + " '\(broker.authority)' -ign_eof \(options)"
                return try ChildProcess("/bin/sh", ["-c", line], input: Self.text(of: connect))
            }
            let file = identities.file("session")
            let first = try client("-sess_out '\(file)'", Self.connect(device: "d1", token: token))
            _ = try await broker.process.line(with: "event=client_connected", "user=alice")
            try await eventually("a ticket") { FileManager.default.fileExists(atPath: file) }
            try await broker.stop()
            _ = try await first.exit()
            try await broker.start()
            let second = try client("-sess_in '\(file)'", Self.connect(device: "d1"))
            _ = try await second.line(with: "Reused, TLSv1.3")
            let refusal = try await broker.process.line(
                with: "event=auth_failed", "reason=not-authorized")
            #expect(!refusal.contains("pre-shared key"))
            _ = try await second.exit()
            let third = try client("-sess_in '\(file)'", Self.connect(device: "d1", token: token))
            _ = try await third.line(with: "Reused, TLSv1.3")
            _ = try await broker.process.line(with: "event=client_connected", "user=alice")
            third.signal(SIGKILL)
            let administration = try AdministrationClient(dataDirectory: broker.directory)
            _ = try administration.send(RevokeTokens(TokenSelection(app: "demo", user: "alice")))
            let fourth = try client("-sess_in '\(file)'", Self.connect(device: "d1", token: token))
            _ = try await fourth.line(with: "Reused, TLSv1.3")
            _ = try await broker.process.line(
                with: "event=auth_failed", "reason=bad-user-name-or-password")
            _ = try await fourth.exit()
        }

        @Test
        func `tokens are revoked by id, device, user and batch, and their connections end at once`()
            async throws
        {
            let broker = try await TestBroker()
            let administration = try AdministrationClient(dataDirectory: broker.directory)
            func client(_ user: String, _ device: String? = nil, _ batch: String? = nil) throws
                -> (WireClient, String)
            {
                let minted = try administration.send(
                    MintTokens(app: "demo", users: [user], device: device, batch: batch))
                let client = try WireClient(port: broker.plainPort)
                let name = Array((device ?? "x").utf8)
                guard
                    case .accepted = try client.login(token: minted.tokens[0].token, device: name)
                else { throw TestFailure("\(user) was refused") }
                return (client, minted.tokens[0].id)
            }
            let (byID, id) = try client("a")
            let (byDevice, _) = try client("b", "pump-1")
            let (byUser, _) = try client("c")
            let (byBatch, _) = try client("d", nil, "lot-7")
            let (other, _) = try client("e", "pump-2", "lot-8")
            for (selection, ended) in [
                (TokenSelection(app: "demo", id: id), byID),
                (TokenSelection(app: "demo", device: "pump-1"), byDevice),
                (TokenSelection(app: "demo", user: "c"), byUser),
                (TokenSelection(app: "demo", batch: "lot-7"), byBatch),
            ] {
                #expect(try administration.send(RevokeTokens(selection)).connectionCount == 1)
                #expect(try ended.nextDisconnect() == .notAuthorized)
            }
            try other.send(MRT.Ping(isResponse: false))
            #expect(try other.nextPacket().type == MRT.PacketType.pingResponse.rawValue)
        }

        @Test func `a token is replaced without losing the session`() async throws {
            let broker = try await TestBroker()
            let administration = try AdministrationClient(dataDirectory: broker.directory)
            let old = try administration.send(
                MintTokens(app: "demo", users: ["alice"], batch: "old"))
            let client = try WireClient(port: broker.plainPort)
            _ = try client.login(token: old.tokens[0].token)
            let new = Array(try broker.token("alice").utf8)
            try client.send(
                MRT.ClientAuth(credential: .token(ByteRange(offset: 0, count: new.count))), new)
            let answer = try client.nextPacket()
            #expect(answer.type == MRT.PacketType.auth.rawValue && answer.body.first == 0)
            let selection = TokenSelection(app: "demo", batch: "old")
            let revoked = try administration.send(RevokeTokens(selection))
            #expect(revoked.tokenCount == 1 && revoked.connectionCount == 0)
            try client.send(MRT.Ping(isResponse: false))
            #expect(try client.nextPacket().type == MRT.PacketType.pingResponse.rawValue)
        }

        // MARK: - Packets for a program that reads standard input

        private static func connect(device: String, token: String? = nil) -> [UInt8] {
            let source = Array((token ?? "").utf8) + Array(device.utf8)
            var connect = MRT.Connect()
            let tokenCount = source.count - device.utf8.count
            if token != nil {
                connect.credential = .token(ByteRange(offset: 0, count: tokenCount))
            }
            connect.device = ByteRange(offset: tokenCount, count: device.utf8.count)
            connect.inboxWindow = 16
            var bytes = [UInt8](repeating: 0, count: connect.encodedByteCount)
            bytes.withUnsafeMutableBytes { room in
                var writer = PacketWriter(room.mutableBytes)
                source.withUnsafeBytes { connect.write(to: &writer, from: $0.bytes) }
            }
            return bytes
        }

        /// The bytes of this packet are all ASCII.
        private static func text(of bytes: [UInt8]) -> String {
            precondition(bytes.allSatisfy { $0 < 0x80 })
            return String(decoding: bytes, as: UTF8.self)
        }
    }
}

extension WireClient {
    /// Sends a CONNECT that names only a device, and takes the answer.
    fileprivate func loginWithoutCredential(device: String) throws -> MRT.Connack {
        let source = Array(device.utf8)
        var connect = MRT.Connect()
        connect.device = ByteRange(offset: 0, count: source.count)
        connect.inboxWindow = 16
        try send(connect, source)
        let packet = try nextPacket()
        return try packet.body.withUnsafeBytes { try MRT.Connack(body: $0.bytes) }
    }
}

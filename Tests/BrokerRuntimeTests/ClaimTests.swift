// The identity of clients: by web tokens, client certificates and pre-shared keys, over real TLS.
import Administration
import BrokerTerms
import COpenSSL
import Configuration
import Foundation
import Testing
import WireFormat

@testable import BrokerRuntime

@Suite struct WebTokenTests {
    private let secret = String(repeating: "s", count: 32)
    private let broker: RunningBroker

    init() throws {
        let (authority, secret) = (TestAuthority(), secret)
        authority.write(secret, to: "k1.secret")
        broker = try RunningBroker { settings in
            settings.jwt.allowHS256 = true
            settings.jwt.keys = [
                WebTokenKeySettings(
                    app: "demo", kid: "k1", algorithm: .hs256, file: authority.file("k1.secret"))
            ]
        }
        try broker.makeApp()
    }

    private func claims(_ changes: [String: Any] = [:]) -> [String: Any] {
        ["iss": "demo", "sub": "alice", "exp": Int(Date().timeIntervalSince1970) + 600]
            .merging(changes) { $1 }
    }

    private func login(_ token: String, device: String = "d1") throws -> (Peer, Int) {
        let peer = try Peer(port: broker.port)
        return (peer, Int(peer.login(token: token, device: device)?.rawValue ?? 0))
    }

    @Test func `a web token admits its user with the rights that it names`() throws {
        _ = try broker.makeTokens("bob")
        let token = makeWebToken(claims(["rights": ["send:bob"]]), secret: secret)
        let (peer, reason) = try login(token)
        #expect(reason == 5)
        #expect(peer.send("x", to: "bob") == .sent)
        #expect(peer.send("x", to: "alice") == .notAuthorized)
        let explained = try broker.administrator().send(
            ExplainRights(app: "demo", user: "alice", device: "d1", action: .send, target: "bob"))
        #expect(explained.origin == "web token signed with k1")
    }

    @Test func `the fault of a web token is logged and not sent to the client`() throws {
        let now = Int(Date().timeIntervalSince1970)
        let wrong: [(String, String)] = [
            (makeWebToken(claims(), secret: String(repeating: "x", count: 32)), "wrongSignature"),
            (makeWebToken(claims(), secret: secret, kid: "k2"), "unknownKey"),
            (makeWebToken(claims(["exp": now - 61]), secret: secret), "expired"),
            (
                makeWebToken(claims(["sub": "a/b"]), secret: secret),
                "the app, the user or the device is not a valid id"
            ),
            (makeWebToken(claims(["rights": ["fly:*"]]), secret: secret), "is not a right"),
            ("nonsense", "neither a token nor a web token"),
        ]
        for (token, detail) in wrong {
            #expect(try login(token).1 == 0x86)
            let line = try #require(broker.log.line { $0.contains("event=auth_failed") })
            #expect(line.contains(detail), "\(line)")
        }
    }

    /// Diuit's is good for one login with its nonce, which a bearer token would not need.
    @Test func `a web token whose cty is that of a login of Diuit admits nobody`() throws {
        for (contentType, expected) in [("diuit-auth;v=1", 0x86), ("JWT", 5)] {
            let token = makeWebToken(
                claims(["nonce": "n"]), secret: secret, contentType: contentType)
            #expect(try login(token).1 == expected)
        }
        let line = try #require(broker.log.line { $0.contains("event=auth_failed") })
        #expect(line.contains("its cty is that of a login of Diuit"), "\(line)")
    }

    @Test func `two new web tokens in one segment are verified in order`() throws {
        _ = try broker.makeTokens("bob")
        let (peer, reason) = try login(makeWebToken(claims(), secret: secret))
        #expect(reason == 5)
        let tokens = [["rights": ["send:bob"]], ["sub": "bob"], ["rights": ["presence:bob"]]].map {
            makeWebToken(claims($0), secret: secret)
        }
        peer.write(
            tokens.flatMap { token in
                var source = Source()
                let range = source.add(token)
                return Peer.bytes(of: MRT.ClientAuth(credential: .token(range)), source.bytes)
            })
        #expect(peer.read(.auth)?.body == [ReasonCode.success.rawValue])
        #expect(peer.read(.auth)?.body == [ReasonCode.notAuthorized.rawValue])
        #expect(peer.read(.auth)?.body == [ReasonCode.success.rawValue])
        #expect(peer.presence("bob") == .success)
        #expect(peer.send("x", to: "bob") == .notAuthorized)
    }

    @Test func `two new web tokens of an MQTT client in one segment are both accepted`() throws {
        let peer = try Peer(port: broker.port)
        let token = makeWebToken(claims(), secret: secret)
        peer.write(Peer.mqttConnectWithMethod(token: token))
        #expect(peer.readFrame()?.body[1] == 0)
        peer.write(Peer.mqttAuth(token: token) + Peer.mqttAuth(token: token))
        for _ in 0..<2 {
            let answer = try #require(peer.readFrame())
            #expect(answer.type == 15 && answer.body[0] == 0)
        }
    }

    @Test func `a web token for one device admits no other device`() throws {
        let token = makeWebToken(claims(["device": "d1"]), secret: secret)
        #expect(try login(token).1 == 5)
        #expect(try login(token, device: "d2").1 == 0x85)
        let line = try #require(broker.log.line { $0.contains("event=login_refused") })
        #expect(LogPipe.value("subject", in: line) == "d1")
        #expect(line.contains(#"detail="the credential is bound to device d1""#))
    }
}

@Suite struct ExpiryOfCredentialsTests {
    @Test func `a connection ends with its token`() throws {
        let broker = try RunningBroker()
        try broker.makeApp()
        let minted = try broker.administrator().send(
            MintTokens(app: "demo", users: ["alice"], expirySeconds: 8))
        let peer = try Peer(port: broker.port)
        #expect(peer.login(token: minted.tokens[0].token) == .connected)
        #expect(peer.farewell() == .maximumConnectTime)
        let line = try #require(broker.log.line { $0.contains("event=client_disconnected") })
        #expect(LogPipe.value("reason", in: line) == "maximum-connect-time")
    }
}

@Suite struct RotationTests {
    private let broker: RunningBroker

    init() throws {
        broker = try RunningBroker()
        try broker.makeApp()
    }

    private func mint(
        _ user: String = "alice", expirySeconds: UInt64? = nil, rights: [String]? = nil
    ) throws -> String {
        try broker.administrator().send(
            MintTokens(
                app: "demo", users: [user], expirySeconds: expirySeconds, rights: rights)
        ).tokens[0].token
    }

    @Test func `a new token replaces the old one, and the session continues`() throws {
        _ = try mint("bob")
        let peer = try Peer(port: broker.port)
        #expect(peer.login(token: try mint(expirySeconds: 8)) == .connected)
        #expect(peer.send("x", to: "bob") == .sent)
        #expect(peer.rotate(to: try mint(rights: ["presence:bob"])) == .success)
        #expect(peer.send("x", to: "bob") == .notAuthorized)
        #expect(peer.presence("bob") == .success)
        // After the first token would have ended it: the end of a later one is waited for.
        let other = try Peer(port: broker.port)
        #expect(other.login(token: try mint("carol", expirySeconds: 9)) == .connected)
        #expect(other.farewell() == .maximumConnectTime)
        #expect(peer.presence("bob") == .success)
    }

    @Test func `an invalid token, or one of another user, leaves the old one valid`() throws {
        let peer = try Peer(port: broker.port)
        #expect(peer.login(token: try mint()) == .connected)
        #expect(peer.rotate(to: "nonsense") == .badUserNameOrPassword)
        #expect(broker.log.line { $0.contains("event=auth_failed") } != nil)
        #expect(peer.rotate(to: try mint("bob")) == .notAuthorized)
        #expect(peer.presence("bob") == .success)
    }
}

@Suite struct ClientCertificateTests {
    private let authority = TestAuthority()

    private func broker(
        _ policy: ClientCertificatePolicy, _ change: (inout BrokerSettings) -> Void = { _ in }
    ) throws -> RunningBroker {
        authority.issue("alice", subject: "/CN=alice", names: "URI:demo/carol")
        let broker = try RunningBroker { settings in
            authority.configure(&settings, clients: policy)
            change(&settings)
        }
        try broker.makeApp()
        return broker
    }

    private var tls: PeerTLS { PeerTLS(authorityFile: authority.certificate) }

    private func tls(_ name: String, session: PeerSession? = nil) -> PeerTLS {
        PeerTLS(
            authorityFile: authority.certificate, certificateFile: authority.file("\(name).pem"),
            keyFile: authority.file("\(name).key"), session: session)
    }

    @Test func `a certificate's common name is the user`() throws {
        let broker = try broker(.required)
        let peer = try Peer(port: broker.port, tls: tls("alice"))
        #expect(peer.login(device: "d1") == .connected)
        let line = try #require(broker.log.line { $0.contains("event=client_connected") })
        #expect(LogPipe.value("user", in: line) == "alice")
    }

    @Test func `an alternative name may be the user and name the app`() throws {
        let broker = try broker(.required) {
            $0.tls.clientName = .uri
            $0.tls.clientApp = nil
        }
        let peer = try Peer(port: broker.port, tls: tls("alice"))
        #expect(peer.login(device: "d1") == .connected)
        let line = try #require(broker.log.line { $0.contains("event=client_connected") })
        #expect(LogPipe.value("user", in: line) == "carol")
    }

    @Test func `an invalid user name is refused and logged`() throws {
        let broker = try broker(.required) { $0.tls.clientApp = nil }
        let peer = try Peer(port: broker.port, tls: tls("alice"))
        #expect(peer.login(device: "d1") == .notAuthorized)
        let line = try #require(broker.log.line { $0.contains("event=auth_failed") })
        #expect(line.contains("names no app"), "\(line)")
    }

    @Test func `a client without a required certificate is refused`() throws {
        let broker = try broker(.required)
        let token = try broker.makeTokens("alice")[0]
        let peer = try? Peer(port: broker.port, tls: tls)
        // In TLS 1.3 the client hears of it only when it reads.
        #expect(peer?.login(token: token) == nil)
    }

    @Test func `with an optional certificate a token suffices, and no credential is refused`()
        throws
    {
        let broker = try broker(.optional)
        let token = try broker.makeTokens("bob")[0]
        #expect(try Peer(port: broker.port, tls: tls).login(token: token) == .connected)
        #expect(try Peer(port: broker.port, tls: tls).login(device: "d1") == .notAuthorized)
        #expect(
            try Peer(port: broker.port, tls: tls("alice")).login(device: "d1") == .connected)
    }

    @Test func `a presented token has priority over the certificate`() throws {
        let broker = try broker(.optional)
        let wrong =
            "mt1_" + String(repeating: "a", count: 12) + "_" + String(repeating: "b", count: 26)
        #expect(
            try Peer(port: broker.port, tls: tls("alice")).login(token: wrong)
                == .badUserNameOrPassword)
    }

    @Test func `a revoked certificate is refused`() throws {
        let broker = try broker(.required) { _ in authority.revoke("alice") }
        let peer = try? Peer(port: broker.port, tls: tls("alice"))
        #expect(peer?.login(device: "d1") == nil)
    }

    @Test func `a changed revocation list prevents the resumption of TLS sessions`() throws {
        let broker = try broker(.required)
        let first = try Peer(port: broker.port, tls: tls("alice"))
        #expect(first.login(device: "d1") == .connected)
        let session = try #require(first.session)
        first.close()
        let second = try Peer(port: broker.port, tls: tls("alice", session: session))
        #expect(second.isResumed)
        #expect(second.login(device: "d1") == .connected)
        second.close()
        try broker.restart { _ in authority.revoke("server") }
        let third = try Peer(port: broker.port, tls: tls("alice", session: session))
        #expect(!third.isResumed)
        #expect(third.login(device: "d1") == .connected)
    }
}

@Suite struct PreSharedKeyTests {
    private let authority = TestAuthority()
    private let key = [UInt8](repeating: 7, count: 16)

    private func broker() throws -> RunningBroker {
        let digits = String(repeating: "07", count: 16)
        authority.write("# devices\ndemo/pump-7:\(digits)\r\n\nmeter:\(digits)\n", to: "psk")
        let broker = try RunningBroker { settings in
            settings.listeners = [.loopback(.tls)]
            settings.tls.certificateFile = authority.file("server.pem")
            settings.tls.keyFile = authority.file("server.key")
            settings.tls.pskFile = authority.file("psk")
            settings.tls.clientApp = "demo"
        }
        try broker.makeApp()
        return broker
    }

    private func tls(_ identity: String, _ version: Int32, key: [UInt8]? = nil) -> PeerTLS {
        // It trusts no authority: without the key there is no handshake.
        PeerTLS(preSharedKey: (identity, key ?? self.key), version: version)
    }

    @Test(arguments: [TLS1_2_VERSION, TLS1_3_VERSION], ["demo/pump-7", "meter"])
    func `a pre-shared key logs its user in`(_ version: Int32, _ identity: String) throws {
        let broker = try broker()
        let peer = try Peer(port: broker.port, tls: tls(identity, version))
        #expect(peer.login(device: "d1") == .connected)
        let line = try #require(broker.log.line { $0.contains("event=client_connected") })
        #expect(
            LogPipe.value("user", in: line) == identity.split(separator: "/").last.map(String.init))
    }

    @Test(arguments: [TLS1_2_VERSION, TLS1_3_VERSION])
    func `a wrong key and an unknown identity end the handshake`(_ version: Int32) throws {
        let broker = try broker()
        let wrong = [UInt8](repeating: 8, count: 16)
        #expect(throws: Peer.HandshakeFailure.self) {
            try Peer(port: broker.port, tls: tls("meter", version, key: wrong))
        }
        #expect(throws: Peer.HandshakeFailure.self) {
            try Peer(port: broker.port, tls: tls("stranger", version))
        }
    }

    @Test func `a key file that others can read is refused`() throws {
        _ = try broker()
        authority.write("meter:00", to: "psk", permissions: 0o644)
        #expect(throws: StartError.self) { try broker(readable: "psk") }
    }

    private func broker(readable file: String) throws -> RunningBroker {
        try RunningBroker { settings in
            settings.tls.pskFile = authority.file(file)
        }
    }
}

@Suite struct SessionTicketTests {
    @Test func `session tickets survive a restart and are no credential`() throws {
        let authority = TestAuthority()
        let broker = try RunningBroker { settings in
            settings.listeners = [.loopback(.tls)]
            settings.tls.certificateFile = authority.file("server.pem")
            settings.tls.keyFile = authority.file("server.key")
        }
        try broker.makeApp()
        let token = try broker.makeTokens("alice")[0]
        var tls = PeerTLS(authorityFile: authority.certificate)
        let first = try Peer(port: broker.port, tls: tls)
        #expect(first.login(token: token) == .connected)
        tls.session = first.session
        first.close()
        try broker.restart()
        let second = try Peer(port: broker.port, tls: tls)
        #expect(second.isResumed)
        #expect(second.login(device: "d1") == .notAuthorized)
        let third = try Peer(port: broker.port, tls: tls)
        #expect(third.login(token: token) == .connected)
        var information = stat()
        #expect(stat(broker.settings.dataDirectory + "/ticket-keys", &information) == 0)
        #expect(information.st_mode & 0o777 == 0o600)
    }
}

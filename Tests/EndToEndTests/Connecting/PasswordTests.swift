// User names and passwords: Mosquitto's clients log in with them, and operators set, list, expire
// and revoke them.

import Administration
import BrokerTerms
import Foundation
import TestSurroundings
import Testing

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(2 * Sanitizer.patience))) struct PasswordTests {
        /// `secret` by mosquitto_passwd with PBKDF2 and with `-H sha512`.
        private static let imported = [
            "pbkdf2-sha512":
                "$7$101$9AAnhnqk7o5eytuV$EyGW84b8FCiBXfOKPmLianpIv/mzX4Rz0NPw6mq36Lc9ZL"
                + "vcm97los90+bfBNoCVVU6euoGTP+8XoAv7QM8QXg==",
            "sha512": "$6$V0ORzqVy5MlINaA2$JaEjZsKUqXE1PX5RuhHIh1kD9fI1BZCYLIFC2a/7t17GlyauSi"
                + "FBOqU84z/1T6M/B+gLxRLA73xxZstw6ioyPQ==",
        ]

        private let broker: TestBroker

        init() async throws {
            broker = try await TestBroker(settings: [], plainOptions: "?passwords=demo")
        }

        private func ask<Request: AdministrationRequest>(
            _ request: Request
        ) throws -> Request.Reply {
            try AdministrationClient(dataDirectory: broker.directory).send(request)
        }

        private func set(
            _ name: String, password: String? = nil, hash: String? = nil, user: String? = nil,
            device: String? = nil, rights: [String]? = nil, keepsTerms: Bool? = nil
        ) throws -> Int {
            try ask(
                SetPassword(
                    app: "demo", name: name, password: password, hash: hash, user: user,
                    device: device, rights: rights, keepsTerms: keepsTerms)
            ).connectionCount
        }

        private func client(_ program: String, _ words: String...) throws -> ChildProcess {
            try ChildProcess(
                "/usr/bin/stdbuf",
                [
                    "-oL", "/usr/bin/mosquitto_\(program)", "-h", "localhost", "-p",
                    "\(broker.plainPort)",
                ] + words)
        }

        /// The exit of a client that publishes: 0 if it was let in.
        private func publish(
            _ name: String, _ password: String
        ) async throws -> ChildExit {
            try await client("pub", "-u", name, "-P", password, "-t", "t", "-m", "x", "-q", "1")
                .exit()
        }

        @Test func `are named in the log where the listener takes none`() async throws {
            let broker = try await TestBroker()
            let child = try ChildProcess(
                "/usr/bin/mosquitto_pub",
                [
                    "-h", "localhost", "-p", "\(broker.tlsPort)", "--cafile", broker.authority,
                    "-u", "ann", "-P", "secret", "-t", "t", "-m", "x",
                ])
            #expect(try await child.exit() != .code(0))
            _ = try await broker.process.line(
                with: "event=auth_failed", "neither a token nor a web token; passwords need")
        }

        @Test func `keep their restrictions when only the secret is set again`() async throws {
            _ = try set(
                "pump/1", password: "secret", user: "pump", device: "d1", rights: ["publish:a"])
            _ = try ask(ExpirePassword(app: "demo", name: "pump/1", expirySeconds: 1_000))
            let before = try ask(ListPasswords(app: "demo")).passwords[0]
            _ = try set("pump/1", password: "another", keepsTerms: true)
            var after = try ask(ListPasswords(app: "demo")).passwords[0]
            after.madeUnixSeconds = before.madeUnixSeconds
            #expect(after == before && after.user == "pump" && after.rights == ["publish:a"])
            // What is named takes the place, and without the mark all does.
            _ = try set(
                "pump/1", password: "third", device: "d2", rights: ["publish:b"], keepsTerms: true)
            let changed = try ask(ListPasswords(app: "demo")).passwords[0]
            #expect(changed.device == "d2" && changed.rights == ["publish:b"])
            #expect(changed.expiresUnixSeconds == before.expiresUnixSeconds)
            _ = try set("pump/1", password: "fourth", user: "other")
            let fresh = try ask(ListPasswords(app: "demo")).passwords[0]
            #expect(fresh.rights == nil && fresh.expiresUnixSeconds == nil && fresh.device == nil)
            // One that has expired does not become one without end.
            _ = try ask(ExpirePassword(app: "demo", name: "pump/1", expirySeconds: 0))
            var refusal = ""
            while refusal.isEmpty {
                // Until the second is over.
                do {
                    _ = try set("pump/1", password: "fifth", keepsTerms: true)
                } catch AdministrationError.refused(let refused) {
                    refusal = refused.message
                }
            }
            #expect(refusal.contains("has expired"))
        }

        @Test func `keep their restrictions when they are imported again`() throws {
            let (first, second) = (
                Self.imported["sha512"]!, Self.imported["pbkdf2-sha512"]!
            )
            _ = try ask(
                SetPassword(
                    app: "demo", name: "pump/1", hash: first, user: "pump", device: "d1",
                    rights: ["publish:a"], expirySeconds: 1_000))
            let before = try ask(ListPasswords(app: "demo")).passwords[0]
            for (hash, rights) in [(first, nil), (second, nil), (second, ["publish:b"])] {
                _ = try ask(
                    ImportPasswords(
                        app: "demo", names: ["pump/1"], hashes: [hash], users: ["pump"],
                        rights: rights))
                let after = try ask(ListPasswords(app: "demo")).passwords[0]
                #expect(after.device == "d1")
                #expect(after.expiresUnixSeconds == before.expiresUnixSeconds)
                #expect(after.rights == rights ?? ["publish:a"])
            }
            // Names are bytes: these are two users.
            _ = try ask(
                ImportPasswords(
                    app: "demo", names: ["caf\u{E9}", "cafe\u{301}"], hashes: [first, first]))
            #expect(try ask(ListPasswords(app: "demo")).passwords.count == 3)
        }

        @Test func `log users in, whatever made the hash, and refuse the wrong ones alike`()
            async throws
        {
            _ = try set("plain/1", password: "secret", user: "plain")
            for (kind, hash) in Self.imported {
                _ = try set(kind, hash: hash)
            }
            for name in ["plain/1"] + Self.imported.keys {
                #expect(try await publish(name, "secret") == .code(0), "\(name)")
                let start = ContinuousClock.now
                #expect(try await publish(name, "Secret") != .code(0), "\(name)")
                #expect(ContinuousClock.now - start >= .milliseconds(500))
            }
            let start = ContinuousClock.now
            #expect(try await publish("nobody", "secret") != .code(0))
            #expect(ContinuousClock.now - start >= .milliseconds(500))
            #expect(try await publish("plain/1", "") != .code(0))
            let long = String(repeating: "x", count: 2_000)
            #expect(try await publish("plain/1", long) != .code(0))
            // Tokens and app keys go on working there.
            let token = try broker.token("carl")
            #expect(try await publish("whoever", token) == .code(0))
            let key = try broker.variable("MARTLET_APP_KEY")
            #expect(try await publish("demo/dora", key) == .code(0))
            #expect(try broker.counter("passwords/verified") == 3)
            // Again: recognized, and not hashed.
            for name in ["plain/1"] + Self.imported.keys {
                #expect(try await publish(name, "secret") == .code(0), "\(name)")
            }
            #expect(try broker.counter("passwords/recognized") == 3)
            #expect(try broker.counter("passwords/refused") == 5)
        }

        /// A login would read them as tokens.
        @Test(arguments: ["mt1_abc", "eyJhbGc.x.y"])
        func `one in the form of a token is refused`(_ password: String) throws {
            do {
                _ = try set("ann", password: password)
                Issue.record("\(password) is set")
            } catch AdministrationError.refused(let refusal) {
                #expect(refusal.message.contains("the form of a token"))
            }
        }

        @Test func `a changed, expired or revoked one ends its connections, also after a restart`()
            async throws
        {
            _ = try set("bound", password: "one", device: "phone")
            #expect(try await publish("bound", "one") != .code(0), "another device")
            _ = try ask(RevokePassword(app: "demo", name: "bound"))
            _ = try set("ann", password: "one")
            let first = try client("sub", "-u", "ann", "-P", "one", "-i", "phone", "-t", "t", "-d")
            _ = try await first.line(with: "Subscribed")
            #expect(try set("ann", password: "two") == 1)
            _ = try await first.line(with: "Refused")
            first.signal(SIGKILL)
            #expect(try await publish("ann", "one") != .code(0))
            #expect(try await publish("ann", "two") == .code(0))
            try await broker.stop()
            try await broker.start()
            #expect(try await publish("ann", "two") == .code(0))
            let listed = try ask(ListPasswords(app: "demo")).passwords
            #expect(listed.map(\.name) == ["ann"] && listed.map(\.kind) == ["argon2id"])
            #expect(listed.first?.lastUsedUnixSeconds != nil)
            let second = try client("sub", "-u", "ann", "-P", "two", "-t", "t", "-d")
            _ = try await second.line(with: "Subscribed")
            #expect(
                try ask(ExpirePassword(app: "demo", name: "ann", expirySeconds: 0))
                    .connectionCount == 1)
            second.signal(SIGKILL)
            // An expiry is rounded up to a whole second.
            while try await publish("ann", "two") == .code(0) {}
            _ = try ask(ExpirePassword(app: "demo", name: "ann", expirySeconds: nil))
            #expect(try await publish("ann", "two") == .code(0))
            _ = try ask(RevokePassword(app: "demo", name: "ann"))
            #expect(try await publish("ann", "two") != .code(0))
        }

        @Test func `their rights allow and deny`() async throws {
            _ = try set(
                "reader", password: "secret",
                rights: ["subscribe:site/#", "!subscribe:site/secret/#", "publish:site/%d/up"])
            let sub = try client(
                "sub", "-u", "reader", "-P", "secret", "-V", "5", "-t", "site/#", "-t",
                "site/open/#", "-d", "-i", "d1")
            _ = try await sub.line(with: "Subscribed (mid: 1): 135, 0")
            sub.signal(SIGKILL)
            let explained = try ask(
                ExplainRights(
                    app: "demo", user: "reader", device: "d1", action: .subscribe,
                    target: "site/+/x"))
            #expect(explained.grounds == .denied && explained.right == "!subscribe:site/secret/#")
            #expect(explained.origin == "password reader")
        }

        @Test func `what cannot be set is refused with clear words`() throws {
            func message<Request: AdministrationRequest>(_ request: Request) throws -> String {
                do {
                    _ = try ask(request)
                } catch AdministrationError.refused(let refusal) {
                    return refusal.message
                }
                return "it is set"
            }
            func one(
                _ name: String, password: String? = nil, hash: String? = nil,
                rights: [String]? = nil
            ) -> SetPassword {
                SetPassword(
                    app: "demo", name: name, password: password, hash: hash, rights: rights)
            }
            let cases: [(SetPassword, String)] = [
                (one("a"), "either password or hash"),
                (one("a", password: "b", hash: "c"), "either password or hash"),
                (one("", password: "b"), "must have 1 to 128 bytes"),
                (one("a/b", password: "b"), "the user \"a/b\""),
                (one("a", password: ""), "1 to 1024 bytes"),
                (one("a", hash: "plain"), "not a hash of a known kind"),
                (one("a", hash: "$7$9999999$EvkecEzTrIvfliNh$AAAA"), "9999999"),
                (one("a", password: "b", rights: ["fly"]), "is not a right"),
            ]
            for (request, words) in cases {
                let told = try message(request)
                #expect(told.contains(words), "\(told)")
            }
            let hash = Self.imported["sha512"]!
            let twice = try message(
                ImportPasswords(app: "demo", names: ["a", "a"], hashes: [hash, hash]))
            #expect(twice.contains("twice"))
            let uneven = try message(
                ImportPasswords(app: "demo", names: ["a"], hashes: [hash], rights: []))
            #expect(uneven.contains("not as many"))
            let broken = try message(
                ImportPasswords(app: "demo", names: ["a", "b"], hashes: [hash, "x"]))
            #expect(broken.contains("not a hash"))
            #expect(try ask(ListPasswords(app: "demo")).passwords.isEmpty)
            _ = try ask(
                ImportPasswords(
                    app: "demo", names: ["a", "b/1"], hashes: [hash, hash], users: ["a", "b"],
                    rights: ["", "publish:#\n!publish:x"]))
            let set = try ask(ListPasswords(app: "demo")).passwords
            #expect(set.map(\.user) == ["a", "b"])
            #expect(set.map(\.rights) == [nil, ["publish:#", "!publish:x"]])
        }

        @Test func `the command sets, lists, expires and revokes`() async throws {
            func martlet(_ words: String..., input: String? = nil) async throws -> String {
                let child = try ChildProcess(
                    "martlet", words, environment: try broker.environment("operator"), input: input)
                #expect(try await child.exit() == .code(0), "\(child.text)")
                return child.text
            }
            let set = try await martlet(
                "password", "set", "ann", "--right", "publish:#", "--expires", "1d",
                input: "secret\n")
            #expect(set.contains("the password of ann is set, 0 connections ended"))
            let list = try await martlet("password", "list")
            #expect(list.contains("ann") && list.contains("argon2id"))
            #expect(try await publish("ann", "secret") == .code(0))
            _ = try await martlet("password", "expire", "ann")
            let json = try await martlet("password", "list", "--json")
            #expect(!json.contains("expiresUnixSeconds"))
            _ = try await martlet("password", "revoke", "ann")
            #expect(try await publish("ann", "secret") != .code(0))
        }

        /// Without a thread for each login, the queue is full soon: others are told to come again.
        @Test func `a storm of wrong logins delays nobody who is logged in`() async throws {
            _ = try set("ann", password: "secret")
            let sub = try client(
                "sub", "-u", "ann", "-P", "secret", "-t", "t", "-C", "1", "-d")
            _ = try await sub.line(with: "Subscribed")
            let storm = try ChildProcess(
                "/usr/bin/python3", ["-c", Self.storm, "\(broker.plainPort)"])
            _ = try await storm.line(with: "logins")
            let start = ContinuousClock.now
            #expect(try await publish("ann", "secret") == .code(0))
            #expect(try await sub.exit() == .code(0))
            #expect(ContinuousClock.now - start < .seconds(10 * Sanitizer.patience))
            try await eventually("a full queue") { try broker.counter("passwords/busy") > 0 }
            storm.signal(SIGKILL)
        }

        /// Two addresses fill the queue. A third one has its share at once, and its turn after one
        /// login of each.
        @Test func `a stranger who fills the queue keeps nobody out`() async throws {
            for name in ["ann", "ben", "cleo"] { _ = try set(name, password: "secret") }
            let storms = try ["127.0.0.2", "127.0.0.3"].map { address in
                try ChildProcess(
                    "/usr/bin/python3", ["-c", Self.storm, "\(broker.plainPort)", address])
            }
            for storm in storms { _ = try await storm.line(with: "logins") }
            try await eventually("an address with all of its share") {
                try broker.counter("passwords/busy/share") > 0
            }
            let start = ContinuousClock.now
            for name in ["ann", "ben", "cleo"] {
                #expect(try await publish(name, "secret") == .code(0), "\(name)")
            }
            #expect(ContinuousClock.now - start < .seconds(15 * Sanitizer.patience))
            #expect(try broker.counter("passwords/verified") == 3)
            for storm in storms { storm.signal(SIGKILL) }
        }

        /// Sends 700 logins with wrong passwords, and keeps the connections.
        private static let storm = """
            import socket, struct, sys
            def text(s): return struct.pack('>H', len(s)) + s
            kept = []
            source = (sys.argv[2], 0) if len(sys.argv) > 2 else None
            for i in range(700):
                body = text(b'MQTT') + bytes([4, 0xC2, 0, 60]) + text(b's%d' % i)
                body += text(b'ann') + text(b'wrong%d' % i)
                s = socket.create_connection(('127.0.0.1', int(sys.argv[1])), 60, source)
                s.sendall(bytes([0x10, len(body)]) + body)
                kept.append(s)
            print('700 logins', flush=True)
            for s in kept: s.recv(4)
            """
    }
}

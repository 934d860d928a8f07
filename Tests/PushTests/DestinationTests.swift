// The senders against destinations that are strict, and that fail, stall, and refuse as they are
// told.

import BrokerTerms
import Foundation
import NetTransport
import TestSurroundings
import Testing

@testable import Push

@Suite(.serialized, .enabled(if: TestDestination.isThere, TestDestination.reasonOfAbsence))
struct DestinationTests {
    private let keys = TestKeys()

    private func file(_ name: String) -> String { keys.directory.file(name) }

    private static let token = "00112233445566778899aabbccddeeff"

    private func apns(_ arguments: [String]) throws -> TestDestination {
        try TestDestination(
            "apns", ["--certificate", file("server.pem")] + arguments + ["example.app"])
    }

    private func byToken(
        _ far: TestDestination, keyID: String = "K1", timeoutSeconds: Int = 60
    ) -> String {
        """
        apns: { keyFile: "DIR/key.p8", keyId: "\(keyID)", teamId: "T1", topic: "example.app",
                productionUrl: "https://localhost:\(far.port)", timeoutSeconds: \(timeoutSeconds),
                sandboxUrl: "https://localhost:\(far.port)", caFile: "DIR/ca.pem" },
        """
    }

    private func byTokenArguments(_ plans: String...) -> [String] {
        ["--public-key", file("key.pub"), "--key-id", "K1", "--team", "T1"]
            + plans.flatMap { ["--plan", $0] }
    }

    @Test func `Apple gets a signed token, a badge that counts, and one connection`() throws {
        let far = try apns(byTokenArguments())
        let relay = TestRelay(try keys.settings(byToken(far)))
        for count in 1...3 {
            relay.accept(
                Fixture.request(
                    kind: "apns", address: { _ in Self.token }, count: count, time: unixNow))
            let line = try far.lines.line("request token=\(Self.token)", count: count)
            #expect(line.contains(#""badge":\#(count)"#), "\(line)")
        }
        #expect(
            try relay.stop().sorted() == ["asked", "asked", "asked", "sent", "sent", "sent"])
        #expect(!far.lines.all.contains { $0.hasPrefix("fault") })
        #expect(far.lines.all.count { $0 == "connection" } == 1)
        #expect(try relay.record().badges == [WakeKey(user: "bob", id: 1): 3])
    }

    @Test func `a connection to Apple that does not answer any more is not used again`() throws {
        let far = try apns(byTokenArguments("\(Self.token)=stall"))
        let relay = TestRelay(try keys.settings(byToken(far, timeoutSeconds: 5)))
        relay.accept(
            Fixture.request(kind: "apns", address: { _ in Self.token }, time: unixNow))
        _ = try far.lines.line("token=\(Self.token) step=200")
        #expect(try relay.stop().filter { $0 == "sent" }.count == 1)
        #expect(far.lines.all.count { $0 == "connection" } == 2)
    }

    @Test func `Apple's failures are repeated, and its refusals are not`() throws {
        let names = (0..<5).map { "\($0)" + Self.token.dropFirst() }
        let far = try apns(
            byTokenArguments(
                "\(names[0])=429:TooManyRequests,500:InternalServerError,stall,half,close,503",
                "\(names[1])=410:Unregistered", "\(names[2])=400:BadDeviceToken",
                "\(names[3])=400:BadTopic"))
        let relay = TestRelay(try keys.settings(byToken(far, timeoutSeconds: 5)))
        relay.accept(
            Fixture.request(
                ids: [0, 1, 2, 3, 4], kind: "apns", address: { names[Int($0)] }, time: unixNow))
        _ = try far.lines.line("token=\(names[0]) step=200")
        _ = try far.lines.line("token=\(names[4]) step=200")
        let steps = try relay.stop()
        for step in [
            "failed TooManyRequests", "failed InternalServerError", "gone Unregistered",
            "gone BadDeviceToken", "refused BadTopic", "dropped refused",
        ] { #expect(steps.contains(step), "\(step) in \(steps)") }
        #expect(steps.filter { $0 == "sent" }.count == 2)
        #expect(!far.lines.all.contains { $0.hasPrefix("fault") })
        let record = try relay.record()
        #expect(record.wakes.isEmpty && record.deadLetters.map(\.reason) == ["BadTopic"])
    }

    @Test func `a token that Apple does not accept is a fault of the destination`() throws {
        let far = try apns(byTokenArguments())
        let relay = TestRelay(try keys.settings(byToken(far, keyID: "K2")))
        relay.accept(
            Fixture.request(kind: "apns", address: { _ in Self.token }, time: unixNow))
        _ = try far.lines.line("fault token=\(Self.token) reason=InvalidProviderToken", count: 2)
        let steps = try relay.stop()
        #expect(Set(steps) == ["asked", "failed InvalidProviderToken"])
        #expect(try relay.record().wakes.count == 1)
    }

    @Test func `Apple accepts a certificate from a file with a password`() throws {
        let far = try apns(["--client-ca", file("ca.pem")])
        let relay = TestRelay(
            try keys.settings(
                """
                apns: [{ name: "dev", certificateFile: "DIR/client.p12",
                         passwordFile: "DIR/password", topic: "example.app",
                         productionUrl: "https://localhost:1",
                         sandboxUrl: "https://localhost:\(far.port)", caFile: "DIR/ca.pem" }],
                """))
        let sandbox = Fixture.request(kind: "apns", address: { _ in Self.token }, time: unixNow)
            .replacing("production", with: "sandbox")
        relay.accept(sandbox)
        _ = try far.lines.line("request token=\(Self.token) step=200")
        #expect(try relay.stop() == ["asked", "sent"])
    }

    @Test func `a wrong certificate and a private network are refused`() throws {
        let far = try apns(byTokenArguments())
        var settings = try keys.settings(byToken(far))
        settings.apns[0].authorityFile = nil
        var relay = TestRelay(settings)
        let request = Fixture.request(kind: "apns", address: { _ in Self.token }, time: unixNow)
        relay.accept(request)
        _ = try far.lines.line("handshake")
        #expect(try relay.stop().contains { $0.hasPrefix("failed SSL") })
        try FileManager.default.removeItem(atPath: file("state"))
        // The operator wrote the address of Apple; users write those of webhooks.
        settings.relay.privateNetworks = []
        settings.apns[0].authorityFile = file("ca.pem")
        settings.webhook = RequestSettings(secrets: [Fixture.secret], isPlainAllowed: true)
        relay = TestRelay(settings)
        relay.accept(request)
        _ = try far.lines.line("request token=\(Self.token) step=200")
        relay.accept(
            Fixture.request(
                "eve", address: { _ in "http://127.0.0.1:\(far.port)/" }, time: unixNow))
        var steps: [String] = []
        let deadline = Date() + 60
        while !steps.contains("refused address-not-allowed"), Date() < deadline {
            steps = (try? relay.record().log.map { "\($0.step.name) \($0.detail)" }) ?? []
        }
        #expect(try relay.stop().contains("refused address-not-allowed"))
        #expect(far.lines.all.count { $0.hasPrefix("request") } == 1)
    }

    @Test func `Google gets one access token for all, a new one when it ends, and is asked later`()
        throws
    {
        let far = try TestDestination(
            "fcm",
            [
                "--certificate", file("server.pem"), "--public-key", file("rsa.pub"), "--account",
                "push@example", "--token-plan", "500", "--plan", "t1=expire", "--plan",
                "t2=404:UNREGISTERED", "--plan", "t3=429:QUOTA_EXCEEDED:1", "--plan",
                "t4=400:INVALID_ARGUMENT", "--plan", "t5=503:UNAVAILABLE",
            ])
        try keys.writeAccount(port: far.port)
        let relay = TestRelay(
            try keys.settings(
                """
                fcm: { serviceAccountFile: "DIR/account.json", caFile: "DIR/ca.pem",
                       url: "https://localhost:\(far.port)" },
                """))
        relay.accept(
            Fixture.request(
                ids: [1, 2, 3, 4, 5, 6], kind: "fcm", address: { "t\($0)" }, time: unixNow))
        for name in ["t1", "t3", "t5", "t6"] {
            _ = try far.lines.line("request token=\(name) step=200")
        }
        let steps = try relay.stop()
        for step in [
            "failed oauth status 500", "failed UNAUTHENTICATED", "gone UNREGISTERED",
            "failed QUOTA_EXCEEDED", "refused INVALID_ARGUMENT", "failed UNAVAILABLE",
        ] { #expect(steps.contains(step), "\(step) in \(steps)") }
        #expect(!far.lines.all.contains { $0.hasPrefix("fault") })
        #expect(far.lines.all.count { $0.hasPrefix("token ") } == 3)
        #expect(try relay.record().wakes.isEmpty)
    }

    @Test func `webhooks and text messages are signed, repeated, and asked for by the hook`() throws
    {
        let far = try TestDestination(
            "hook",
            [
                "--plan", "w1=500|429:1|half|close|stall", "--plan", "w2=410", "--plan", "w3=302",
                "--plan", #"hook=200:{"content":{"x":1}}|200:{"send":false}|200:nonsense"#,
                Fixture.secretText,
            ])
        let base = "http://127.0.0.1:\(far.port)"
        let relay = TestRelay(
            try keys.settings(
                """
                webhook: { secretFiles: ["DIR/secret"], allowHttp: true, timeoutSeconds: 5 },
                sms: { url: "\(base)/sms", secretFiles: ["DIR/secret"], numbers: ["+49"] },
                hook: { url: "\(base)/hook", secretFiles: ["DIR/secret"] },
                """))
        relay.accept(
            Fixture.request("u1", ids: [1], address: { _ in "\(base)/w1" }, time: unixNow))
        let first = try far.lines.line("path=/w1 step=200")
        #expect(first.contains(#""content": {"x": 1}"#), "\(first)")
        relay.accept(
            Fixture.request("u2", ids: [2], address: { _ in "\(base)/w2" }, time: unixNow))
        relay.accept(
            Fixture.request("u3", ids: [2], address: { _ in "\(base)/w2" }, time: unixNow))
        _ = try far.lines.line("path=/w2 step=410")
        relay.accept(
            Fixture.request("u4", ids: [3], address: { _ in "\(base)/w3" }, time: unixNow))
        _ = try far.lines.line("path=/w3 step=200")
        relay.accept(
            Fixture.request(
                "u5", ids: [4], kind: "sms-webhook", address: { _ in "+4912345678" },
                time: unixNow))
        let text = try far.lines.line("path=/sms step=200")
        #expect(text.contains(#""to": "+4912345678", "text": "alice: 1 new""#), "\(text)")
        let steps = try relay.stop()
        for step in [
            "failed status 500", "failed status 429", "gone status 410", "dropped hook no",
            "refused status 302",
        ] { #expect(steps.contains(step), "\(step) in \(steps)") }
        #expect(!far.lines.all.contains { $0.hasPrefix("fault") })
        let identifiers = far.lines.all.filter { $0.contains("path=/w1") }
            .map { $0.split(separator: " ").first { $0.hasPrefix("id=") } }
        #expect(identifiers.count == 6 && Set(identifiers).count == 1)
        // A receiver that is both has seen another identifier at its hook.
        let questions = far.lines.all.filter { $0.contains("path=/hook") }
            .compactMap { $0.split(separator: " ").first { $0.hasPrefix("id=") } }
        #expect(!questions.isEmpty && questions.allSatisfy { $0.hasSuffix("-question") })
    }

    @Test func `a publication is repeated until the broker has acknowledged it`() throws {
        // Many at a time, so that the connection ends while more of them are written.
        let far = try TestDestination("mqtt", ["--plan", "close,ok", "u", "word"])
        let count: UInt64 = 40
        let relay = TestRelay(
            try keys.settings(
                """
                mqtt: { server: "tcp://127.0.0.1:\(far.port)", user: "u",
                        passwordFile: "DIR/password", version: "3.1.1", topics: ["pager/#"] },
                """, privateNetworks: ""))
        for id in 1...count {
            relay.accept(
                Fixture.request(
                    ids: [id], kind: "mqtt", address: { "pager/\($0)" }, time: unixNow))
        }
        for id in 1...count { _ = try far.lines.line("publish topic=pager/\(id) step=ok") }
        let steps = try relay.stop()
        #expect(far.lines.all.count { $0.hasPrefix("connect ") } >= 2)
        #expect(steps.count { $0 == "sent" } == Int(count))
        #expect(!far.lines.all.contains { $0.hasPrefix("fault") })
    }

    @Test func `a publication that ends the connection is refused, and holds back no other`()
        throws
    {
        let far = try TestDestination("mqtt", ["--poison", "bad", "u", "word"])
        var settings = try keys.settings(
            """
            mqtt: { server: "tcp://127.0.0.1:\(far.port)", user: "u",
                    passwordFile: "DIR/password", topics: ["pager/#"] },
            """)
        // Nothing is repeated within the test.
        settings.relay.retryMilliseconds = 60_000
        settings.relay.retrySecondsMaximum = 60
        let relay = TestRelay(settings)
        relay.accept(
            Fixture.request(
                "eve", ids: Array(1...8), kind: "mqtt", address: { "pager/bad/\($0)" },
                time: unixNow))
        for id in 1...5 as ClosedRange<UInt64> {
            relay.accept(
                Fixture.request(
                    "u\(id)", ids: [id], kind: "mqtt", address: { "pager/good/\($0)" },
                    time: unixNow))
        }
        for id in 1...5 { _ = try far.lines.line("publish topic=pager/good/\(id) step=ok") }
        for id in 1...8 {
            _ = try far.lines.line("publish topic=pager/bad/\(id) step=close", count: 1)
        }
        let steps = try relay.stop()
        #expect(steps.count { $0 == "sent" } == 5)
        #expect(steps.count { $0 == "refused connection lost" } == 8)
        #expect(!steps.contains { $0.hasPrefix("failed") })
    }

    /// A relay whose publications have a short time, and which repeats nothing within a test.
    private func impatientRelay(
        _ far: TestDestination, answerSeconds: Int = 2
    ) throws -> TestRelay {
        var settings = try keys.settings(
            """
            mqtt: { server: "tcp://127.0.0.1:\(far.port)", user: "u",
                    passwordFile: "DIR/password", topics: ["pager/#"] },
            """)
        settings.mqtt!.answerMilliseconds = UInt64(1_000 * answerSeconds * Sanitizer.patience)
        settings.relay.retryMilliseconds = 60_000
        settings.relay.retrySecondsMaximum = 60
        return TestRelay(settings)
    }

    /// Waits until the record has steps of the log.
    private func wait(for step: String, count: Int = 1, _ relay: TestRelay) {
        let deadline = Date() + 60 * Double(Sanitizer.patience)
        while Date() < deadline {
            let log = (try? relay.record().log) ?? []
            if log.count(where: { "\($0.step.name) \($0.detail)" == step }) >= count { return }
        }
        Issue.record("no \(count) steps \(step)")
    }

    @Test func `a publication that is never acknowledged is refused, and holds back no other`()
        throws
    {
        let far = try TestDestination("mqtt", ["--forget", "bad", "--chatter", "u", "word"])
        // Longer than a broker may stand still that acknowledges.
        let relay = try impatientRelay(far, answerSeconds: 4)
        relay.accept(
            Fixture.request(
                "eve", kind: "mqtt", address: { _ in "pager/bad" }, time: unixNow))
        // Beside it the broker acknowledges others all the time.
        for id in 1...40 as ClosedRange<UInt64> {
            relay.accept(
                Fixture.request(
                    "u\(id)", ids: [id], kind: "mqtt", address: { "pager/good/\($0)" },
                    time: unixNow))
        }
        for id in 1...40 { _ = try far.lines.line("publish topic=pager/good/\(id) step=ok") }
        wait(for: "refused timeout", relay)
        let steps = try relay.stop()
        #expect(steps.count { $0 == "sent" } == 40)
        #expect(far.lines.all.count { $0.contains("topic=pager/bad") } == 1)
        #expect(!steps.contains { $0.hasPrefix("failed") })
    }

    @Test(arguments: [true, false])
    func `a broker that only chatters has failed`(isLoginAnswered: Bool) throws {
        let far = try TestDestination(
            "mqtt",
            ["--forget", "pager", "--chatter"] + (isLoginAnswered ? [] : ["--silent"])
                + ["u", "word"])
        let relay = try impatientRelay(far)
        relay.accept(
            Fixture.request(kind: "mqtt", address: { _ in "pager/1" }, time: unixNow))
        wait(for: "failed timeout", relay)
        #expect(try relay.stop().contains("failed timeout"))
    }

    @Test func `a topic that no filter permits is a dead letter`() throws {
        let far = try TestDestination("mqtt", ["u", "word"])
        let relay = TestRelay(
            try keys.settings(
                """
                mqtt: { server: "tcp://127.0.0.1:\(far.port)", user: "u",
                        passwordFile: "DIR/password", topics: ["wake/%u/#"] },
                """))
        let topics = ["", "wake/bob/1", "wake/eve/1", "$SYS/x", "valve/set"]
        relay.accept(
            Fixture.request(
                ids: [1, 2, 3, 4], kind: "mqtt", address: { topics[Int($0)] }, time: unixNow))
        _ = try far.lines.line("publish topic=wake/bob/1 step=ok")
        let steps = try relay.stop()
        #expect(steps.count { $0 == "refused topic-not-allowed" } == 3)
        #expect(
            try relay.record().deadLetters.map(\.reason).allSatisfy { $0 == "topic-not-allowed" })
        #expect(far.lines.all.count { $0.hasPrefix("publish") } == 1)
    }

    @Test func `fields without end behind an answer end the request`() throws {
        let far = try TestDestination("hook", ["--plan", "w=fields", Fixture.secretText])
        let relay = TestRelay(
            try keys.settings(#"webhook: { secretFiles: ["DIR/secret"], allowHttp: true },"#))
        relay.accept(
            Fixture.request(address: { _ in "http://127.0.0.1:\(far.port)/w" }, time: unixNow))
        _ = try far.lines.line("path=/w step=200")
        #expect(try relay.stop() == ["asked", "failed answer-too-large", "sent"])
        let line = try far.lines.line("fields bytes=")
        let count = try #require(
            line.split(separator: " ").last.flatMap { Int($0.dropFirst("bytes=".count)) })
        // What the sockets buffer is beside it.
        #expect(count < 16 << 20, "\(line)")
    }

    @Test func `a target that asks for a long wait does not hold up others of its host`() throws {
        let far = try TestDestination("hook", ["--plan", "eve=429:3600", Fixture.secretText])
        let relay = TestRelay(
            try keys.settings(#"webhook: { secretFiles: ["DIR/secret"], allowHttp: true },"#))
        for (id, user) in [(1, "eve"), (2, "bob")] as [(UInt64, String)] {
            relay.accept(
                Fixture.request(
                    user, ids: [id], address: { _ in "http://127.0.0.1:\(far.port)/\(user)" },
                    time: unixNow))
            _ = try far.lines.line("path=/\(user)")
        }
        #expect(try relay.stop().contains("sent"))
    }

    private static let tlsWebhooks = """
        webhook: { secretFiles: ["DIR/secret"], allowHttp: true, timeoutSeconds: 60,
                   caFile: "DIR/ca.pem" },
        """

    @Test func `a server that sends key updates without end delays nobody else`() throws {
        let (flood, far) = try (
            TestDestination("tls", [file("server.pem"), "--updates"]),
            TestDestination("hook", [Fixture.secretText])
        )
        let relay = TestRelay(try keys.settings(Self.tlsWebhooks))
        relay.accept(
            Fixture.request(
                "eve", ids: [1], address: { _ in "https://localhost:\(flood.port)/" },
                time: unixNow))
        _ = try flood.lines.line("updates begin")
        relay.accept(
            Fixture.request(
                "bob", ids: [2], address: { _ in "http://127.0.0.1:\(far.port)/w" }, time: unixNow))
        _ = try far.lines.line("path=/w step=200", seconds: 60)
        #expect(!flood.lines.all.contains { $0.hasPrefix("updates end") })
    }

    @Test func `a target of a user does not share a connection by HTTP version 2`() throws {
        let far = try TestDestination("tls", [file("server.pem")])
        let relay = TestRelay(try keys.settings(Self.tlsWebhooks))
        relay.accept(
            Fixture.request(address: { _ in "https://localhost:\(far.port)/" }, time: unixNow))
        #expect(try far.lines.line("protocol=") == "protocol=http/1.1.")
        #expect(try relay.stop() == ["asked", "sent"])
    }
}

@Suite struct DatagramTests {
    private let keys = TestKeys()

    @Test func `datagrams of a wake-up are the same, on permitted networks only`() throws {
        let receiver = socket(AF_INET, Int32(SOCK_DGRAM.rawValue), 0)
        defer { close(receiver) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isBound = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(receiver, $0, size) == 0 && getsockname(receiver, $0, &size) == 0
            }
        }
        #expect(isBound)
        var limit = timeval(tv_sec: 60, tv_usec: 0)
        setsockopt(
            receiver, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        let port = UInt16(bigEndian: address.sin_port)
        let relay = TestRelay(
            try keys.settings(
                """
                udp: { networks: ["127.0.0.1/32"], keyFile: "DIR/udp.key", repeats: 50,
                       intervalMilliseconds: 500 },
                """))
        let time = unixNow
        relay.accept(
            Fixture.request(
                ids: [1, 2], kind: "udp",
                address: { $0 == 1 ? "127.0.0.1:\(port)" : "127.0.0.2:\(port)" }, time: time))
        var datagrams: [[UInt8]] = []
        for _ in 0..<3 {
            var bytes = [UInt8](repeating: 0, count: 100)
            let count = recv(receiver, &bytes, bytes.count, 0)
            datagrams.append(Array(bytes.prefix(max(0, count))))
        }
        relay.accept(Fixture.withdrawn())
        let steps = try relay.stop()
        #expect(Set(datagrams).count == 1 && datagrams[0].count == 36)
        let nonce = datagrams[0][12..<20].reduce(0) { $0 << 8 | UInt64($1) }
        let key = DatagramKey(String(repeating: "0b", count: 32))!
        #expect(
            datagrams[0]
                == key.datagram(user: "bob", device: "phone", time: time, nonce: nonce))
        #expect(steps.contains("refused address-not-allowed") && steps.contains("withdrawn"))
    }

    @Test func `a name's address in the networks is found among its others`() throws {
        let kind = Int32(SOCK_DGRAM.rawValue)
        let (version4, version6) = (socket(AF_INET, kind, 0), socket(AF_INET6, kind, 0))
        defer {
            close(version4)
            close(version6)
        }
        func outcome(_ hosts: String...) throws -> SendOutcome {
            DatagramSender.send(
                [1, 2], toOneOf: hosts.map { SocketAddress(numericHost: $0, port: 9)! },
                in: [try IPNetwork("127.0.0.0/8".utf8)], version4: version4, version6: version6)
        }
        #expect(try outcome("2001:db8::1", "192.0.2.1", "127.0.0.1") == .sentOnce)
        #expect(
            try outcome("2001:db8::1", "192.0.2.1")
                == .refused("address-not-allowed", isFinal: true))
    }
}

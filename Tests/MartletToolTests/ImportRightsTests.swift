// What an import may not do: give users of Mosquitto more rights than they have there.

import Foundation
import TestSurroundings
import Testing

@testable import martlet

@Suite("The import of Mosquitto")
struct ImportRightsTests {
    private let files: TemporaryDirectory

    init() throws { files = try TemporaryDirectory() }

    /// A hash of PBKDF2, whose password nobody knows.
    private static let hash =
        "$7$101$AAECAwQFBgcICQoL$" + String(repeating: "A", count: 86) + "=="

    private func write(_ name: String, _ bytes: [UInt8]) throws {
        try Data(bytes).write(to: URL(filePath: files.file(name)))
    }

    /// The plan of a configuration.
    private func plan(
        _ configuration: [String], access: [UInt8]? = Array("user alice\ntopic read a/#\n".utf8),
        hasAccessFile: Bool = true, users: [String] = ["alice", "bob", "+"]
    ) throws -> ImportPlan {
        try write(
            "passwd", users.flatMap { Array("\($0):\(Self.hash)\n".utf8) })
        if let access { try write("acl", access) }
        let lines =
            configuration + ["password_file \(files.file("passwd"))"]
            + (hasAccessFile ? ["acl_file \(files.file("acl"))"] : [])
        try write("mosquitto.conf", Array((lines.joined(separator: "\n") + "\n").utf8))
        return ImportPlan(
            configuration: files.file("mosquitto.conf"), store: nil, app: "demo", unixSeconds: 0)
    }

    @Test func `takes users with the rights of their list`() throws {
        let plan = try plan([])
        #expect(plan.passwords.map(\.name) == ["alice", "bob", "+"])
        #expect(plan.passwords[0].rights == ["subscribe:a/#"])
        #expect(plan.passwords.allSatisfy { $0.rights?.isEmpty == false })
    }

    /// A dry run tells what the broker would.
    @Test(arguments: [
        "$7$101$salt$AAAA", "$7$101$AAECAwQFBgcICQoL$no base64", "$7$0$AAECAwQFBgcICQoL$AAAA",
        "$7$99999999999$AAECAwQFBgcICQoL$" + String(repeating: "A", count: 86) + "==",
        "$argon2id$v=19$m=99999999,t=3,p=1$AAECAwQFBgcICQoL$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    ])
    func `takes no user with a hash that the broker refuses`(hash: String) throws {
        let plan = try plan([], users: ["alice:\(hash)\nbob"])
        #expect(plan.passwords.map(\.name) == ["bob"])
        #expect(plan.hasRefusal("user alice: "))
    }

    @Test func `takes no user with a right that the broker refuses`() throws {
        let topic = String(repeating: "a/", count: 600)
        let plan = try plan([], access: Array("user alice\ntopic read \(topic)\n".utf8))
        #expect(plan.passwords.map(\.name) == ["bob", "+"])
        #expect(plan.hasRefusal("user alice: its rights: at most 64 rights of 1024 bytes"))
    }

    /// The same texts in two forms of Unicode: composed and decomposed.
    @Test func `keeps users and topics apart that only look the same`() throws {
        let (composed, decomposed) = ("caf\u{E9}", "cafe\u{301}")
        let list =
            "user \(composed)\ntopic read one/#\ntopic read \(composed)\ntopic read "
            + "\(decomposed)\nuser \(decomposed)\ntopic read two/#\n"
        let plan = try plan([], access: Array(list.utf8), users: [composed, decomposed])
        #expect(
            plan.passwords.map { Array($0.name.utf8) } == [
                Array(composed.utf8), Array(decomposed.utf8),
            ])
        #expect(plan.passwords.map(\.rights?.count) == [3, 1])
        #expect(plan.passwords.last?.rights == ["subscribe:two/#"])
        #expect(try !self.plan([], users: ["a/\u{301}"]).passwords[0].user!.utf8.contains(0x2F))
    }

    @Test func `takes no user if the list cannot be read`() throws {
        let plan = try plan([], access: nil)
        #expect(plan.passwords.isEmpty)
        #expect(plan.report.lines.contains { $0.text.hasPrefix("no user is taken: the access") })
    }

    /// What follows such a line may be another user's.
    @Test func `takes no user if a line of the list is no UTF-8`() throws {
        let list = Array("user alice\ntopic read a/#\nuser jos".utf8) + [0xE9]
        let plan = try plan([], access: list + Array("\ntopic readwrite #\n".utf8))
        #expect(plan.passwords.isEmpty)
    }

    @Test(arguments: [["per_listener_settings true"], ["acl_file /proc/nonexistent"]])
    func `takes no user, and opens no listener, if listeners have lists of their own`(
        _ lines: [String]
    ) throws {
        let plan = try plan(lines + ["allow_anonymous true", "listener 1883"])
        #expect(plan.passwords.isEmpty)
        #expect(!plan.configuration.contains("anonymous"))
    }

    @Test func `opens nothing to clients without a name that Mosquitto refuses`() throws {
        for lines in [["allow_anonymous false"], ["listener 1883"]] {
            let plan = try plan(lines, hasAccessFile: false)
            #expect(!plan.configuration.contains("anonymous"))
        }
        #expect(try plan([], hasAccessFile: false).configuration.contains("?anonymous"))
        // They would have the rights of the app demo, and not their topics.
        #expect(try !plan([]).configuration.contains("anonymous"))
        let open = try plan(["listener 1883", "allow_anonymous true"])
        #expect(!open.configuration.contains("anonymous"))
        #expect(open.hasRefusal("allow_anonymous: their topics in"))
    }

    private static let certificates = [
        "listener 8883", "cafile ca.pem", "certfile c.pem", "keyfile k.pem",
        "require_certificate true",
    ]

    /// A certificate alone would log in, with the rights of the app.
    @Test(arguments: [
        ("use_identity_as_username false", "asks for a certificate and a password"),
        ("use_identity_as_username true", "their topics in"),
    ])
    func `takes no listener with certificates beside an access list`(
        _ word: String, _ reason: String
    ) throws {
        let plan = try plan(Self.certificates + [word])
        #expect(!plan.configuration.contains("ca.pem") && !plan.configuration.contains("tls://"))
        #expect(plan.hasRefusal("listener 8883: require_certificate", reason))
        #expect(plan.hasRefusal("no listener is taken"))
    }

    @Test func `takes certificates that are the login, and nobody else there`() throws {
        let plan = try plan(
            Self.certificates + ["use_identity_as_username true", "crlfile r.pem"],
            hasAccessFile: false)
        #expect(
            plan.configuration.contains(
                "tls://*:8883?certificateFile=c.pem&keyFile=k.pem&clientCertificates=required\""))
        #expect(
            plan.configuration.contains(
                #"clientAuthorityFile: "ca.pem", crlFile: "r.pem", clientApp: "demo""#))
        #expect(!plan.report.lines.contains { $0.verdict == .refused })
    }

    @Test func `takes one authority for certificates`() throws {
        let other = ["listener 8884"] + Self.certificates.dropFirst() + ["cafile other.pem"]
        let identity = ["use_identity_as_username true"]
        let plan = try plan(
            Self.certificates + identity + other + identity, hasAccessFile: false)
        #expect(plan.configuration.contains(":8883") && !plan.configuration.contains(":8884"))
    }

    @Test(arguments: [true, false])
    func `takes no pre-shared keys beside an access list or a password`(
        _ hasAccessFile: Bool
    ) throws {
        try write("psk", Array("dev:\(String(repeating: "ab", count: 16))\n".utf8))
        let plan = try plan(
            [
                "listener 8884", "psk_hint x", "psk_file \(files.file("psk"))",
                "use_identity_as_username \(hasAccessFile)",
            ], hasAccessFile: hasAccessFile)
        #expect(!plan.configuration.contains("pskFile"))
        #expect(plan.hasRefusal("listener 8884: psk_hint"))
        #expect(plan.hasRefusal("psk_file"))
    }

    /// Without a word about listeners, Mosquitto serves its machine; with one, others.
    @Test(arguments: ["listener 0 /tmp/x", "listener 70000", "port 0"])
    func `opens no port in place of a listener that is not taken`(_ line: String) throws {
        let plan = try plan([line, "protocol websockets"], hasAccessFile: false)
        #expect(!plan.configuration.contains("://"))
        #expect(plan.hasRefusal("only TCP ports are taken"))
    }

    @Test func `keeps settings of a refused listener from the one before`() throws {
        let plan = try plan(["listener 1883 127.0.0.1", "listener 0 /x", "protocol websockets"])
        #expect(plan.configuration.contains("tcp://127.0.0.1:1883?passwords=demo"))
    }

    @Test func `serves its machine where Mosquitto does`() throws {
        let plan = try plan(["certfile c.pem", "keyfile k.pem"])
        #expect(plan.configuration.contains("tls://localhost:1883?"))
    }

    @Test(arguments: [
        ["bind_interface lo"], ["mount_point tenant1/"], ["socket_domain ipv4"],
        ["use_identity_as_username true"], ["certfile /x&anonymous", "keyfile k"],
    ])
    func `takes no listener without what restricts it`(_ lines: [String]) throws {
        let plan = try plan(["listener 1883"] + lines)
        #expect(!plan.configuration.contains("://"))
        #expect(plan.hasRefusal("listener 1883: "))
    }

    @Test(arguments: [
        "plugin x.so", "auth_plugin x.so", "clientid_prefixes secure-", "mount_point tenant1/",
        "include_dir /nowhere/at/all", "acl_word_of_a_later_version x",
    ])
    func `takes no user, and opens no listener, without what restricts them`(
        _ line: String
    ) throws {
        let plan = try plan(
            ["listener 1883", line, "allow_anonymous true"], hasAccessFile: false)
        #expect(plan.passwords.isEmpty && !plan.configuration.contains("anonymous"))
        #expect(
            plan.hasRefusal("no user is taken: \(line) at")
                || plan.hasRefusal("no user is taken: \(line.split(separator: " ")[0]) at"))
    }

    @Test func `takes users beside words of bridges and limits`() throws {
        let plan = try plan([
            "max_qos 1", "connection b", "address h", "remote_password x", "topic # out",
        ])
        #expect(plan.passwords.count == 3)
    }

    /// The client would choose what `%c` stands for.
    @Test func `makes the user of a client id that is the user name`() throws {
        let list = Array("pattern write dev/%c/#\npattern deny dev/%c/x\n".utf8)
        let plan = try plan(["listener 1883", "use_username_as_clientid true"], access: list)
        #expect(
            plan.passwords.first?.rights == [
                "!subscribe:dev/%u/x", "!publish:dev/%u/x", "publish:dev/%u/#",
            ])
    }

    @Test(arguments: [
        ["max_packet_size 100000"], ["message_size_limit 600000"], ["message_size_limit 0"],
        ["max_packet_size 500", "message_size_limit 300000"], ["max_packet_size 268435456"],
        ["max_queued_bytes 1000"], ["max_queued_messages 100000000000"],
        ["max_inflight_messages 0", "max_connections -1", "max_keepalive 5"],
        ["listener 8883", "certfile c.pem", "keyfile k.pem", "crlfile r.pem"],
        ["tls_version tlsv1.3", "retain_available false", "persistent_client_expiration 1y"],
    ])
    func `writes what martletd accepts`(_ lines: [String]) throws {
        let plan = try plan(lines)
        #expect(!plan.hasRefusal("martletd does not start"))
        #expect(!plan.configuration.contains("crlFile"))
    }

    @Test func `takes the sizes of packets and payloads together`() throws {
        #expect(
            try plan(["max_packet_size 100000"]).configuration
                .contains("payloadMaximum: 100000, packetMaximum: 166000"))
        #expect(
            try plan(["message_size_limit 600000"]).configuration
                .contains("payloadMaximum: 600000, packetMaximum: 666000"))
    }

    @Test func `takes of several limits of connections the smallest`() throws {
        let plan = try plan([
            "listener 1883 ::1", "max_connections 100", "listener 1884 ::1", "max_connections 200",
        ])
        #expect(plan.configuration.contains("connections: 100"))
    }

    /// Mosquitto 2.1 has the two words as plugins, which read the same files.
    @Test func `takes the files of the plugins password-file and acl-file`() throws {
        try write("users", Array("carl:\(Self.hash)\n".utf8))
        try write("list", Array("user carl\ntopic read a/#\n".utf8))
        let lines = [
            "plugin /usr/lib/mosquitto_password_file.so",
            "plugin_opt_password_file \(files.file("users"))",
            "plugin /usr/lib/mosquitto_acl_file.so", "plugin_opt_acl_file \(files.file("list"))",
        ]
        func plan(_ lines: [String]) throws -> ImportPlan {
            try write("mosquitto.conf", Array(lines.joined(separator: "\n").utf8))
            return ImportPlan(
                configuration: files.file("mosquitto.conf"), store: nil, app: "demo",
                unixSeconds: 0)
        }
        let whole = try plan(lines)
        #expect(whole.passwords.map(\.name) == ["carl"])
        #expect(whole.passwords.map(\.rights) == [["subscribe:a/#"]])
        // An option belongs to the plugin before it, and another plugin may restrict users.
        #expect(try plan(["plugin /usr/lib/other.so", lines[1]]).passwords.isEmpty)
        #expect(try plan(lines + ["plugin /usr/lib/other.so"]).passwords.isEmpty)
        // A listener may use it, and others not.
        let named = "plugin_load name /usr/lib/mosquitto_password_file.so"
        #expect(try plan([named, lines[1], "plugin_use name"]).passwords.isEmpty)
    }

    /// Digits of other scripts, of which some are hexadecimal digits for Swift.
    @Test func `tells a pre-shared key with other digits`() throws {
        try write("psk", Array("dev:\(String(repeating: "\u{FF21}", count: 32))\n".utf8))
        let plan = try plan(
            [
                "listener 8884", "psk_hint x", "use_identity_as_username true",
                "psk_file \(files.file("psk"))", "certfile c.pem", "keyfile k.pem",
            ], hasAccessFile: false)
        #expect(plan.hasRefusal("the key of dev must have at least 16 bytes in hexadecimal"))
    }

    @Test func `prints no control character of a name`() throws {
        let plan = try plan([], access: Array("user a\u{1B}[2J\ntopic read a\n".utf8))
        #expect(plan.report.lines.contains { $0.text.contains("\u{1B}") })
        #expect(!plan.report.lines.contains { $0.printed.contains("\u{1B}") })
    }

    /// As in Mosquitto.
    @Test func `lets no pattern count for a name with a wildcard`() throws {
        let list = "user +\ntopic read own\npattern read x\npattern read %c\npattern deny y/%u\n"
        let plan = try plan([], access: Array(list.utf8))
        #expect(plan.passwords.last?.rights == ["subscribe:own"])
        #expect(
            plan.passwords.first?.rights == [
                "!subscribe:y/%u", "!publish:y/%u", "subscribe:x", "subscribe:%d",
            ])
    }

    @Test func `makes no wildcard of a user's name`() throws {
        let plan = try plan([], access: Array("pattern readwrite site/%u/#\n".utf8))
        let rights = try #require(plan.passwords.last?.rights)
        #expect(plan.passwords.last?.name == "+" && !rights.contains { $0.contains("site") })
    }
}

extension ImportPlan {
    /// Whether a line with NOT TAKEN has these words.
    fileprivate func hasRefusal(_ words: String...) -> Bool {
        report.lines.contains { line in
            line.verdict == .refused && words.allSatisfy(line.text.contains)
        }
    }
}

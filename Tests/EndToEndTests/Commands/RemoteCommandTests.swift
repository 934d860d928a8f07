// The operator's commands over the HTTP API: `martlet --server https://…`.

import Administration
import Foundation
import TestSurroundings
import Testing

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(2 * Sanitizer.patience))) struct RemoteCommandTests {
        /// Runs a command of an operator who has no data directory.
        private func martlet(
            _ arguments: [String], of api: APIBroker, as role: OperatorRole = .own,
            changing changes: [String: String?] = [:]
        ) async throws -> (exit: ChildExit, text: String) {
            var environment = [
                "MARTLET_SERVER": "https://localhost:\(api.https)",
                "MARTLET_CA": api.broker.authority, "MARTLET_TOKEN": api.tokens[role, default: ""],
                "MARTLET_APP": "demo",
            ]
            for (name, value) in changes { environment[name] = value }
            let child = try ChildProcess("martlet", arguments, environment: environment)
            return (try await child.exit(), child.text)
        }

        @Test func `do over HTTP what they do over the admin socket`() async throws {
            let api = try await APIBroker()
            let device = try await api.broker.client("carol")
            let minted = try await martlet(
                ["token", "mint", "--user=pump 7ü", "--batch=50 %", "--right=publish:site/%u/#"],
                of: api)
            #expect(minted.exit == .code(0) && minted.text.hasPrefix("mt1_"))
            let kept = try await martlet(
                [
                    "send", "--as=pump 7ü", "--topic=site/ü", "--bytes", "--retain", "40",
                ], of: api)
            #expect(kept.exit == .code(0), "\(kept)")
            let sessions = ["session", "list", "--user=carol", "--json"]
            let commands: [[String]] = [
                ["user", "list", "--json"], ["user", "show", "carol", "--json"],
                ["app", "list", "--json"], ["app", "show", "demo", "--json"],
                ["token", "list", "--batch=50 %", "--json"], sessions,
                ["queue", "show", "pump 7ü", "--json"],
                ["retained", "list", "site/#", "--json"], ["retained", "show", "site/ü", "--json"],
                ["queue", "messages", "pump 7ü", "--contents", "--json"],
                ["group", "list", "--json"],
                ["explain", "--user=pump 7ü", "publish", "site/pump 7ü/x", "--json"],
                ["operator", "list", "--json"],
            ]
            for command in commands {
                let remote = try await martlet(command, of: api)
                let child = try ChildProcess(
                    "martlet", command,
                    environment: ["MARTLET_DATA": api.broker.directory, "MARTLET_APP": "demo"])
                #expect(try await child.exit() == .code(0), "\(child.text)")
                #expect(remote.exit == .code(0), "\(remote)")
                #expect(!remote.text.isEmpty || ["group", "queue"].contains(command[0]))
                // Two clocks: the session grows older between the two.
                if command != sessions { #expect(remote.text == child.text, "\(command)") }
            }
            let kicked = try await martlet(["session", "kick", "carol"], of: api)
            #expect(kicked.exit == .code(0) && kicked.text.hasPrefix("1 "), "\(kicked)")
            _ = try await api.broker.process.line(
                with: "event=operator_request operator=own", "request=session.kick", "status=200")
            let stats = try await martlet(["stats", "--json"], of: api)
            #expect(stats.text.contains("api/requests"))
            await device.close()
        }

        @Test func `print a link to the dashboard, here and over HTTP`() async throws {
            let api = try await APIBroker()
            let remote = try await martlet(["dashboard", "anna", "--role=view"], of: api)
            #expect(remote.exit == .code(0))
            #expect(remote.text.hasPrefix("https://localhost:\(api.https)/#login=ml1_"))
            #expect(remote.text.contains("signs in once, as anna with the role view, until 2"))
            let child = try ChildProcess(
                "martlet", ["dashboard", "--json"],
                environment: ["MARTLET_DATA": api.broker.directory, "USER": "carl"])
            #expect(try await child.exit() == .code(0))
            #expect(
                child.text.contains(
                    "\"links\":[\"https://localhost:\(api.https)/#login=ml1_"))
            #expect(child.text.contains(#""operator":"carl","role":"own""#))
            let lower = try await martlet(["dashboard"], of: api, as: .operate)
            #expect(lower.exit == .code(135), "\(lower)")
        }

        @Test func `show the listeners, their connections and certificates`() async throws {
            let api = try await APIBroker()
            let clients = [
                try await api.broker.client("alice"), try await api.broker.client("bob"),
            ]
            func listeners() async throws -> [String] {
                let answer = try await martlet(["listeners"], of: api)
                return answer.text.split(separator: "\n").map(String.init)
            }
            let lines = try await listeners()
            let words = lines.map { $0.split(separator: " ").map(String.init) }
            #expect(lines.count == 5 && lines[0].hasSuffix("DAYS LEFT"), "\(lines)")
            #expect(words[1][0] == "tls://localhost:\(api.broker.tlsPort)")
            #expect(Array(words[1][1...2]) == ["-", "2"])
            #expect(
                words[1][3].hasPrefix("/CN=") && (UInt64(words[1].last ?? "") ?? 0) > 1, "\(lines)")
            #expect(Array(words[2][1...4]) == ["-", "0", "-", "-"])
            // The connection that asks is one of them.
            #expect(words[3][0] == "https://localhost:\(api.https)")
            #expect(Array(words[3][1...2]) == ["mqtt,mrt,json,health,metrics,api,dashboard", "1"])
            for client in clients { await client.close() }
            var rest = lines
            for _ in 0..<1_000 where rest[1].contains(" 2 ") || rest[1].contains(" 1 ") {
                rest = try await listeners()
            }
            #expect(rest[1].contains(" 0 "), "\(rest)")
        }

        @Test func `show the latest refusals, and follow them`() async throws {
            let api = try await APIBroker()
            // They are kept although the log has no line for them.
            _ = try await martlet(["log-level", "error"], of: api)
            let none = try await martlet(["refusals"], of: api, as: .view)
            #expect(none.exit == .code(0) && none.text.isEmpty)
            let following = try ChildProcess(
                "martlet", ["refusals", "--follow", "--json"],
                environment: ["MARTLET_DATA": api.broker.directory])
            let secret = "mo1_" + String(repeating: "b", count: 26)
            _ = try await martlet(["stats"], of: api, changing: ["MARTLET_TOKEN": secret])
            _ = try await following.line(
                with: #""code":134"#, #""event":"auth_failed","number":1,"reason":"bad-user"#)
            _ = try await martlet(["app", "create", "x"], of: api, as: .view)
            let line = try await following.line(with: #""event":"operator_refused","number":2"#)
            #expect(line.contains(#""user":"view""#) && line.contains("needs the role own"))
            following.signal(SIGTERM)
            _ = try await following.exit()
            let last = try await martlet(["refusals", "--count=1"], of: api, as: .view)
            #expect(last.text.contains("Z  operator_refused  127.0.0.1:"), "\(last)")
            #expect(
                last.text.hasSuffix(
                    "  view  not-authorized  (135)  this operation needs the role own"), "\(last)")
            #expect(!api.broker.process.text.contains("event=operator_refused"))
            #expect(!following.text.contains(secret) && !last.text.contains("auth_failed"))
            let many = try await martlet(["refusals", "--count=1001"], of: api)
            #expect(many.exit == .code(1))
        }

        @Test func `reload the configuration, and say what is wrong with it`() async throws {
            let directory = try TemporaryDirectory()
            let (file, data) = (directory.file("martlet.json5"), directory.file("data"))
            func write(_ text: String) throws {
                try text.write(toFile: file, atomically: true, encoding: .utf8)
            }
            let listeners = #"listeners: ["tcp://localhost:0"]"#
            try write("{ \(listeners) }")
            let broker = try ChildProcess("martletd", ["--config", file, "--data", data])
            defer { broker.signal(SIGKILL) }
            _ = try await broker.line(with: "event=broker_started", "state=ready")
            func run(_ words: String...) async throws -> (exit: ChildExit, text: String) {
                let child = try ChildProcess(
                    "martlet", words, environment: ["MARTLET_DATA": data])
                return (try await child.exit(), child.text)
            }
            let same = try await run("reload")
            #expect(same.exit == .code(0) && same.text == "reloaded; changed: nothing", "\(same)")
            try write("{ \(listeners), log: { level: \"warning\" }, loops: 2 }")
            let changed = try await run("reload")
            #expect(changed.exit == .code(0), "\(changed)")
            #expect(changed.text.contains("changed: loops, log.level"), "\(changed)")
            #expect(changed.text.contains("a restart is needed for loops"), "\(changed)")
            try write("{ \(listeners),\n  limits: { conections: 5 }, loops: 0.5 }")
            let refused = try await run("reload")
            #expect(refused.exit == .code(153), "\(refused)")
            #expect(refused.text.contains("nothing was changed"))
            #expect(refused.text.contains("martlet.json5:2:13"), "\(refused)")
            #expect(refused.text.contains("connections"))
            #expect(refused.text.contains("loops"), "\(refused)")
            _ = try await broker.line(with: "event=configuration_refused")
            let level = try await run("log-level", "debug")
            #expect(level.text.contains("is debug") && level.text.hasSuffix("it was warning"))
            try write("{ \(listeners) }")
            #expect(try await run("reload", "--json").text.contains("log.level"))
            #expect(try await run("log-level", "error").text.hasSuffix("it was info"))
            #expect(try await run("log-level", "loud").exit == .code(1))
            broker.signal(SIGTERM)
            #expect(try await broker.exit() == .code(0))
        }

        @Test func `show the progress of a backup on a terminal only`() async throws {
            let broker = try await TestBroker()
            let copy = broker.directory + "-copy"
            defer {
                for end in ["1", "2"] { try? FileManager.default.removeItem(atPath: copy + end) }
            }
            let program = ChildProcess.programs.appending(path: "martlet").path
            let environment = ["MARTLET_DATA": broker.directory]
            let terminal = try ChildProcess(
                "/usr/bin/python3",
                ["-c", "import pty, sys; pty.spawn(sys.argv[1:])", program, "backup", copy + "1"],
                environment: environment)
            #expect(try await terminal.exit() == .code(0))
            #expect(terminal.text.contains("\r["), "\(terminal.text)")
            #expect(terminal.text.contains("MiB\u{1B}[K") && terminal.text.contains("\r\u{1B}[K/"))
            let pipe = try ChildProcess(
                program, ["backup", copy + "2"], environment: environment)
            #expect(try await pipe.exit() == .code(0))
            #expect(pipe.lines.filter { !$0.isEmpty }.count == 1, "\(pipe.text)")
            #expect(pipe.text.hasPrefix(copy + "2: ") && !pipe.text.contains("["))
        }

        @Test func `make groups as the operator, and write backups`() async throws {
            let api = try await APIBroker()
            _ = try await martlet(["user", "add", "alice", "bob"], of: api)
            let made = try await martlet(
                ["group", "create", "--owner=alice", "--name=Pump house"], of: api)
            #expect(made.exit == .code(0))
            for (words, expected) in [
                (["join", made.text, "bob"], "bob is a member"),
                (["meta", made.text, #"{"a":1}"#], "changed"),
                (["allow", made.text, "bob"], "changed"),
                (["allow", made.text, "--everybody"], "changed"),
                (["ban", made.text, "bob"], "bob was banned"),
            ] {
                let answer = try await martlet(["group"] + words, of: api)
                #expect(answer.exit == .code(0) && answer.text.contains(expected), "\(answer)")
            }
            let copy = api.broker.directory + "-copy"
            defer { try? FileManager.default.removeItem(atPath: copy) }
            let relative = try await martlet(["backup", "copy"], of: api)
            #expect(relative.exit == .code(1) && relative.text.contains("must begin with /"))
            let backup = try await martlet(["backup", copy], of: api)
            #expect(backup.exit == .code(0) && backup.text.contains("martletd --restore"))
        }

        @Test func `mint more tokens than one request has room for`() async throws {
            let api = try await APIBroker()
            let minted = try await martlet(
                [
                    "token", "mint", "--count=3000",
                    "--prefix=\(String(repeating: "p", count: 40))-",
                ],
                of: api)
            #expect(minted.exit == .code(0))
            let users = Set(minted.text.split(separator: "\n").map { $0.prefix { $0 != "\t" } })
            #expect(users.count == 3_000)
        }

        @Test func `tell what is wrong with the server, the token or the role`() async throws {
            let api = try await APIBroker()
            let list = ["app", "list"]
            let port = api.https
            func fails(
                _ words: [String] = [], as role: OperatorRole = .own,
                changing changes: [String: String?] = [:], _ code: Int32, _ text: String,
                line: Int = #line
            ) async throws {
                let answer = try await martlet(
                    list + words, of: api, as: role, changing: changes)
                #expect(answer.exit == .code(code), "line \(line): \(answer)")
                #expect(answer.text.contains(text), "line \(line): \(answer)")
            }
            try await fails(changing: ["MARTLET_TOKEN": "mo1_wrong"], 134, "no operator has this")
            try await fails(changing: ["MARTLET_TOKEN": nil], 1, "--token or MARTLET_TOKEN")
            try await fails(changing: ["MARTLET_CA": nil], 5, "check --ca")
            try await fails(changing: ["MARTLET_CA": "/nonexistent"], 5, "no connection to https")
            try await fails(["--server=https://localhost:1"], 5, "no connection to https")
            try await fails(["--server=https://127.0.0.1:\(port)/x"], 1, "https://HOST:PORT")
            try await fails(["--server=http://192.0.2.1:80"], 1, "without TLS")
            // A name that begins like an address of this machine may be any machine.
            try await fails(["--server=http://127.attacker.example:80"], 1, "without TLS")
            try await fails(["--server=tls://localhost:1"], 1, "must be https://")
            try await fails(
                ["--server=https://localhost:1", "--data=/tmp"], 1, "exclude each other")
            let refused = try await martlet(["user", "add", "x"], of: api, as: .view)
            #expect(refused.exit == .code(135) && refused.text.contains("needs the role operate"))
            let plain = try await martlet(list + ["--server=http://localhost:\(api.http)"], of: api)
            #expect(plain.exit == .code(0) && plain.text.contains("demo"))
            // A proxy would read the token: where nobody listens, it would be a failure.
            let direct = try await martlet(
                list + ["--server=http://localhost:\(api.http)"], of: api,
                changing: ["http_proxy": "http://127.0.0.1:1"])
            #expect(direct.exit == .code(0))
            // A listener without the API.
            let other = try await TestBroker(listeners: ["ws://localhost:0"])
            let web = try await other.port("ws")
            try await fails(
                ["--server=http://localhost:\(web)"], 2,
                "does not serve the HTTP API (HTTP status 404). --server needs")
            // Ports of MQTT, with TLS and without, and TLS where there is none.
            for server in [
                "http://localhost:\(api.broker.plainPort)", "http://localhost:\(api.https)",
                "https://localhost:\(api.broker.tlsPort)", "https://localhost:\(api.http)",
            ] {
                try await fails(["--server=\(server)"], 5, "is it the port of another protocol?")
            }
        }
    }
}

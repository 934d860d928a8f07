// The recipes of docs/operating, run as printed with their tools. The tests use the text of the
// page.

import Foundation
import TestSurroundings
import Testing

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(2 * Sanitizer.patience))) struct RecipeTests {
        private static let root = SourceTree.root

        private func text(_ path: String) throws -> String {
            try String(
                contentsOf: Self.root.appending(path: "docs/operating/\(path)"), encoding: .utf8)
        }

        /// The block of a page that contains `words`.
        private func block(of page: String, with words: String) throws -> String {
            let parts = try text(page).split(separator: "```", omittingEmptySubsequences: false)
            let block = parts.enumerated().first { $0 % 2 == 1 && $1.contains(words) }
            guard let block else { throw TestFailure("\(page) has no block with \(words)") }
            // What follows the fence names the language.
            return block.element.split(
                separator: "\n", maxSplits: 1, omittingEmptySubsequences: false
            ).dropFirst().joined()
        }

        /// Runs a script of the shell to its end and insists on success.
        private func run(
            _ script: String, environment: [String: String] = [:]
        ) async throws -> ChildProcess {
            let path = "\(ChildProcess.programs.path):/usr/sbin:/usr/bin:/bin"
            let shell = try ChildProcess(
                "/bin/sh", ["-ec", script], environment: ["PATH": path].merging(environment) { $1 })
            let exit = try await shell.exit()
            guard exit == .code(0) else {
                throw TestFailure("\(script)\nended with \(exit):\n\(shell.text)")
            }
            return shell
        }

        // MARK: fail2ban

        /// Lines of a broker at which strangers failed to log in twice, once under a name that
        /// looks like such a line.
        private func failedLogins(format: String) async throws -> [String] {
            let directory = try TemporaryDirectory()
            let broker = try ChildProcess(
                "martletd",
                [
                    "--dev", "--data", directory.file("data"), "--listen", "tcp://localhost:0",
                    "--set", "log.format=\(format)",
                ])
            _ = try await broker.line(with: "broker_started")
            let listening = try await broker.line(with: "listening", "127.0.0.1:")
            let port = try #require(listening.firstMatch(of: #/127\.0\.0\.1:([0-9]+)/#)).output.1
            let name = "x level=warning event=auth_failed address=192.0.2.66:1 user="
            for user in ["demo/bob", name] {
                let client = try ChildProcess(
                    "/usr/bin/mosquitto_pub",
                    [
                        "-h", "127.0.0.1", "-p", "\(port)", "-t", "a", "-m", "b", "-i", name, "-u",
                        user, "-P", "wrong",
                    ])
                #expect(try await client.exit() != .code(0), "\(client.text)")
            }
            broker.signal(SIGTERM)
            #expect(try await broker.exit() == .code(0))
            return broker.lines.filter { $0.contains("level") }
        }

        /// What fail2ban found: addresses, one for each matched line.
        private func banned(_ arguments: String) async throws -> [String] {
            let filter = Self.root.appending(path: "docs/operating/fail2ban/filter.conf").path
            let shell = try await run("fail2ban-regex -o ip \(arguments) \(filter)")
            return shell.lines.filter { !$0.isEmpty }
        }

        @Test(arguments: ["logfmt", "json"])
        func `fail2ban finds failed logins in a log file`(format: String) async throws {
            let directory = try TemporaryDirectory()
            let lines = try await failedLogins(format: format)
            try write(lines, to: directory.file("log"))
            let found = try await banned(directory.file("log"))
            #expect(found == ["127.0.0.1", "127.0.0.1"])
        }

        @Test(arguments: ["logfmt", "json"])
        func `fail2ban finds failed logins in a journal`(format: String) async throws {
            let directory = try TemporaryDirectory()
            let lines = try await failedLogins(format: format)
            // Under journald the broker leaves the time to the journal.
            var entries = ""
            for (number, line) in lines.enumerated() {
                let message =
                    line.replacing(#/^time=\S+ /#, with: "")
                    .replacing(#/^\{"time":"[^"]*",/#, with: "{")
                let microseconds = Int(Date().timeIntervalSince1970 * 1e6) + number
                entries += """
                    __REALTIME_TIMESTAMP=\(microseconds)
                    __MONOTONIC_TIMESTAMP=\(number + 1)
                    _BOOT_ID=11111111111111111111111111111111
                    _HOSTNAME=broker-1
                    _SYSTEMD_UNIT=martletd.service
                    SYSLOG_IDENTIFIER=martletd
                    _PID=4711
                    PRIORITY=4
                    MESSAGE=\(message)


                    """
            }
            try write([entries], to: directory.file("export"))
            let journal = directory.file("system.journal")
            _ = try await run(
                "/lib/systemd/systemd-journal-remote -o \(journal) \(directory.file("export"))")
            let found = try await banned("'systemd-journal[journalfiles=\"\(journal)\"]'")
            #expect(found == ["127.0.0.1", "127.0.0.1"])
        }

        @Test func `fail2ban accepts the jail and the filter`() async throws {
            let directory = try TemporaryDirectory()
            let etc = directory.file("etc")
            let recipe = try block(of: "log.md", with: "fail2ban/filter.conf")
                .replacing("/etc/fail2ban", with: etc)
                .replacing("docs/operating", with: Self.root.path + "/docs/operating")
                .replacing("systemctl reload fail2ban", with: "fail2ban-client -c \(etc) -t")
            // Without the jails of Debian, whose log files may not be there.
            let verdict = try await run(
                "cp -r /etc/fail2ban \(etc); rm -f \(etc)/jail.d/*; \(recipe)")
            #expect(verdict.text.contains("OK: configuration test is successful"))
        }

        // MARK: curl

        @Test func `curl administers the broker over the HTTP API`() async throws {
            let api = try await APIBroker()
            let environment = [
                "API": "https://localhost:\(api.https)/api/v1", "CA": api.broker.authority,
                "TOKEN": api.own, "BACKUP": api.broker.directory + "-copy",
            ]
            let first = try await run(
                try block(of: "api.md", with: "$API/apps\""), environment: environment)
            #expect(first.text.contains(#"{"apps":[{"app":"demo""#), "\(first.text)")
            let recipe = try await run(
                try block(of: "api.md", with: "$BACKUP"), environment: environment)
            for part in [
                #""key":"mk1_"#, #""user":"pump-8""#, #""right":"publish:site/%u/#""#,
                #""sessionCount":0"#, #""tokenCount":2"#, #""number":1"#,
            ] {
                #expect(recipe.text.contains(part), "\(part): \(recipe.text)")
            }
            // The other recipes of the page, in its order, by the function that this one defines.
            let directory = try TemporaryDirectory()
            let function = try #require(
                block(of: "api.md", with: "$BACKUP").split(separator: "\n")
                    .first { $0.hasPrefix("api()") })
            let others = try text("api.md").split(
                separator: "```", omittingEmptySubsequences: false
            ).enumerated().filter { $0 % 2 == 1 && $1.contains("$API/") }.map { String($1) }
            #expect(others.count == 10)
            let rest = others.filter { !$0.contains("$BACKUP") && !$0.contains("$API/apps\"") }
            // The event stream does not end: curl is ended when its first event is there.
            let follow = """
                follow() {
                    curl -N --fail --max-time 60 "$@" >> events &
                    until grep -q '"type":"connected"' events; do kill -0 $!; sleep 0.1; done
                    kill $!
                    cat events
                }
                """
            let script = rest.joined(separator: "\n")
                .replacing("curl -N", with: "follow")
                .replacing("curl --cacert", with: "curl --fail-with-body --cacert")
            let done = try await run(
                """
                cd \(directory.path); printf x > gate.jpg; : > events
                \(function)
                \(follow)
                \(script)
                """,
                environment: environment)
            for part in [
                #""type":"connected""#, #""kind":"user""#, #""topic":"site/7/gate""#,
                #""text":"40""#, #"{"hasMore":false,"messageCount":2}"#, #""text":"open""#,
                #"{"conversations":[]}"#, #"{"count":0}"#,
            ] {
                #expect(done.text.contains(part), "\(part): \(done.text)")
            }
            // The problem on the page is one that the broker has.
            let problem = try block(of: "api.md", with: "about:blank")
            let asked = try await run(
                "curl -sS --cacert $CA -H \"Authorization: Bearer $TOKEN\" $API/apps/none",
                environment: environment)
            let line = try #require(asked.lines.first { $0.hasPrefix("{") })
            #expect(problem.contains(line.replacing("none", with: "plant")), "\(line)")
        }

        // MARK: Prometheus

        @Test func `Prometheus can parse the collected file`() async throws {
            let directory = try TemporaryDirectory()
            let broker = try await TestBroker()
            let recipe = try block(of: "statistics.md", with: "martlet.prom")
                .replacing("/var/lib/node_exporter", with: directory.file(""))
            _ = try await run(recipe, environment: ["MARTLET_DATA": broker.directory])
            let parsed = try await run(
                """
                python3 -c '
                import sys
                from prometheus_client.parser import text_string_to_metric_families as families
                for family in families(open(sys.argv[1]).read()):
                    for sample in family.samples: print(sample.name, sample.value)
                ' \(directory.file("martlet.prom"))
                """)
            #expect(parsed.lines.contains("martlet_clients_connected 0.0"))
            let stats = try ChildProcess(
                "martlet", ["stats", "--json", "--data", broker.directory])
            #expect(try await stats.exit() == .code(0))
            let value = try JSONSerialization.jsonObject(with: Data(stats.text.utf8))
            let counters = (value as? [String: Any])?["counters"] as? [String: Any]
            #expect(parsed.lines.count == counters?.count)
        }

        // MARK: Firewall, cron, certificates

        @Test func `nft accepts the rule`() async throws {
            let rule = try block(of: "install.md", with: "nft add rule")
            let script = rule.replacing("nft ", with: "")
            let directory = try TemporaryDirectory()
            try write(
                [
                    "add table inet filter",
                    "add chain inet filter input { type filter hook input priority 0; }", script,
                ], to: directory.file("rules"))
            // In a network of its own: nothing of the machine's is read or changed.
            let check = "exec unshare -rn /usr/sbin/nft -c -f \(directory.file("rules"))"
            let nft = try ChildProcess("/bin/sh", ["-c", check])
            let exit = try await nft.exit()
            // A kernel without network namespaces or nf_tables can judge no rule.
            let lacks = ["unshare failed", "Protocol not supported", "cache initialization failed"]
            if exit != .code(0), lacks.contains(where: nft.text.contains) {
                print("nft accepts the rule: not run, the kernel lacks a feature: \(nft.text)")
                return
            }
            #expect(exit == .code(0), "\(nft.text)")
        }

        @Test func `cron makes a backup each night, in place of the one from a week ago`()
            async throws
        {
            let directory = try TemporaryDirectory()
            let broker = try await TestBroker()
            let table = try block(of: "backup.md", with: "martlet backup --data")
                .split(separator: "\n")
            // crontab(5): variables, then lines of five times, the user and the command.
            let path = try #require(table.first { $0.hasPrefix("PATH=") }).dropFirst(5)
            #expect(path.split(separator: ":").contains("/usr/local/bin"))
            let line = try #require(table.first { $0.first?.isNumber == true })
            let fields = line.split(separator: " ", maxSplits: 6)
            #expect(fields[..<6] == ["0", "3", "*", "*", "*", "martlet"])
            // A % that is not escaped ends the command.
            let command = String(fields[6]).replacing("\\%", with: "\u{1}")
            #expect(!command.contains("%"))
            let script = command.replacing("\u{1}", with: "%")
                .replacing("/var/lib/martlet-backups", with: directory.file("backups"))
                .replacing("--data /var/lib/martlet ", with: "--data \(broker.directory) ")
            _ = try await run("mkdir \(directory.file("backups"))")
            for _ in 0..<2 { _ = try await run(script) }
            let made = try FileManager.default.contentsOfDirectory(
                atPath: directory.file("backups"))
            #expect(made.count == 1 && (1...7).map(String.init).contains(made[0]))
            let check = try ChildProcess(
                "martletd", ["--verify-store", "--data", "\(directory.file("backups"))/\(made[0])"])
            #expect(try await check.exit() == .code(0), "\(check.text)")
        }

        @Test func `the hook of certbot copies certificate and key for the broker`()
            async throws
        {
            let directory = try TemporaryDirectory()
            let hook = try block(of: "first-configuration.md", with: "RENEWED_LINEAGE\"")
                .replacing("/etc/martlet/tls", with: directory.file("tls"))
                .replacing("-o root -g martlet ", with: "")
                .replacing("systemctl reload martletd", with: "false")
            try write([hook], to: directory.file("hook"))
            _ = try await run(
                """
                mkdir \(directory.file("tls")) \(directory.file("live"))
                echo key > \(directory.file("live"))/privkey.pem
                echo chain > \(directory.file("live"))/fullchain.pem
                RENEWED_LINEAGE=\(directory.file("live")) sh \(directory.file("hook"))
                """)
            let list = try await run("stat -c '%a %n' \(directory.file("tls"))/*; ")
            #expect(list.lines.map { $0.prefix(3) } == ["644", "640"])
        }

        private func write(_ lines: [String], to path: String) throws {
            try (lines.joined(separator: "\n") + "\n").write(
                toFile: path, atomically: true, encoding: .utf8)
        }
    }
}

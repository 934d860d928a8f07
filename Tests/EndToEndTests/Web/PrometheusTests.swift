// Metrics as Prometheus reads them, and the rules and the dashboard that are shipped for it.

import Foundation
import MartletClient
import TestSurroundings
import Testing

extension EndToEndWebTests {
    @Suite(.timeLimit(.minutes(3 * Sanitizer.patience))) struct `Prometheus` {
        private static let rules =
            URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent()
            .appending(path: "docs/operating/prometheus")

        private func run(
            _ program: String, _ words: [String], input: String = ""
        ) async throws -> String {
            let child = try ChildProcess(program, words, input: input)
            let exit = try await child.exit()
            guard exit == .code(0) else { throw TestFailure("\(exit): \(child.text)") }
            return child.text
        }

        @Test func `accepts the metrics and the rules, which name metrics that exist`()
            async throws
        {
            let broker = try await TestBroker(
                #"shards=[{name: "north", apps: ["plant"]}]"#, listeners: ["http://localhost:0"])
            let port = try await broker.port("http")
            let metrics = try await run(
                "/usr/bin/curl", ["-sS", "http://localhost:\(port)/metrics"])
            // It prints what it would write differently, and nothing else.
            let remarks = try await run(
                "/usr/bin/promtool", ["check", "metrics"], input: metrics + "\n")
            #expect(remarks.isEmpty, "\(remarks)")
            let alerts = Self.rules.appending(path: "alerts.yml")
            let checked = try await run("/usr/bin/promtool", ["check", "rules", alerts.path])
            #expect(checked.contains("SUCCESS"))
            let names = Set(
                metrics.split(separator: "\n").filter { !$0.hasPrefix("#") }
                    .map { $0.prefix { $0 != " " && $0 != "{" } })
            for file in [alerts, Self.rules.appending(path: "grafana.json")] {
                let text = try String(contentsOf: file, encoding: .utf8)
                let used = text.matches(of: #/martlet_\w+/#).map(\.output)
                #expect(used.count > 10)
                // A single broker has none of those of a cluster (ShardClusterTests).
                for name in used where !name.contains("cluster_") {
                    #expect(names.contains(name), "\(file): \(name)")
                }
            }
        }

        @Test func `reads OpenMetrics with the time that messages took`() async throws {
            let broker = try await TestBroker(listeners: ["http://localhost:0"])
            let (alice, bob) = (try await broker.client("alice"), try await broker.client("bob"))
            for number in 1...20 {
                try await alice.send(OutgoingMessage(to: .user("bob"), text: "\(number)"))
            }
            let port = try await broker.port("http")
            let reader = """
                import sys
                from prometheus_client.openmetrics.parser import text_string_to_metric_families
                for family in text_string_to_metric_families(sys.stdin.read()):
                    for sample in family.samples:
                        if sample.name.endswith("_count"):
                            print(family.name, int(sample.value))
                        if family.name == "martlet_store_table_bytes":
                            print(sample.labels["table"], int(sample.value))
                """
            let text = try await run(
                "/usr/bin/curl",
                [
                    "-sS", "-i", "-H",
                    "Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5",
                    "http://localhost:\(port)/metrics",
                ])
            #expect(
                text.contains(
                    "Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8"))
            let start = try #require(text.range(of: "# HELP"))
            let read = try await run(
                "/usr/bin/python3", ["-c", reader], input: text[start.lowerBound...] + "\n")
            let counts = Dictionary(
                uniqueKeysWithValues: read.split(separator: "\n").map {
                    let words = $0.split(separator: " ")
                    return (String(words[0]), Int(words[1])!)
                })
            #expect(counts["martlet_message_acknowledgement_duration_seconds"] == 20)
            #expect((counts["martlet_message_delivery_duration_seconds"] ?? 0) >= 20)
            for name in [
                "martlet_loop_turn_duration_seconds", "martlet_store_commit_duration_seconds",
                "martlet_store_commit_messages", "martlet_store_commit_bytes", "records",
            ] {
                #expect((counts[name] ?? 0) > 0, "\(name) in \(read)")
            }
            await alice.close()
            await bob.close()
        }

        @Test func `scrapes a broker`() async throws {
            let broker = try await TestBroker(listeners: ["http://localhost:0"])
            let device = try await broker.client("alice")
            let port = try await broker.port("http")
            let directory = broker.directory + "-prometheus"
            try FileManager.default.createDirectory(
                atPath: directory, withIntermediateDirectories: true)
            defer { try? FileManager.default.removeItem(atPath: directory) }
            let configuration = directory + "/prometheus.yml"
            try """
            scrape_configs:
              - job_name: martlet
                scrape_interval: 1s
                static_configs: [{ targets: ["localhost:\(port)"] }]
            rule_files: ["\(Self.rules.appending(path: "alerts.yml").path)"]
            """.write(toFile: configuration, atomically: false, encoding: .utf8)
            let own = try ReservedPort()
            let prometheus = try ChildProcess(
                "/usr/bin/prometheus",
                [
                    "--config.file=\(configuration)", "--storage.tsdb.path=\(directory)/data",
                    "--web.listen-address=127.0.0.1:\(own)", "--log.level=warn",
                ])
            let question =
                "http://127.0.0.1:\(own)/api/v1/query?query=martlet_clients_connected%7Bjob%3D"
                + "%22martlet%22%7D"
            defer { prometheus.signal(SIGTERM) }
            var answer = ""
            // Prometheus needs some seconds until it listens, on a busy machine a minute. The value
            // of the only sample is 1: one client is connected.
            for _ in 0..<1_000 where !answer.contains("\"1\"]") {
                let curl = try ChildProcess("/usr/bin/curl", ["-sS", "-w", "\\n", question])
                _ = try await curl.exit()
                answer = curl.text
                await Deadline(seconds: 0.2).wait()
            }
            #expect(answer.contains("\"1\"]"), "\(answer): \(prometheus.text)")
            prometheus.signal(SIGTERM)
            _ = try await prometheus.exit(within: 60)
            await device.close()
        }
    }
}

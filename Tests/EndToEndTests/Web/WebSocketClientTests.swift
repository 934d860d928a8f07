// WebSocket and HTTP clients of others against a real broker. `make test` installs them.

import Administration
import Foundation
import MartletClient
import TestSurroundings
import Testing

extension EndToEndWebTests {
    @Suite(.timeLimit(.minutes(3 * Sanitizer.patience))) struct WebSocketClientTests {
        private static let folder =
            URL(filePath: #filePath).deletingLastPathComponent()
            .deletingLastPathComponent().path + "/RealClients"

        // [MQTT-6.0.0-1] [MQTT-6.0.0-2] [MQTT-6.0.0-4]
        // [MQTT-6.0.0-1/311] [MQTT-6.0.0-2/311] [MQTT-6.0.0-4/311]
        @Test func `Paho and websockets speak both ways, and are refused what is wrong`()
            async throws
        {
            let broker = try await TestBroker(
                "web.allowedOrigins=[\"https://listed.example\"]", web: true)
            let script = try ChildProcess(
                "/usr/bin/python3",
                [
                    "-B", "\(Self.folder)/websockets.py", "\(broker.wsPort)", "\(broker.wssPort)",
                    broker.authority, try broker.token("alice"),
                ])
            // It waits for more than a hundred commits.
            let exit = try await script.exit(within: 100)
            #expect(
                exit == .code(0),
                "are python3-paho-mqtt and python3-websockets there? \(script.text)")
            #expect(script.lines.filter { $0.hasSuffix(" well") }.count == 11, "\(script.text)")
            #expect(try broker.counter("websockets/opened") >= 18)
            #expect(try broker.counter("websockets/faults") == 2)
            _ = try await broker.process.line(with: "cause=webSocketFault", "a text frame")
            _ = try await broker.process.line(
                with: "event=web_request_refused", "status=403", "the origin is not allowed")
        }

        /// Runs curl and returns what it prints.
        private func curl(_ words: String...) async throws -> String {
            let child = try ChildProcess("/usr/bin/curl", ["-sS", "--max-time", "50"] + words)
            let exit = try await child.exit()
            guard exit == .code(0) else { throw TestFailure("curl: \(exit): \(child.text)") }
            return child.text
        }

        @Test func `curl reads health over both listeners`() async throws {
            let broker = try await TestBroker(web: true)
            let plain = "http://localhost:\(broker.wsPort)"
            let secure = "https://localhost:\(broker.wssPort)"
            let ways: [([String], String)] = [
                ([], plain), (["--cacert", broker.authority], secure),
            ]
            for path in ["healthz", "readyz"] {
                for (words, url) in ways {
                    let child = try ChildProcess(
                        "/usr/bin/curl",
                        ["-sS", "-w", " %{http_code} %{content_type}\\n"] + words + [
                            "\(url)/\(path)"
                        ])
                    #expect(try await child.exit() == .code(0), "\(child.text)")
                    #expect(child.text.contains(#"{"status":"ok","reasons":[]}"#))
                    #expect(child.text.contains("200 application/json"))
                }
            }
            // HTTP/1.0, HEAD, and one connection for two requests.
            #expect(try await curl("--http1.0", "\(plain)/healthz").contains("ok"))
            #expect(try await curl("-I", "\(plain)/healthz").contains("Content-Length: 29"))
            let twice = try await curl(
                "-o", "/dev/null", "-o", "/dev/null", "-w", "%{num_connects}\\n",
                "\(plain)/healthz",
                "\(plain)/readyz")
            #expect(twice.contains("1\n0"))
            #expect(try broker.counter("web/requests") >= 8)
        }

        @Test func `curl is told what is not there and not allowed`() async throws {
            let broker = try await TestBroker(web: true)
            let plain = "http://localhost:\(broker.wsPort)"
            let cases: [([String], String)] = [
                (["\(plain)/"], "404"), (["\(plain)/../healthz", "--path-as-is"], "404"),
                (["-X", "DELETE", "\(plain)/healthz"], "405"),
                (["-d", "content", "\(plain)/metrics"], "405"),
                (["-X", "GET", "-d", "content", "\(plain)/metrics"], "413"),
                (["\(plain)/mqtt"], "426"),
                (["-H", "X: \(String(repeating: "x", count: 9_000))", "\(plain)/healthz"], "431"),
                (["\(plain)/\(String(repeating: "x", count: 9_000))"], "414"),
            ]
            for (words, answer) in cases {
                let child = try ChildProcess(
                    "/usr/bin/curl",
                    ["-sS", "-D", "-", "-o", "/dev/null", "-w", "status %{http_code}\\n"] + words)
                #expect(try await child.exit() == .code(0), "\(words): \(child.text)")
                #expect(child.text.contains("status \(answer)"), "\(words): \(child.text)")
                if answer == "405" { #expect(child.text.contains("Allow: GET, HEAD")) }
            }
        }

        @Test func `the metrics are those of the statistics, for this machine alone`() async throws
        {
            let broker = try await TestBroker(web: true)
            let url = "http://localhost:\(broker.wsPort)/metrics"
            let parse = """
                import sys, urllib.request
                from prometheus_client.parser import text_string_to_metric_families as families
                answer = urllib.request.urlopen(sys.argv[1])
                kind = answer.headers["Content-Type"]
                assert kind.startswith("text/plain; version=0.0.4"), kind
                text = answer.read().decode()
                seen = set()
                for family in families(text):
                    assert family.name not in seen, family.name
                    seen.add(family.name)
                    assert family.type in ("counter", "gauge", "histogram"), family
                    assert family.documentation, family
                    for sample in family.samples:
                        name = sample.name
                        assert name.startswith("martlet_"), name
                        assert name.endswith("_total") == (family.type == "counter"), name
                        labels = set(sample.labels) - {"le", "table"}
                        assert not labels or name == "martlet_build_info", sample
                        if family.type != "histogram" and "table" not in sample.labels:
                            print(name, sample.value)
                """
            func metrics() async throws -> [String] {
                let script = try ChildProcess("/usr/bin/python3", ["-c", parse, url])
                let exit = try await script.exit()
                guard exit == .code(0) else { throw TestFailure("\(script.text)") }
                return script.lines
            }
            let lines = try await metrics()
            let client = try AdministrationClient(dataDirectory: broker.directory)
            let counters = try client.send(ReadStatistics()).counters
            #expect(lines.count == counters.count + 2)
            #expect(lines.contains("martlet_clients_connected 0.0"))
            // A text is at most a second old.
            let mqtt = try await broker.client("alice")
            var text = ""
            for _ in 0..<1_000 where !text.contains("martlet_clients_connected 1\n") {
                text = try await curl(url)
            }
            #expect(text.contains("martlet_clients_connected 1\n"))
            await mqtt.close()
            // Content never delays packets: both in one connection are answered in order.
            let twice = try await curl(url, url)
            #expect(twice.components(separatedBy: "# TYPE martlet_uptime_seconds").count == 3)
        }

        @Test func `nobody reads metrics where the configuration says so`() async throws {
            let broker = try await TestBroker("web.metrics=\"nobody\"", web: true)
            let answer = try await curl(
                "-o", "/dev/null", "-w", "%{http_code}\\n",
                "http://localhost:\(broker.wsPort)/metrics"
            )
            #expect(answer.contains("404"))
        }
    }
}

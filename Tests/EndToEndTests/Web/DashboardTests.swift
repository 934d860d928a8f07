// The dashboard: its files over HTTP, and Chromium that clicks through every page.

import Administration
import Foundation
import MartletClient
import TestSurroundings
import Testing

extension EndToEndWebTests {
    @Suite(.timeLimit(.minutes(4 * Sanitizer.patience))) struct `The dashboard` {
        @Test func `is files that load nothing else and set no cookie`() async throws {
            let api = try await APIBroker()
            let port = api.http
            for (path, type) in [
                ("/", "text/html"), ("/dashboard.js", "text/javascript"),
                ("/devices.js", "text/javascript"), ("/dashboard.css", "text/css"),
            ] {
                let curl = try ChildProcess(
                    "/usr/bin/curl", ["-sS", "-D-", "http://localhost:\(port)\(path)"])
                #expect(try await curl.exit() == .code(0))
                let head = curl.text.components(separatedBy: "\r\n\r\n")[0]
                #expect(head.hasPrefix("HTTP/1.1 200") && head.contains("Content-Type: \(type)"))
                #expect(head.contains("Content-Security-Policy: default-src 'none'; script-src"))
                #expect(head.contains("frame-ancestors 'none'") && !head.contains("Set-Cookie"))
            }
            let answers = try await APIScript.ask(
                [
                    APICall("POST", "/", body: "{}"), APICall("GET", "/dashboard"),
                    APICall("GET", "/index.html"), APICall("HEAD", "/"),
                ], port: port)
            #expect(answers.map(\.status) == [405, 404, 404, 200])
        }

        @Test func `is signed in to by a link, once`() async throws {
            let api = try await APIBroker()
            let client = try AdministrationClient(dataDirectory: api.broker.directory)
            let link = try client.send(MakeLoginLink(operator: "anna", role: .view))
            #expect(
                link.addresses == [
                    "https://localhost:\(api.https)/", "http://localhost:\(api.http)/",
                ])
            func call(_ token: String?, _ method: String = "POST", _ path: String = "/login")
                -> APICall
            {
                APICall(method, path, token: token)
            }
            let answers = try await APIScript.ask(
                [
                    call(link.code, "GET"),
                    APICall("POST", "/login", body: "{}", token: link.code), call(link.code),
                    call(link.code), call(nil), call(api.own),
                    call(link.code, "GET", "/api/v1/apps"),
                ], port: api.http)
            #expect(answers.map(\.status) == [405, 413, 200, 401, 401, 401, 401])
            #expect(answers[0].allow == "POST")
            #expect(answers[3].detail.contains("was used, has expired"))
            #expect(answers[2].object["role"] as? String == "view")
            let token = try #require(answers[2].object["token"] as? String)
            _ = try await api.broker.process.line(
                with: "event=operator_request operator=anna address=127.0.0.1:",
                "request=operator.login", "status=200")
            func use() async throws -> [Int] {
                try await APIScript.ask(
                    [
                        call(token, "GET", "/api/v1/apps"), call(token, "GET", "/api/v1/operators"),
                    ], port: api.http
                ).map(\.status)
            }
            #expect(try await use() == [200, 403])
            _ = try client.send(RevokeOperator(operator: "anna"))
            #expect(try await use() == [401, 401])
            // Nobody gets a higher role by a link than their token has.
            let higher = #expect(throws: AdministrationError.self) {
                try client.send(MakeLoginLink(operator: "operate", role: .own))
            }
            #expect("\(higher as Any)".contains("has the role operate"))
            // Guesses are counted as those of tokens are.
            #expect(try api.broker.counter("api/credentials/refused") == 6)
            #expect(!api.broker.process.text.contains(link.code))
        }

        @Test func `is opened by the link that a broker for development prints`() async throws {
            let broker = try await TestBroker(listeners: ["http://localhost:0"])
            let port = try await broker.port("http")
            let line = try await broker.process.line(with: "http://localhost:\(port)/#login=ml1_")
            let code = try #require(line.split(separator: "=").last.map(String.init))
            let answers = try await APIScript.ask(
                [APICall("POST", "/login", token: code)], port: port)
            #expect(answers[0].object["role"] as? String == "own")
            let plain = try ChildProcess("martletd", ["--dev", "--print-config"])
            #expect(try await plain.exit() == .code(0))
            #expect(
                plain.text.contains(
                    #"["tls://*:8883", "tcp://localhost:1883", "http://localhost:8083"]"#),
                "\(plain.text)")
        }

        @Test func `has a link only where a listener serves it`() async throws {
            let broker = try await TestBroker(
                listeners: ["http://localhost:0?serve=api", "ws://localhost:0"])
            let child = try ChildProcess(
                "martlet", ["dashboard"], environment: try broker.environment("operator"))
            #expect(try await child.exit() != .code(0))
            #expect(child.text.contains("no listener serves the dashboard"), "\(child.text)")
            #expect(!broker.process.text.contains("#login="))
        }

        @Test func `is served only where it is asked for`() async throws {
            let broker = try await TestBroker(
                listeners: ["http://localhost:0?serve=api", "ws://localhost:0"])
            for scheme in ["http", "ws"] {
                let answers = try await APIScript.ask(
                    [APICall("GET", "/"), APICall("GET", "/dashboard.js")],
                    port: try await broker.port(scheme))
                #expect(answers.map(\.status) == [404, 404])
            }
        }

        /// Every page in both themes, on a desktop and on a phone; the script checks names of
        /// fields, contrast, the keyboard, the console and the requests that the page makes.
        @Test(arguments: [("light", 1200), ("dark", 390)])
        func `is clicked through in Chromium`(theme: String, width: Int) async throws {
            let api = try await APIBroker(
                "apps=[{app: 'demo', historyTopics: ['plant/+/alarm'], wake: {relay: 'relay'}}]")
            try api.broker.addUsers("bob", "carol", "dave", "erik", "fred")
            let device = try await api.broker.client("alice", device: "phone")
            _ = try api.broker.token("carol")
            let client = try AdministrationClient(dataDirectory: api.broker.directory)
            // Another device that is away, with a message, and a retained one.
            try await api.broker.client("carol", device: "away").close()
            _ = try client.send(
                SendMessage(
                    app: "demo", from: "alice", users: ["carol"], b: "first <i>word</i>"))
            _ = try client.send(
                SendMessage(
                    app: "demo", from: "bob", users: ["carol"], b: "the valve is open",
                    isKept: true, isDelivered: false))
            _ = try client.send(
                SendMessage(
                    app: "demo", from: "bob", topic: "plant/1/alarm", payload: "too hot"))
            // Two receivers with receipts, of whom one has applied it.
            let told = try client.send(
                SendMessage(
                    app: "demo", from: "dave", users: ["erik", "fred"], b: "close the valve",
                    isKept: true, receipts: ["delivered", "applied"]))
            _ = try client.send(
                ReportApplied(app: "demo", user: "erik", reference: try #require(told.reference)))
            _ = try client.send(
                SendMessage(
                    app: "demo", from: "alice", topic: "site/1/limit", payload: "forty",
                    isRetained: true))
            _ = try client.send(
                CreateGroup(app: "demo", owner: "alice", title: "Pump house"))
            // A relay, and what it says of carol's wake-up.
            let target = try client.send(
                SetWakeTarget(app: "demo", user: "carol", kind: .udp, address: "10.0.0.9:7000"))
            let relay = try await api.broker.client("relay")
            try await relay.report([
                WakeReport(
                    user: "carol", target: target.id, kind: .udp, step: 2,
                    time: 1_790_000_000_000, number: 1, count: 1, detail: "status 503")
            ])
            await relay.close()
            let script =
                URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
                .path + "/RealClients/dashboard.py"
            let link = try client.send(MakeLoginLink(operator: "anna", role: .view))
            // Chromium makes the directory of its user if there is none.
            let home = api.broker.directory + "-home"
            try FileManager.default.createDirectory(
                atPath: home, withIntermediateDirectories: true)
            defer { try? FileManager.default.removeItem(atPath: home) }
            let chromium = try ChildProcess(
                "/usr/bin/python3",
                [
                    "-B", script, "http://localhost:\(api.http)/", api.own, theme, "\(width)",
                    link.code, home + "/copy",
                ],
                environment: ["HOME": home])
            // Ten seconds on two idle processors.
            let exit = try await chromium.exit(within: 180)
            #expect(exit == .code(0), "\(chromium.text)")
            #expect(chromium.lines.filter { !$0.isEmpty } == ["done 163"], "\(chromium.text)")
            await device.close()
        }
    }
}

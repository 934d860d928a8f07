// The dashboard: its files over HTTP, and Chromium that clicks through every page.

import Administration
import Foundation
import MartletClient
import TestSurroundings
import Testing

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(4 * Sanitizer.patience))) struct `The dashboard` {
        @Test func `is three files that load nothing else and set no cookie`() async throws {
            let api = try await APIBroker()
            let port = api.http
            for (path, type) in [
                ("/", "text/html"), ("/dashboard.js", "text/javascript"),
                ("/dashboard.css", "text/css"),
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
            let api = try await APIBroker()
            try api.broker.addUsers("bob", "carol")
            let device = try await api.broker.client("alice", device: "phone")
            _ = try api.broker.token("carol")
            let client = try AdministrationClient(dataDirectory: api.broker.directory)
            _ = try client.send(
                CreateGroup(app: "demo", owner: "alice", title: "Pump house"))
            let script =
                URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
                .path + "/RealClients/dashboard.py"
            // Chromium makes the directory of its user if there is none.
            let home = api.broker.directory + "-home"
            try FileManager.default.createDirectory(
                atPath: home, withIntermediateDirectories: true)
            defer { try? FileManager.default.removeItem(atPath: home) }
            let chromium = try ChildProcess(
                "/usr/bin/python3",
                ["-B", script, "http://localhost:\(api.http)/", api.own, theme, "\(width)"],
                environment: ["HOME": home])
            // Ten seconds on two idle processors.
            let exit = try await chromium.exit(within: 180)
            #expect(exit == .code(0), "\(chromium.text)")
            #expect(chromium.lines.filter { !$0.isEmpty } == ["done 39"], "\(chromium.text)")
            await device.close()
        }
    }
}

// Who may keep files, how many, and what becomes of them when their app is deleted.

import Administration
import Foundation
import TestSurroundings
import Testing

extension EndToEndWebTests {
    @Suite(
        .timeLimit(.minutes(3 * Sanitizer.patience)),
        .enabled(if: SocketLibraries.python != nil, "there is no python-socketio"))
    struct DiuitFileTests {
        private let files: TemporaryDirectory

        init() throws { files = try TemporaryDirectory("files") }

        private func broker() async throws -> (TestBroker, port: ReservedPort) {
            let port = try ReservedPort()
            let broker = try await TestBroker(
                #"apps=[{app:"demo",interfaces:["diuit"]}]"#,
                #"files.directory="\#(files.path)""#, "files.bytesPerApp=1000000",
                #"files.address="http://localhost:\#(port)""#,
                listeners: ["http://localhost:\(port)"])
            return (broker, port)
        }

        private func run(
            _ mode: String, _ broker: TestBroker, port: ReservedPort
        ) async throws -> ChildProcess {
            let folder = URL(filePath: #filePath).deletingLastPathComponent().path
            let client = try ChildProcess(
                SocketLibraries.python ?? "",
                [
                    "-B", "-u", "\(folder)/diuit_file_rights.py", mode, "\(port)",
                    try broker.token("alice"), try broker.token("bob"),
                    try broker.token("carol", rights: ["send:alice"]),
                ])
            #expect(try await client.exit(within: 60) == .code(0), "\(client.text)")
            #expect(client.lines.last == "\(mode) well", "\(client.text)")
            return client
        }

        private func storedNames() throws -> [String] {
            try FileManager.default.subpathsOfDirectory(atPath: files.path)
                .filter { $0 != "key" }
        }

        @Test func `who may not send keeps no file`() async throws {
            let (broker, port) = try await broker()
            _ = try await run("refusals", broker, port: port)
            #expect(try storedNames().isEmpty)
            #expect(try broker.counter("files/stored") == 0)
            #expect(try broker.counter("interfaces/diuit/refused") == 7)
        }

        @Test func `a directory of files that is gone is logged once a minute`() async throws {
            let (broker, port) = try await broker()
            try FileManager.default.removeItem(atPath: files.path)
            try Data().write(to: URL(filePath: files.path))
            _ = try await run("broken", broker, port: port)
            let line = try await broker.process.line(with: "event=files_failed", "app=demo")
            #expect(line.contains("Not a directory") && line.contains(files.path), "\(line)")
            #expect(broker.process.lines.count { $0.contains("event=files_failed") } == 1)
            #expect(try broker.counter("files/refused") == 2)
        }

        @Test func `a user has a share of the files, and a deleted app has none`() async throws {
            let (broker, port) = try await broker()
            let client = try await run("shares", broker, port: port)
            #expect(try broker.counter("files/count") == 7)
            #expect(try broker.counter("files/refused/share") == 1)
            #expect(try broker.counter("files/refused") == 1)
            let administration = try AdministrationClient(dataDirectory: broker.directory)
            #expect {
                try administration.send(DeleteApp(app: "demo"))
            } throws: { "\($0)".contains("7 stored files") }
            let address = try #require(client.lines.first { $0.hasPrefix("http") })
            #expect(try await Self.status(of: address) == "200")
            while try administration.send(DeleteApp(app: "demo", force: true)).hasMore {}
            #expect(try await Self.status(of: address) == "404")
            // The disk is freed soon afterwards.
            try await eventually("removed files") { try broker.counter("files/removed") >= 7 }
            // A folder may vanish while its names are read.
            try await eventually("an empty directory") { (try? storedNames()) == [] }
            #expect(try broker.counter("files/bytes") == 0)
        }

        private static func status(of address: String) async throws -> String? {
            let child = try ChildProcess(
                "/usr/bin/curl", ["-s", "-o", "/dev/null", "-w", "%{http_code}\n", address])
            #expect(try await child.exit() == .code(0))
            return child.lines.first
        }
    }
}

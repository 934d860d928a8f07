// Ends of sockets of Diuit, and of the broker while files are stored.

import Foundation
import TestSurroundings
import Testing

extension EndToEndWebTests {
    @Suite(
        .timeLimit(.minutes(4 * Sanitizer.patience)),
        .enabled(if: SocketLibraries.python != nil, "there is no python-socketio"))
    struct DiuitEndTests {
        private static let interface = #"apps=[{app:"demo",interfaces:["diuit"]}]"#

        private static func client(_ script: String, _ words: [String]) throws -> ChildProcess {
            let folder = URL(filePath: #filePath).deletingLastPathComponent().path
            return try ChildProcess(
                SocketLibraries.python ?? "", ["-B", "-u", "\(folder)/\(script).py"] + words)
        }

        @Test func `when the broker stops, sockets of Diuit are told`() async throws {
            // One of them does not log in.
            let broker = try await TestBroker(
                Self.interface, "limits.authenticationSeconds=300",
                listeners: ["http://localhost:0"])
            let client = try Self.client(
                "diuit_ends",
                ["\(try await broker.port("http"))", try broker.token("alice"), "stop"])
            _ = try await client.line(with: "ready")
            #expect(try broker.counter("interfaces/diuit/requests") == 5)
            #expect(try broker.counter("interfaces/diuit/refused") == 0)
            try await broker.stop()
            #expect(try await client.exit(within: 60) == .code(0), "\(client.text)")
        }

        @Test func `a client of Socket.IO comes back after a stop of the broker`() async throws {
            let port = try ReservedPort()
            let broker = try await TestBroker(
                Self.interface, listeners: ["http://localhost:\(port)"])
            let client = try Self.client(
                "diuit_ends", ["\(port)", try broker.token("alice"), "return"])
            _ = try await client.line(with: "ready")
            try await broker.stop()
            try await broker.start()
            #expect(try await client.exit(within: 60) == .code(0), "\(client.text)")
        }

        @Test(arguments: ["unread", "gone"])
        func `answers that a client does not read are bounded`(what: String) async throws {
            let broker = try await TestBroker(
                Self.interface, "limits.messageMaximum=16384", listeners: ["http://localhost:0"])
            let client = try Self.client(
                "diuit_ends",
                ["\(try await broker.port("http"))", try broker.token("alice"), what])
            #expect(try await client.exit(within: 200) == .code(0), "\(client.text)")
            if what == "unread" {
                #expect(try broker.counter("interfaces/diuit/refused") == 2_000)
            }
        }

        /// Before the file is whole, between the file and its message, and before the answer: the
        /// times of the kills are those of the machine.
        @Test func `files and messages that were answered survive kills between all steps`()
            async throws
        {
            let files = try TemporaryDirectory("files")
            let port = try ReservedPort()
            let broker = try await TestBroker(
                Self.interface, #"files.directory="\#(files.path)""#,
                "files.bytesPerApp=1073741824", "files.userPercent=100",
                #"files.address="http://localhost:\#(port)""#, "limits.packetMaximum=8388608",
                listeners: ["http://localhost:\(port)"])
            let client = try Self.client(
                "diuit_kills",
                ["\(port)", try broker.token("alice"), try broker.token("bob"), "40"])
            for kill in 1...4 {
                for index in (kill - 1) * 8...kill * 8 {
                    _ = try await client.line(with: "stored \(index)")
                }
                try await broker.killNow()
                try await broker.start()
                client.signal(SIGUSR1)
            }
            #expect(try await client.exit(within: 120) == .code(0), "\(client.text)")
            #expect(client.lines.last == "kills well", "\(client.text)")
            let names = try FileManager.default.subpathsOfDirectory(atPath: files.path)
            #expect(!names.contains { $0.hasSuffix(".new") }, "\(names)")
            let kept = names.filter { $0.contains(".png.") }
            #expect(kept.count == 40, "\(names)")
            #expect(try broker.counter("files/count") == 40)
            let byteCount = try kept.reduce(0) { sum, name in
                let path = "\(files.path)/\(name)"
                return sum + (try Data(contentsOf: URL(filePath: path)).count)
            }
            #expect(try broker.counter("files/bytes") == UInt64(byteCount))
            #expect(try broker.counter("files/refused") == 0)
        }
    }
}

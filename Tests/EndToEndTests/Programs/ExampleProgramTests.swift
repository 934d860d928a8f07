// The programs of the package `Examples`, against a real broker. `make examples` builds them, and
// `make test` does that first.

import Foundation
import MartletClient
import TestSurroundings
import Testing

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(2 * Sanitizer.patience))) struct ExampleProgramTests {
        private static let root = SourceTree.root

        private func start(
            _ program: String, _ arguments: String..., user: String, of broker: TestBroker
        ) throws -> ChildProcess {
            let path = Self.root.appending(path: ".build/examples/debug/\(program)").path
            try #require(
                FileManager.default.isExecutableFile(atPath: path),
                "run `make examples` first: \(path) is missing")
            return try ChildProcess(path, arguments, environment: broker.environment(user))
        }

        @Test func `a back end sends a command and learns that it was carried out`() async throws {
            let broker = try await TestBroker()
            let controller = try start("controller", "2", user: "boiler", of: broker)
            _ = try await controller.line(with: "ready")

            let open = try start("backend", "boiler", "valve", "open", user: "plant", of: broker)
            #expect(try await open.exit() == .code(0), "\(open.text)")
            #expect(open.lines.last == "the device says: done")
            _ = try await controller.line(with: "the valve is open")
            #expect(controller.lines.contains("the valve is open"))

            let melt = try start("backend", "boiler", "core", "melt", user: "plant", of: broker)
            #expect(try await melt.exit() == .code(2), "\(melt.text)")
            #expect(try await controller.exit() == .code(0), "\(controller.text)")
        }

        @Test func `a sensor's readings reach a subscriber`() async throws {
            let broker = try await TestBroker()
            let display = try await broker.client("display")
            _ = try await display.subscribe(to: "plant/+/temperature")
            let sensor = try start("sensor", "2", user: "boiler", of: broker)
            #expect(try await display.nextTexts(2).allSatisfy { Double($0) != nil })
            #expect(try await sensor.exit() == .code(0), "\(sensor.text)")
            await display.close()
        }

        @Test func `a user of the REST interface registers and has a conversation`() async throws {
            let broker = try await TestBroker(
                "apps=[{app: \"demo\", interfaces: [\"rest\", \"registration\"]}]",
                listeners: ["http://localhost:0"])
            let server = "http://localhost:\(try await broker.port("http"))"
            for count in 1...2 {
                let program = try start(
                    "conversations", server, "rosa", "geheim", "Team", user: "other", of: broker)
                #expect(try await program.exit() == .code(0), "\(program.text)")
                #expect(program.lines.count { $0.hasSuffix(" Team") } == count, "\(program.text)")
            }
        }

        @Test func `no example is too long to read`() throws {
            let sources = Self.root.appending(path: "Examples/Sources")
            for program in ["sensor", "controller", "backend", "conversations"] {
                let file = sources.appending(path: "\(program)/main.swift")
                let lines = try String(contentsOf: file, encoding: .utf8).split(separator: "\n")
                #expect(lines.count < 80, "\(program)")
            }
        }
    }
}

// Comparing brokers: what stands in scenario files, and every kind of load against a real broker,
// as small as can be.
import CommandLineOptions
import Foundation
import TestSurroundings
import Testing

@testable import martlet_bench

@Suite struct CompareTests {
    private static let root = URL(filePath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

    private func file(_ text: String) throws -> ScenarioFile {
        let path = FileManager.default.temporaryDirectory
            .appending(path: "scenario-\(UUID().uuidString).json5")
        defer { try? FileManager.default.removeItem(at: path) }
        try Data(text.utf8).write(to: path)
        return try ScenarioFile(path: path.path)
    }

    @Test(.timeLimit(.minutes(4 * Sanitizer.patience)))
    func `every kind of load loses, doubles and disorders nothing`() throws {
        let program = Process()
        program.executableURL = Programs.folder.appending(path: "martlet-bench")
        program.arguments = [
            "compare", Self.root.appending(path: "Bench/Scenarios/smoke.json5").path,
        ]
        let output = Pipe()
        program.standardOutput = output
        program.standardError = output
        try program.run()
        let text = try output.fileHandleForReading.readToEnd() ?? Data()
        program.waitUntilExit()
        #expect(program.terminationStatus == 0, "\(String(decoding: text, as: UTF8.self))")
    }

    @Test(arguments: ["deliveries", "connections", "durable", "lives", "smoke"])
    func `the scenario files that are kept here can be read`(name: String) throws {
        let path = Self.root.appending(path: "Bench/Scenarios/\(name).json5").path
        let file = try ScenarioFile(path: path)
        #expect(file.name == name)
        #expect(!file.scenarios.isEmpty)
        #expect(file.subjects.contains("martlet"))
    }

    @Test func `an unknown key is named with its place and the nearest known one`() {
        let error = #expect(throws: UsageError.self) {
            try file("{\n  rounds: 2,\n  secnods: 3,\n}")
        }
        #expect(
            error?.message.hasSuffix(":3:3: unknown key secnods; did you mean seconds?") == true)
    }

    @Test func `a load that is no command line is refused where it stands`() {
        let error = #expect(throws: UsageError.self) {
            try file("{scenarios: [{name: 'a', load: 'fanout --cout 3'}]}")
        }
        #expect(error?.message.contains("--count") == true)
    }

    @Test func `a broker of one's own has a command and a dialect`() throws {
        let broker = try file(
            "{brokers: [{name: 'mine', command: 'x -c {configuration}', dialect: 'mqtt5'}]}"
        ).brokers[0]
        #expect(broker.dialect == .mqtt5)
        #expect(!broker.hasTLS)
    }

    @Test func `what is compared may be taken from an interval`() {
        #expect(Measure("drain rate")?.interval == "drain")
        #expect(Measure("p99")?.kind == .p99)
        #expect(Measure("speed") == nil)
    }

    @Test func `a table takes the place of what stood between its marks`() {
        let page = "a\n<!-- table x -->\nold\nolder\n<!-- end -->\nb"
        #expect(
            Markers.replace("x", with: "new", in: page)
                == "a\n<!-- table x -->\nnew\n<!-- end -->\nb")
        #expect(Markers.replace("y", with: "new", in: page) == nil)
    }
}

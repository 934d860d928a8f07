// Comparisons: the contents of scenario files, and every kind of load, as small as possible,
// against a real broker.
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
    func `no kind of load loses, duplicates or reorders messages`() throws {
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

    @Test(arguments: ["deliveries", "connections", "durable", "lives", "web", "smoke"])
    func `the scenario files of the repository are valid`(name: String) throws {
        let path = Self.root.appending(path: "Bench/Scenarios/\(name).json5").path
        let file = try ScenarioFile(path: path)
        #expect(file.name == name)
        #expect(!file.scenarios.isEmpty)
        #expect(file.subjects.contains("martlet"))
    }

    @Test func `an error names an unknown key, its place and the nearest known key`() {
        let error = #expect(throws: UsageError.self) {
            try file("{\n  rounds: 2,\n  secnods: 3,\n}")
        }
        #expect(
            error?.message.hasSuffix(":3:3: unknown key secnods; did you mean seconds?") == true)
    }

    @Test func `an invalid load is refused with its place`() {
        let error = #expect(throws: UsageError.self) {
            try file("{scenarios: [{name: 'a', load: 'fanout --cout 3'}]}")
        }
        #expect(error?.message.contains("--count") == true)
    }

    @Test func `a custom broker has a command and a dialect`() throws {
        let broker = try file(
            "{brokers: [{name: 'mine', command: 'x -c {configuration}', dialect: 'mqtt5'}]}"
        ).brokers[0]
        #expect(broker.dialect == .mqtt5)
        #expect(!broker.hasTLS)
    }

    @Test func `a measure can be taken from a phase`() {
        #expect(Measure("drain rate")?.interval == "drain")
        #expect(Measure("p99")?.kind == .p99)
        #expect(Measure("speed") == nil)
    }

    @Test func `a table replaces the lines between its marks`() {
        let page = "a\n<!-- table x -->\nold\nolder\n<!-- end -->\nb"
        #expect(
            Markers.replace("x", with: "new", in: page)
                == "a\n<!-- table x -->\nnew\n<!-- end -->\nb")
        #expect(Markers.replace("y", with: "new", in: page) == nil)
    }
}

// The micro-benchmarks as a program: each case runs in every test run, so that none breaks
// unnoticed.
import Foundation
import TestSurroundings
import Testing

@Suite struct MicroTests {
    private func run(_ arguments: String...) throws -> (status: Int32, lines: [String]) {
        let program = Process()
        program.executableURL = Programs.folder.appending(path: "martlet-micro")
        program.arguments = arguments
        let output = Pipe()
        program.standardOutput = output
        try program.run()
        let text = try output.fileHandleForReading.readToEnd() ?? Data()
        program.waitUntilExit()
        let lines = String(decoding: text, as: UTF8.self).split(separator: "\n").map(String.init)
        return (program.terminationStatus, lines)
    }

    @Test(
        .timeLimit(.minutes(2 * Sanitizer.patience)),
        arguments: [
            "decode-mrt", "decode-mqtt5", "encode-mrt", "fanout-1000", "unicast", "group-10",
            "broadcast-1000", "match-1000", "match-plus-1000",
            "inbox-100",
        ])
    func `a case delivers to all receivers and reports its cost`(name: String) throws {
        let (status, lines) = try run(name)
        #expect(status == 0)
        #expect(lines.count == 1)
        #expect(lines.first?.hasPrefix(name) == true)
    }

    @Test func `pages at each place of a conversation are read from a store`()
        throws
    {
        let (status, lines) = try run("history", "1000")
        #expect(status == 0)
        #expect(lines.count { $0.hasPrefix("offline-send ") } == 2)
        #expect(lines.count { $0.contains("a page of 100") } == 3, "\(lines)")
    }

    @Test func `every case with a limit exists`() throws {
        let root = URL(filePath: #filePath)
            .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        let limits = try String(
            contentsOf: root.appending(path: "Bench/Thresholds/instructions.txt"), encoding: .utf8)
        let names = Set(try run("--list").lines)
        for line in limits.split(separator: "\n") where !line.hasPrefix("#") {
            let name = String(line.prefix { $0 != " " })
            #expect(names.contains(name), "\(name)")
        }
    }
}

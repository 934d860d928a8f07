// What fuzzing starts from, and what it has found, in every run of the tests: each input below
// Tests/Fuzzing goes through its target. A find that was mended stays mended.

import Foundation
import Fuzzing
import PacketMeanings
import Testing

@Suite("A fuzz target")
struct FuzzingTests {
    private static let folder = Vector.root.appending(path: "Tests/Fuzzing")

    @Test(arguments: FuzzTarget.allCases)
    func `survives its corpus and all finds`(target: FuzzTarget) throws {
        let inputs = try ["Corpus", "Finds"].flatMap { kind in
            try Self.inputs(in: "\(kind)/\(target.rawValue).txt")
        }
        #expect(!inputs.isEmpty, "no input for \(target.rawValue)")
        for input in inputs { input.withUnsafeBytes { target.run($0) } }
    }

    @Test func `is known to the script that runs it`() throws {
        let script = try String(contentsOf: Self.folder.appending(path: "fuzz"), encoding: .utf8)
        let names = FuzzTarget.allCases.map(\.rawValue).joined(separator: " ")
        let words = script.split { " \n".contains($0) }.joined(separator: " ")
        #expect(words.contains("targets=( \(names))"))
    }

    /// One input in hexadecimal a line; what follows a space says what it was.
    private static func inputs(in name: String) throws -> [[UInt8]] {
        let file = folder.appending(path: name)
        guard FileManager.default.fileExists(atPath: file.path) else { return [] }
        return try String(contentsOf: file, encoding: .utf8).split(separator: "\n")
            .filter { !$0.hasPrefix("#") }.map { hexadecimal($0.prefix { $0 != " " }) }
    }
}

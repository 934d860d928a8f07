// The corpus and the finds of fuzzing in every test run: each input below Tests/Fuzzing runs
// through its target, so that a corrected fault does not return.

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

    @Test func `is listed in the script that runs it`() throws {
        let script = try String(contentsOf: Self.folder.appending(path: "fuzz"), encoding: .utf8)
        let words = script.split(whereSeparator: \.isWhitespace).joined(separator: " ")
        let names = FuzzTarget.allCases.map(\.rawValue).joined(separator: " ")
        #expect(words.replacing("( ", with: "(").contains("targets=(\(names))"))
    }

    /// One input in hexadecimal a line; what follows a space says what it was.
    private static func inputs(in name: String) throws -> [[UInt8]] {
        let file = folder.appending(path: name)
        guard FileManager.default.fileExists(atPath: file.path) else { return [] }
        return try String(contentsOf: file, encoding: .utf8).split(separator: "\n")
            .filter { !$0.hasPrefix("#") }.map { hexadecimal($0.prefix { $0 != " " }) }
    }
}

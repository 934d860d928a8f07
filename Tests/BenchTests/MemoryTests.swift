// What a sleeping device may cost in memory, measured by the same program as the figures of
// docs/PERFORMANCE.md.
import Foundation
import TestSurroundings
import Testing

@Suite(.enabled(if: !Sanitizer.isThere, "a sanitizer adds to every allocation"))
struct MemoryTests {
    @Test(.timeLimit(.minutes(2)))
    func `a sleeping device takes a few hundred bytes, also after a restart`() throws {
        let micro = Process()
        micro.executableURL = Programs.folder.appending(path: "martlet-micro")
        micro.arguments = ["asleep", "50000"]
        let output = Pipe()
        micro.standardOutput = output
        try micro.run()
        let text = String(
            decoding: try output.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
        micro.waitUntilExit()
        let figures = text.split(separator: "\n").compactMap { line in
            line.split(separator: " ").dropLast().last.flatMap { Int($0) }
        }
        #expect(micro.terminationStatus == 0)
        #expect(figures.count == 3, "\(text)")
        // With few devices what the process itself needs is a part of each figure.
        #expect(figures.allSatisfy { (200...480).contains($0) }, "\(text)")
    }
}

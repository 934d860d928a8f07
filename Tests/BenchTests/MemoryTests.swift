// The memory of a disconnected device, measured by the program that measured the figures of
// docs/PERFORMANCE.md.
import Foundation
import TestSurroundings
import Testing

@Suite(.enabled(if: !Sanitizer.isThere, "a sanitizer adds to every allocation"))
struct MemoryTests {
    /// Bytes for each of so many devices that sleep: with their session, the same after a restart,
    /// and for a token.
    private func figures(_ count: Int, environment: [String: String]? = nil) throws -> [Int] {
        let micro = Process()
        micro.executableURL = Programs.folder.appending(path: "martlet-micro")
        micro.arguments = ["asleep", "\(count)"]
        if let environment { micro.environment = environment }
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
        return figures
    }

    @Test(.timeLimit(.minutes(2 * Sanitizer.patience)))
    func `a disconnected device uses a few hundred bytes, also after a restart`() throws {
        // With few devices what the process itself needs is a part of each figure.
        let figures = try figures(50_000)
        #expect(figures.allSatisfy { (200...480).contains($0) }, "\(figures)")
    }

    /// What the bound above is worth: the same program, told to free nothing.
    @Test(.timeLimit(.minutes(2 * Sanitizer.patience)))
    func `a leak shows in the memory of a device`() throws {
        let leak = Programs.folder.appending(path: "libMemoryLeak.so").path
        let figures = try figures(20_000, environment: ["LD_PRELOAD": leak])
        #expect(figures.allSatisfy { $0 > 960 }, "\(figures)")
    }
}

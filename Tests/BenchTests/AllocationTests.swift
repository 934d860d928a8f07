// Allocations of a running broker against Bench/Thresholds. The same script measures the release
// build in `make bench`; here it is the debug build, whose limits are wider, so that a regression
// shows before it is merged.
import Foundation
import TestSurroundings
import Testing

@Suite(.enabled(if: !Sanitizer.isThere, "a sanitizer brings an allocator of its own"))
struct AllocationTests {
    @Test(.timeLimit(.minutes(2 * Sanitizer.patience)))
    func `a delivery allocates no more than its threshold allows`() throws {
        let root = URL(filePath: #filePath)
            .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        let script = Process()
        script.executableURL = root.appending(path: "Bench/Scenarios/allocations")
        script.arguments = ["debug"]
        let output = Pipe()
        script.standardOutput = output
        script.standardError = output
        try script.run()
        let text = try output.fileHandleForReading.readToEnd() ?? Data()
        script.waitUntilExit()
        #expect(script.terminationStatus == 0, "\(String(decoding: text, as: UTF8.self))")
    }
}

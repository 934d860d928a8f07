// The bar of long work.

import Testing

@testable import martlet

@Suite("A progress bar")
struct ProgressBarTests {
    @Test(
        arguments: [
            (0, 10, 0), (5, 10, 20), (10, 10, 40), (11, 10, 40), (0, 0, 0), (9, 0, 40),
            (UInt64.max - 1, .max, 40), (.max / 4, .max, 10),
        ] as [(UInt64, UInt64, Int)])
    func `is as full as the work is done`(done: UInt64, total: UInt64, filled: Int) {
        let line = ProgressBar.line(done, of: total, "x")
        #expect(
            line == "[" + String(repeating: "#", count: filled)
                + String(repeating: " ", count: 40 - filled) + "] x")
    }
}

// The progress of long work as a line on a terminal that is written again and again. In a pipe or a
// file there is none.

import CommandLineOptions
import Files
import Glibc

/// A bar on standard error.
struct ProgressBar {
    private let isTerminal: Bool
    private var isShown = false

    private static let width: UInt64 = 40

    init() {
        isTerminal = isatty(StandardStream.error.rawValue) == 1
    }

    /// - Parameter text: behind the bar.
    mutating func show(_ done: UInt64, of total: UInt64, _ text: String) {
        guard isTerminal else { return }
        isShown = true
        write("\r" + Self.line(done, of: total, text) + Self.clearsRest)
    }

    /// Removes the bar, so that the result stands alone.
    mutating func clear() {
        guard isShown else { return }
        isShown = false
        write("\r" + Self.clearsRest)
    }

    static func line(_ done: UInt64, of total: UInt64, _ text: String) -> String {
        let (total, done) = (max(total, 1), min(done, max(total, 1)))
        let filled = Int(Double(done) / Double(total) * Double(width))
        return "[" + String(repeating: "#", count: filled)
            + String(repeating: " ", count: Int(width) - filled) + "] \(text)"
    }

    /// ECMA-48, 8.3.41: erase from the cursor to the end of the line.
    private static let clearsRest = "\u{1B}[K"

    /// An error of the terminal is none of the work.
    private func write(_ text: String) {
        _ = try? DescriptorIO.write(text.utf8, to: StandardStream.error.rawValue)
    }
}

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

    /// Shows work whose end is not known.
    mutating func show(_ text: String) {
        guard isTerminal else { return }
        isShown = true
        write("\r" + text + Self.clearsRest)
    }

    /// Removes the bar, so that the result stands alone.
    mutating func clear() {
        guard isShown else { return }
        isShown = false
        write("\r" + Self.clearsRest)
    }

    /// Does work in steps, and shows how much is done.
    ///
    /// - Parameters:
    ///   - noun: what is counted.
    ///   - step: does the part after a place; returns how much it was, and the place of the next
    ///     part, which is nil at the end.
    /// - Returns: how much all steps were.
    static func count<Place>(
        _ noun: String, step: (_ after: Place?) throws -> (count: UInt64, next: Place?)
    ) rethrows -> UInt64 {
        var bar = ProgressBar()
        defer { bar.clear() }
        var (sum, place) = (UInt64(0), Place?.none)
        while true {
            let part = try step(place)
            sum += part.count
            guard let next = part.next else { return sum }
            place = next
            bar.show("\(counted(sum, noun)) so far")
        }
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

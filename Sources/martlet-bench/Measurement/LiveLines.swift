// The output during a run: lines in emqtt_bench's form on standard output, and, on a terminal, a
// progress bar of the stage on standard error.

import CommandLineOptions
import Glibc

/// One line per counter and second: `16s recv total=3953 rate=4.00/sec`.
enum LiveLines {
    static func write(from before: Sample, to now: Sample, origin: UInt64) {
        for line in lines(from: before, to: now, origin: origin) {
            StandardStream.output.print(line)
        }
    }

    static func lines(from before: Sample, to now: Sample, origin: UInt64) -> [String] {
        let counters = [
            ("connect_succ", before.tally.connected, now.tally.connected),
            ("pub", before.sendCount, now.sendCount),
            ("puback", before.tally.confirmed, now.tally.confirmed),
            ("recv", before.tally.delivered, now.tally.delivered),
            ("connect_lost", before.tally.connectionsLost, now.tally.connectionsLost),
        ]
        let seconds = (now.nanoseconds - origin) / 1_000_000_000
        let elapsed = Double(now.nanoseconds - before.nanoseconds) / 1e9
        return counters.filter { $0.2 > $0.1 }.map { name, first, last in
            let rate = Decimal.text(Double(last - first) / elapsed, 2)
            return "\(seconds)s \(name) total=\(last) rate=\(rate)/sec"
        }
    }
}

/// The progress bar. It redraws itself, so that a terminal keeps only the lines.
struct ProgressLine {
    private let isShown: Bool
    private var lastShown: UInt64 = 0
    private var isOnScreen = false
    private static let periodNanoseconds: UInt64 = 200_000_000
    private static let width = 30

    /// Nothing is drawn if standard error is not a terminal.
    init(isWanted: Bool) {
        isShown = isWanted && isatty(STDERR_FILENO) == 1
    }

    mutating func show(
        _ stage: LoadDriver.Stage, fraction: Double, tally: LoadTally, at now: UInt64
    ) {
        guard isShown, now >= lastShown + ProgressLine.periodNanoseconds else { return }
        lastShown = now
        guard stage != .finished else {
            clear()
            return
        }
        put("\r\u{1B}[K" + ProgressLine.text(stage, fraction: fraction, tally: tally))
        isOnScreen = true
    }

    /// Makes room for a line.
    mutating func clear() {
        guard isOnScreen else { return }
        put("\r\u{1B}[K")
        isOnScreen = false
    }

    static func text(
        _ stage: LoadDriver.Stage, fraction: Double, tally: LoadTally
    ) -> String {
        let done = Int((fraction * Double(width)).rounded(.down))
        let bar = String(repeating: "=", count: done) + String(repeating: " ", count: width - done)
        return "[\(bar)] \(Int(fraction * 100)) % \(stage.rawValue), "
            + "\(tally.connected) connects, \(tally.delivered) deliveries"
    }

    private func put(_ text: String) {
        _ = Array(text.utf8).withUnsafeBytes { write(STDERR_FILENO, $0.baseAddress, $0.count) }
    }
}

/// Numbers as text, without Foundation.
enum Decimal {
    /// With this many digits after the point.
    static func text(_ value: Double, _ places: Int) -> String {
        guard value.isFinite else { return "0" }
        var scale: Double = 1
        for _ in 0..<places { scale *= 10 }
        let scaled = Int64((value * scale).rounded())
        guard places > 0 else { return "\(scaled)" }
        let digits = String(scaled.magnitude)
        let padded = String(repeating: "0", count: max(0, places + 1 - digits.count)) + digits
        return (scaled < 0 ? "-" : "") + padded.dropLast(places) + "." + padded.suffix(places)
    }

    static func milliseconds(_ nanoseconds: UInt64) -> String {
        text(Double(nanoseconds) / 1e6, 3)
    }
}

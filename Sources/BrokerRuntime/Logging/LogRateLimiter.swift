// Keeps a flood of one kind of event from hiding the others and from filling the disk. A value that
// is told the time.

/// Counts lines of each event and second.
struct LogRateLimiter {
    /// A hundred thousand devices that reconnect are one story, not a hundred thousand lines; fifty
    /// are enough to see who they are.
    static let linesPerSecondMaximum = 50

    private struct Window {
        var second: UInt64 = 0
        var count = 0
        var suppressed = 0
    }

    private var windows: [LogEventName: Window] = [:]

    /// Whether a line of this kind may be written now; if not, it is counted.
    mutating func admits(_ event: LogEventName, unixMilliseconds: UInt64) -> Bool {
        let second = unixMilliseconds / 1000
        var window = windows[event] ?? Window()
        if window.second != second {
            window.second = second
            window.count = 0
        }
        let isAdmitted = window.count < Self.linesPerSecondMaximum
        if isAdmitted { window.count += 1 } else { window.suppressed += 1 }
        windows[event] = window
        return isAdmitted
    }

    /// The kinds that lost lines in seconds that are over, with how many, each told once.
    mutating func takeSuppressed(
        unixMilliseconds: UInt64
    ) -> [(event: LogEventName, count: Int)] {
        let second = unixMilliseconds / 1000
        var suppressed: [(event: LogEventName, count: Int)] = []
        for event in LogEventName.allCases {
            guard let window = windows[event], window.suppressed > 0, window.second != second else {
                continue
            }
            suppressed.append((event, window.suppressed))
            windows[event]?.suppressed = 0
        }
        return suppressed
    }
}

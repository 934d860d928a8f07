// Limits the lines per event, so that a flood of one event does not hide others or fill the disk.
// The caller passes the time.

/// Counts the lines of each event in each second.
struct LogRateLimiter {
    /// A hundred thousand devices that reconnect need not cause a hundred thousand lines; fifty are
    /// enough to identify the cause.
    static let linesPerSecondMaximum = 50

    private struct Window {
        var second: UInt64 = 0
        var count = 0
        var suppressed = 0
    }

    private var windows: [LogEventName: Window] = [:]

    /// Whether a line of this event may be written now. Counts the line if not.
    mutating func admits(_ event: LogEventName, unixMilliseconds: UInt64) -> Bool {
        // Who changed what is never left out. Only operators cause these lines, one for each
        // request that the administration thread executes.
        if event == .operatorRequest { return true }
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

    /// Returns the events with lines suppressed in past seconds, and their number, once.
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

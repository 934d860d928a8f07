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

    /// Lines of ``LogEventName/operatorRequest`` of one key, or of the users of one app: a program
    /// that administers by one key seldom changes more in a second.
    static let linesPerPrincipalMaximum = 20

    private var windows: [LogEventName: Window] = [:]
    /// The lines of each key and of the users of each app in ``principalSecond``.
    private var principalCounts: [String: Int] = [:]
    private var principalSecond: UInt64 = 0

    /// Whether a line of this event may be written now. Counts the line if not.
    ///
    /// - Parameter principal: the key, or the app of the user, that causes the line; nil where
    ///   nobody's share is counted.
    mutating func admits(
        _ event: LogEventName, of principal: String? = nil, unixMilliseconds: UInt64
    ) -> Bool {
        let second = unixMilliseconds / 1000
        if event == .operatorRequest {
            // What operators changed is never left out.
            guard let principal else { return true }
            if second != principalSecond { (principalCounts, principalSecond) = ([:], second) }
            principalCounts[principal, default: 0] += 1
            guard principalCounts[principal, default: 0] > Self.linesPerPrincipalMaximum else {
                return true
            }
            var window = windows[event] ?? Window()
            window.second = second
            window.suppressed += 1
            windows[event] = window
            return false
        }
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

// The time of a log line, for programs whose log is standard error.

import Glibc

/// When a line was written.
public enum LogTime {
    /// `time=2026-11-20T11:04:25.120Z ` [RFC 3339]: UTC with milliseconds, and a space.
    public static func prefix() -> String {
        var now = timespec()
        clock_gettime(CLOCK_REALTIME, &now)
        return prefix(seconds: now.tv_sec, milliseconds: now.tv_nsec / 1_000_000)
    }

    static func prefix(seconds: Int, milliseconds: Int) -> String {
        "time=\(text(seconds: seconds, milliseconds: milliseconds)) "
    }

    /// The same form of another time: `2026-11-20T11:04:25.120Z`.
    public static func text(unixMilliseconds time: UInt64) -> String {
        text(seconds: Int(time / 1_000), milliseconds: Int(time % 1_000))
    }

    private static func text(seconds: Int, milliseconds: Int) -> String {
        var seconds = time_t(seconds)
        var date = tm()
        gmtime_r(&seconds, &date)
        return "\(padded(Int(date.tm_year) + 1900, 4))-\(padded(Int(date.tm_mon) + 1, 2))"
            + "-\(padded(Int(date.tm_mday), 2))T\(padded(Int(date.tm_hour), 2))"
            + ":\(padded(Int(date.tm_min), 2)):\(padded(Int(date.tm_sec), 2))"
            + ".\(padded(milliseconds, 3))Z"
    }

    private static func padded(_ number: Int, _ width: Int) -> String {
        let digits = String(number)
        return String(repeating: "0", count: max(0, width - digits.count)) + digits
    }
}

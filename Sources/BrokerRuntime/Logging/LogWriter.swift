// Where log lines leave the program: standard error, which systemd hands to journald. Any thread
// may write; none ever waits for a reader.
import Configuration
import Glibc
import Threads

/// The log of one broker.
public final class LogWriter: Sendable {
    private struct State {
        var level: LogLevel
        var format: LogFormat
        var limiter = LogRateLimiter()
        /// Lines that nobody took since the last one that somebody did.
        var droppedCount = 0
    }

    private let descriptor: Int32
    private let isJournal: Bool
    private let state: Locked<State>

    /// - Parameters:
    ///   - descriptor: where to write; stays open and is not closed.
    ///   - isJournal: whether journald reads it, which adds the time itself and wants a priority.
    public init(
        descriptor: Int32 = STDERR_FILENO, level: LogLevel = .info, format: LogFormat = .logfmt,
        isJournal: Bool? = nil
    ) {
        self.descriptor = descriptor
        self.isJournal = isJournal ?? Self.isJournal(descriptor)
        state = Locked(State(level: level, format: format))
    }

    /// Takes effect with the next line: for a reload.
    public func change(level: LogLevel, format: LogFormat) {
        state.withLock {
            $0.level = level
            $0.format = format
        }
    }

    /// Whether lines of this level are written; ask before gathering costly fields.
    public func writes(_ level: LogLevel) -> Bool {
        state.withLock { level <= $0.level }
    }

    /// Writes one line, unless its level is not asked for, there were too many of its kind in this
    /// second, or nobody reads; the latter two are counted and told in a line of their own.
    public func write(
        _ level: LogLevel, _ event: LogEventName, _ fields: KeyValuePairs<String, LogValue> = [:]
    ) {
        state.withLock { state in
            guard level <= state.level else { return }
            let now = Self.unixMilliseconds()
            reportSuppressed(&state, now)
            guard state.limiter.admits(event, unixMilliseconds: now) else { return }
            put(level, event, fields, &state, now)
        }
    }

    /// Tells what was suppressed and not told yet. Called about once a second, because after a
    /// flood there may be no next line for a long time.
    public func reportSuppressed() {
        state.withLock { reportSuppressed(&$0, Self.unixMilliseconds()) }
    }

    private func reportSuppressed(_ state: inout State, _ now: UInt64) {
        for (event, count) in state.limiter.takeSuppressed(unixMilliseconds: now) {
            let fields: KeyValuePairs<String, LogValue> = [
                "of": .text(event.rawValue), "suppressed": .number(count),
            ]
            put(.warning, .linesSuppressed, fields, &state, now)
        }
    }

    private func put(
        _ level: LogLevel, _ event: LogEventName, _ fields: KeyValuePairs<String, LogValue>,
        _ state: inout State, _ now: UInt64
    ) {
        if state.droppedCount > 0 {
            let fields: KeyValuePairs<String, LogValue> = ["dropped": .number(state.droppedCount)]
            if emit(.warning, .linesDropped, fields, state.format, now) { state.droppedCount = 0 }
        }
        if !emit(level, event, fields, state.format, now) { state.droppedCount += 1 }
    }

    /// Whether the kernel took the line.
    private func emit(
        _ level: LogLevel, _ event: LogEventName, _ fields: KeyValuePairs<String, LogValue>,
        _ format: LogFormat, _ now: UInt64
    ) -> Bool {
        let line = LogLine.bytes(
            level, event, fields, format: format, unixMilliseconds: isJournal ? nil : now,
            priority: isJournal)
        // Asking first instead of O_NONBLOCK: that flag belongs to the open file, which the shell
        // and other programs share. A pipe that is writable takes PIPE_BUF bytes without waiting,
        // and no line is longer.
        var request = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        guard poll(&request, 1, 0) == 1, request.revents & Int16(POLLOUT) != 0 else { return false }
        while true {
            let count = line.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            return count == line.count
        }
    }

    private static func unixMilliseconds() -> UInt64 {
        var now = timespec()
        clock_gettime(CLOCK_REALTIME, &now)
        return UInt64(now.tv_sec) * 1000 + UInt64(now.tv_nsec) / 1_000_000
    }

    /// Whether this descriptor is the stream that journald gave: JOURNAL_STREAM holds its device
    /// and inode [systemd.exec(5)], and is inherited even where the stream was redirected since.
    private static func isJournal(_ descriptor: Int32) -> Bool {
        guard let stream = getenv("JOURNAL_STREAM") else { return false }
        var information = stat()
        guard fstat(descriptor, &information) == 0 else { return false }
        return String(cString: stream) == "\(information.st_dev):\(information.st_ino)"
    }
}

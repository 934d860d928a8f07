// Writes log lines to standard error, which systemd passes to journald. Any thread may write, and
// no thread waits for the reader.
import Administration
import Configuration
import Glibc
import Threads

/// The log of one broker.
public final class LogWriter: Sendable {
    private struct State {
        var level: LogLevel
        var format: LogFormat
        var limiter = LogRateLimiter()
        var refusals = RefusalRing()
        /// Lines that were dropped since the last line that was written.
        var droppedCount = 0
    }

    private let descriptor: Int32
    private let isJournal: Bool
    private let state: Locked<State>
    /// The same lines for operators who follow the broker.
    let feed = LogFeed()

    /// - Parameters:
    ///   - descriptor: where to write. It is never closed.
    ///   - isJournal: whether journald reads it: it adds the time itself and expects a priority.
    public init(
        descriptor: Int32 = STDERR_FILENO, level: LogLevel = .info, format: LogFormat = .logfmt,
        isJournal: Bool? = nil
    ) {
        self.descriptor = descriptor
        self.isJournal = isJournal ?? Self.isJournal(descriptor)
        state = Locked(State(level: level, format: format))
    }

    /// Changes level and format from the next line on, for a reload.
    public func change(level: LogLevel, format: LogFormat) {
        state.withLock {
            $0.level = level
            $0.format = format
        }
    }

    /// Changes the level from the next line on, until the next reload. Returns the one before.
    func change(level: LogLevel) -> LogLevel {
        state.withLock { state in
            defer { state.level = level }
            return state.level
        }
    }

    /// Whether lines of this level are written, kept as refusals, or followed by an operator. Call
    /// it before computing costly fields.
    public func writes(_ level: LogLevel) -> Bool {
        level <= .warning || state.withLock { level <= $0.level }
            || level <= .info && feed.isFollowed(at: Self.unixMilliseconds())
    }

    /// The latest refusals, whatever the level is.
    func refusals(after: UInt64?, limit: Int) -> ListRefusals.Reply {
        state.withLock { state in
            ListRefusals.Reply(
                refusals: state.refusals.list(after: after, limit: limit),
                last: state.refusals.last)
        }
    }

    /// Writes one line, unless its level is not enabled, there were too many lines of its event in
    /// this second, or the reader is blocked. A later line reports the number of suppressed and
    /// dropped lines.
    public func write(
        _ level: LogLevel, _ event: LogEventName, fields: KeyValuePairs<String, LogValue> = [:]
    ) {
        write(level, event, of: nil, fields: fields)
    }

    /// - Parameter principal: whose share of the lines of the event it is; nil for nobody's.
    func write(
        _ level: LogLevel, _ event: LogEventName, of principal: String?,
        fields: KeyValuePairs<String, LogValue>
    ) {
        state.withLock { state in
            let now = Self.unixMilliseconds()
            let isWritten = level <= state.level
            let isFollowed = isWritten || level <= .info && feed.isFollowed(at: now)
            guard isFollowed || event.isRefusal else { return }
            if event.isRefusal, level == .warning {
                state.refusals.take(event, fields, unixMilliseconds: now)
            }
            guard isFollowed else { return }
            let record = LogRecord(level, event, fields: fields)
            if level <= .info { feed.take(record, of: principal, unixMilliseconds: now) }
            guard isWritten else { return }
            reportSuppressed(&state, now)
            guard state.limiter.admits(event, of: principal, unixMilliseconds: now) else { return }
            put(record, in: &state, at: now)
        }
    }

    /// Logs a signal that does nothing.
    func writeIgnored(signal: String) {
        write(
            .info, .signalIgnored,
            fields: [
                "signal": .text(signal),
                "detail": "SIGHUP reads the files again; the log is no file to reopen",
            ])
    }

    /// Logs the number of suppressed lines that was not reported yet. Called about once a second,
    /// because after a flood the next line may be far away.
    public func reportSuppressed() {
        state.withLock { reportSuppressed(&$0, Self.unixMilliseconds()) }
    }

    private func reportSuppressed(_ state: inout State, _ now: UInt64) {
        for (event, count) in state.limiter.takeSuppressed(unixMilliseconds: now) {
            let fields: KeyValuePairs<String, LogValue> = [
                "of": .text(event.rawValue), "suppressed": .number(count),
            ]
            put(LogRecord(.warning, .linesSuppressed, fields: fields), in: &state, at: now)
        }
    }

    private func put(_ record: LogRecord, in state: inout State, at now: UInt64) {
        if state.droppedCount > 0 {
            let dropped = LogRecord(
                .warning, .linesDropped, fields: ["dropped": .number(state.droppedCount)])
            if emit(dropped, format: state.format, at: now) { state.droppedCount = 0 }
        }
        if !emit(record, format: state.format, at: now) { state.droppedCount += 1 }
    }

    /// Writes a record and returns whether the kernel accepted the line.
    private func emit(_ record: LogRecord, format: LogFormat, at now: UInt64) -> Bool {
        let line = LogLine.bytes(
            record, format: format, unixMilliseconds: isJournal ? nil : now,
            priority: isJournal)
        // poll instead of O_NONBLOCK: that flag belongs to the open file, which the shell and other
        // programs share. A writable pipe accepts PIPE_BUF bytes without blocking, and no line is
        // longer.
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

    /// Whether this descriptor is journald's stream: JOURNAL_STREAM contains its device and inode
    /// [systemd.exec(5)], and is inherited even if the stream was redirected.
    private static func isJournal(_ descriptor: Int32) -> Bool {
        guard let stream = getenv("JOURNAL_STREAM") else { return false }
        var information = stat()
        guard fstat(descriptor, &information) == 0 else { return false }
        return String(cString: stream) == "\(information.st_dev):\(information.st_ino)"
    }
}

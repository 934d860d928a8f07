// One log line as bytes: a level, an event, and fields. Pure formatting; it reads no clock and
// writes nowhere. Values may come from strangers, so nothing in them can end a line, close a quote
// or move a terminal's cursor.
import Configuration

/// The events of the log. Their names are what people grep for: never change one.
public enum LogEventName: String, CaseIterable, Sendable {
    case brokerStarted = "broker_started"
    case brokerStopping = "broker_stopping"
    case brokerStopped = "broker_stopped"
    case listening
    case configurationReloaded = "configuration_reloaded"
    case configurationRefused = "configuration_refused"
    case certificateExpires = "certificate_expires"
    /// What let these clients in is not believed any more: `connections`.
    case credentialsWithdrawn = "credentials_withdrawn"
    case clientConnected = "client_connected"
    case clientDisconnected = "client_disconnected"
    /// A credential that is worth nothing was shown, or none where one is needed. Bears `address`,
    /// `user`, `device` and `reason`, in this order; fail2ban filters match it.
    case authenticationFailed = "auth_failed"
    /// A login was refused for any other reason: a limit, a client id, or what is no client's
    /// packet.
    case loginRefused = "login_refused"
    /// A connection ended below the protocol: TLS, a reset, a packet that was too large.
    case connectionFailed = "connection_failed"
    /// A connection was closed at once: its address has enough (`cause=address`), there are enough
    /// in all (`total`), or there is no memory.
    case connectionRefused = "connection_refused"
    case sendRefused = "send_refused"
    case subscribeRefused = "subscribe_refused"
    case presenceRefused = "presence_refused"
    /// A request about groups met a limit: `detail`.
    case requestRefused = "request_refused"
    /// A receiver's queue is at its limit: `detail`. Others may have got the message.
    case receiverRefused = "receiver_refused"
    case sessionTakenOver = "session_taken_over"
    /// Two devices bear one name; the second, at `other`, was not let in.
    case duplicateLogin = "duplicate_login"
    case sessionExpired = "session_expired"
    /// A will that was due is not sent, or not to the receivers in `subject`: no right allows it
    /// any more, or its credential was withdrawn.
    case willRefused = "will_refused"
    /// Queues of policy `oldest` or `newest` dropped messages: `dropped`, since the last such line.
    case queueFull = "queue_full"
    /// The store has no room for sends, or has it again: `state`.
    case storeFull = "store_full"
    /// A copy of the store began, ended or failed: `number`, `directory`.
    case backupStarted = "backup_started"
    case backupFinished = "backup_finished"
    case backupFailed = "backup_failed"
    case storeUpgraded = "store_upgraded"
    /// The start removed rows that an earlier version left behind: `rows`.
    case storeRepaired = "store_repaired"
    case storeFailed = "store_failed"
    /// Descriptors or memory ran out, or too many have not logged in: `pauses`, since the last such
    /// line.
    case acceptPaused = "accept_paused"
    case administration
    /// Lines of one kind that were left out because there were too many: `of`,
    /// `suppressed`.
    case linesSuppressed = "lines_suppressed"
    /// Lines that nobody took: `dropped`.
    case linesDropped = "lines_dropped"
}

/// A value of a field.
public enum LogValue: Hashable, Sendable, ExpressibleByStringLiteral, ExpressibleByIntegerLiteral {
    case text(String)
    case number(Int64)

    public init(stringLiteral value: String) { self = .text(value) }
    public init(integerLiteral value: Int64) { self = .number(value) }

    /// A whole number of any type; what exceeds 64 signed bits sticks at their end.
    public static func number(_ value: some BinaryInteger) -> LogValue {
        .number(Int64(clamping: value))
    }
}

/// How a line is put together.
enum LogLine {
    /// A write of at most PIPE_BUF bytes goes into a pipe whole or not at all [pipe(7)]: 4096 on
    /// Linux, line feed included.
    static let byteCountMaximum = 4_096
    /// A value is cut after this many bytes: long enough for any id, topic or message that explains
    /// something, short enough for several in a line.
    static let valueByteCountMaximum = 512

    /// Formats a line with its line feed.
    ///
    /// - Parameters:
    ///   - unixMilliseconds: the time to show, nil where the reader adds its own.
    ///   - priority: whether to begin with `<6>`, which journald takes for the priority
    ///     [sd-daemon(3)].
    static func bytes(
        _ level: LogLevel, _ event: LogEventName, _ fields: KeyValuePairs<String, LogValue>,
        format: LogFormat, unixMilliseconds: UInt64?, priority: Bool
    ) -> [UInt8] {
        var line = Builder(format: format)
        if priority { line.bytes += "<\(level.priority)>".utf8 }
        line.open()
        if let unixMilliseconds {
            line.append("time", .text(timestamp(unixMilliseconds: unixMilliseconds)))
        }
        line.append("level", .text(level.rawValue))
        line.append("event", .text(event.rawValue))
        for (key, value) in fields where !line.isCut { line.append(key, value) }
        line.end()
        return line.bytes
    }

    /// UTC with milliseconds [RFC 3339]: `2026-11-20T11:04:25.120Z`.
    static func timestamp(unixMilliseconds: UInt64) -> String {
        let seconds = unixMilliseconds / 1000
        let date = civilDate(daysSince1970: Int(seconds / 86_400))
        let time = [seconds / 3600 % 24, seconds / 60 % 60, seconds % 60].map { padded(Int($0), 2) }
        return "\(padded(date.year, 4))-\(padded(date.month, 2))-\(padded(date.day, 2))"
            + "T\(time.joined(separator: ":")).\(padded(Int(unixMilliseconds % 1000), 3))Z"
    }

    /// The Gregorian date of a day. Years are counted from March, so that the leap day is the last
    /// of its year, and in eras of 400 years, which all have 146,097 days.
    private static func civilDate(daysSince1970: Int) -> (year: Int, month: Int, day: Int) {
        // 719,468 days from 0000-03-01 to 1970-01-01.
        let days = daysSince1970 + 719_468
        let era = days / 146_097
        let dayOfEra = days % 146_097
        let yearOfEra =
            (dayOfEra - dayOfEra / 1_460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        // Months from March have 31, 30, 31, 30, 31 days over and over: 153 in five.
        let monthFromMarch = (5 * dayOfYear + 2) / 153
        let month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9
        let year = era * 400 + yearOfEra + (month <= 2 ? 1 : 0)
        return (year, month, dayOfYear - (153 * monthFromMarch + 2) / 5 + 1)
    }

    private static func padded(_ number: Int, _ width: Int) -> String {
        let digits = String(number)
        return String(repeating: "0", count: max(0, width - digits.count)) + digits
    }
}

/// A line while it grows.
private struct Builder {
    let format: LogFormat
    var bytes: [UInt8] = []
    /// Whether a field did not fit; no more are taken then.
    var isCut = false
    private var isFirst = true

    /// What closes a line that was cut, in either format.
    private static let roomForEnd = 16

    init(format: LogFormat) {
        self.format = format
        bytes.reserveCapacity(256)
    }

    mutating func open() {
        if format == .json { bytes.append(UInt8(ascii: "{")) }
    }

    mutating func append(_ key: String, _ value: LogValue) {
        let before = bytes.count
        if !isFirst { bytes.append(format == .json ? UInt8(ascii: ",") : UInt8(ascii: " ")) }
        switch format {
        case .json: bytes += "\"\(key)\":".utf8
        case .logfmt: bytes += "\(key)=".utf8
        }
        switch value {
        case .number(let number): bytes += String(number).utf8
        case .text(let text): append(text)
        }
        if bytes.count > LogLine.byteCountMaximum - Self.roomForEnd {
            bytes.removeSubrange(before...)
            isCut = true
        }
        isFirst = false
    }

    mutating func end() {
        switch format {
        case .json: bytes += (isCut ? ",\"cut\":1}\n" : "}\n").utf8
        case .logfmt: bytes += (isCut ? " cut=1\n" : "\n").utf8
        }
    }

    private mutating func append(_ text: String) {
        let isQuoted =
            format == .json || text.isEmpty || text.unicodeScalars.contains(where: needsQuotes)
        if isQuoted { bytes.append(UInt8(ascii: "\"")) }
        let end = bytes.count + LogLine.valueByteCountMaximum
        for scalar in text.unicodeScalars {
            if bytes.count >= end {
                bytes += "…".utf8
                break
            }
            append(scalar)
        }
        if isQuoted { bytes.append(UInt8(ascii: "\"")) }
    }

    /// One character as JSON and Go's logfmt readers both understand it.
    private mutating func append(_ scalar: Unicode.Scalar) {
        switch scalar {
        case "\"", "\\": bytes += "\\\(scalar)".utf8
        case "\n": bytes += "\\n".utf8
        case "\r": bytes += "\\r".utf8
        case "\t": bytes += "\\t".utf8
        case _ where movesCursor(scalar):
            let digits = String(scalar.value, radix: 16)
            bytes += "\\u\(String(repeating: "0", count: 4 - digits.count))\(digits)".utf8
        default: bytes += String(scalar).utf8
        }
    }

    private func needsQuotes(_ scalar: Unicode.Scalar) -> Bool {
        scalar == " " || scalar == "=" || scalar == "\"" || scalar == "\\" || movesCursor(scalar)
    }

    /// Control characters, line separators, and the marks that reorder text on a screen.
    private func movesCursor(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0...0x1F, 0x7F...0x9F, 0x2028...0x202E, 0x2066...0x2069: true
        default: false
        }
    }
}

extension LogLevel {
    /// syslog's number [RFC 5424, 6.2.1].
    var priority: Int {
        switch self {
        case .error: 3
        case .warning: 4
        case .info: 6
        case .debug: 7
        }
    }
}

// Formats a log line: a level, an event and fields. Values may come from untrusted clients, so no
// value can end a line, close a quote or move a terminal's cursor.
import Configuration
import Glibc

/// The events of the log. Operators search for these names: never change one.
public enum LogEventName: String, CaseIterable, Sendable {
    case brokerStarted = "broker_started"
    case brokerStopping = "broker_stopping"
    case brokerStopped = "broker_stopped"
    case listening
    case configurationReloaded = "configuration_reloaded"
    case configurationRefused = "configuration_refused"
    /// A signal that the broker has no use for: `signal`.
    case signalIgnored = "signal_ignored"
    case certificateExpires = "certificate_expires"
    /// A setting of an app does nothing: `app`, `detail`.
    case settingWithoutEffect = "setting_without_effect"
    /// The user of a relay has a password, which somebody else may know: `app`, `user`.
    case relayExposed = "relay_exposed"
    /// Connections ended because their credentials are no longer trusted: `connections`.
    case credentialsWithdrawn = "credentials_withdrawn"
    case clientConnected = "client_connected"
    case clientDisconnected = "client_disconnected"
    /// A client of any listener presented an invalid credential, or none where one is required. Has
    /// `address`, `user`, `device` and `reason`, in this order; fail2ban filters match it.
    case authenticationFailed = "auth_failed"
    /// The role of an operator is too low for a request of the HTTP API. The token was valid, so
    /// the event is not `auth_failed`, whose addresses fail2ban bans.
    case operatorRefused = "operator_refused"
    /// A login was refused for another reason: a limit, an invalid client id or packet.
    case loginRefused = "login_refused"
    /// A connection ended below the protocol: TLS, a reset, a packet that was too large.
    case connectionFailed = "connection_failed"
    /// A connection was closed directly after it was accepted: the limit per address is reached
    /// (`cause=address`), the limit of all connections (`total`), or memory is exhausted.
    case connectionRefused = "connection_refused"
    /// A web listener refused a request and closed its connection: `status`, `detail`.
    case webRequestRefused = "web_request_refused"
    case sendRefused = "send_refused"
    case subscribeRefused = "subscribe_refused"
    case presenceRefused = "presence_refused"
    /// A request about groups exceeded a limit: `detail`.
    case requestRefused = "request_refused"
    /// A receiver's queue is at its limit: `detail`. Other receivers may have the message.
    case receiverRefused = "receiver_refused"
    case sessionTakenOver = "session_taken_over"
    /// A login on a device that is connected; it was refused (MRT) or waits (MQTT). `other` is its
    /// address.
    case duplicateLogin = "duplicate_login"
    case sessionExpired = "session_expired"
    /// A will was not sent, or not to the receivers in `subject`: no right allows it any more, or
    /// its credential was withdrawn.
    case willRefused = "will_refused"
    /// Queues with policy `oldest` or `newest` dropped messages: `dropped`, since the last line.
    case queueFull = "queue_full"
    /// The store has become full, or has space again: `state`.
    case storeFull = "store_full"
    /// A copy of the store began, ended or failed: `number`, `directory`.
    case backupStarted = "backup_started"
    case backupFinished = "backup_finished"
    case backupFailed = "backup_failed"
    case storeUpgraded = "store_upgraded"
    /// The start removed rows that an earlier version left: `rows`.
    case storeRepaired = "store_repaired"
    case storeFailed = "store_failed"
    /// A file of a message was not kept, because of its directory or its disk: `directory`,
    /// `app`, `detail`.
    case filesFailed = "files_failed"
    /// A node of a cluster has connected to a server of its log.
    case clusterConnected = "cluster_connected"
    /// A node of a cluster waits for its log, is a standby, or has become the primary: `node`.
    case clusterWaiting = "cluster_waiting"
    case clusterStandby = "cluster_standby"
    case clusterPrimary = "cluster_primary"
    /// A node makes a copy of its store for another one, or gets one.
    case clusterCopy = "cluster_copy"
    /// The primary has given its place up in order.
    case clusterResigned = "cluster_resigned"
    /// A node ends, because another one is the primary or it cannot follow: `detail`.
    case clusterFenced = "cluster_fenced"
    /// The log, its servers or another node are not as they should be: `detail`.
    case clusterWarning = "cluster_warning"
    /// Accepting was paused because descriptors or memory ran out, or too many connections have not
    /// logged in: `pauses`, since the last line.
    case acceptPaused = "accept_paused"
    case administration
    /// An operator changed something over the HTTP API, or tried to: `operator`, `request`,
    /// `target` and `status`.
    case operatorRequest = "operator_request"
    /// Lines of one event were suppressed because there were too many: `of`, `suppressed`.
    case linesSuppressed = "lines_suppressed"
    /// Lines were dropped because standard error was blocked: `dropped`.
    case linesDropped = "lines_dropped"
}

/// A value of a field.
public enum LogValue: Hashable, Sendable, ExpressibleByStringLiteral, ExpressibleByIntegerLiteral {
    case text(String)
    case number(Int64)
    /// The line does not have the field.
    case absent

    public init(stringLiteral value: String) { self = .text(value) }
    public init(integerLiteral value: Int64) { self = .number(value) }

    /// A whole number of any type, clamped to 64 signed bits.
    public static func number(_ value: some BinaryInteger) -> LogValue {
        .number(Int64(clamping: value))
    }

    static func optional(_ text: String?) -> LogValue { text.map(LogValue.text) ?? .absent }
}

/// One event to log.
struct LogRecord: Sendable {
    let level: LogLevel
    let event: LogEventName
    var fields: [(key: String, value: LogValue)]

    init(_ level: LogLevel, _ event: LogEventName, fields: KeyValuePairs<String, LogValue>) {
        self.level = level
        self.event = event
        self.fields = fields.filter { $0.value != .absent }
    }
}

/// Formats log lines.
enum LogLine {
    /// A write of at most PIPE_BUF bytes goes into a pipe whole or not at all [pipe(7)]: 4096 on
    /// Linux, line feed included.
    static let byteCountMaximum = 4_096
    /// A value is cut after this many bytes: long enough for ids, topics and messages, and short
    /// enough for several values in a line.
    static let valueByteCountMaximum = 512

    /// Formats a line with its line feed.
    ///
    /// - Parameters:
    ///   - unixMilliseconds: the time to show; nil if the reader adds the time.
    ///   - priority: whether to begin with a prefix such as `<6>`, the priority for journald
    ///     [sd-daemon(3)].
    static func bytes(
        _ record: LogRecord, format: LogFormat, unixMilliseconds: UInt64?, priority: Bool
    ) -> [UInt8] {
        var line = Builder(format: format)
        if priority { line.bytes += "<\(record.level.priority)>".utf8 }
        line.open()
        if let unixMilliseconds {
            line.append("time", .text(timestamp(unixMilliseconds: unixMilliseconds)))
        }
        line.append("level", .text(record.level.rawValue))
        line.append("event", .text(record.event.rawValue))
        for (key, value) in record.fields where !line.isCut { line.append(key, value) }
        line.end()
        return line.bytes
    }

    /// UTC with milliseconds [RFC 3339]: `2026-11-20T11:04:25.120Z`.
    static func timestamp(unixMilliseconds: UInt64) -> String {
        var seconds = time_t(unixMilliseconds / 1000)
        var date = tm()
        gmtime_r(&seconds, &date)
        var text = [CChar](repeating: 0, count: 32)
        let count = strftime(&text, text.count, "%Y-%m-%dT%H:%M:%S", &date)
        let milliseconds = String(unixMilliseconds % 1000 + 1000).dropFirst()
        return String(decoding: text[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self)
            + ".\(milliseconds)Z"
    }
}

/// Builds a line.
private struct Builder {
    let format: LogFormat
    var bytes: [UInt8] = []
    /// Whether a field did not fit. No more fields are added then.
    var isCut = false
    private var isFirst = true

    /// Bytes that end a cut line, in either format.
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
        case .absent: preconditionFailure("the field \(key) without a value")
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

    /// Appends a character in a form that readers of JSON and of Go's logfmt understand.
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

    /// Control characters, line separators, and characters that change the direction of text.
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

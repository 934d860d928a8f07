// Reads mosquitto.conf(5): a word and its value on each line. The words that have a counterpart are
// taken, and every other one is told.

import Glibc

/// The settings of a Mosquitto.
struct MosquittoConfiguration {
    struct Listener {
        var port: UInt16
        var host: String?
        var isWebSocket = false
        var certificateFile: String?
        var keyFile: String?
        var authorityFile: String?
        var requiresCertificate = false
        var hasKeyFile: Bool { certificateFile != nil && keyFile != nil }
        var usesPreSharedKeys = false
        let place: String
    }

    /// A value and its place.
    struct Value {
        let text: String
        let place: String
    }

    private(set) var listeners: [Listener] = []
    private(set) var allowsAnonymous: Value?
    private(set) var passwordFile: Value?
    private(set) var accessFile: Value?
    private(set) var preSharedKeyFile: Value?
    private(set) var revocationFile: Value?
    /// The file of the store; nil without persistence.
    private(set) var storeFile: Value?
    /// Keys of Martlet's configuration with their values, in order.
    private(set) var settings: [(key: String, value: String)] = []

    private var isPersistent = false
    private var storeLocation = ""
    /// Whether listeners have users, rights or anonymous clients of their own.
    private(set) var hasSeveralLists = false
    private var storeName = "mosquitto.db"
    /// The listener that a setting belongs to; nil before the first one.
    private var hasOwnListener = false
    private var includeDepth = 0

    /// Files that include others, and files of one directory.
    private static let includeDepthMaximum = 4
    private static let includedMaximum = 1_000

    init(_ path: String, report: inout ImportReport) {
        read(path, report: &report)
        if isPersistent {
            let isLocation = storeLocation.isEmpty || storeLocation.hasSuffix("/")
            storeFile = Value(
                text: storeLocation + (isLocation ? "" : "/") + storeName, place: path)
        }
    }

    private mutating func read(_ path: String, report: inout ImportReport) {
        guard let file = ImportFile(path, "the configuration", report: &report) else { return }
        for line in file.lines {
            let words = line.text.split(separator: " ", maxSplits: 1)
            guard let word = words.first, !word.hasPrefix("#") else { continue }
            let value = words.count > 1 ? words[1].trimmed : ""
            take(String(word), value, at: line.place, report: &report)
        }
    }

    private mutating func take(
        _ word: String, _ value: String, at place: String, report: inout ImportReport
    ) {
        switch word {
        case "listener", "port", "bind_address", "protocol", "certfile", "keyfile", "cafile",
            "require_certificate", "psk_hint":
            takeListener(word, value, at: place, report: &report)
        case "allow_anonymous": allowsAnonymous = Value(text: value, place: place)
        case "password_file":
            if passwordFile != nil { hasSeveralLists = true }
            passwordFile = Value(text: value, place: place)
        case "acl_file":
            if accessFile != nil { hasSeveralLists = true }
            accessFile = Value(text: value, place: place)
        case "per_listener_settings":
            if value == "true" { hasSeveralLists = true }
            report.add(.ignored, at: place, "\(word): each listener names its app with passwords=")
        case "psk_file": preSharedKeyFile = Value(text: value, place: place)
        case "crlfile":
            revocationFile = Value(text: value, place: place)
            report.add(.taken, at: place, "crlfile: tls.crlFile")
        case "persistence": isPersistent = value == "true"
        case "persistence_location": storeLocation = value
        case "persistence_file": storeName = value
        case "include_dir": include(value, at: place, report: &report)
        default: takeLimit(word, value, at: place, report: &report)
        }
    }

    // MARK: - Listeners

    private mutating func takeListener(
        _ word: String, _ value: String, at place: String, report: inout ImportReport
    ) {
        if word == "listener" {
            let words = value.split(separator: " ").map(String.init)
            guard let port = words.first.flatMap(UInt16.init), port > 0 else {
                report.add(.refused, at: place, "listener \(value): only TCP ports are taken")
                return
            }
            listeners.append(Listener(port: port, host: words.dropFirst().first, place: place))
            hasOwnListener = true
            return
        }
        if word == "port" {
            guard let port = UInt16(value), port > 0 else {
                report.add(.refused, at: place, "port \(value) is no port")
                return
            }
            if hasOwnListener {
                report.add(.refused, at: place, "port belongs before the first listener")
            } else if listeners.isEmpty {
                listeners.append(Listener(port: port, place: place))
            } else {
                listeners[0].port = port
            }
            return
        }
        // Settings before the first listener are those of the default one.
        if listeners.isEmpty { listeners.append(Listener(port: 1_883, place: place)) }
        let last = listeners.count - 1
        switch word {
        case "bind_address": listeners[last].host = value
        case "protocol":
            listeners[last].isWebSocket = value == "websockets"
            if !["websockets", "mqtt"].contains(value) {
                report.add(.refused, at: place, "protocol \(value) is not known; mqtt is assumed")
            }
        case "certfile": listeners[last].certificateFile = value
        case "keyfile": listeners[last].keyFile = value
        case "cafile": listeners[last].authorityFile = value
        case "require_certificate": listeners[last].requiresCertificate = value == "true"
        default: listeners[last].usesPreSharedKeys = true
        }
    }

    // MARK: - Limits

    /// Words with a number for which Martlet has a key, and the values of that key.
    private static let limits: [String: (key: String, range: ClosedRange<Int>)] = [
        "max_inflight_messages": ("limits.inboxWindow", 1...65_535),
        "max_queued_messages": ("queues.messages", 1...Int.max),
        "max_queued_bytes": ("queues.bytes", 1...Int.max),
        "max_packet_size": ("limits.packetMaximum", 1_024...268_435_460),
        "message_size_limit": ("limits.payloadMaximum", 0...268_000_000),
        "max_keepalive": ("limits.keepAliveMaximumSeconds", 10...65_535),
        "sys_interval": ("mqtt.sysIntervalSeconds", 0...86_400),
        "max_connections": ("limits.connections", 1...1_000_000),
    ]

    /// Words that mean nothing here, and why.
    private static let meaningless = [
        "autosave_interval": "what is acknowledged is on disk",
        "autosave_on_changes": "what is acknowledged is on disk",
        "user": "the service decides", "pid_file": "systemd knows it",
        "log_dest": "the log goes to standard error", "log_type": "see log.level",
        "log_timestamp": "lines have their time", "log_timestamp_format": "lines have their time",
        "connection_messages": "connections are logged",
        "set_tcp_nodelay": "it is always set", "allow_zero_length_clientid": "they are accepted",
        "use_username_as_clientid": "the user and the device are two things",
        "use_identity_as_username": "the certificate or key names the user",
        "use_subject_as_username": "tls.clientName chooses the name",
        "retain_available": "messages may be retained", "upgrade_outgoing_qos": "it is not",
        "ciphers": "the broker chooses", "ciphers_tls1.3": "the broker chooses",
        "tls_version": "see tls.minimumVersion", "memory_limit": "see sizing.md",
    ]

    private mutating func takeLimit(
        _ word: String, _ value: String, at place: String, report: inout ImportReport
    ) {
        if let limit = Self.limits[word] {
            guard let number = Int(value) else {
                report.add(.refused, at: place, "\(word) \(value) is no number")
                return
            }
            guard limit.range.contains(number) else {
                report.add(
                    .changed, at: place,
                    "\(word) \(number): the default of \(limit.key), which begins at "
                        + "\(limit.range.lowerBound)")
                return
            }
            settings.removeAll { $0.key == limit.key }
            settings.append((limit.key, "\(number)"))
            report.add(.taken, at: place, "\(word) \(number): \(limit.key)")
        } else if word == "persistent_client_expiration" {
            guard let seconds = Self.seconds(value) else {
                report.add(.refused, at: place, "\(word) \(value) is no time")
                return
            }
            settings.append(("limits.sessionExpirySeconds", "\(seconds)"))
            report.add(.taken, at: place, "\(word) \(value): limits.sessionExpirySeconds")
        } else if let reason = Self.meaningless[word] {
            report.add(.ignored, at: place, "\(word): \(reason)")
        } else if word == "connection" || word == "address" {
            report.add(.refused, at: place, "\(word): a bridge is a program of its own (bridge.md)")
        } else {
            report.add(.refused, at: place, "\(word) has no counterpart here")
        }
    }

    /// A time such as `14d`.
    private static func seconds(_ text: String) -> Int? {
        let units: [Character: Int] = [
            "h": 3_600, "d": 86_400, "w": 604_800, "m": 2_629_800, "y": 31_557_600,
        ]
        guard let unit = text.last.flatMap({ units[$0] }), let number = Int(text.dropLast()),
            number > 0, number <= Int(UInt32.max) / unit
        else { return nil }
        return number * unit
    }

    // MARK: - Further files

    private mutating func include(
        _ path: String, at place: String, report: inout ImportReport
    ) {
        guard includeDepth < Self.includeDepthMaximum, let directory = opendir(path) else {
            report.add(.refused, at: place, "include_dir \(path) cannot be read")
            return
        }
        var names: [String] = []
        while let entry = readdir(directory), names.count < Self.includedMaximum {
            let name = withUnsafeBytes(of: entry.pointee.d_name) {
                String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self)
            }
            if name.hasSuffix(".conf") { names.append(name) }
        }
        closedir(directory)
        includeDepth += 1
        for name in names.sorted() { read("\(path)/\(name)", report: &report) }
        includeDepth -= 1
    }
}

extension StringProtocol {
    /// Without blanks at both ends.
    var trimmed: String {
        let isBlank: (Character) -> Bool = { $0 == " " || $0 == "\t" }
        var rest = Substring(self).drop(while: isBlank)
        while let last = rest.last, isBlank(last) { rest.removeLast() }
        return String(rest)
    }
}

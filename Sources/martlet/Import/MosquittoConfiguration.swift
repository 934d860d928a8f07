// Reads mosquitto.conf(5): a word and its value on each line. The words that have a counterpart are
// taken, and every other one is told. A word that restricts clients and has no counterpart refuses
// its listener, or all users and clients.

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
        var revocationFile: String?
        var requiresCertificate = false
        var usesPreSharedKeys = false
        /// Whether the certificate or the pre-shared key is the login, without a password.
        var namesIdentity = false
        /// Why it is not taken; nil if nothing speaks against it.
        var refusal: String?
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
    /// The file of the store; nil without persistence.
    private(set) var storeFile: Value?
    /// Keys of Martlet's configuration with their values, in order.
    private(set) var settings: [(key: String, value: String)] = []
    /// Whether the plugin persist-sqlite keeps what persists.
    var hasSQLitePlugin: Bool { plugins.database != nil }
    /// What restricts clients of all listeners, and is not taken; nil without such a word.
    private(set) var restriction: Value?
    /// Whether the user name is the client id too.
    private(set) var usesUserAsDevice = false

    private var isPersistent = false
    private var storeLocation = ""
    /// Whether listeners have users, rights or anonymous clients of their own.
    private(set) var hasSeveralLists = false
    private var storeName = "mosquitto.db"
    /// The listener that a setting belongs to; nil before the first one.
    private var hasOwnListener = false
    /// Whether a listener, port or address is named. Without one, Mosquitto serves its machine.
    private var namesAddress = false
    private var sizes = MosquittoSizes()
    private var plugins = MosquittoPlugins()
    private var includeDepth = 0

    /// Files that include others, and files of one directory.
    private static let includeDepthMaximum = 4
    private static let includedMaximum = 1_000

    init(_ path: String, report: inout ImportReport) {
        read(path, report: &report)
        if !namesAddress, !listeners.isEmpty { listeners[0].host = "localhost" }
        settings += sizes.settings(report: &report)
        let isLocation = storeLocation.isEmpty || storeLocation.hasSuffix("/")
        let ownFile = storeLocation + (isLocation ? "" : "/") + storeName
        if let plugin = plugins.database {
            storeFile = plugins.databaseFile(at: storeLocation)
            if storeFile == nil {
                report.add(
                    .ignored, at: plugin.place,
                    "\(plugin.text): it keeps nothing without persistence_location and "
                        + "plugin_opt_db_file")
            }
            if isPersistent, access(ownFile, F_OK) == 0 {
                report.add(
                    .refused, at: ownFile,
                    "the file is not read, because the plugin persist-sqlite keeps the same; what "
                        + "only this file has is taken by another import with --store, before")
            }
        } else if isPersistent {
            storeFile = Value(text: ownFile, place: path)
        }
    }

    private mutating func read(_ path: String, report: inout ImportReport) {
        guard let file = ImportFile(path, "the configuration", report: &report) else {
            restrict("a configuration that cannot be read", at: path)
            return
        }
        if !file.isComplete { restrict("a line that cannot be read", at: path) }
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
        case "listener", "port": takeAddress(word, value, at: place, report: &report)
        case "bind_address", "protocol", "certfile", "keyfile", "cafile", "crlfile",
            "require_certificate", "psk_hint", "use_identity_as_username",
            "use_subject_as_username", "bind_interface", "mount_point", "socket_domain",
            "websockets_origin", "enable_proxy_protocol":
            takeListener(word, value, at: place)
        case "use_username_as_clientid":
            usesUserAsDevice = usesUserAsDevice || value == "true"
            report.add(
                value == "true" ? .changed : .ignored, at: place,
                "\(word) \(value): clients choose their ids here; %c in patterns is "
                    + (value == "true" ? "the user" : "the device"))
        case "allow_anonymous": allowsAnonymous = Value(text: value, place: place)
        case "password_file": takePasswordFile(value, at: place)
        case "acl_file": takeAccessFile(value, at: place)
        case "per_listener_settings":
            if value == "true" { hasSeveralLists = true }
            report.add(.ignored, at: place, "\(word): each listener names its app with passwords=")
        case "psk_file": preSharedKeyFile = Value(text: value, place: place)
        case "persistence": isPersistent = value == "true"
        case "persistence_location": storeLocation = value
        case "persistence_file": storeName = value
        case "include_dir": include(value, at: place, report: &report)
        default: takeOther(word, value, at: place, report: &report)
        }
    }

    private mutating func takePasswordFile(_ path: String, at place: String) {
        if passwordFile != nil { hasSeveralLists = true }
        passwordFile = Value(text: path, place: place)
    }

    private mutating func takeAccessFile(_ path: String, at place: String) {
        if accessFile != nil { hasSeveralLists = true }
        accessFile = Value(text: path, place: place)
    }

    /// Notes that a word restricts clients and is not taken. The first one is told.
    private mutating func restrict(_ text: String, at place: String) {
        if restriction == nil { restriction = Value(text: text, place: place) }
    }

    // MARK: - Listeners

    private mutating func takeAddress(
        _ word: String, _ value: String, at place: String, report: inout ImportReport
    ) {
        namesAddress = true
        let words = value.split(separator: " ").map(String.init)
        let port = words.first.flatMap(UInt16.init) ?? 0
        // Its settings follow, so that one that is refused has its place in the list too.
        let refusal = port > 0 ? nil : "\(word) \(value): only TCP ports are taken"
        if word == "listener" {
            listeners.append(
                Listener(
                    port: port, host: words.dropFirst().first, refusal: refusal, place: place))
            hasOwnListener = true
        } else if hasOwnListener {
            report.add(.refused, at: place, "port belongs before the first listener")
        } else if listeners.isEmpty {
            listeners.append(Listener(port: port, refusal: refusal, place: place))
        } else {
            listeners[0].port = port
            listeners[0].refusal = listeners[0].refusal ?? refusal
        }
    }

    private mutating func takeListener(_ word: String, _ value: String, at place: String) {
        // Settings before the first listener are those of the default one.
        if listeners.isEmpty { listeners.append(Listener(port: 1_883, place: place)) }
        let last = listeners.count - 1
        func refuse(_ advice: String) {
            let reason = "\(word) \(value) at \(place) is not taken: \(advice)"
            listeners[last].refusal = listeners[last].refusal ?? reason
        }
        switch word {
        case "bind_address":
            listeners[last].host = value
            namesAddress = true
        case "protocol":
            listeners[last].isWebSocket = value == "websockets"
            if !["websockets", "mqtt"].contains(value) { refuse("it is no protocol of MQTT") }
        case "certfile": listeners[last].certificateFile = value
        case "keyfile": listeners[last].keyFile = value
        case "cafile": listeners[last].authorityFile = value
        case "crlfile": listeners[last].revocationFile = value
        case "require_certificate": listeners[last].requiresCertificate = value == "true"
        case "psk_hint": listeners[last].usesPreSharedKeys = true
        case "use_identity_as_username", "use_subject_as_username":
            if value == "true" { listeners[last].namesIdentity = true }
        case "bind_interface", "socket_domain":
            refuse("write the listener with the address that it is to have")
        case "mount_point":
            refuse("write the listener with the app of its own that stands for \(value)")
            restrict("mount_point \(value)", at: place)
        case "websockets_origin":
            refuse("write the origins into web.allowedOrigins, and then the listener")
        default:
            if value == "true" { refuse("write the listener with ?proxy=NETWORK") }
        }
    }

    // MARK: - Limits

    /// Words with a number for which Martlet has a key, and the values of that key.
    private static let limits: [String: (key: String, range: ClosedRange<Int>)] = [
        "max_inflight_messages": ("limits.inboxWindow", 1...65_535),
        "max_queued_messages": ("queues.messages", 1...100_000_000),
        "max_queued_bytes": ("queues.bytes", 1_024...1_099_511_627_776),
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
        "set_tcp_nodelay": "it is always set", "upgrade_outgoing_qos": "it is not",
        "ciphers": "the broker chooses", "ciphers_tls1.3": "the broker chooses",
        "memory_limit": "see sizing.md",
    ]

    /// Words without a counterpart that restrict no client. Those of bridges are among them.
    private static let unrestricting: Set<String> = [
        "addresses", "allow_duplicate_messages", "auth_plugin_deny_special_chars", "capath",
        "check_retain_source", "cleansession", "clientid", "dhparamfile", "http_dir",
        "idle_timeout", "keepalive_interval", "log_facility", "max_inflight_bytes", "max_qos",
        "max_topic_alias", "max_topic_alias_broker", "packet_buffer_size", "password",
        "queue_qos0_messages", "restart_timeout", "round_robin", "start_type", "threshold",
        "tls_engine", "tls_engine_kpass_sha1", "tls_keyform", "topic", "try_private", "username",
        "websockets_headers_size", "websockets_log_level",
    ]

    private static let unrestrictingPrefixes = [
        "auth_opt_", "bridge_", "local_", "notification", "plugin_opt_", "remote_",
    ]

    private mutating func takeOther(
        _ word: String, _ value: String, at place: String, report: inout ImportReport
    ) {
        if let limit = Self.limits[word] {
            takeLimit(word, value, of: limit, at: place, report: &report)
        } else if word == "max_packet_size" || word == "message_size_limit" {
            sizes.take(word, value, at: place, report: &report)
        } else if word == "persistent_client_expiration" {
            guard let seconds = Self.seconds(value) else {
                report.add(.refused, at: place, "\(word) \(value) is no time")
                return
            }
            settings.append(("limits.sessionExpirySeconds", "\(seconds)"))
            report.add(.taken, at: place, "\(word) \(value): limits.sessionExpirySeconds")
        } else if word == "tls_version" {
            if value == "tlsv1.3" { settings.append(("tls.minimumVersion", "\"1.3\"")) }
            report.add(.taken, at: place, "\(word) \(value): tls.minimumVersion")
        } else if word == "retain_available" {
            if value == "false" { settings.append(("limits.retainedPerApp", "0")) }
            report.add(.taken, at: place, "\(word) \(value): limits.retainedPerApp")
        } else if word == "allow_zero_length_clientid", value == "false" {
            report.add(.refused, at: place, "\(word): clients without an id get one")
        } else if word == "allow_zero_length_clientid" {
            report.add(.ignored, at: place, "\(word): they are accepted")
        } else if let reason = Self.meaningless[word] {
            report.add(.ignored, at: place, "\(word): \(reason)")
        } else if let meaning = plugins.take(word, value, at: place) {
            switch meaning {
            case .passwordFile: takePasswordFile(value, at: place)
            case .accessFile: takeAccessFile(value, at: place)
            case .nothing(let reason): report.add(.ignored, at: place, "\(word): \(reason)")
            }
        } else if word == "connection" || word == "address" {
            report.add(.refused, at: place, "\(word): a bridge is a program of its own (bridge.md)")
        } else {
            report.add(.refused, at: place, "\(word) has no counterpart here")
            let isHarmless =
                Self.unrestricting.contains(word)
                || Self.unrestrictingPrefixes.contains(where: word.hasPrefix)
            // Plugins, clientid_prefixes, and words of other versions.
            if !isHarmless { restrict(word, at: place) }
        }
    }

    private mutating func takeLimit(
        _ word: String, _ value: String, of limit: (key: String, range: ClosedRange<Int>),
        at place: String, report: inout ImportReport
    ) {
        guard let number = Int(value) else {
            report.add(.refused, at: place, "\(word) \(value) is no number")
            return
        }
        // Zero and -1 stand for no limit.
        guard number > 0 || limit.range.contains(number) else {
            report.add(.changed, at: place, "\(word) \(number): the default of \(limit.key)")
            return
        }
        var taken = min(max(number, limit.range.lowerBound), limit.range.upperBound)
        // Of several listeners, the smallest: the setting is for all of them together.
        if let earlier = settings.first(where: { $0.key == limit.key }).flatMap({ Int($0.value) }) {
            if word == "max_connections" { taken = min(taken, earlier) }
        }
        settings.removeAll { $0.key == limit.key }
        settings.append((limit.key, "\(taken)"))
        report.add(
            taken == number ? .taken : .changed, at: place,
            "\(word) \(number): \(limit.key)" + (taken == number ? "" : ", which is \(taken)"))
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
            restrict("include_dir \(path)", at: place)
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
        if names.count == Self.includedMaximum { restrict("include_dir \(path)", at: place) }
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

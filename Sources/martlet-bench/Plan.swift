// The plan of one run as plain values: the command line after all defaults and checks. Nothing here
// connects or measures.

import CommandLineOptions
import WireFormat

/// The protocol of the load.
enum LoadDialect: String {
    case mrt
    case mqtt311
    case mqtt5

    /// By its name, or by its number in emqtt_bench and mosquitto_pub.
    init?(name: String) {
        switch name {
        case "4", "311": self = .mqtt311
        case "5": self = .mqtt5
        default: self.init(rawValue: name)
        }
    }

    /// Nil for MRT.
    var mqtt: MQTTCodec? {
        switch self {
        case .mrt: nil
        case .mqtt311: MQTTCodec(version: .v311)
        case .mqtt5: MQTTCodec(version: .v5)
        }
    }
}

/// The pairs of senders and receivers.
enum Topology {
    /// Each message of each publisher goes to every receiver.
    case everybody
    /// Publisher i sends to receiver i.
    case pairs
    /// Every client is its own receiver.
    case selves
}

struct Plan {
    /// The timing of messages.
    enum Pace {
        /// This many messages of each publisher are outstanding at a time.
        case window(Int)
        /// This many per second of each publisher, whatever the broker does.
        case rate(Double)
    }

    var scenario: Scenario
    var host = "localhost"
    var port: UInt16 = 1883
    var dialect = LoadDialect.mrt
    /// Whether the packets are in frames of WebSocket; only MQTT.
    var isWebSocket = false
    var topology = Topology.everybody
    var receiverCount = 100
    var publisherCount = 1
    var topic = "bench/f"
    var qos: UInt8 = 0
    var payloadByteCount = 100
    /// Whether messages are kept in the history of their conversations.
    var isKept = false
    var pace = Pace.window(16)
    var seconds = 5.0
    var warmUpSeconds = 1.0
    /// Messages that each publisher of `offline` enqueues.
    var limit: UInt64 = 1000
    /// `sleepy`: the time between two wake-ups of a device.
    var sleepSeconds = 5.0
    var expirySeconds: UInt32 = 0
    var startNumber = 0
    var prefix = "bench"
    var user: String?
    var password: String?
    var connectsPerSecond: Double?
    var sourceAddresses: [String] = []
    var tls: TLSPlan?
    var resumesTLS = false
    var brokerProcess: Int?
    /// The file with libMallocCount's counters of the broker.
    var allocationCountFile: String?
    var writesJSON = false
    var htmlFile: String?
    var isQuiet = false

    struct TLSPlan {
        var authorityFile: String?
        var isInsecure = false
        var certificateFile: String?
        var keyFile: String?
    }

    init(scenario: Scenario) {
        self.scenario = scenario
    }

    /// Nil for MRT.
    var mqtt: MQTTCodec? {
        var codec = dialect.mqtt
        codec?.isFramed = isWebSocket
        return codec
    }

    /// The last receivers, of this number, do not read during the measurement.
    var stalledCount: Int { scenario == .slow ? max(1, receiverCount / 100) : 0 }

    /// Receipts of one message that are waited for.
    var receiversPerMessage: Int {
        topology == .everybody ? receiverCount - stalledCount : 1
    }

    var clientCount: Int {
        topology == .selves ? receiverCount : receiverCount + publisherCount
    }

    /// Receivers come first, then publishers, unless they are the same.
    func client(ofPublisher publisher: Int) -> Int {
        topology == .selves ? publisher : receiverCount + publisher
    }

    /// Below 0 for a client that publishes nothing.
    func publisher(ofClient client: Int) -> Int {
        topology == .selves ? client : client - receiverCount
    }

    func isReceiver(_ client: Int) -> Bool { client < receiverCount }

    var addressKind: AddressKind {
        guard dialect == .mrt else { return .topic }
        switch scenario {
        case .unicast: return .user
        case .offline where topology == .pairs: return .user
        case .group: return .group
        case .broadcast: return .everybody
        case .fanOut, .fanIn, .connect, .offline, .will, .churn, .sleepy, .slow, .floor:
            return .topic
        }
    }

    /// The client id, which is also the user on an anonymous listener.
    func name(ofClient client: Int) -> String {
        isReceiver(client)
            ? "\(prefix)-r\(startNumber + client)"
            : "\(prefix)-p\(startNumber + client - receiverCount)"
    }

    /// The plain topic of a pair, or of all.
    func topic(ofPair pair: Int) -> String {
        var text = ""
        var rest = topic[...]
        while let place = rest.firstIndex(of: "%") {
            text += rest[..<place]
            rest = rest[place...].dropFirst()
            if rest.first == "i" {
                text += String(startNumber + pair)
                rest = rest.dropFirst()
            } else {
                text += "%"
            }
        }
        return text + rest
    }

    /// The maximum of a window: the outbox of an MRT session remembers 64 sends.
    static let windowMaximum = 4096
    static let numberedWindowMaximum = 64
    static let clientsMaximum = 1_000_000
    /// A day: the stamps of messages count three (``Stamp``).
    static let secondsMaximum: UInt64 = 86_400
}

extension Plan {
    init(_ scenario: Scenario, _ options: ParsedOptions<BenchOption>) throws(UsageError) {
        self.init(scenario: scenario)
        try applyDialect(options)
        try applyWebSocket(options)
        try applyConnections(options)
        try applyTopology(options)
        try applyMessages(options)
        try applyPace(options)
        brokerProcess = try options.integer(.brokerProcess, in: 1...Int(Int32.max))
        allocationCountFile = options[.allocationCounts]
        writesJSON = options.has(.json)
        htmlFile = options[.html]
        isQuiet = options.has(.quiet) || writesJSON
    }

    private mutating func applyDialect(_ options: ParsedOptions<BenchOption>) throws(UsageError) {
        let name = options[.dialect] ?? (scenario == .floor ? "mqtt311" : "mrt")
        guard let known = LoadDialect(name: name) else {
            throw UsageError("--dialect must be mrt, mqtt311 or mqtt5, not \"\(name)\"")
        }
        dialect = known
        if scenario == .floor && dialect != .mqtt311 {
            throw UsageError("floor speaks the bytes of MQTT 3.1.1 only")
        }
        if scenario == .group || scenario == .broadcast, dialect != .mrt {
            throw UsageError(
                "\(scenario.rawValue) speaks mrt; to a client of MQTT it is a topic: use fanout")
        }
    }

    private mutating func applyWebSocket(
        _ options: ParsedOptions<BenchOption>
    ) throws(UsageError) {
        isWebSocket = options.has(.webSocket)
        guard isWebSocket else { return }
        if dialect == .mrt { throw UsageError("--websocket needs --dialect mqtt311 or mqtt5") }
        if scenario == .floor { throw UsageError("floor has no --websocket") }
    }

    private mutating func applyConnections(
        _ options: ParsedOptions<BenchOption>
    ) throws(UsageError) {
        host = options[.host] ?? host
        let isEncrypted = options.has(.tls)
        if isEncrypted {
            tls = TLSPlan(
                authorityFile: options[.authorityFile], isInsecure: options.has(.insecure),
                certificateFile: options[.certificate], keyFile: options[.key])
        }
        if scenario == .floor, let tls, tls.certificateFile == nil || tls.keyFile == nil {
            throw UsageError("floor with --tls needs --cert and --key, the server's")
        }
        port = UInt16(try options.integer(.port, in: 1...65535) ?? (isEncrypted ? 8883 : 1883))
        resumesTLS = options.has(.resume)
        if resumesTLS && !isEncrypted { throw UsageError("--resume needs --tls") }
        startNumber = try options.integer(.startNumber, in: 0...Int(Int32.max)) ?? startNumber
        prefix = options[.prefix] ?? prefix
        user = options[.user]
        password = options[.password]
        connectsPerSecond = try options.integer(.connectRate, in: 1...1_000_000).map(Double.init)
        if let interval = try options.integer(.connectInterval, in: 1...3_600_000) {
            if connectsPerSecond != nil {
                throw UsageError("--conn-rate and --interval exclude each other")
            }
            connectsPerSecond = 1000 / Double(interval)
        }
        sourceAddresses =
            options[.sourceAddresses]?.split(separator: ",").map(String.init) ?? []
    }

    private mutating func applyTopology(_ options: ParsedOptions<BenchOption>) throws(UsageError) {
        let clients = 1...Plan.clientsMaximum
        let count = try options.integer(.count, in: clients)
        let publishers = try options.integer(.publishers, in: clients)
        receiverCount = count ?? receiverCount
        publisherCount = publishers ?? publisherCount
        switch scenario {
        case .fanOut, .floor, .slow, .sleepy: break
        case .broadcast, .group:
            // A sender does not receive its own messages, but those of all other senders.
            if publisherCount != 1 { throw UsageError("\(scenario.rawValue) has one publisher") }
        case .unicast:
            topology = .pairs
            publisherCount = receiverCount
        case .churn:
            topology = .selves
            publisherCount = receiverCount
        case .fanIn:
            receiverCount = count ?? 1
            publisherCount = publishers ?? 100
        case .will:
            // One watcher; the others' wills are their only messages.
            receiverCount = 1
            publisherCount = count ?? 1000
            topic = "bench/will"
        case .offline:
            guard publisherCount == 1 || publisherCount == receiverCount else {
                throw UsageError("offline has one publisher, or as many as receivers: pairs")
            }
            topology = publisherCount == receiverCount ? .pairs : .everybody
        case .connect: publisherCount = 0
        }
    }

    private mutating func applyMessages(_ options: ParsedOptions<BenchOption>) throws(UsageError) {
        topic = options[.topic] ?? (topology == .everybody ? topic : "bench/%i")
        if let wanted = try options.integer(.qos, in: 0...2) { qos = UInt8(wanted) }
        payloadByteCount =
            try options.integer(.size, in: Stamp.byteCount...1_000_000) ?? payloadByteCount
        limit = UInt64(try options.integer(.limit, in: 1...Int(Int32.max)) ?? Int(limit))
        if scenario == .offline || scenario == .sleepy {
            if qos == 0 { qos = 1 }
            expirySeconds = 3600
        }
        if let expiry = try options.seconds(.expiry) {
            guard expiry <= UInt64(UInt32.max) else { throw UsageError("--expiry is too long") }
            expirySeconds = UInt32(expiry)
        }
        isKept = options.has(.history)
        if isKept, dialect != .mrt || qos == 0 || addressKind != .user && addressKind != .group {
            throw UsageError(
                "--history needs mrt, -q 1 or 2, and messages to users or groups: unicast, group, "
                    + "or offline with as many publishers as receivers")
        }
    }

    private mutating func applyPace(_ options: ParsedOptions<BenchOption>) throws(UsageError) {
        let isNumbered = qos > 0 && dialect == .mrt
        let maximum = isNumbered ? Plan.numberedWindowMaximum : Plan.windowMaximum
        let window = try options.integer(.window, in: 1...maximum)
        var rate = try options.integer(.rate, in: 1...1_000_000).map(Double.init)
        if let interval = try options.integer(.messageInterval, in: 1...3_600_000) {
            if rate != nil { throw UsageError("--rate and --interval-of-msg exclude each other") }
            rate = 1000 / Double(interval)
        }
        if scenario == .sleepy {
            // Sleeping devices have no closed loop.
            if window != nil { throw UsageError("sleepy is an open loop: use --rate") }
            rate = rate ?? 10
        }
        if let rate {
            if window != nil { throw UsageError("--window and --rate exclude each other") }
            pace = .rate(rate)
        } else {
            pace = .window(window ?? 16)
        }
        seconds = try time(.seconds, options) ?? seconds
        warmUpSeconds = try time(.warmUp, options) ?? warmUpSeconds
        sleepSeconds = max(1, try time(.sleep, options) ?? sleepSeconds)
    }

    private func time(
        _ option: BenchOption, _ options: ParsedOptions<BenchOption>
    ) throws(UsageError) -> Double? {
        guard let seconds = try options.seconds(option) else { return nil }
        guard seconds <= Plan.secondsMaximum else {
            throw UsageError("--\(option.rawValue) is at most a day (1d)")
        }
        return Double(seconds)
    }
}

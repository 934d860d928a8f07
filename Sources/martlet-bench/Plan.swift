// What one run is to do, as plain values: the command line after all defaults and checks. Nothing
// here opens or measures anything.

import CommandLineOptions

/// The protocol that the load speaks.
enum LoadDialect: String {
    case mrt
    case mqtt311 = "311"
}

/// Who sends to whom.
enum Topology {
    /// Each message of each publisher goes to every receiver.
    case everybody
    /// Publisher i sends to receiver i.
    case pairs
}

struct Plan {
    /// How messages are timed.
    enum Pace {
        /// So many of each publisher are on their way at a time.
        case window(Int)
        /// So many per second of each publisher, whatever the broker does.
        case rate(Double)
    }

    var scenario: Scenario
    var host = "localhost"
    var port: UInt16 = 1883
    var dialect = LoadDialect.mrt
    var topology = Topology.everybody
    var receiverCount = 100
    var publisherCount = 1
    var topic = "bench/f"
    var qos = 0
    var payloadByteCount = 100
    var pace = Pace.window(16)
    var seconds = 5.0
    var warmUpSeconds = 1.0
    /// Messages that each publisher of `offline` enqueues.
    var limit: UInt64 = 1000
    var expirySeconds: UInt32 = 0
    var startNumber = 0
    var prefix = "bench"
    var user: String?
    var password: String?
    var connectsPerSecond: Int?
    var sourceAddresses: [String] = []
    var tls: TLSPlan?
    var resumesTLS = false
    var brokerProcess: Int?
    /// Where libMallocCount keeps the broker's counters.
    var allocationCountFile: String?
    var writesJSON = false
    var isQuiet = false

    struct TLSPlan {
        var authorityFile: String?
        var isInsecure = false
        var certificateFile: String?
        var keyFile: String?
    }

    /// Receivers of one message.
    var receiversPerMessage: Int { topology == .everybody ? receiverCount : 1 }

    var clientCount: Int { receiverCount + publisherCount }

    /// The most that a window may be: the outbox of an MRT session remembers 64 sends.
    static let windowMaximum = 4096
    static let numberedWindowMaximum = 64
    static let clientsMaximum = 1_000_000
}

extension Plan {
    init(_ scenario: Scenario, _ options: ParsedOptions<BenchOption>) throws(UsageError) {
        self.scenario = scenario
        try applyConnections(options)
        try applyMessages(options)
        try applyPace(options)
        brokerProcess = try options.integer(.brokerProcess, in: 1...Int(Int32.max))
        allocationCountFile = options[.allocationCounts]
        writesJSON = options.has(.json)
        isQuiet = options.has(.quiet) || writesJSON
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
        let clients = 1...Plan.clientsMaximum
        receiverCount =
            try options.integer(.count, in: clients) ?? (scenario == .fanIn ? 1 : receiverCount)
        publisherCount = try options.integer(.publishers, in: clients) ?? publisherCount
        switch scenario {
        case .fanOut, .floor: break
        case .unicast:
            topology = .pairs
            publisherCount = receiverCount
        case .fanIn:
            publisherCount = try options.integer(.publishers, in: clients) ?? 100
        case .offline:
            guard publisherCount == 1 || publisherCount == receiverCount else {
                throw UsageError("offline has one publisher, or as many as receivers: pairs")
            }
            topology = publisherCount == receiverCount ? .pairs : .everybody
        case .connect: publisherCount = 0
        }
        startNumber = try options.integer(.startNumber, in: 0...Int(Int32.max)) ?? startNumber
        prefix = options[.prefix] ?? prefix
        user = options[.user]
        password = options[.password]
        connectsPerSecond = try options.integer(.connectRate, in: 1...1_000_000)
        sourceAddresses =
            options[.sourceAddresses]?.split(separator: ",").map(String.init) ?? []
    }

    private mutating func applyMessages(_ options: ParsedOptions<BenchOption>) throws(UsageError) {
        let name = options[.dialect] ?? (scenario == .floor ? "311" : "mrt")
        guard let known = LoadDialect(rawValue: name) else {
            throw UsageError("--dialect must be mrt or 311, not \"\(name)\"")
        }
        dialect = known
        if scenario == .floor && dialect != .mqtt311 {
            throw UsageError("floor speaks the bytes of MQTT 3.1.1 only")
        }
        topic = options[.topic] ?? (topology == .pairs ? "bench/%i" : topic)
        qos = try options.integer(.qos, in: 0...(dialect == .mrt ? 2 : 1)) ?? qos
        payloadByteCount =
            try options.integer(.size, in: Stamp.byteCount...1_000_000) ?? payloadByteCount
        limit = UInt64(try options.integer(.limit, in: 1...Int(Int32.max)) ?? Int(limit))
        if scenario == .offline {
            if qos == 0 { qos = 1 }
            expirySeconds = 3600
        }
        if let expiry = try options.seconds(.expiry) {
            guard expiry <= UInt64(UInt32.max) else { throw UsageError("--expiry is too long") }
            expirySeconds = UInt32(expiry)
        }
    }

    private mutating func applyPace(_ options: ParsedOptions<BenchOption>) throws(UsageError) {
        let isNumbered = qos > 0 && dialect == .mrt
        let maximum = isNumbered ? Plan.numberedWindowMaximum : Plan.windowMaximum
        let window = try options.integer(.window, in: 1...maximum)
        if let rate = try options.integer(.rate, in: 1...1_000_000) {
            if window != nil { throw UsageError("--window and --rate exclude each other") }
            pace = .rate(Double(rate))
        } else {
            pace = .window(window ?? 16)
        }
        if scenario == .offline, case .rate = pace {
            throw UsageError("offline is a closed loop: use --window")
        }
        seconds = Double(try options.seconds(.seconds) ?? UInt64(seconds))
        warmUpSeconds = Double(try options.seconds(.warmUp) ?? UInt64(warmUpSeconds))
    }
}

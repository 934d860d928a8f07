// An address that the broker listens on, written as a URL:
//
//     tls://*:8883                                    every address, IPv4 and IPv6
//     tcp://localhost:1883?anonymous                  this machine only, login not required
//     tls://10.0.0.7:8884?certificateFile=…&keyFile=…  with a certificate of its own
//     tls://*:8884?clientCertificates=required         clients prove who they are by certificate
//     wss://*:8084                                     WebSocket over TLS, and health and metrics
//     https://*:8443?serve=api,health                  the HTTP API over TLS, and health
//     tls://*:8883?proxy=10.0.0.0/8                    behind load balancers in 10.0.0.0/8
//     tls://*:8883?passwords=plant                     user names of the app plant, with passwords

import BrokerTerms

/// Whether clients must present a certificate.
public enum ClientCertificatePolicy: String, CaseIterable, Sendable {
    case none, optional, required
}

/// The parts that a web listener serves.
public struct WebParts: OptionSet, Hashable, Sendable {
    public let rawValue: UInt8
    public init(rawValue: UInt8) { self.rawValue = rawValue }

    /// `/mqtt`: MQTT over WebSocket.
    public static let mqtt = WebParts(rawValue: 1 << 0)
    /// `/mrt`: MRT over WebSocket.
    public static let mrt = WebParts(rawValue: 1 << 1)
    /// `/healthz` and `/readyz`.
    public static let health = WebParts(rawValue: 1 << 2)
    /// `/metrics`.
    public static let metrics = WebParts(rawValue: 1 << 3)
    /// `/api/`: the HTTP API.
    public static let api = WebParts(rawValue: 1 << 4)
    /// `/`: the pages for operators, which use the API.
    public static let dashboard = WebParts(rawValue: 1 << 5)

    /// `/api/v1/socket` and `/api/v1/events`: JSON over WebSocket, and event streams.
    public static let json = WebParts(rawValue: 1 << 6)

    /// The parts whose clients present tokens and keys.
    static let authenticated: WebParts = [.mqtt, .mrt, .json, .api, .dashboard]

    /// The names in `serve=`, in the order in which they are written.
    public static let names: [(part: WebParts, name: String)] = [
        (.mqtt, "mqtt"), (.mrt, "mrt"), (.json, "json"), (.health, "health"),
        (.metrics, "metrics"), (.api, "api"), (.dashboard, "dashboard"),
    ]

    /// Reads names that are separated by commas.
    ///
    /// - Throws: the error, as a sentence without its subject.
    init(names text: String) throws(SettingFault) {
        self = []
        for word in text.split(separator: ",", omittingEmptySubsequences: false) {
            guard let known = Self.names.first(where: { $0.name == word }) else {
                let list = Self.names.map(\.name).joined(separator: ", ")
                throw SettingFault("cannot serve \"\(word)\"; known are \(list)")
            }
            insert(known.part)
        }
    }

    /// The names of these parts.
    public var writtenNames: [String] { Self.names.filter { contains($0.part) }.map(\.name) }

    var writtenForm: String { writtenNames.joined(separator: ",") }
}

/// An address to listen on, and its options.
public struct ListenerSettings: Hashable, Sendable, CustomStringConvertible {
    public enum Transport: String, CaseIterable, Sendable {
        case tls, tcp
        /// WebSocket and HTTP, over TLS and without.
        case wss, ws
        /// The same with the HTTP API.
        case https, http

        public var usesTLS: Bool {
            switch self {
            case .tls, .wss, .https: true
            case .tcp, .ws, .http: false
            }
        }

        public var isWeb: Bool {
            switch self {
            case .wss, .ws, .https, .http: true
            case .tls, .tcp: false
            }
        }

        /// What a listener serves without `serve=`.
        var partsDefault: WebParts {
            switch self {
            case .tls, .tcp: []
            case .wss, .ws: [.mqtt, .mrt, .json, .health, .metrics]
            case .https, .http: [.mqtt, .mrt, .json, .health, .metrics, .api, .dashboard]
            }
        }

        /// The transport that carries the same over TLS.
        var secured: Transport {
            switch self {
            case .tls, .tcp: .tls
            case .wss, .ws: .wss
            case .https, .http: .https
            }
        }
    }

    public enum Host: Hashable, Sendable {
        /// Every address of the machine, IPv4 and IPv6: `*`.
        case any
        /// 127.0.0.1 and ::1: `localhost`.
        case loopback
        /// One numeric address, without brackets.
        case address(String)
    }

    public var transport: Transport
    public var host: Host
    /// 0 lets the system choose; the log and `dev.env` then contain the port.
    public var port: UInt16
    /// Whether a client may connect without credentials.
    public var anonymous = false
    /// These replace `tls.certificateFile` and `tls.keyFile` for this listener; both or none.
    public var certificateFile: String?
    public var keyFile: String?

    /// The app whose user names with passwords MQTT clients may present; nil for none.
    public var passwords: String?

    public var clientCertificates = ClientCertificatePolicy.none
    /// What a web listener serves; nil for the default of its transport.
    public var serve: WebParts?
    /// Whether tokens may cross a network without TLS, to a web listener.
    public var insecure = false

    /// Networks of load balancers: a connection of one begins with a PROXY header.
    public var proxies: [IPNetwork] = []
    /// Networks of reverse proxies: `X-Forwarded-For` in a request of one is believed.
    public var forwarders: [IPNetwork] = []

    /// What a web listener serves.
    public var parts: WebParts { serve ?? transport.partsDefault }

    public init(transport: Transport, host: Host, port: UInt16) {
        self.transport = transport
        self.host = host
        self.port = port
    }

    /// Reads the written form.
    ///
    /// - Throws: the error, as a sentence without its subject.
    init(_ text: String) throws(SettingFault) {
        let form = "must be like tls://*:8883, tcp://localhost:1883, wss://*:8084 or https://*:8443"
        guard let scheme = text.firstRange(of: "://") else { throw SettingFault("\(form)") }
        guard let transport = Transport(rawValue: String(text[..<scheme.lowerBound])) else {
            throw SettingFault("\(form); \(text[..<scheme.lowerBound]):// is not known")
        }
        let rest = text[scheme.upperBound...]
        let query = rest.firstIndex(of: "?")
        let authority = rest[..<(query ?? rest.endIndex)]
        guard let colon = authority.lastIndex(of: ":"),
            let port = UInt16(authority[authority.index(after: colon)...])
        else { throw SettingFault("\(form), with a port from 0 to 65535") }
        self.init(
            transport: transport, host: try Self.host(authority[..<colon]), port: port)
        if let query {
            for option in rest[rest.index(after: query)...].split(separator: "&") {
                try apply(option)
            }
        }
        if (certificateFile == nil) != (keyFile == nil) {
            throw SettingFault("needs both certificateFile and keyFile, or none")
        }
        let secure = transport.secured
        if !transport.usesTLS, certificateFile != nil {
            throw SettingFault(
                "has a certificate, but \(transport.rawValue):// does not use one; "
                    + "write \(secure.rawValue)://")
        }
        if !transport.usesTLS, clientCertificates != .none {
            throw SettingFault("asks for client certificates, which need \(secure.rawValue)://")
        }
        try checkParts()
        if passwords != nil, transport.isWeb, !parts.contains(.mqtt) {
            throw SettingFault("has passwords=, which is for MQTT, and does not serve mqtt")
        }
        if !forwarders.isEmpty, !transport.isWeb {
            throw SettingFault(
                "has forwarded=, which is for wss://, ws://, https:// and http://; a load balancer "
                    + "before \(transport.rawValue):// needs proxy=")
        }
    }

    private func checkParts() throws(SettingFault) {
        if serve != nil, !transport.isWeb {
            throw SettingFault("has serve=, which is for wss://, ws://, https:// and http://")
        }
        if parts.contains(.dashboard), !parts.contains(.api) {
            throw SettingFault("serves dashboard, which needs api: write serve=api,dashboard")
        }
        let takesTokens = transport.isWeb && !parts.isDisjoint(with: .authenticated)
        let isPlain = takesTokens && !transport.usesTLS
        if insecure, !isPlain {
            throw SettingFault(
                "has insecure, which is for http:// and ws:// that serve more than health and "
                    + "metrics")
        }
        guard !isPlain || isLoopback || insecure else {
            throw SettingFault(
                "would let tokens cross the network without TLS; write "
                    + "\(transport.secured.rawValue)://, the host localhost, or ?insecure "
                    + "where the network is trusted")
        }
    }

    private var isLoopback: Bool {
        switch host {
        case .any: false
        case .loopback: true
        case .address(let address): address == "::1" || address.hasPrefix("127.")
        }
    }

    private static func host(_ text: Substring) throws(SettingFault) -> Host {
        switch text {
        case "*": return .any
        case "localhost": return .loopback
        case "": throw SettingFault("has no host; write * for every address")
        default: break
        }
        let isBracketed = text.hasPrefix("[") && text.hasSuffix("]")
        let host = isBracketed ? text.dropFirst().dropLast() : text
        if host.contains(":") == isBracketed, IPAddress(host.utf8) != nil {
            return .address(String(host))
        }
        // A name would be resolved once at start, and the result could change later.
        throw SettingFault(
            "has the host \(text); write *, localhost, an IPv4 address, or an IPv6 address in "
                + "brackets")
    }

    private mutating func apply(_ option: Substring) throws(SettingFault) {
        let words = option.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            .map(String.init)
        switch (words[0], words.count) {
        case ("anonymous", 1): anonymous = true
        case ("certificateFile", 2): certificateFile = words[1]
        case ("keyFile", 2): keyFile = words[1]
        case ("clientCertificates", 2):
            guard let policy = ClientCertificatePolicy(rawValue: words[1]) else {
                throw SettingFault("has \(option); write optional or required")
            }
            clientCertificates = policy
        case ("serve", 2): serve = try WebParts(names: words[1])
        case ("insecure", 1): insecure = true
        case ("passwords", 2):
            guard (1...64).contains(words[1].utf8.count) else {
                throw SettingFault("has passwords= without the name of an app, of 1 to 64 bytes")
            }
            passwords = words[1]
        case ("proxy", 2): proxies = try Self.networks(words[1], of: "proxy")
        case ("forwarded", 2): forwarders = try Self.networks(words[1], of: "forwarded")
        default:
            throw SettingFault(
                "has the option \(option); known are anonymous, certificateFile=FILE, "
                    + "keyFile=FILE, clientCertificates=optional|required, serve=PART,…, "
                    + "insecure, passwords=APP, proxy=NETWORK,…, forwarded=NETWORK,…")
        }
    }

    /// Reads networks that are separated by commas.
    private static func networks(
        _ text: String, of option: String
    ) throws(SettingFault) -> [IPNetwork] {
        var networks: [IPNetwork] = []
        for word in text.split(separator: ",", omittingEmptySubsequences: false) {
            do throws(IPNetwork.Fault) {
                networks.append(try IPNetwork(word.utf8))
            } catch {
                switch error {
                case .malformed:
                    throw SettingFault(
                        "has \"\(word)\" in \(option)=; write networks and addresses like "
                            + "10.0.0.0/8,127.0.0.1,fd00::/8")
                case .mapped:
                    throw SettingFault(
                        "has \(word) in \(option)=; write IPv4 networks like 10.0.0.0/8")
                case .host(let network):
                    throw SettingFault(
                        "has \(word) in \(option)=, which has bits behind the prefix; write "
                            + "\(network) or the address alone")
                }
            }
        }
        guard networks.count <= IPNetwork.listMaximum else {
            throw SettingFault(
                "has \(networks.count) networks in \(option)=, more than \(IPNetwork.listMaximum)")
        }
        return networks
    }

    /// Host and port in the written form.
    public var address: String {
        let name =
            switch host {
            case .any: "*"
            case .loopback: "localhost"
            case .address(let address): address.contains(":") ? "[\(address)]" : address
            }
        return "\(name):\(port)"
    }

    /// The written form.
    public var description: String {
        let options =
            (anonymous ? ["anonymous"] : [])
            + [("certificateFile", certificateFile), ("keyFile", keyFile)].compactMap {
                key, value in
                value.map { "\(key)=\($0)" }
            }
            + (clientCertificates == .none
                ? [] : ["clientCertificates=\(clientCertificates.rawValue)"])
            + (serve.map { ["serve=\($0.writtenForm)"] } ?? []) + (insecure ? ["insecure"] : [])
            + (passwords.map { ["passwords=\($0)"] } ?? [])
            + [("proxy", proxies), ("forwarded", forwarders)].compactMap { key, networks in
                networks.isEmpty
                    ? nil : "\(key)=\(networks.map(\.description).joined(separator: ","))"
            }
        return "\(transport.rawValue)://\(address)"
            + (options.isEmpty ? "" : "?" + options.joined(separator: "&"))
    }
}

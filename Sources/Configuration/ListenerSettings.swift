// An address that the broker listens on, written as a URL:
//
//     tls://*:8883                                    every address, IPv4 and IPv6
//     tcp://localhost:1883?anonymous                  this machine only, login not required
//     tls://10.0.0.7:8884?certificateFile=…&keyFile=…  with a certificate of its own
//     tls://*:8884?clientCertificates=required         clients prove who they are by certificate
//     wss://*:8084                                     WebSocket over TLS, and health and metrics

/// Whether clients must present a certificate.
public enum ClientCertificatePolicy: String, CaseIterable, Sendable {
    case none, optional, required
}

/// An address to listen on, and its options.
public struct ListenerSettings: Hashable, Sendable, CustomStringConvertible {
    public enum Transport: String, CaseIterable, Sendable {
        case tls, tcp
        /// WebSocket and HTTP, over TLS and without.
        case wss, ws

        public var usesTLS: Bool {
            switch self {
            case .tls, .wss: true
            case .tcp, .ws: false
            }
        }

        public var isWeb: Bool {
            switch self {
            case .wss, .ws: true
            case .tls, .tcp: false
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

    public var clientCertificates = ClientCertificatePolicy.none

    public init(transport: Transport, host: Host, port: UInt16) {
        self.transport = transport
        self.host = host
        self.port = port
    }

    /// Reads the written form.
    ///
    /// - Throws: the error, as a sentence without its subject.
    init(_ text: String) throws(SettingFault) {
        let form = "must be like tls://*:8883, tcp://localhost:1883 or wss://*:8084"
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
        let secure = transport.isWeb ? Transport.wss : .tls
        if !transport.usesTLS, certificateFile != nil {
            throw SettingFault(
                "has a certificate, but \(transport.rawValue):// does not use one; "
                    + "write \(secure.rawValue)://")
        }
        if !transport.usesTLS, clientCertificates != .none {
            throw SettingFault("asks for client certificates, which need \(secure.rawValue)://")
        }
    }

    private static func host(_ text: Substring) throws(SettingFault) -> Host {
        switch text {
        case "*": return .any
        case "localhost": return .loopback
        case "": throw SettingFault("has no host; write * for every address")
        default: break
        }
        if text.hasPrefix("["), text.hasSuffix("]") {
            return .address(String(text.dropFirst().dropLast()))
        }
        if text.allSatisfy({ $0.isASCII && $0.isNumber || $0 == "." }) {
            return .address(String(text))
        }
        // A name would be resolved once at start, and the result could change later.
        throw SettingFault(
            "has the host \(text); write *, localhost, an IPv4 address, or an IPv6 address in "
                + "brackets")
    }

    private mutating func apply(_ option: Substring) throws(SettingFault) {
        let parts = option.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            .map(String.init)
        switch (parts[0], parts.count) {
        case ("anonymous", 1): anonymous = true
        case ("certificateFile", 2): certificateFile = parts[1]
        case ("keyFile", 2): keyFile = parts[1]
        case ("clientCertificates", 2):
            guard let policy = ClientCertificatePolicy(rawValue: parts[1]) else {
                throw SettingFault("has \(option); write optional or required")
            }
            clientCertificates = policy
        default:
            throw SettingFault(
                "has the option \(option); known are anonymous, certificateFile=FILE, "
                    + "keyFile=FILE, clientCertificates=optional|required")
        }
    }

    /// The written form.
    public var description: String {
        let name =
            switch host {
            case .any: "*"
            case .loopback: "localhost"
            case .address(let address): address.contains(":") ? "[\(address)]" : address
            }
        let options =
            (anonymous ? ["anonymous"] : [])
            + [("certificateFile", certificateFile), ("keyFile", keyFile)].compactMap {
                key, value in
                value.map { "\(key)=\($0)" }
            }
            + (clientCertificates == .none
                ? [] : ["clientCertificates=\(clientCertificates.rawValue)"])
        return "\(transport.rawValue)://\(name):\(port)"
            + (options.isEmpty ? "" : "?" + options.joined(separator: "&"))
    }
}

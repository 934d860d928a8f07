// A wake target: where a relay reaches a user of whom no device is connected, and the rules of its
// address. The core never connects to an address; it only tells the relay.

import BrokerTerms
import Primitives

/// Where a relay reaches a user.
public struct WakeTarget: Hashable, Sendable {
    /// How the relay reaches it. Raw values are on the wire and on disk.
    public enum Kind: UInt8, Hashable, Sendable, CaseIterable {
        case webhook = 1
        case apns = 2
        case fcm = 3
        case smsWebhook = 4
        case mqtt = 5
        case udp = 6

        /// Its word in JSON, in the API and in the command line.
        public var name: StaticString {
            switch self {
            case .webhook: "webhook"
            case .apns: "apns"
            case .fcm: "fcm"
            case .smsWebhook: "sms-webhook"
            case .mqtt: "mqtt"
            case .udp: "udp"
            }
        }

        public init?(named word: String) {
            guard let kind = Self.allCases.first(where: { "\($0.name)" == word }) else {
                return nil
            }
            self = kind
        }
    }

    /// Which environment of a service knows the address. Raw values are on the wire and on disk.
    public enum Environment: UInt8, Hashable, Sendable, CaseIterable {
        case production = 0
        case sandbox = 1

        public var name: StaticString { self == .production ? "production" : "sandbox" }

        public init?(named word: String) {
            guard let found = Self.allCases.first(where: { "\($0.name)" == word }) else {
                return nil
            }
            self = found
        }
    }

    /// Given by the broker: unique in the store, at least 1.
    public internal(set) var identifier: UInt64 = 0
    /// The device that it wakes; empty for any device of the user.
    public var device: [UInt8]
    public var kind: Kind
    /// 1 to ``CoreLimits/wakeAddressBytesMaximum`` bytes.
    public var address: [UInt8]
    public var environment: Environment
    /// A language tag of BCP 47; empty for none.
    public var language: [UInt8]
    /// Whether its device has logged out and has not been back.
    public internal(set) var isSilent = false

    public init(
        device: [UInt8], kind: Kind, address: [UInt8], environment: Environment = .production,
        language: [UInt8] = []
    ) {
        self.device = device
        self.kind = kind
        self.address = address
        self.environment = environment
        self.language = language
    }

    /// Whether another one is set by the same request: it is changed and keeps its id.
    func isSame(as other: WakeTarget) -> Bool {
        device == other.device && kind == other.kind && address == other.address
    }

    /// The reason for which it cannot be set; nil if it can. Texts are UTF-8.
    public var fault: (reason: ReasonCode, cause: LimitName)? {
        guard address.count <= CoreLimits.wakeAddressBytesMaximum,
            language.count <= CoreLimits.languageBytesMaximum
        else { return (.packetTooLarge, .none) }
        guard language.allSatisfy({ $0.isASCIILetter || $0.isASCIIDigit || $0 == 0x2D }) else {
            return (.payloadFormatInvalid, .wakeLanguage)
        }
        // A device id of MQTT may be any text without NUL.
        guard device.count <= CoreLimits.userNameBytesMaximum, !device.contains(0) else {
            return (.topicNameInvalid, .none)
        }
        return WakeAddress.isValid(address, kind) ? nil : (.payloadFormatInvalid, .wakeAddress)
    }
}

/// The rules of addresses.
enum WakeAddress {
    static func isValid(_ address: [UInt8], _ kind: WakeTarget.Kind) -> Bool {
        guard !address.isEmpty else { return false }
        switch kind {
        case .webhook: return isURL(address)
        // Apple's tokens have 64 digits, and may get longer.
        case .apns:
            return (16...200).contains(address.count) && address.allSatisfy(\.isHexadecimalDigit)
        case .fcm: return address.allSatisfy(\.isVisibleASCII)
        // E.164: a plus sign and at most 15 digits.
        case .smsWebhook:
            return address[0] == UInt8(ascii: "+") && (8...16).contains(address.count)
                && address.dropFirst().allSatisfy(\.isASCIIDigit)
        case .mqtt: return isTopic(address)
        case .udp: return isHostAndPort(address)
        }
    }

    /// A topic of an ordinary message: no wildcards, no `$` at its beginning, and no character for
    /// which a broker may end the connection [MQTT 5.0, 1.5.4].
    private static func isTopic(_ address: [UInt8]) -> Bool {
        address[0] != UInt8(ascii: "$")
            && String(decoding: address, as: UTF8.self).unicodeScalars.allSatisfy { scalar in
                scalar != "+" && scalar != "#"
                    && scalar.properties.generalCategory != .control
                    && !scalar.properties.isNoncharacterCodePoint
            }
    }

    /// `https://` or `http://`, and visible ASCII that begins with the name of a host.
    private static func isURL(_ address: [UInt8]) -> Bool {
        guard address.allSatisfy(\.isVisibleASCII) else { return false }
        for scheme in ["https://", "http://"] where address.starts(with: scheme.utf8) {
            let first = address.dropFirst(scheme.utf8.count).first
            return first.map { $0.isASCIILetter || $0.isASCIIDigit || $0 == 0x5B } ?? false
        }
        return false
    }

    /// `HOST:PORT`, or `[ADDRESS]:PORT` with an address of IPv6.
    private static func isHostAndPort(_ address: [UInt8]) -> Bool {
        guard let colon = address.lastIndex(of: UInt8(ascii: ":")) else { return false }
        let digits = address[(colon + 1)...]
        guard (1...5).contains(digits.count), digits.allSatisfy(\.isASCIIDigit),
            let port = UInt32(String(decoding: digits, as: UTF8.self)),
            (1...65_535).contains(port)
        else { return false }
        let host = address[..<colon]
        if host.first == UInt8(ascii: "["), host.last == UInt8(ascii: "]") {
            let inner = host.dropFirst().dropLast()
            return inner.contains(UInt8(ascii: ":"))
                && inner.allSatisfy { $0.isHexadecimalDigit || $0 == 0x3A || $0 == 0x2E }
        }
        return (1...253).contains(host.count)
            && host.allSatisfy { $0.isASCIILetter || $0.isASCIIDigit || $0 == 0x2D || $0 == 0x2E }
    }
}

extension UInt8 {
    fileprivate var isASCIIDigit: Bool { (0x30...0x39).contains(self) }
    fileprivate var isASCIILetter: Bool { (0x61...0x7A).contains(self | 0x20) }
    fileprivate var isHexadecimalDigit: Bool {
        isASCIIDigit || (0x61...0x66).contains(self | 0x20)
    }
    fileprivate var isVisibleASCII: Bool { (0x21...0x7E).contains(self) }
}

/// The wake-ups of an app.
public struct WakePolicy: Hashable, Sendable {
    /// The user whose devices are told: that of the relay.
    public var relay: [UInt8]
    /// After a request for a user, the next one follows after so many seconds at the earliest.
    public var intervalSeconds: UInt64 = 60
    /// Whether requests contain texts of at most ``CoreLimits/wakeContentBytesMaximum``.
    public var hasContents = false
    /// Whether a transient message to a user wakes.
    public var wakesForTransient = false
    /// Whether a will wakes.
    public var wakesForWills = false

    public init(relay: [UInt8]) {
        self.relay = relay
    }
}

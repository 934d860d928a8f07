// The settings of a gateway: its broker, its lines, its own will.

import MartletClient
import NetTransport
import WireFormat

/// The address of a device.
public enum LineEndpoint: Hashable, Sendable {
    /// A serial device or pseudo-terminal, and its speed in baud.
    case terminal(path: String, baud: UInt32)
    /// A UART behind TCP: an emulator, or a terminal server.
    case tcp(ServerAddress)
}

/// One line and the device on it.
public struct LineSettings: Hashable, Sendable {
    /// The device's user, which the device cannot change.
    public var user: String
    /// The device name; may be empty.
    public var device: String
    public var endpoint: LineEndpoint

    public init(user: String, device: String = "", endpoint: LineEndpoint) {
        self.user = user
        self.device = device
        self.endpoint = endpoint
    }

    /// Reads `USER=PLACE` or `USER/DEVICE=PLACE`, where PLACE is `tcp://HOST:PORT`, `/dev/ttyUSB0`
    /// or `/dev/ttyUSB0@57600`; nil if it has none of these forms.
    public init?(_ text: String) {
        guard let mark = text.firstIndex(of: "=") else { return nil }
        let names = text[..<mark].split(
            separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        let rest = String(text[text.index(after: mark)...])
        let user = String(names[0])
        let device = names.count == 2 ? String(names[1]) : ""
        guard TextRules.isIdentifier(Array(user.utf8).span.bytes),
            TextRules.isDevice(Array(device.utf8).span.bytes),
            names.count == 1 || !device.isEmpty, !rest.isEmpty
        else { return nil }
        if rest.hasPrefix("tcp://") {
            guard let address = try? ServerAddress(rest) else { return nil }
            self.init(user: user, device: device, endpoint: .tcp(address))
            return
        }
        let parts = rest.split(separator: "@", omittingEmptySubsequences: false)
        guard parts.count <= 2, rest.hasPrefix("/") else { return nil }
        guard let baud = parts.count == 2 ? UInt32(parts[1]) : Terminal.baudDefault,
            Terminal.speed(baud) != nil
        else { return nil }
        self.init(
            user: user, device: device, endpoint: .terminal(path: String(parts[0]), baud: baud))
    }

    /// The identity, as in options.
    public var name: String { device.isEmpty ? user : "\(user)/\(device)" }
}

/// A gateway's configuration.
public struct GatewaySettings: Sendable {
    /// Those of all nodes, if it is a cluster.
    public var servers: [ServerAddress]
    /// Nil without TLS.
    public var tls: ClientTLSContext?
    public var token: String
    /// At most ``GatewayLimits/linesMaximum``, each with an identity of its own.
    public var lines: [LineSettings]
    /// The receiver of the gateway's own will, which is sent when the broker loses it; nil for
    /// none.
    public var willUser: String?
    public var willText = "gateway lost"

    public init(
        servers: [ServerAddress], tls: ClientTLSContext?, token: String, lines: [LineSettings]
    ) {
        self.servers = servers
        self.tls = tls
        self.token = token
        self.lines = lines
    }

    /// The fault of the lines together, or of the will; nil if there is none.
    public var fault: String? {
        if let willUser, !TextRules.isIdentifier(Array(willUser.utf8).span.bytes) {
            return "the will cannot go to \"\(willUser)\", which is no user"
        }
        if willText.utf8.count > GatewayLimits.willTextMaximum {
            return "the will has at most \(GatewayLimits.willTextMaximum) bytes, not "
                + "\(willText.utf8.count)"
        }
        let tokenMaximum = WireLimits.tokenByteCountMaximum
        if !(1...tokenMaximum).contains(token.utf8.count) {
            return "a token has 1 to \(tokenMaximum) bytes, not \(token.utf8.count)"
        }
        if lines.count > GatewayLimits.linesMaximum {
            return "a gateway has at most \(GatewayLimits.linesMaximum) lines, not \(lines.count)"
        }
        var names: Set<String> = []
        for line in lines where !names.insert(line.name).inserted {
            return "two lines are \(line.name): each would end the other's connection. Name one "
                + "\(line.user)/DEVICE"
        }
        return nil
    }
}

// What a gateway is told: its broker, its lines, its own last will.

import MartletClient
import NetTransport

/// Where a device is.
public enum LineEndpoint: Hashable, Sendable {
    /// A serial device or pseudo-terminal, and its speed in baud.
    case terminal(path: String, baud: UInt32)
    /// A UART behind TCP: an emulator, or a terminal server.
    case tcp(ServerAddress)
}

/// One line and who is at its other end.
public struct LineSettings: Hashable, Sendable {
    /// The user that a device without a credential is attached as.
    public var user: String
    public var endpoint: LineEndpoint

    public init(user: String, endpoint: LineEndpoint) {
        self.user = user
        self.endpoint = endpoint
    }

    /// Reads `USER=tcp://HOST:PORT`, `USER=/dev/ttyUSB0` or `USER=/dev/ttyUSB0@57600`; nil where
    /// it is none of these.
    public init?(_ text: String) {
        guard let mark = text.firstIndex(of: "=") else { return nil }
        let user = String(text[..<mark])
        let rest = String(text[text.index(after: mark)...])
        guard !user.isEmpty, !rest.isEmpty else { return nil }
        if rest.hasPrefix("tcp://") {
            guard let address = try? ServerAddress(rest) else { return nil }
            self.init(user: user, endpoint: .tcp(address))
            return
        }
        let parts = rest.split(separator: "@", omittingEmptySubsequences: false)
        guard parts.count <= 2, rest.hasPrefix("/") else { return nil }
        guard let baud = parts.count == 2 ? UInt32(parts[1]) : Terminal.baudDefault,
            Terminal.speed(baud) != nil
        else { return nil }
        self.init(user: user, endpoint: .terminal(path: String(parts[0]), baud: baud))
    }
}

/// A gateway's configuration.
public struct GatewaySettings: Sendable {
    public var server: ServerAddress
    /// Nil for a plain connection.
    public var tls: ClientTLSContext?
    public var token: String
    public var lines: [LineSettings]
    /// To whom the gateway's own will goes, when the broker loses it; nil for none.
    public var willUser: String?
    public var willText = "gateway lost"

    public init(
        server: ServerAddress, tls: ClientTLSContext?, token: String, lines: [LineSettings]
    ) {
        self.server = server
        self.tls = tls
        self.token = token
        self.lines = lines
    }
}

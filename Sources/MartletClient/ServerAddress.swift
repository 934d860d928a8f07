// The address of a broker as text: tls://broker.example:8883. It resolves no names.

import NetTransport

/// The address of a broker.
public struct ServerAddress: Hashable, Sendable, CustomStringConvertible {
    /// The transport of the connection.
    public enum Transport: String, Sendable {
        /// `tls` verifies the broker against ``ClientSettings/trust``; `tcp` is plain.
        case tls, tcp
    }

    /// The longest HOST:PORT: a name of 255 bytes [RFC 1035, 2.3.4].
    static let nameByteCountMaximum = 255 + 6

    /// The transport.
    public var transport: Transport
    /// A host name, or a numeric address without brackets.
    public var host: String
    /// The TCP port, 1 to 65,535.
    public var port: UInt16

    /// An address from its parts.
    public init(transport: Transport = .tls, host: String, port: UInt16) {
        self.transport = transport
        self.host = host
        self.port = port
    }

    /// Reads `tls://HOST:PORT`, `tcp://HOST:PORT`, or the same without a port, which is then 8883
    /// or 1883 (PROTOCOL.md section 1). An IPv6 address is in brackets.
    ///
    /// - Throws: ``MartletError/invalid(_:)`` with the error.
    public init(_ text: String) throws(MartletError) {
        let fault = MartletError.invalid(
            "the server \"\(text)\" must be written like tls://broker.example:8883")
        guard let mark = text.firstRange(of: "://"),
            let transport = Transport(rawValue: String(text[..<mark.lowerBound]))
        else { throw fault }
        self.transport = transport
        let authority = text[mark.upperBound...]
        let isBracketed = authority.first == "["
        let hostEnd =
            isBracketed
            ? authority.firstIndex(of: "]") : authority.firstIndex(of: ":") ?? authority.endIndex
        guard let hostEnd else { throw fault }
        host = String(authority[..<hostEnd].drop { $0 == "[" })
        let rest = authority[hostEnd...].dropFirst(isBracketed ? 1 : 0)
        if rest.isEmpty {
            port = transport == .tls ? 8883 : 1883
        } else {
            guard rest.first == ":", let port = UInt16(rest.dropFirst()), port > 0 else {
                throw fault
            }
            self.port = port
        }
        let isAddress = SocketAddress(numericHost: host, port: port) != nil
        guard !host.isEmpty, !isBracketed || isAddress else { throw fault }
    }

    /// The address as text.
    public var description: String { "\(transport.rawValue)://\(authority)" }

    /// HOST:PORT, with an IPv6 address in brackets.
    var authority: String { "\(host.contains(":") ? "[\(host)]" : host):\(port)" }
}

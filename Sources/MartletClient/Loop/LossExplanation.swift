// Why a connection to the broker failed or ended, as text for people: for the client library, the
// gateway and the bridge.

import NetTransport

extension TransportCloseCause {
    /// The reason, and its probable cause if the port is of another kind than the address says.
    ///
    /// - Parameters:
    ///   - detail: the text of the system, OpenSSL or the certificate; may be empty.
    ///   - transport: the transport of the address.
    ///   - isOpened: whether the connection was open, with TLS if it has TLS.
    ///   - isAnswered: whether the broker has sent a byte.
    public func explanation(
        detail: String, over transport: ServerAddress.Transport, isOpened: Bool, isAnswered: Bool
    ) -> String {
        let text = detail.isEmpty ? plainExplanation : detail
        switch (transport, self) {
        case (.tls, .tlsFailure) where !isOpened && !detail.hasPrefix("certificate: "):
            return "\(detail.isEmpty ? text : "TLS failed: \(text)"); if the port has no TLS, "
                + "the address needs tcp:// instead of tls://"
        case (.tls, .peerClosed) where !isOpened:
            return "\(text) before TLS was ready; if the port has no TLS, the address needs tcp:// "
                + "instead of tls://"
        case (.tcp, .peerClosed) where isOpened && !isAnswered,
            (.tcp, .networkFailure) where isOpened && !isAnswered:
            return "\(text) without an answer; if the port has TLS, the address needs tls:// "
                + "instead of tcp://"
        default: return text
        }
    }

    /// A text for causes without a text of the system.
    private var plainExplanation: String {
        switch self {
        case .closedByHandler, .loopStopped: ""
        case .peerClosed: "the broker closed the connection"
        case .networkFailure: "the network broke the connection"
        case .tlsFailure: "TLS failed"
        case .handshakeTimeout, .connectTimeout: "no answer in time"
        case .lingerTimeout, .outgoingOverflow: "the broker takes nothing"
        case .packetTooLarge: "a packet was too large"
        // Only servers speak WebSocket and read PROXY headers here.
        case .webSocketFault: "WebSocket failed"
        case .proxyHeaderFault, .refused: "the connection was refused"
        }
    }
}

// Why a node cannot use its stream, in words that an operator can act on.

/// The reason why a log cannot be opened, or a question about it has no answer.
public enum JetStreamError: Error, Hashable, Sendable {
    /// A setting is not usable.
    case setting(String)
    /// A file of TLS or of credentials cannot be used.
    case file(String)
    /// No server answers, or the servers have no leader. It may be different in a second.
    case unavailable(String)
    /// The servers do not accept the credentials.
    case unauthorised
    /// There is no stream of this name.
    case absent(stream: String)
    /// The stream or a server cannot keep the promise.
    case unsuitable([String])
    /// A server answers with another error.
    case refused(code: Int, text: String)

    /// Whether it can end without an operator.
    public var isTemporary: Bool {
        guard case .unavailable = self else { return false }
        return true
    }
}

extension JetStreamError: CustomStringConvertible {
    public var description: String {
        switch self {
        case .setting(let text), .file(let text): text
        case .unavailable(let text): "no NATS server answers: \(text)"
        case .unauthorised: "the NATS servers do not accept the credentials of cluster"
        case .absent(let stream):
            "there is no stream \(stream) on the NATS servers: it was never created, it was "
                + "deleted, or it belongs to another account"
        case .unsuitable(let findings):
            "the stream cannot keep what an acknowledgement promises: "
                + findings.joined(separator: "; ")
        case .refused(let code, let text): "the NATS servers refuse: \(text) (\(code))"
        }
    }
}

// Why a node cannot use its stream, in words that an operator can act on.

/// The reason why a log cannot be opened, or a question about it has no answer.
public enum JetStreamError: Error, Hashable, Sendable {
    /// A setting is not usable.
    case setting(String)
    /// A file of TLS or of credentials cannot be used.
    case file(String)
    /// No server answers. It may be different in a second.
    case unavailable(String)
    /// A server answers, and nobody keeps streams at present: the servers have no leader, or
    /// JetStream is not enabled.
    case leaderless(String)
    /// The servers do not accept the node's credentials.
    case unauthorised
    /// The servers do not accept those of the system account.
    case systemUnauthorised
    /// There is no stream of this name.
    case absent(stream: String)
    /// The stream or a server cannot keep the promise.
    case unsuitable([String])
    /// A server answers with another error.
    case refused(code: Int, text: String)

    /// Whether it can end without an operator.
    public var isTemporary: Bool {
        switch self {
        case .unavailable, .leaderless: true
        default: false
        }
    }

    /// Whether servers that have just been started may answer with it to the creation of a stream:
    /// they know not all of their peers yet.
    public var isOfStart: Bool {
        guard case .refused(let code, _) = self else { return false }
        return Self.codesOfStart.contains(code)
    }

    /// No suitable peers, insufficient resources, not enabled for the account, and replicas not
    /// supported in a server without a cluster (nats-server, `errors.json`).
    private static let codesOfStart = [10_005, 10_023, 10_039, 10_074]
}

extension JetStreamError: CustomStringConvertible {
    public var description: String {
        switch self {
        case .setting(let text), .file(let text): text
        case .unavailable(let text): "no NATS server answers: \(text)"
        case .leaderless(let text):
            "the NATS servers do not keep streams yet: less than half of them run, they elect "
                + "their leader, which takes some seconds, or JetStream is not enabled (\(text))"
        case .unauthorised:
            "the NATS servers do not accept cluster.user with cluster.passwordFile, "
                + "cluster.credentialsFile, or a login without either"
        case .systemUnauthorised:
            "the NATS servers do not accept cluster.systemUser with cluster.systemPasswordFile"
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

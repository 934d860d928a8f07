// TLS for outgoing connections: the trusted authorities, and the name or address that the server's
// certificate must contain. No option disables verification by being absent.
import COpenSSL
import Primitives

/// The TLS settings of outgoing connections.
public final class ClientTLSContext: Sendable {
    /// The authorities that are trusted to sign the server's certificate.
    public enum Trust: Sendable, Equatable {
        /// The operating system's certificate authorities.
        case system
        /// The authorities in a PEM file, and no others.
        case authorityFile(String)
        /// No verification: encrypted, but not protected against an active attacker. For
        /// measurements only.
        case anyServerWithoutVerification
    }

    private let context: TLSContext
    private let trust: Trust

    /// Reads the files. `certificateChainFile` and `keyFile`, given together, are the client's own
    /// certificate. Throws `TransportError.tls`, which names the file and OpenSSL's reason.
    public init(
        trust: Trust, certificateChainFile: String? = nil, keyFile: String? = nil,
        oldestVersion: TLSVersion = .tls12, newestVersion: TLSVersion = .tls13
    ) throws(TransportError) {
        precondition(
            (certificateChainFile == nil) == (keyFile == nil),
            "certificate \(certificateChainFile ?? "none") with key \(keyFile ?? "none")")
        context = try TLSContext(
            method: TLS_client_method(), from: oldestVersion, to: newestVersion)
        self.trust = trust
        switch trust {
        case .system:
            guard SSL_CTX_set_default_verify_paths(context.pointer) == 1 else {
                throw .tls(
                    action: "read the system's certificate authorities", file: "",
                    detail: OpenSSLFailure.take().text)
            }
        case .authorityFile(let file):
            try context.trust(authorityFile: file)
        case .anyServerWithoutVerification:
            break
        }
        SSL_CTX_set_verify(
            context.pointer,
            trust == .anyServerWithoutVerification ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, nil)
        if let certificateChainFile, let keyFile {
            try context.use(certificateChainFile: certificateChainFile, keyFile: keyFile)
        }
    }

    /// For tests that observe the state of a handshake.
    func withPointer(_ body: (OpaquePointer) -> Void) { body(context.pointer) }

    /// A client session on a descriptor that is about to connect to `serverName`, a host name or a
    /// numeric address. A host name is sent to the server (SNI). The certificate must contain the
    /// name or address.
    func makeSession(
        descriptor: Int32, serverName: String, resuming ticket: TLSSessionTicket?
    ) throws(TransportError) -> OpaquePointer {
        guard let session = SSL_new(context.pointer) else {
            throw .tls(action: "create a TLS session", file: "", detail: OpenSSLFailure.take().text)
        }
        let isAddress = SocketAddress(numericHost: serverName, port: 0) != nil
        let named =
            isAddress
            ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(session), serverName) == 1
            : SSL_set1_host(session, serverName) == 1
                && openssl_set_server_name(session, serverName) == 1
        guard !serverName.isEmpty, named, SSL_set_fd(session, descriptor) == 1 else {
            SSL_free(session)
            throw .tls(
                action: "expect the server name \"\(serverName)\"", file: "",
                detail: OpenSSLFailure.take().text)
        }
        if let ticket { SSL_set_session(session, ticket.pointer) }
        SSL_set_connect_state(session)
        return session
    }
}

/// A session ticket with which a client resumes a TLS session. It is no login credential.
public final class TLSSessionTicket: @unchecked Sendable {
    // Unchecked: OpenSSL counts references to an SSL_SESSION, and does not change it afterwards.
    let pointer: OpaquePointer

    init(adopting pointer: OpaquePointer) {
        self.pointer = pointer
    }

    deinit {
        SSL_SESSION_free(pointer)
    }
}

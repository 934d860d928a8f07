// TLS for listeners: certificate, key, ticket keys, and whether clients present certificates. It
// can be replaced while connections are open. The caller decides which user a certificate belongs
// to.
import COpenSSL
import Glibc
import Threads

/// The TLS settings of a listener. Open connections keep the settings they started with; new ones
/// use those of the last ``replace(with:)``.
public final class ServerTLSContext: Sendable {
    /// Whether a client must present a certificate, and from which authority.
    public enum ClientCertificates: Sendable, Equatable {
        case notRequested
        /// An invalid certificate ends the handshake; a missing one does not.
        case optional(authorityFile: String)
        case required(authorityFile: String)
    }

    /// The options of a context. Files are PEM.
    public struct Options: Sendable {
        /// The server's certificate, then the intermediates.
        public var certificateChainFile: String
        public var keyFile: String
        public var oldestVersion = TLSVersion.tls12
        public var newestVersion = TLSVersion.tls13
        public var clientCertificates = ClientCertificates.notRequested
        /// Revoked client certificates: a list of every authority in the chain, as PEM.
        public var revocationListFile: String?
        /// Clients without certificates may use these.
        public var preSharedKeys: PreSharedKeys?

        public init(certificateChainFile: String, keyFile: String) {
            self.certificateChainFile = certificateChainFile
            self.keyFile = keyFile
        }
    }

    /// The bytes of session ticket keys that ``setTicketKeys(_:)`` takes.
    public static let ticketKeyByteCount = 80

    private struct State: ~Copyable {
        var context: TLSContext
        var ticketKeys: [UInt8]
    }

    private let state: Locked<State>

    /// Reads the files. Throws `TransportError.tls`, which names the file and OpenSSL's reason.
    /// Session tickets are enabled, under random keys until ``setTicketKeys(_:)``.
    public init(_ options: Options) throws(TransportError) {
        var keys = [UInt8](repeating: 0, count: ServerTLSContext.ticketKeyByteCount)
        precondition(
            RAND_bytes(&keys, Int32(keys.count)) == 1,
            "RAND_bytes failed: \(OpenSSLFailure.take().text)")
        let context = try ServerTLSContext.makeContext(options, ticketKeys: keys)
        state = Locked(State(context: context, ticketKeys: keys))
    }

    /// Reads the files again, or others, for new connections. If it throws, nothing has changed.
    /// Ticket keys stay. Callable from any thread.
    public func replace(with options: Options) throws(TransportError) {
        try state.withLock { state throws(TransportError) in
            state.context = try ServerTLSContext.makeContext(options, ticketKeys: state.ticketKeys)
        }
    }

    /// Sets the keys that encrypt session tickets (``ticketKeyByteCount`` random bytes: 16
    /// of name, 32 of HMAC, 32 of AES), so that tickets outlive a restart. They are secret: with
    /// them, recorded resumed sessions can be decrypted.
    public func setTicketKeys(_ keys: [UInt8]) throws(TransportError) {
        try state.withLock { state throws(TransportError) in
            try ServerTLSContext.setTicketKeys(keys, of: state.context)
            state.ticketKeys = keys
        }
    }

    /// The subject of the server's certificate, such as `/O=Plant/CN=broker.example`; the names
    /// that clients compare may differ.
    public var certificateSubject: String {
        state.withLock { state in
            var text = [UInt8](repeating: 0, count: Self.subjectByteCountMaximum)
            text.withUnsafeMutableBytes { bytes in
                _ = X509_NAME_oneline(
                    X509_get_subject_name(Self.certificate(of: state.context)),
                    bytes.bindMemory(to: CChar.self).baseAddress, Int32(bytes.count))
            }
            return String(decoding: text.prefix { $0 != 0 }, as: UTF8.self)
        }
    }

    /// A longer subject is cut: nobody reads more.
    private static let subjectByteCountMaximum = 512

    /// Unix seconds at which the server's certificate expires.
    public var certificateExpiryUnixSeconds: Int64 {
        state.withLock { state in
            var end = tm()
            let certificate = Self.certificate(of: state.context)
            guard ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &end) == 1 else {
                preconditionFailure(
                    "the server's certificate has no readable expiry date: "
                        + "\(OpenSSLFailure.take().text)")
            }
            return Int64(timegm(&end))
        }
    }

    private static func certificate(of context: borrowing TLSContext) -> OpaquePointer {
        guard let certificate = SSL_CTX_get0_certificate(context.pointer) else {
            preconditionFailure("TLS context \(context.pointer) has no server certificate")
        }
        return certificate
    }

    /// Creates a server session on a connected descriptor; nil when OpenSSL is out of memory.
    func makeSession(descriptor: Int32) -> OpaquePointer? {
        let session = state.withLock { SSL_new($0.context.pointer) }
        guard let session else { return nil }
        guard SSL_set_fd(session, descriptor) == 1 else {
            SSL_free(session)
            return nil
        }
        SSL_set_accept_state(session)
        return session
    }

    private static func makeContext(
        _ options: Options, ticketKeys: [UInt8]
    ) throws(TransportError) -> TLSContext {
        let context = try TLSContext(
            method: TLS_server_method(), from: options.oldestVersion, to: options.newestVersion)
        try context.use(
            certificateChainFile: options.certificateChainFile, keyFile: options.keyFile)
        // Sessions are resumed by ticket only: a cache would cost memory per client and a lock.
        openssl_ctx_set_session_cache(context.pointer, Int(SSL_SESS_CACHE_OFF))
        // One ticket, not OpenSSL's two: a device has one connection, and each costs a record.
        _ = SSL_CTX_set_num_tickets(context.pointer, 1)
        // A resumed session does not verify the certificate again. With another authority or
        // revocation list, earlier tickets are therefore invalid and clients present their
        // certificates again.
        let trust = try trustDigest(options)
        _ = SSL_CTX_set_session_id_context(context.pointer, trust, UInt32(trust.count))
        try setTicketKeys(ticketKeys, of: context)
        if let keys = options.preSharedKeys {
            try context.allowPreSharedKeys()
            keys.attach(to: context.pointer)
        }
        switch options.clientCertificates {
        case .notRequested:
            SSL_CTX_set_verify(context.pointer, SSL_VERIFY_NONE, nil)
        case .optional(let file):
            try context.trust(authorityFile: file)
            SSL_CTX_set_verify(context.pointer, SSL_VERIFY_PEER, nil)
        case .required(let file):
            try context.trust(authorityFile: file)
            SSL_CTX_set_verify(
                context.pointer, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nil)
        }
        if let file = options.revocationListFile { try context.revoke(listFile: file) }
        return context
    }

    /// SHA-256 of all options that decide which client certificates are valid.
    private static func trustDigest(_ options: Options) throws(TransportError) -> [UInt8] {
        var content = Array("martlet ".utf8)
        switch options.clientCertificates {
        case .notRequested: content += "none".utf8
        case .optional(let file): content += try "optional ".utf8 + TLSContext.read(file)
        case .required(let file): content += try "required ".utf8 + TLSContext.read(file)
        }
        if let file = options.revocationListFile { content += try TLSContext.read(file) }
        var digest = [UInt8](repeating: 0, count: 32)
        precondition(
            EVP_Digest(content, content.count, &digest, nil, EVP_sha256(), nil) == 1,
            "SHA-256 failed: \(OpenSSLFailure.take().text)")
        return digest
    }

    private static func setTicketKeys(
        _ keys: [UInt8], of context: borrowing TLSContext
    ) throws(TransportError) {
        var keys = keys
        guard keys.count == ticketKeyByteCount,
            openssl_ctx_set_ticket_keys(context.pointer, &keys, keys.count) == 1
        else {
            throw .tls(
                action: "set session ticket keys", file: "",
                detail: "\(keys.count) bytes, \(ticketKeyByteCount) are needed")
        }
    }
}

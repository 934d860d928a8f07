// What both ends' TLS contexts share: the settings that make OpenSSL cheap on many idle
// non-blocking sockets, and errors that name the file concerned.
import COpenSSL

/// A version of TLS that is spoken here; older ones are not.
public enum TLSVersion: Sendable {
    case tls12
    case tls13

    var code: Int32 {
        switch self {
        case .tls12: TLS1_2_VERSION
        case .tls13: TLS1_3_VERSION
        }
    }
}

/// An SSL_CTX with one owner. OpenSSL counts its own references: a session keeps the context it was
/// made from alive, which is what makes replacing one under way harmless.
struct TLSContext: ~Copyable, @unchecked Sendable {
    // Unchecked: OpenSSL allows SSL_new on one context from many threads, and nothing else is
    // called on a context once it has been set up.
    let pointer: OpaquePointer

    /// AES-128-GCM first: with AES instructions it is the cheapest by far, and nobody breaks it.
    /// ChaCha20 is for the devices without them.
    private static let suites13 =
        "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"
    /// Forward secrecy and authenticated encryption only, as RFC 9325 section 4.2 recommends.
    private static let suites12 = "ECDHE+AESGCM:ECDHE+CHACHA20"

    init(method: OpaquePointer, from oldest: TLSVersion, to newest: TLSVersion)
        throws(TransportError)
    {
        guard let pointer = SSL_CTX_new(method) else {
            throw .tls(action: "create a TLS context", file: "", detail: OpenSSLFailure.take().text)
        }
        openssl_ctx_set_mode(pointer, openssl_mode_for_event_loops())
        // One read(2) brings many records instead of two reads for each.
        openssl_ctx_set_read_ahead(pointer, 1)
        // Renegotiation would let a peer have handshakes without end. A peer that closes without
        // close_notify has closed: our frames carry their own length, so a cut is noticed anyway.
        _ = SSL_CTX_set_options(
            pointer,
            openssl_option_no_renegotiation() | openssl_option_no_compression()
                | openssl_option_server_preference() | openssl_option_ignore_unexpected_eof())
        guard openssl_ctx_set_min_version(pointer, oldest.code) == 1,
            openssl_ctx_set_max_version(pointer, newest.code) == 1,
            SSL_CTX_set_ciphersuites(pointer, TLSContext.suites13) == 1,
            SSL_CTX_set_cipher_list(pointer, TLSContext.suites12) == 1
        else {
            SSL_CTX_free(pointer)
            throw .tls(action: "configure TLS", file: "", detail: OpenSSLFailure.take().text)
        }
        self.pointer = pointer
    }

    deinit {
        SSL_CTX_free(pointer)
    }

    /// Presents the certificate chain (PEM, own certificate first) and its private key (PEM).
    func use(certificateChainFile: String, keyFile: String) throws(TransportError) {
        guard SSL_CTX_use_certificate_chain_file(pointer, certificateChainFile) == 1 else {
            throw .tls(
                action: "read the certificate chain", file: certificateChainFile,
                detail: OpenSSLFailure.take().text)
        }
        guard SSL_CTX_use_PrivateKey_file(pointer, keyFile, SSL_FILETYPE_PEM) == 1 else {
            throw .tls(
                action: "read the private key", file: keyFile, detail: OpenSSLFailure.take().text)
        }
        guard SSL_CTX_check_private_key(pointer) == 1 else {
            throw .tls(
                action: "match the private key with the certificate in \(certificateChainFile)",
                file: keyFile, detail: OpenSSLFailure.take().text)
        }
    }

    /// Trusts the certificate authorities in a PEM file.
    func trust(authorityFile: String) throws(TransportError) {
        guard SSL_CTX_load_verify_locations(pointer, authorityFile, nil) == 1 else {
            throw .tls(
                action: "read the certificate authorities", file: authorityFile,
                detail: OpenSSLFailure.take().text)
        }
    }
}

// The settings that client and server contexts share: they make OpenSSL cheap on many idle
// non-blocking sockets. Errors name the file concerned.
import COpenSSL
import Glibc

/// A supported version of TLS.
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

/// An SSL_CTX with one owner. OpenSSL counts its references: a session keeps its context alive, so
/// a context can be replaced while it is in use.
struct TLSContext: ~Copyable, @unchecked Sendable {
    // Unchecked: OpenSSL allows SSL_new on one context from many threads, and no other function is
    // called on a context after its setup.
    let pointer: OpaquePointer

    /// AES-128-GCM first: it is the fastest on processors with AES instructions. ChaCha20 is for
    /// devices without them.
    private static let suites13 =
        "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"
    /// Forward secrecy and authenticated encryption only, as RFC 9325 section 4.2 recommends.
    private static let suites12 = "ECDHE+AESGCM:ECDHE+CHACHA20"

    /// OpenSSL's memory stays until the process ends. Its exit handler would free it while threads
    /// of clients use it: a program that returns from `main` beside a client could crash.
    private static let keepsMemoryAtExit: Void = {
        _ = OPENSSL_init_crypto(UInt64(OPENSSL_INIT_NO_ATEXIT), nil)
    }()

    init(method: OpaquePointer, from oldest: TLSVersion, to newest: TLSVersion)
        throws(TransportError)
    {
        Self.keepsMemoryAtExit
        // What other code of this thread has left is no cause of a failure here.
        ERR_clear_error()
        guard let pointer = SSL_CTX_new(method) else {
            throw .tls(action: "create a TLS context", file: "", detail: OpenSSLFailure.take().text)
        }
        openssl_ctx_set_mode(pointer, openssl_mode_for_event_loops())
        // One read(2) returns many records instead of two reads for each.
        openssl_ctx_set_read_ahead(pointer, 1)
        ControlRecordBound.enable(in: pointer)
        // Renegotiation would allow a peer any number of handshakes. A close without close_notify
        // counts as a close: packets contain their length, so a truncation is detected anyway.
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

    /// Presents the certificate chain (PEM, own certificate first) and its private key (PEM), whose
    /// file only its owner, and perhaps its group, may read.
    func use(certificateChainFile: String, keyFile: String) throws(TransportError) {
        guard SSL_CTX_use_certificate_chain_file(pointer, certificateChainFile) == 1 else {
            throw .tls(
                action: "read the certificate chain", file: certificateChainFile,
                detail: OpenSSLFailure.take().text)
        }
        var information = stat()
        if stat(keyFile, &information) == 0, information.st_mode & 0o007 != 0 {
            throw .tls(
                action: "use the private key", file: keyFile,
                detail: "others may read it; take that away with: chmod o= \(keyFile)")
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

    /// Suites for pre-shared keys in TLS 1.2: those with forward secrecy first, then those that
    /// small devices have [RFC 9257, RFC 7925]. TLS 1.3 needs none of its own.
    private static let suites12PreShared =
        suites12 + ":ECDHE-PSK-CHACHA20-POLY1305:PSK-AES128-GCM-SHA256:PSK-AES256-GCM-SHA384"
        + ":PSK-AES128-CCM"

    func allowPreSharedKeys() throws(TransportError) {
        guard SSL_CTX_set_cipher_list(pointer, TLSContext.suites12PreShared) == 1 else {
            throw .tls(
                action: "allow pre-shared keys", file: "", detail: OpenSSLFailure.take().text)
        }
    }

    /// Refuses the certificates in the revocation lists of a PEM file. Every authority of a chain
    /// must have a list that has not expired.
    func revoke(listFile: String) throws(TransportError) {
        let store = SSL_CTX_get_cert_store(pointer)
        guard let lookup = X509_STORE_add_lookup(store, X509_LOOKUP_file()),
            X509_load_crl_file(lookup, listFile, X509_FILETYPE_PEM) > 0,
            X509_STORE_set_flags(
                store, UInt(X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL)) == 1
        else {
            throw .tls(
                action: "read the revocation lists", file: listFile,
                detail: OpenSSLFailure.take().text)
        }
    }

    /// The bytes of a file of certificates or lists.
    static func read(_ path: String) throws(TransportError) -> [UInt8] {
        let file = fopen(path, "re")
        guard let file else {
            throw .tls(action: "read", file: path, detail: systemErrorText(errno))
        }
        defer { fclose(file) }
        var content: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 65_536)
        while case let count = fread(&chunk, 1, chunk.count, file), count > 0 {
            content += chunk[..<count]
            guard content.count <= TransportLimits.trustFileBytesMaximum else {
                throw .tls(
                    action: "read", file: path,
                    detail: "larger than \(TransportLimits.trustFileBytesMaximum) bytes")
            }
        }
        return content
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

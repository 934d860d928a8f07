// A certificate with its key from a file that a password protects (PKCS #12, RFC 7292), as Apple's
// tools export it.

import COpenSSL
import Relay

enum PasswordedIdentity {
    /// Reads a file.
    ///
    /// - Parameter password: empty for none.
    static func read(_ bytes: [UInt8], password: String) throws(KeyFailure) -> ClientIdentity {
        // Older exports use ciphers that OpenSSL 3 has in a part of its own.
        let legacy = OSSL_PROVIDER_try_load(nil, "legacy", 1)
        defer { if let legacy { OSSL_PROVIDER_unload(legacy) } }
        guard let source = BIO_new_mem_buf(bytes, Int32(clamping: bytes.count)) else {
            preconditionFailure("BIO_new_mem_buf of \(bytes.count) bytes failed")
        }
        defer { BIO_free(source) }
        guard let file = d2i_PKCS12_bio(source, nil) else {
            throw KeyFailure(description: "is no file of PKCS #12 (.p12)")
        }
        defer { PKCS12_free(file) }
        guard PKCS12_verify_mac(file, password, -1) == 1 else {
            throw KeyFailure(description: "has another password than passwordFile says")
        }
        var key: OpaquePointer?
        var certificate: OpaquePointer?
        guard PKCS12_parse(file, password, &key, &certificate, nil) == 1 else {
            throw KeyFailure(description: "cannot be decrypted: its cipher is not supported")
        }
        defer {
            EVP_PKEY_free(key)
            X509_free(certificate)
        }
        guard let key, let certificate else {
            throw KeyFailure(description: "needs a certificate and its private key")
        }
        return ClientIdentity(
            certificate: text { PEM_write_bio_X509($0, certificate) },
            key: text { PEM_write_bio_PrivateKey($0, key, nil, nil, 0, nil, nil) })
    }

    private static func text(_ write: (OpaquePointer) -> Int32) -> [UInt8] {
        guard let sink = BIO_new(BIO_s_mem()) else {
            preconditionFailure("no memory: \(ERR_peek_error())")
        }
        defer { BIO_free(sink) }
        let code = write(sink)
        precondition(code == 1, "PEM: \(code)")
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 4_096)
        while true {
            let count = BIO_read(sink, &chunk, Int32(chunk.count))
            guard count > 0 else { return bytes }
            bytes += chunk[..<Int(count)]
        }
    }
}

// Owners of OpenSSL's objects: each is freed with its last reference. Classes and not
// `~Copyable` structs, because keys are shared by configuration and logins, and none of it is hot.
import COpenSSL

/// A key, public or private. It is never changed after it is made, and OpenSSL lets any number of
/// threads use such a key at once (openssl-threads(7)), which is why it may cross them.
final class OwnedKey: Sendable {
    nonisolated(unsafe) let pointer: OpaquePointer

    init(taking pointer: OpaquePointer) {
        self.pointer = pointer
    }

    deinit { EVP_PKEY_free(pointer) }

    /// A new private key on NIST P-256, the curve that every TLS stack and every secure element of
    /// a small device speaks.
    static func generateP256() throws(CredentialError) -> OwnedKey {
        guard let context = EVP_PKEY_CTX_new_from_name(nil, "EC", nil) else {
            throw .openSSL("EVP_PKEY_CTX_new_from_name")
        }
        defer { EVP_PKEY_CTX_free(context) }
        var key: OpaquePointer?
        guard EVP_PKEY_keygen_init(context) == 1,
            EVP_PKEY_CTX_set_group_name(context, "P-256") == 1,
            EVP_PKEY_generate(context, &key) == 1, let key
        else { throw .openSSL("EVP_PKEY_generate") }
        return OwnedKey(taking: key)
    }
}

/// An X.509 certificate; never changed after it is made.
final class OwnedCertificate: Sendable {
    nonisolated(unsafe) let pointer: OpaquePointer

    init(taking pointer: OpaquePointer) {
        self.pointer = pointer
    }

    deinit { X509_free(pointer) }
}

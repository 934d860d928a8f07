// A private key with its X.509 certificate: creates, signs and checks them.
import COpenSSL
import Glibc

/// A private key and its certificate.
struct CertifiedKey {
    let certificate: OwnedCertificate
    let key: OwnedKey

    /// An X.509 extension in OpenSSL's text form.
    typealias Extension = (identifier: Int32, text: String)

    /// What makes a certificate an authority that may sign servers and nothing below it [RFC 5280,
    /// 4.2.1].
    static let authorityExtensions: [Extension] = [
        (NID_basic_constraints, "critical,CA:TRUE,pathlen:0"),
        (NID_key_usage, "critical,keyCertSign,cRLSign"),
        (NID_subject_key_identifier, "hash"),
    ]

    /// What a TLS server needs. `names` are host names or addresses without commas.
    static func serverExtensions(names: [String]) -> [Extension] {
        let alternatives = names.map { isAddress($0) ? "IP:\($0)" : "DNS:\($0)" }
        return [
            (NID_basic_constraints, "critical,CA:FALSE"),
            (NID_key_usage, "critical,digitalSignature"),
            (NID_ext_key_usage, "serverAuth"),
            (NID_subject_key_identifier, "hash"),
            (NID_authority_key_identifier, "keyid"),
            (NID_subject_alt_name, alternatives.joined(separator: ",")),
        ]
    }

    /// Makes a P-256 key and a certificate for it, signed by `signer`, or by itself for nil.
    static func make(
        subject: String, extensions: [Extension], unixSeconds: Int64, lifetimeSeconds: Int64,
        signer: CertifiedKey?
    ) throws(CredentialError) -> CertifiedKey {
        let key = try OwnedKey.generateP256()
        guard let pointer = X509_new() else { throw .openSSL("X509_new") }
        let certificate = OwnedCertificate(taking: pointer)
        let issuer = signer?.certificate.pointer ?? pointer
        // One hour back: a device whose clock lags a little must be able to connect at once.
        guard X509_set_version(pointer, 2) == 1,
            // 63 random bits: positive, and unlike any other of this authority.
            ASN1_INTEGER_set_uint64(X509_get_serialNumber(pointer), SystemRandom.number() >> 1)
                == 1,
            ASN1_TIME_set(X509_getm_notBefore(pointer), time_t(unixSeconds - 3600)) != nil,
            ASN1_TIME_set(X509_getm_notAfter(pointer), time_t(unixSeconds + lifetimeSeconds))
                != nil,
            X509_set_pubkey(pointer, key.pointer) == 1,
            X509_NAME_add_entry_by_NID(
                X509_get_subject_name(pointer), NID_commonName, MBSTRING_UTF8, subject, -1, -1, 0)
                == 1,
            X509_set_issuer_name(pointer, X509_get_subject_name(issuer)) == 1
        else { throw .openSSL("X509_set") }
        for (identifier, text) in extensions {
            try addExtension(identifier, text, to: pointer, issuer: issuer)
        }
        guard X509_sign(pointer, signer?.key.pointer ?? key.pointer, EVP_sha256()) > 0 else {
            throw .openSSL("X509_sign")
        }
        return CertifiedKey(certificate: certificate, key: key)
    }

    /// Whether certificate and key belong together, the certificate is signed with `signer`, and it
    /// is valid now and for ``DevelopmentCertificates/remainingSecondsMinimum`` more.
    func isGood(unixSeconds: Int64, signer: OwnedKey) -> Bool {
        var now = time_t(unixSeconds)
        var later = time_t(unixSeconds + DevelopmentCertificates.remainingSecondsMinimum)
        return X509_check_private_key(certificate.pointer, key.pointer) == 1
            && X509_verify(certificate.pointer, signer.pointer) == 1
            && X509_cmp_time(X509_get0_notBefore(certificate.pointer), &now) < 0
            && X509_cmp_time(X509_get0_notAfter(certificate.pointer), &later) > 0
    }

    /// Whether the certificate speaks for each of these names and addresses.
    func covers(_ names: [String]) -> Bool {
        names.allSatisfy { name in
            Self.isAddress(name)
                ? X509_check_ip_asc(certificate.pointer, name, 0) == 1
                : X509_check_host(certificate.pointer, name, name.utf8.count, 0, nil) == 1
        }
    }

    private static func addExtension(
        _ identifier: Int32, _ text: String, to certificate: OpaquePointer, issuer: OpaquePointer
    ) throws(CredentialError) {
        var context = X509V3_CTX()
        X509V3_set_ctx(&context, issuer, certificate, nil, nil, 0)
        guard let made = X509V3_EXT_conf_nid(nil, &context, identifier, text) else {
            throw .openSSL("X509V3_EXT_conf_nid")
        }
        defer { X509_EXTENSION_free(made) }
        guard X509_add_ext(certificate, made, -1) == 1 else { throw .openSSL("X509_add_ext") }
    }

    private static func isAddress(_ name: String) -> Bool {
        var address = in6_addr()
        return inet_pton(AF_INET, name, &address) == 1 || inet_pton(AF_INET6, name, &address) == 1
    }
}

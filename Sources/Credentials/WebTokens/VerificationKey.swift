// The keys that an app's account server signs with, as the broker holds them: public halves
// only. Each key has one algorithm, decided when it is loaded; no token can choose another.
import COpenSSL
import Glibc

/// How tokens are signed.
public enum SignatureAlgorithm: String, CaseIterable, Sendable {
    /// RSA PKCS #1 v1.5 with SHA-256 [RFC 7518, 3.3].
    case rs256 = "RS256"
    /// ECDSA on P-256 with SHA-256 [RFC 7518, 3.4].
    case es256 = "ES256"
    /// Ed25519 [RFC 8037].
    case edDSA = "EdDSA"
    /// HMAC with SHA-256 [RFC 7518, 3.2]: whoever can verify can also sign, so it is only ever
    /// chosen by name, with ``VerificationKey/init(sharedSecret:path:)``.
    case hs256 = "HS256"
}

/// One key that vouches for the users of an app.
public struct VerificationKey: Sendable {
    private enum Material: Sendable {
        case publicKey(OwnedKey)
        case sharedSecret([UInt8])
    }

    /// What tokens must be signed with; their `alg` has to say the same.
    public let algorithm: SignatureAlgorithm
    /// Tells this key from another one of the same name: a part of its digest.
    public let mark: UInt64
    private let material: Material

    /// Shorter RSA keys are within reach of factoring [NIST SP 800-131A].
    public static let rsaBitCountMinimum = 2_048
    /// As long as the digest [RFC 7518, 3.2].
    public static let sharedSecretByteCountMinimum = 32

    /// Takes a public key in PEM form (`BEGIN PUBLIC KEY`): RSA, EC on P-256, or Ed25519.
    ///
    /// - Parameter path: where the text is from, for errors.
    public init(publicKeyPEM text: [UInt8], path: String) throws(CredentialError) {
        if String(decoding: text, as: UTF8.self).contains("PRIVATE KEY") {
            throw .unusable(
                path: path, reason: "this is a private key; only its public half belongs here")
        }
        guard let pointer = PEMFile.reading(text, { PEM_read_bio_PUBKEY($0, nil, nil, nil) }) else {
            throw .unusable(path: path, reason: "there is no PEM public key in it")
        }
        try self.init(publicKey: OwnedKey(taking: pointer), path: path)
    }

    /// Takes a public key: RSA, EC on P-256, or Ed25519.
    ///
    /// - Parameter path: where the key is from, for errors.
    init(publicKey key: OwnedKey, path: String) throws(CredentialError) {
        if EVP_PKEY_is_a(key.pointer, "RSA") == 1 {
            guard EVP_PKEY_get_bits(key.pointer) >= Self.rsaBitCountMinimum else {
                throw .unusable(
                    path: path, reason: "an RSA key needs \(Self.rsaBitCountMinimum) bits or more")
            }
            algorithm = .rs256
        } else if EVP_PKEY_is_a(key.pointer, "EC") == 1, Self.isOnP256(key) {
            algorithm = .es256
        } else if EVP_PKEY_is_a(key.pointer, "ED25519") == 1 {
            algorithm = .edDSA
        } else {
            throw .unusable(path: path, reason: "the key is neither RSA, EC on P-256 nor Ed25519")
        }
        guard Self.isSound(key) else {
            throw .unusable(
                path: path, reason: "the key is unsafe: its numbers cannot be those of a key pair")
        }
        material = .publicKey(key)
        guard let encoded = Self.encoded(key) else {
            throw .unusable(path: path, reason: "the key cannot be written as DER")
        }
        mark = SHA256Digest(of: encoded.span.bytes).firstWord
    }

    /// Whether the numbers can be those of a key pair: an exponent of 1 or an even modulus makes
    /// signatures that anybody can write [SP 800-56B, 6.4.2]. OpenSSL checks no number of Ed25519;
    /// 32 zero bytes are a point of order 4, under which signatures are worth nothing.
    private static func isSound(_ key: OwnedKey) -> Bool {
        if EVP_PKEY_is_a(key.pointer, "ED25519") == 1 {
            var bytes = [UInt8](repeating: 0, count: 32)
            var count = bytes.count
            return EVP_PKEY_get_raw_public_key(key.pointer, &bytes, &count) == 1
                && bytes.contains { $0 != 0 }
        }
        guard let context = EVP_PKEY_CTX_new_from_pkey(nil, key.pointer, nil) else { return false }
        defer {
            EVP_PKEY_CTX_free(context)
            ERR_clear_error()
        }
        return EVP_PKEY_public_check(context) == 1
    }

    /// Takes a secret that the account server and this broker share, for
    /// ``SignatureAlgorithm/hs256``.
    ///
    /// - Parameter path: where the secret is from, for errors.
    public init(sharedSecret: [UInt8], path: String) throws(CredentialError) {
        guard sharedSecret.count >= Self.sharedSecretByteCountMinimum else {
            throw .unusable(
                path: path,
                reason: "a shared secret needs \(Self.sharedSecretByteCountMinimum) bytes or more")
        }
        algorithm = .hs256
        material = .sharedSecret(sharedSecret)
        mark = SHA256Digest(of: sharedSecret.span.bytes).firstWord
    }

    /// Reads a key from a file: the public half as PEM, or the secret's bytes.
    ///
    /// - Parameter algorithm: what the key is to be used for; a file with another kind of key is
    ///   refused.
    public init(path: String, algorithm: SignatureAlgorithm) throws(CredentialError) {
        if algorithm == .hs256 {
            try self.init(sharedSecret: SecretFile.read(path), path: path)
            return
        }
        guard let text = try PEMFile.read(path) else {
            throw .file(call: "open", path: path, code: ENOENT)
        }
        try self.init(publicKeyPEM: text, path: path)
        guard self.algorithm == algorithm else {
            throw .unusable(
                path: path,
                reason: "it is a key for \(self.algorithm.rawValue), not \(algorithm.rawValue)")
        }
    }

    /// Whether `signature` is this key's over `bytes`.
    func vouches(for bytes: RawSpan, signature: [UInt8]) -> Bool {
        switch material {
        case .sharedSecret(let secret):
            guard let claimed = SHA256Digest(stored: signature) else { return false }
            return SHA256Digest(of: bytes, key: secret.span.bytes).matches(claimed)
        case .publicKey(let key):
            // Whatever OpenSSL says of a stranger's bytes is an answer, not an error to keep.
            defer { ERR_clear_error() }
            guard algorithm == .es256 else { return verify(bytes, signature: signature, key: key) }
            guard let encoded = Self.encodedECDSA(signature) else { return false }
            return verify(bytes, signature: encoded, key: key)
        }
    }

    private func verify(_ bytes: RawSpan, signature: [UInt8], key: OwnedKey) -> Bool {
        guard let context = EVP_MD_CTX_new() else { return false }
        defer { EVP_MD_CTX_free(context) }
        // Ed25519 hashes by itself and takes no digest.
        let digest = algorithm == .edDSA ? nil : EVP_sha256()
        guard EVP_DigestVerifyInit(context, nil, digest, nil, key.pointer) == 1 else {
            return false
        }
        return bytes.withUnsafeBytes { input in
            EVP_DigestVerify(
                context, signature, signature.count,
                input.bindMemory(to: UInt8.self).baseAddress, input.count) == 1
        }
    }

    /// JWS writes r and s as 32 bytes each [RFC 7518, 3.4]; OpenSSL wants the DER of X9.62.
    private static func encodedECDSA(_ signature: [UInt8]) -> [UInt8]? {
        guard signature.count == 64, let pair = ECDSA_SIG_new() else { return nil }
        defer { ECDSA_SIG_free(pair) }
        guard let r = BN_bin2bn(Array(signature[..<32]), 32, nil),
            let s = BN_bin2bn(Array(signature[32...]), 32, nil),
            ECDSA_SIG_set0(pair, r, s) == 1
        else { return nil }
        var encoded: UnsafeMutablePointer<UInt8>?
        let count = i2d_ECDSA_SIG(pair, &encoded)
        guard count > 0, let encoded else { return nil }
        defer { CRYPTO_free(encoded, nil, 0) }
        return Array(UnsafeBufferPointer(start: encoded, count: Int(count)))
    }

    private static func encoded(_ key: OwnedKey) -> [UInt8]? {
        var encoded: UnsafeMutablePointer<UInt8>?
        let count = i2d_PUBKEY(key.pointer, &encoded)
        guard count > 0, let encoded else { return nil }
        defer { CRYPTO_free(encoded, nil, 0) }
        return Array(UnsafeBufferPointer(start: encoded, count: Int(count)))
    }

    private static func isOnP256(_ key: OwnedKey) -> Bool {
        var name = [CChar](repeating: 0, count: 32)
        guard EVP_PKEY_get_group_name(key.pointer, &name, name.count, nil) == 1 else {
            return false
        }
        // OpenSSL's name for P-256.
        return name.withUnsafeBufferPointer { String(cString: $0.baseAddress!) } == "prime256v1"
    }
}

/// The keys of all apps, and the identity providers with theirs.
public struct VerificationKeys: Sendable {
    private var keys: [String: [String: VerificationKey]] = [:]
    private var issuers: [String: TokenIssuer] = [:]

    public init() {}

    /// Adds or replaces the key that tokens of `app` name as `kid`.
    public mutating func set(_ key: VerificationKey, id: String, app: String) {
        keys[app, default: [:]][id] = key
    }

    /// Takes a key away: tokens that it signed are no longer good.
    public mutating func remove(id: String, app: String) {
        keys[app]?[id] = nil
    }

    /// Adds or replaces an identity provider, by its name.
    public mutating func set(_ issuer: TokenIssuer) { issuers[issuer.name] = issuer }

    func key(id: String, app: String) -> VerificationKey? { keys[app]?[id] }

    func hasKeys(ofApp app: String) -> Bool { keys[app]?.isEmpty == false }

    func issuer(named name: String) -> TokenIssuer? { issuers[name] }

    /// Calls `body` with the app, the voucher and the mark of each key.
    public func forEachMark(_ body: (_ app: String, _ voucher: String, _ mark: UInt64) -> Void) {
        for issuer in issuers.values {
            for (id, key) in issuer.keys.keys {
                body(issuer.app, issuer.voucher(ofKey: id), key.mark)
            }
        }
        for (app, keys) in keys {
            for (id, key) in keys { body(app, id, key.mark) }
        }
    }
}

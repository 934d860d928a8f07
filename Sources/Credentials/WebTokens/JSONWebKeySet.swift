// The keys of an identity provider as it publishes them: a JSON Web Key Set [RFC 7517, 5]. Keys for
// other purposes and of kinds that are not known here are left out, as section 5 asks for.
import COpenSSL
import FoundationEssentials
import Glibc

/// Public keys by their ids.
public struct JSONWebKeySet: Sendable {
    /// 256 KiB: providers publish two or three keys of 2 KiB.
    public static let byteCountMaximum = 256 << 10
    /// As many keys as can be in use while they are rotated, many times over.
    public static let countMaximum = 64

    public private(set) var keys: [String: VerificationKey] = [:]

    /// Reads a key set from a file.
    ///
    /// - Throws: ``CredentialError`` if the file cannot be read, is not a key set, holds a private
    ///   key or two keys of one id, or has no key that can be used.
    public init(path: String) throws(CredentialError) {
        guard let content = try PEMFile.read(path, byteCountMaximum: Self.byteCountMaximum) else {
            throw .file(call: "open", path: path, code: ENOENT)
        }
        try self.init(json: content, path: path)
    }

    /// Reads a key set.
    ///
    /// - Parameter path: where the text is from, for errors.
    /// - Throws: as ``init(path:)``.
    public init(json: [UInt8], path: String) throws(CredentialError) {
        let set: WrittenSet
        do {
            set = try JSONDecoder().decode(WrittenSet.self, from: Data(json))
        } catch {
            throw .unusable(path: path, reason: "this is not a JSON Web Key Set")
        }
        guard set.keys.count <= Self.countMaximum else {
            throw .unusable(path: path, reason: "it has more than \(Self.countMaximum) keys")
        }
        for written in set.keys {
            guard !written.isPrivate else {
                throw .unusable(
                    path: path, reason: "it has a private key; only public halves belong here")
            }
            guard let id = written.kid, !id.isEmpty, written.isForSignatures,
                let key = try VerificationKey(written, path: path)
            else { continue }
            guard keys.updateValue(key, forKey: id) == nil else {
                throw .unusable(path: path, reason: "it has two keys with the kid \"\(id)\"")
            }
        }
        guard !keys.isEmpty else {
            throw .unusable(
                path: path, reason: "it has no key with a kid for RS256, ES256 or EdDSA")
        }
    }
}

private struct WrittenSet: Decodable {
    let keys: [WrittenKey]
}

/// One key as it is written [RFC 7517, 4; RFC 7518, 6; RFC 8037, 2].
struct WrittenKey: Decodable {
    let kty: String
    let kid: String?
    let use: String?
    let alg: String?
    let crv: String?
    let x: String?
    let y: String?
    let n: String?
    let e: String?
    let isPrivate: Bool

    private enum CodingKeys: String, CodingKey {
        case kty, kid, use, alg, crv, x, y, n, e, d, k
    }

    init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        kty = try members.decode(String.self, forKey: .kty)
        func text(_ key: CodingKeys) throws -> String? {
            try members.decodeIfPresent(String.self, forKey: key)
        }
        (kid, use, alg) = (try text(.kid), try text(.use), try text(.alg))
        (crv, x, y) = (try text(.crv), try text(.x), try text(.y))
        (n, e) = (try text(.n), try text(.e))
        // `d` of RSA and elliptic keys, `k` of shared secrets.
        isPrivate = members.contains(.d) || members.contains(.k)
    }

    var isForSignatures: Bool { use == nil || use == "sig" }
}

extension VerificationKey {
    /// The key of a set; nil if it is of a kind or for an algorithm that is not known here.
    fileprivate init?(_ written: WrittenKey, path: String) throws(CredentialError) {
        func number(_ text: String?, _ name: String) throws(CredentialError) -> [UInt8] {
            guard let text, let bytes = Base64URL.decode(Array(text.utf8)[...]), !bytes.isEmpty
            else {
                throw .unusable(
                    path: path, reason: "the key \"\(written.kid ?? "")\" has no valid \(name)")
            }
            return bytes
        }
        let (algorithm, key): (SignatureAlgorithm, OwnedKey?)
        switch (written.kty, written.crv) {
        case ("RSA", _):
            algorithm = .rs256
            guard written.isFor(algorithm) else { return nil }
            key = OwnedKey.rsa(
                modulus: try number(written.n, "n"), exponent: try number(written.e, "e"))
        case ("EC", "P-256"):
            algorithm = .es256
            guard written.isFor(algorithm) else { return nil }
            key = OwnedKey.p256(x: try number(written.x, "x"), y: try number(written.y, "y"))
        case ("OKP", "Ed25519"):
            algorithm = .edDSA
            guard written.isFor(algorithm) else { return nil }
            key = OwnedKey.ed25519(try number(written.x, "x"))
        default: return nil
        }
        guard let key else {
            throw .unusable(
                path: path, reason: "the key \"\(written.kid ?? "")\" is no \(written.kty) key")
        }
        try self.init(publicKey: key, path: path)
        precondition(self.algorithm == algorithm, "\(algorithm) became \(self.algorithm)")
    }
}

extension WrittenKey {
    fileprivate func isFor(_ algorithm: SignatureAlgorithm) -> Bool {
        alg == nil || alg == algorithm.rawValue
    }
}

extension OwnedKey {
    /// A public RSA key; nil if OpenSSL refuses the numbers, which are big-endian.
    static func rsa(modulus: [UInt8], exponent: [UInt8]) -> OwnedKey? {
        guard let builder = OSSL_PARAM_BLD_new() else { return nil }
        defer { OSSL_PARAM_BLD_free(builder) }
        let modulus = BN_bin2bn(modulus, Int32(modulus.count), nil)
        let exponent = BN_bin2bn(exponent, Int32(exponent.count), nil)
        defer {
            BN_free(modulus)
            BN_free(exponent)
        }
        guard let modulus, let exponent, openssl_push_modulus(builder, modulus) == 1,
            openssl_push_exponent(builder, exponent) == 1
        else { return nil }
        return make("RSA", builder)
    }

    /// A public key on P-256; nil if the numbers, of 32 bytes each, are no point of the curve.
    static func p256(x: [UInt8], y: [UInt8]) -> OwnedKey? {
        guard x.count == 32, y.count == 32, let builder = OSSL_PARAM_BLD_new() else { return nil }
        defer { OSSL_PARAM_BLD_free(builder) }
        // The uncompressed form of a point [SEC 1, 2.3.3].
        let point = [0x04] + x + y
        // The builder keeps the pointer until the key is made.
        return point.withUnsafeBytes { point in
            guard openssl_push_p256(builder) == 1,
                openssl_push_point(builder, point.baseAddress, point.count) == 1
            else { return nil }
            return make("EC", builder)
        }
    }

    /// A public Ed25519 key of 32 bytes.
    static func ed25519(_ bytes: [UInt8]) -> OwnedKey? {
        defer { ERR_clear_error() }
        return EVP_PKEY_new_raw_public_key_ex(nil, "ED25519", nil, bytes, bytes.count)
            .map(OwnedKey.init(taking:))
    }

    private static func make(_ kind: String, _ builder: OpaquePointer) -> OwnedKey? {
        defer { ERR_clear_error() }
        guard let context = EVP_PKEY_CTX_new_from_name(nil, kind, nil) else { return nil }
        defer { EVP_PKEY_CTX_free(context) }
        guard let parameters = OSSL_PARAM_BLD_to_param(builder) else { return nil }
        defer { OSSL_PARAM_free(parameters) }
        var key: OpaquePointer?
        guard EVP_PKEY_fromdata_init(context) == 1,
            EVP_PKEY_fromdata(context, &key, openssl_public_key_selection(), parameters) == 1,
            let key
        else { return nil }
        return OwnedKey(taking: key)
    }
}

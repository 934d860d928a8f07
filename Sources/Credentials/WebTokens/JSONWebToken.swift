// JSON Web Tokens from an app's own account server:
//
//     base64url({"typ":"JWT","alg":"RS256","cty":"diuit-auth;v=1","kid":"k1"})
//     .base64url({"iss":"demo","sub":"pump-7","iat":…,"exp":…,"nonce":"…"})
//     .base64url(signature)
//
// and from identity providers (``TokenIssuer``), whose claims templates explain.
//
// Verifies a token with the given keys and time. No claim is trusted before the signature is
// verified, except that `iss` and `kid` select the key.
import FoundationEssentials

/// Why a JSON Web Token is refused. The texts go to the log and, shortened to a reason code, to the
/// peer; they hold nothing of the signature.
public enum JSONWebTokenError: Error, Hashable, Sendable {
    /// Longer than ``JSONWebToken/byteCountMaximum``.
    case tooLarge
    /// Not three parts of strict base64url, or a part that is not the JSON it should be.
    case malformed
    /// An `alg` that is never accepted, `none` among them.
    case unsupportedAlgorithm
    /// A `crit` header: the token asks for rules that are not known here [RFC 7515, 4.1.11].
    case criticalHeader
    /// No app with keys, and no identity provider, has the name in `iss`.
    case unknownIssuer
    /// No key of this id belongs to the app or the identity provider that the token names.
    case unknownKey
    /// The token's `alg` is not the one its key is for.
    case algorithmMismatch
    case wrongSignature
    /// A claim that must be there is not.
    case missingClaim(String)
    /// A claim has the wrong type or an impossible value.
    case malformedClaim(String)
    /// The time of `exp` is over.
    case expired
    /// `nbf` or `iat` lie in the future.
    case notYetValid
    /// `aud` names others.
    case wrongAudience
}

/// A token with a valid signature and times.
public struct JSONWebToken: Hashable, Sendable {
    /// The app: `iss`, or that of the identity provider. Like ``user`` and ``device`` it is a text
    /// of any length and content: whether it is a possible id is for the core to judge.
    public let app: String
    /// The user (`sub`).
    public let user: String
    /// The device (`device`, or `tag`), if the token is bound to one.
    public let device: String?
    /// Unix seconds at which the token, and the session's right to be connected, ends (`exp`).
    public let expiryUnixSeconds: Int64
    /// Unix seconds at which it was made (`iat`).
    public let issuedUnixSeconds: Int64?
    /// The server's nonce that it answers (`nonce`), of an account server's token; whether it was
    /// used before is for the caller.
    public let nonce: String?
    /// What its content is, as its header says (`cty`).
    public let contentType: String?
    /// What a single token is revoked by (`jti`), of an account server's token.
    public let id: String?
    /// What the bearer may do (`rights`, or as its identity provider's templates say), for the core
    /// to read; nil where the token does not say.
    public let rights: [String]?
    /// Words of claims that stand for whatever rights are among them. An identity provider has
    /// other words there too, such as `openid`.
    public let claimedRights: [String]
    /// The key that signed it, so that revoking the key can end its sessions: `kid`, after the name
    /// of an identity provider.
    public let voucher: String
    /// The mark of that key.
    public let keyMark: UInt64

    /// 8 KiB: four times what account servers make, and little enough to parse for strangers.
    public static let byteCountMaximum = 8_192
    /// How far the account server's clock may be ahead of the broker's: what it has just signed is
    /// not refused for that. There is no such allowance at the end, which is when `exp` says: a
    /// clock that differs makes a token shorter there, and none longer than it was meant to be.
    public static let clockDifferenceSecondsMaximum: Int64 = 60

    /// Whether a credential is to be read as a token: three parts, of which the first is the base64
    /// of `{"`.
    public static func hasForm(of bytes: RawSpan) -> Bool {
        bytes.withUnsafeBytes { bytes in
            bytes.starts(with: "eyJ".utf8)
                && bytes.filter { $0 == UInt8(ascii: ".") }.count == 2
        }
    }

    /// Verifies a token.
    ///
    /// - Parameters:
    ///   - bytes: as the peer presents it.
    ///   - keys: of all apps; the token's `iss` and `kid` choose one.
    ///   - audience: what `aud` of an account server's token must contain where it is present. nil
    ///     refuses tokens that have one: they are meant for somebody else [RFC 7519, 4.1.3].
    ///   - unixSeconds: the time now.
    public init(
        verifying bytes: RawSpan, keys: VerificationKeys, audience: String? = nil,
        unixSeconds: Int64
    ) throws(JSONWebTokenError) {
        guard bytes.byteCount <= Self.byteCountMaximum else { throw .tooLarge }
        let text = bytes.withUnsafeBytes { Array($0) }
        let parts = text.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard parts.count == 3, let headerJSON = Base64URL.decode(parts[0]),
            let claimsJSON = Base64URL.decode(parts[1]), let signature = Base64URL.decode(parts[2]),
            let header = try? JSONDecoder().decode(Header.self, from: Data(headerJSON)),
            let claimed = try? JSONDecoder().decode(ClaimedApp.self, from: Data(claimsJSON))
        else { throw .malformed }

        guard let algorithm = SignatureAlgorithm(rawValue: header.alg) else {
            throw .unsupportedAlgorithm
        }
        if header.hasCriticalExtensions { throw .criticalHeader }
        // Until the signature is checked, `iss` is a claim that only chooses the key.
        let issuer = keys.issuer(named: claimed.iss)
        let found =
            issuer.map { $0.keys.keys[header.kid] } ?? keys.key(id: header.kid, app: claimed.iss)
        guard issuer != nil || keys.hasKeys(ofApp: claimed.iss) else { throw .unknownIssuer }
        guard let key = found else { throw .unknownKey }
        guard key.algorithm == algorithm else { throw .algorithmMismatch }
        let signedByteCount = parts[0].count + 1 + parts[1].count
        guard
            key.vouches(
                for: text.span.bytes.extracting(first: signedByteCount), signature: signature)
        else { throw .wrongSignature }

        keyMark = key.mark
        contentType = header.cty
        if let issuer {
            let times = try Self.decode(TimeClaims.self, claimsJSON)
            try times.check(unixSeconds: unixSeconds)
            guard let audiences = times.aud else { throw .missingClaim("aud") }
            guard audiences.contains(issuer.audience) else { throw .wrongAudience }
            let claims = try Self.decode(NamedClaims.self, claimsJSON, with: issuer.claimDecoder)
            app = issuer.app
            user = try issuer.user.text(of: claims)
            device = try issuer.device?.text(of: claims)
            (rights, claimedRights) = try issuer.rights(of: claims)
            (expiryUnixSeconds, issuedUnixSeconds) = (times.exp, times.iat)
            (nonce, id) = (nil, nil)
            voucher = issuer.voucher(ofKey: header.kid)
            return
        }
        let claims = try Self.decode(Claims.self, claimsJSON)
        try claims.times.check(unixSeconds: unixSeconds)
        if let audiences = claims.times.aud, !audiences.contains(where: { $0 == audience }) {
            throw .wrongAudience
        }
        app = claimed.iss
        user = claims.sub
        device = claims.device
        (expiryUnixSeconds, issuedUnixSeconds) = (claims.times.exp, claims.times.iat)
        nonce = claims.nonce
        id = claims.jti
        (rights, claimedRights) = (claims.rights, [])
        voucher = header.kid
    }

    private static func decode<Value: Decodable>(
        _ type: Value.Type, _ json: [UInt8], with decoder: JSONDecoder = JSONDecoder()
    ) throws(JSONWebTokenError) -> Value {
        do {
            return try decoder.decode(type, from: Data(json))
        } catch let error as JSONWebTokenError {
            throw error
        } catch DecodingError.keyNotFound(let key, _) {
            throw .missingClaim(key.stringValue)
        } catch DecodingError.valueNotFound(_, let context), DecodingError.typeMismatch(
            _, let context)
        {
            throw .malformedClaim(context.codingPath.first?.stringValue ?? "")
        } catch {
            throw .malformed
        }
    }
}

/// The protected header. `typ` says nothing that is not known from where the token is presented,
/// and keys that a header brings along (`jwk`, `jku`, `x5c`) are never looked at.
private struct Header: Decodable {
    let alg: String
    let kid: String
    let cty: String?
    let hasCriticalExtensions: Bool

    private enum CodingKeys: String, CodingKey {
        case alg, kid, cty, crit
    }

    init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        alg = try members.decode(String.self, forKey: .alg)
        // Without a key id there is no key, and the refusal says so.
        kid = try members.decodeIfPresent(String.self, forKey: .kid) ?? ""
        cty = try members.decodeIfPresent(String.self, forKey: .cty)
        hasCriticalExtensions = members.contains(.crit)
    }
}

/// The one claim that is read before the signature.
private struct ClaimedApp: Decodable {
    let iss: String
}

/// The claims of an account server's token.
private struct Claims: Decodable {
    let sub: String
    let times: TimeClaims
    let nonce: String?
    let jti: String?
    let device: String?
    let rights: [String]?

    private enum CodingKeys: String, CodingKey {
        case sub, nonce, jti, device, tag, rights
    }

    init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        sub = try members.decode(String.self, forKey: .sub)
        times = try TimeClaims(from: decoder)
        nonce = try members.decodeIfPresent(String.self, forKey: .nonce)
        jti = try members.decodeIfPresent(String.self, forKey: .jti)
        let tag = try members.decodeIfPresent(String.self, forKey: .tag)
        device = try members.decodeIfPresent(String.self, forKey: .device) ?? tag
        if let tag, tag != device { throw JSONWebTokenError.malformedClaim("tag") }
        rights = try members.decodeIfPresent([String].self, forKey: .rights)
    }
}

/// The claims that say when and for whom any token is valid [RFC 7519, 4.1].
private struct TimeClaims: Decodable {
    let exp: Int64
    let iat: Int64?
    let nbf: Int64?
    let aud: [String]?

    private enum CodingKeys: String, CodingKey {
        case exp, iat, nbf, aud
    }

    init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        exp = try Self.time(.exp, in: members)
        iat = members.contains(.iat) ? try Self.time(.iat, in: members) : nil
        nbf = members.contains(.nbf) ? try Self.time(.nbf, in: members) : nil
        // One text or a list of them [RFC 7519, 4.1.3].
        if let single = try? members.decode(String.self, forKey: .aud) {
            aud = [single]
        } else {
            aud = try members.decodeIfPresent([String].self, forKey: .aud)
        }
    }

    func check(unixSeconds: Int64) throws(JSONWebTokenError) {
        let latest = unixSeconds + JSONWebToken.clockDifferenceSecondsMaximum
        // Valid before `exp`, not at it [RFC 7519, 4.1.4].
        if exp <= unixSeconds { throw .expired }
        if let nbf, nbf > latest { throw .notYetValid }
        if let iat, iat > latest { throw .notYetValid }
    }

    /// Seconds since 1970 as a number [RFC 7519, 2], or a text in ISO 8601.
    private static func time(
        _ key: CodingKeys, in members: KeyedDecodingContainer<CodingKeys>
    ) throws -> Int64 {
        if let text = try? members.decode(String.self, forKey: key) {
            guard let seconds = InternetTime.unixSeconds(text) else {
                throw JSONWebTokenError.malformedClaim(key.stringValue)
            }
            return seconds
        }
        let number = try members.decode(Double.self, forKey: key)
        guard number >= 0, number <= Double(InternetTime.unixSecondsMaximum) else {
            throw JSONWebTokenError.malformedClaim(key.stringValue)
        }
        return Int64(number)
    }
}

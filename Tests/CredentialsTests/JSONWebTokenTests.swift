// JSON Web Tokens of account servers and of attackers.
import Credentials
import Testing

private let now: Int64 = 1_800_000_000
private let goodClaims = #"{"iss":"demo","sub":"pump-7","iat":1799999990,"exp":1800003600}"#

/// Keys are slow to make, so all tests share them.
private nonisolated(unsafe) let rsa = SigningKey(.rsa(bitCount: 2048))
private nonisolated(unsafe) let elliptic = SigningKey(.elliptic(curve: "P-256"))
private nonisolated(unsafe) let edwards = SigningKey(.ed25519)
private let secret = Array("a secret that is at least 32 bytes long".utf8)

/// What the broker of these tests holds: four keys of the app `demo`, one of `other`.
private func brokerKeys() throws -> VerificationKeys {
    var keys = VerificationKeys()
    for (id, key) in [("r1", rsa), ("e1", elliptic), ("d1", edwards)] {
        keys.set(try VerificationKey(publicKeyPEM: key.publicPEM, path: id), id: id, app: "demo")
    }
    keys.set(try VerificationKey(sharedSecret: secret, path: "h1"), id: "h1", app: "demo")
    keys.set(
        try VerificationKey(publicKeyPEM: elliptic.publicPEM, path: "r1"), id: "r1", app: "other")
    return keys
}

private func judge(
    _ token: String, keys: VerificationKeys? = nil, audience: String? = nil,
    unixSeconds: Int64 = now
) throws -> JSONWebToken {
    try JSONWebToken(
        verifying: token.utf8.span.bytes, keys: keys ?? brokerKeys(), audience: audience,
        unixSeconds: unixSeconds)
}

/// A token signed by the RSA key with these claims.
private func token(_ claims: String) -> String {
    rsa.token(header: #"{"alg":"RS256","kid":"r1"}"#, claims: claims)
}

private func sharedSecretToken(header: String, secret: [UInt8]) -> String {
    let text = base64URL(Array(header.utf8)) + "." + base64URL(Array(goodClaims.utf8))
    let signature = SHA256Digest(of: text.utf8.span.bytes, key: secret.span.bytes)
    return text + "." + base64URL(signature.bytes)
}

@Suite struct JSONWebTokenTests {
    @Test func `a token of each algorithm is accepted`() throws {
        let tokens = [
            rsa.token(header: #"{"alg":"RS256","kid":"r1"}"#, claims: goodClaims),
            elliptic.token(header: #"{"alg":"ES256","kid":"e1"}"#, claims: goodClaims),
            edwards.token(header: #"{"alg":"EdDSA","kid":"d1"}"#, claims: goodClaims),
            sharedSecretToken(header: #"{"alg":"HS256","kid":"h1"}"#, secret: secret),
        ]
        for text in tokens {
            let good = try judge(text)
            #expect(good.app == "demo")
            #expect(good.user == "pump-7")
            #expect(good.expiryUnixSeconds == now + 3600)
        }
    }

    @Test func `elliptic signatures with leading zeros are accepted`() throws {
        // One in 128 has a zero as the first byte of r or s, which its DER form drops.
        for count in 0..<600 {
            let claims = #"{"iss":"demo","sub":"u\#(count)","exp":1800003600}"#
            let text = elliptic.token(header: #"{"alg":"ES256","kid":"e1"}"#, claims: claims)
            #expect(try judge(text).user == "u\(count)")
        }
    }

    @Test func `the header of the source document is accepted`() throws {
        let header = #"{"typ":"JWT","alg":"RS256","cty":"diuit-auth;v=1","kid":"r1"}"#
        let claims =
            #"{"iss":"demo","sub":"a@b.example","iat":"2027-01-15T07:59:00Z","exp":"#
            + #""2027-01-15T16:00:00.5+08:00","nonce":"123asdf"}"#
        let good = try judge(rsa.token(header: header, claims: claims), unixSeconds: now - 1)
        #expect(good.user == "a@b.example")
        #expect(good.nonce == "123asdf")
        #expect(good.expiryUnixSeconds == now)
        #expect(good.issuedUnixSeconds == now - 60)
        #expect(good.voucher == "r1")
    }

    @Test func `optional claims are returned`() throws {
        let good = try judge(
            token(
                #"{"iss":"demo","sub":"u","exp":1800000001.9,"jti":"j1","tag":"main","#
                    + #""rights":["publish a/b"],"aud":["x","martlet"],"unknown":{}}"#),
            audience: "martlet")
        #expect(good.id == "j1")
        #expect(good.device == "main")
        #expect(good.rights == ["publish a/b"])
        #expect(good.expiryUnixSeconds == now + 1)
        #expect(try judge(token(goodClaims)).device == nil)
    }

    /// Claims, and why they are refused at `now`; all are well signed.
    static let refusedClaims: [(claims: String, error: JSONWebTokenError)] = [
        (#"{"iss":"demo","sub":"u","exp":1799999940}"#, .expired),
        (#"{"iss":"demo","sub":"u","exp":0}"#, .expired),
        (#"{"iss":"demo","sub":"u"}"#, .missingClaim("exp")),
        (#"{"iss":"demo","exp":1800003600}"#, .missingClaim("sub")),
        (#"{"sub":"u","exp":1800003600}"#, .malformed),
        (#"{"iss":"demo","sub":7,"exp":1800003600}"#, .malformedClaim("sub")),
        (#"{"iss":"demo","sub":"u","exp":null}"#, .malformedClaim("exp")),
        (#"{"iss":"demo","sub":"u","exp":"soon"}"#, .malformedClaim("exp")),
        (#"{"iss":"demo","sub":"u","exp":-1}"#, .malformedClaim("exp")),
        (#"{"iss":"demo","sub":"u","exp":1e300}"#, .malformedClaim("exp")),
        (#"{"iss":"demo","sub":"u","exp":1800003600,"iat":1800000061}"#, .notYetValid),
        (#"{"iss":"demo","sub":"u","exp":1800003600,"nbf":1800000061}"#, .notYetValid),
        (#"{"iss":"demo","sub":"u","exp":1800003600,"nbf":{}}"#, .malformedClaim("nbf")),
        (#"{"iss":"demo","sub":"u","exp":1800003600,"aud":"somebody"}"#, .wrongAudience),
        (#"{"iss":"demo","sub":"u","exp":1800003600,"aud":[]}"#, .wrongAudience),
        (
            #"{"iss":"demo","sub":"u","exp":1800003600,"device":"a","tag":"b"}"#,
            .malformedClaim("tag")
        ),
        (#"{"iss":"demo","sub":"u","exp":1800003600,"rights":"all"}"#, .malformedClaim("rights")),
        (#"["iss"]"#, .malformed),
        ("", .malformed),
    ]

    @Test(arguments: refusedClaims)
    func `invalid claims are refused`(claims: String, error: JSONWebTokenError) {
        #expect(throws: error) { try judge(token(claims)) }
    }

    @Test func `a clock may be ahead by a minute, but the expiry has no tolerance`() throws {
        let claims = { (exp: Int64, iat: Int64) in
            token(#"{"iss":"demo","sub":"u","exp":\#(exp),"iat":\#(iat)}"#)
        }
        _ = try judge(claims(now + 1, now + 60))
        #expect(throws: JSONWebTokenError.expired) { try judge(claims(now, now)) }
        #expect(throws: JSONWebTokenError.notYetValid) { try judge(claims(now + 99, now + 61)) }
    }
}

@Suite struct JSONWebTokenAttackTests {
    private let signed = token(goodClaims)

    private func refusal(_ text: String, keys: VerificationKeys? = nil) -> JSONWebTokenError? {
        do {
            _ = try judge(text, keys: keys)
            return nil
        } catch {
            return error as? JSONWebTokenError
        }
    }

    @Test func `the algorithm none is refused`() {
        for name in ["none", "None", "NONE", "", "HS512", "RS1", "rs256"] {
            let header = base64URL(Array(#"{"alg":"\#(name)","kid":"r1"}"#.utf8))
            let claims = base64URL(Array(goodClaims.utf8))
            #expect(refusal("\(header).\(claims).") == .unsupportedAlgorithm, "\(name)")
        }
    }

    @Test func `the public key is not accepted as a shared secret`() {
        let forged = sharedSecretToken(
            header: #"{"alg":"HS256","kid":"r1"}"#, secret: rsa.publicPEM)
        #expect(refusal(forged) == .algorithmMismatch)
    }

    @Test func `a key serves its own algorithm only`() {
        let header = #"{"alg":"ES256","kid":"r1"}"#
        #expect(refusal(rsa.token(header: header, claims: goodClaims)) == .algorithmMismatch)
    }

    @Test func `every changed byte invalidates the token`() {
        let bytes = Array(signed.utf8)
        for index in bytes.indices {
            var changed = bytes
            changed[index] =
                changed[index] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")
            #expect(refusal(String(decoding: changed, as: UTF8.self)) != nil, "byte \(index)")
        }
    }

    @Test func `every truncated token is refused`() {
        for count in 0..<signed.utf8.count {
            #expect(refusal(String(signed.prefix(count))) != nil, "\(count) bytes")
        }
    }

    @Test func `short, long and empty signatures are refused`() {
        for (header, key) in [
            (#"{"alg":"ES256","kid":"e1"}"#, elliptic), (#"{"alg":"EdDSA","kid":"d1"}"#, edwards),
            (#"{"alg":"RS256","kid":"r1"}"#, rsa),
        ] {
            let text = base64URL(Array(header.utf8)) + "." + base64URL(Array(goodClaims.utf8))
            let signature = key.sign(text)
            #expect(refusal("\(text).\(base64URL(signature))") == nil)
            let zeros = [UInt8](repeating: 0, count: signature.count)
            for wrong in [Array(signature.dropLast()), signature + [0], [], zeros] {
                #expect(refusal("\(text).\(base64URL(wrong))") == .wrongSignature)
            }
        }
    }

    @Test func `a key in the token itself is not used`() {
        let stranger = SigningKey(.ed25519)
        let headers = [
            #"{"alg":"EdDSA"}"#, #"{"alg":"EdDSA","kid":"x"}"#, #"{"alg":"EdDSA","kid":"../e1"}"#,
            #"{"alg":"EdDSA","jwk":{"kty":"OKP"},"jku":"https://evil.example/"}"#,
        ]
        for header in headers {
            #expect(refusal(stranger.token(header: header, claims: goodClaims)) == .unknownKey)
        }
        let posing = stranger.token(header: #"{"alg":"EdDSA","kid":"d1"}"#, claims: goodClaims)
        #expect(refusal(posing) == .wrongSignature)
    }

    @Test func `the key of one app is not valid for another`() {
        let claims = #"{"iss":"other","sub":"u","exp":1800003600}"#
        let foreign = edwards.token(header: #"{"alg":"EdDSA","kid":"d1"}"#, claims: claims)
        #expect(refusal(foreign) == .unknownKey)
        let nobody = #"{"iss":"nobody","sub":"u","exp":1800003600}"#
        let unknown = edwards.token(header: #"{"alg":"EdDSA","kid":"d1"}"#, claims: nobody)
        #expect(refusal(unknown) == .unknownIssuer)
        let sameName = rsa.token(header: #"{"alg":"RS256","kid":"r1"}"#, claims: claims)
        #expect(refusal(sameName) == .algorithmMismatch)
    }

    @Test func `a removed key is refused`() throws {
        var keys = try brokerKeys()
        keys.remove(id: "r1", app: "demo")
        #expect(refusal(signed, keys: keys) == .unknownKey)
    }

    @Test func `unknown critical headers are refused`() {
        let header = #"{"alg":"RS256","kid":"r1","crit":["b64"],"b64":false}"#
        #expect(refusal(rsa.token(header: header, claims: goodClaims)) == .criticalHeader)
    }

    @Test func `the encoding is strict`() {
        let parts = signed.split(separator: ".")
        #expect(refusal("") == .malformed)
        #expect(refusal("..") == .malformed)
        #expect(refusal(parts[..<2].joined(separator: ".")) == .malformed)
        #expect(refusal(signed + ".") == .malformed)
        #expect(refusal(signed + "=") == .malformed)
        #expect(refusal(" " + signed) == .malformed)
        #expect(refusal("\(parts[0]).\(parts[1]).+/+/") == .malformed)
    }

    @Test func `a huge token is refused before it is decoded`() {
        let padding = String(repeating: "x", count: 8192)
        let huge = token(#"{"iss":"demo","sub":"u","exp":1800003600,"x":"\#(padding)"}"#)
        #expect(refusal(huge) == .tooLarge)
        let nested = String(repeating: "[", count: 5000)
        #expect(refusal(token(#"{"iss":"demo","x":\#(nested)"#)) == .malformed)
    }
}

@Suite struct VerificationKeyTests {
    private func complaint(_ pem: [UInt8]) -> String {
        do {
            _ = try VerificationKey(publicKeyPEM: pem, path: "k.pem")
            return ""
        } catch {
            return error.description
        }
    }

    @Test func `the algorithm follows from the key`() throws {
        let algorithms = try [rsa, elliptic, edwards].map {
            try VerificationKey(publicKeyPEM: $0.publicPEM, path: "").algorithm
        }
        #expect(algorithms == [.rs256, .es256, .edDSA])
    }

    @Test func `a private key is refused by name`() {
        #expect(
            complaint(edwards.privatePEM)
                == "k.pem: this is a private key; only its public half belongs here")
    }

    @Test func `weak and foreign keys are refused`() {
        let short = SigningKey(.rsa(bitCount: 1024))
        #expect(complaint(short.publicPEM) == "k.pem: an RSA key needs 2048 bits or more")
        let curve = SigningKey(.elliptic(curve: "P-384"))
        #expect(
            complaint(curve.publicPEM)
                == "k.pem: the key is neither RSA, EC on P-256 nor Ed25519")
        #expect(complaint([]) == "k.pem: there is no PEM public key in it")
        #expect(throws: CredentialError.self) {
            try VerificationKey(sharedSecret: .init(repeating: 1, count: 31), path: "")
        }
    }
}

// Tokens of identity providers, in the shape of Keycloak's and Auth0's.
import COpenSSL
import Credentials
import Foundation
import Testing

private let now: Int64 = 1_800_000_000
private nonisolated(unsafe) let rsa = SigningKey(.rsa(bitCount: 2048))
private nonisolated(unsafe) let elliptic = SigningKey(.elliptic(curve: "P-256"))
private nonisolated(unsafe) let edwards = SigningKey(.ed25519)

/// A provider's key set with three keys for signatures, and one for encryption.
private let keySet = """
    {"keys":[\(rsa.webKey(kid: "r1")),\(elliptic.webKey(kid: "e1")),\(edwards.webKey(kid: "d1")),
    {"kid":"enc","kty":"RSA","use":"enc","alg":"RSA-OAEP","n":"AQAB","e":"AQAB"},
    {"kid":"big","kty":"EC","crv":"P-521","x":"AA","y":"AA"}]}
    """

/// Claims of Keycloak's access token for a client, and of Auth0's for an API.
private let keycloakClaims =
    #"{"exp":1800000300,"iat":1800000000,"jti":"a-1","#
    + #""iss":"https://login.example.com/realms/plant","#
    + #""aud":["martlet","account"],"sub":"0b1c-77","typ":"Bearer","azp":"console","#
    + #""realm_access":{"roles":["operator","offline_access"]},"#
    + #""resource_access":{"martlet":{"roles":["send:*","receipts:*"]}},"#
    + #""scope":"profile email","preferred_username":"alice","client_id":"hmi-3"}"#
private let auth0Claims =
    #"{"iss":"https://plant.eu.auth0.example/","sub":"auth0|5f7c8ec7c33c6c004bbafe82","#
    + #""aud":"https://martlet.example","iat":1800000000,"exp":1800086400,"#
    + #""scope":"subscribe:plant/# presence:*","permissions":["publish:plant/in/#"],"#
    + #""https://plant.example/user":"bob"}"#

private func judge(_ token: String, _ issuers: TokenIssuer...) throws -> JSONWebToken {
    var keys = VerificationKeys()
    for issuer in issuers { keys.set(issuer) }
    return try JSONWebToken(
        verifying: token.utf8.span.bytes, keys: keys, audience: nil, unixSeconds: now)
}

private func keycloak(
    user: String = "${preferred_username}", device: String? = "${client_id}",
    rights: [String]? = ["${resource_access.martlet.roles}", "subscribe:plant/${sub}/#"]
) throws -> TokenIssuer {
    TokenIssuer(
        name: "https://login.example.com/realms/plant", audience: "martlet", app: "plant",
        keys: try JSONWebKeySet(json: Array(keySet.utf8), path: "jwks"),
        user: try ClaimTemplate(user), device: try device.map { try ClaimTemplate($0) },
        rights: try rights?.map { try ClaimTemplate($0) })
}

private func token(_ claims: String, kid: String = "r1", alg: String = "RS256") -> String {
    rsa.token(header: #"{"alg":"\#(alg)","typ":"JWT","kid":"\#(kid)"}"#, claims: claims)
}

@Suite struct TokenIssuerTests {
    @Test func `a token of Keycloak names app, user, device and rights by templates`() throws {
        let good = try judge(token(keycloakClaims), keycloak())
        #expect(good.app == "plant" && good.user == "alice" && good.device == "hmi-3")
        #expect(good.rights == ["subscribe:plant/0b1c-77/#"])
        #expect(good.claimedRights == ["send:*", "receipts:*"])
        #expect(good.expiryUnixSeconds == now + 300)
        #expect(good.voucher == "https://login.example.com/realms/plant r1")
        let plain = try judge(
            token(keycloakClaims), keycloak(user: "${sub}", device: nil, rights: nil))
        #expect(plain.user == "0b1c-77" && plain.device == nil && plain.rights == nil)
    }

    @Test
    func `a token of Auth0 has its rights in a list, in words, and a user in a claim of one's own`()
        throws
    {
        let issuer = TokenIssuer(
            name: "https://plant.eu.auth0.example/", audience: "https://martlet.example",
            app: "plant", keys: try JSONWebKeySet(json: Array(keySet.utf8), path: "jwks"),
            user: try ClaimTemplate("${https://plant.example/user}"),
            rights: [
                try ClaimTemplate("${permissions}"), try ClaimTemplate("${scope}"),
                try ClaimTemplate("${absent}"),
            ])
        let good = try judge(token(auth0Claims), issuer)
        #expect(good.user == "bob")
        #expect(good.rights == [])
        #expect(good.claimedRights == ["publish:plant/in/#", "subscribe:plant/#", "presence:*"])
    }

    @Test(arguments: ["RS256", "ES256", "EdDSA"])
    func `a key of each kind in a key set verifies`(algorithm: String) throws {
        let (key, kid) =
            switch algorithm {
            case "RS256": (rsa, "r1")
            case "ES256": (elliptic, "e1")
            default: (edwards, "d1")
            }
        let text = key.token(
            header: #"{"alg":"\#(algorithm)","kid":"\#(kid)"}"#, claims: keycloakClaims)
        #expect(try judge(text, keycloak()).user == "alice")
    }

    /// Changes of Keycloak's claims, and why the token is refused.
    static let refused: [(old: String, new: String, error: JSONWebTokenError)] = [
        (#"["martlet","account"]"#, #"["account"]"#, .wrongAudience),
        (#""aud":["martlet","account"],"#, "", .missingClaim("aud")),
        ("1800000300", "1800000000", .expired),
        (#""preferred_username":"alice""#, #""x":1"#, .missingClaim("preferred_username")),
        (
            #""preferred_username":"alice""#, #""preferred_username":7"#,
            .malformedClaim("preferred_username")
        ),
        (#""sub":"0b1c-77""#, #""sub":"+""#, .malformedClaim("sub")),
        (#""sub":"0b1c-77""#, ##""sub":"a/#""##, .malformedClaim("sub")),
        (
            #"["send:*","receipts:*"]"#, #"["send:*",7]"#,
            .malformedClaim("resource_access.martlet.roles")
        ),
        ("https://login.example.com/realms/plant", "https://evil.example", .unknownIssuer),
    ]

    @Test(arguments: refused)
    func `a token whose claims do not fit is refused`(
        old: String, new: String, error: JSONWebTokenError
    ) throws {
        #expect(keycloakClaims.contains(old))
        let claims = keycloakClaims.replacingOccurrences(of: old, with: new)
        #expect(throws: error) { try judge(token(claims), keycloak()) }
    }

    /// A claim that is empty would give `send:*` to its bearer, and one with the text between two
    /// claims the name of somebody else.
    @Test func `a claim within a text is not empty and not ambiguous`() throws {
        func user(_ template: String, _ members: String) throws -> String {
            let claims = keycloakClaims.replacingOccurrences(
                of: #""sub":"0b1c-77""#, with: members)
            return try judge(
                token(claims), keycloak(user: template, device: nil, rights: nil)
            ).user
        }
        #expect(try user("${tenant}.${sub}", #""tenant":"a-b","sub":"c""#) == "a-b.c")
        for (template, members, claim) in [
            ("${tenant}-${sub}", #""tenant":"a-b","sub":"c""#, "tenant"),
            ("${tenant}-${sub}", #""tenant":"","sub":"c""#, "tenant"),
            ("u-${sub}", #""sub":"""#, "sub"),
        ] {
            #expect(throws: JSONWebTokenError.malformedClaim(claim), "\(template) \(members)") {
                try user(template, members)
            }
        }
        let empty = keycloakClaims.replacingOccurrences(
            of: #""sub":"0b1c-77""#, with: #""sub":"""#)
        #expect(throws: JSONWebTokenError.malformedClaim("sub")) {
            try judge(token(empty), keycloak())
        }
        #expect(throws: ClaimTemplateError.self) { try ClaimTemplate("${tenant}${sub}") }
    }

    /// Users edit claims at some providers: their depth is not the event loop's.
    @Test func `claims that no template names may be anything`() throws {
        let deep = String(repeating: #"{"a":["#, count: 250) + String(repeating: "]}", count: 250)
        func claims(_ name: String) -> String {
            keycloakClaims.replacingOccurrences(
                of: #""preferred_username":"alice""#,
                with: #""preferred_username":"alice","\#(name)":\#(deep)"#)
        }
        #expect(try judge(token(claims("user_metadata")), keycloak()).user == "alice")
        #expect(throws: JSONWebTokenError.malformedClaim("site")) {
            try judge(token(claims("site")), keycloak(rights: ["${site}"]))
        }
    }

    @Test func `a key for another purpose, algorithm or issuer is unknown`() throws {
        #expect(throws: JSONWebTokenError.unknownKey) {
            try judge(token(keycloakClaims, kid: "enc"), keycloak())
        }
        #expect(throws: JSONWebTokenError.algorithmMismatch) {
            try judge(token(keycloakClaims, kid: "e1"), keycloak())
        }
        // The app of an issuer's tokens is no issuer itself.
        let claims = keycloakClaims.replacingOccurrences(
            of: "https://login.example.com/realms/plant", with: "plant")
        #expect(throws: JSONWebTokenError.unknownIssuer) { try judge(token(claims), keycloak()) }
    }

    @Test(arguments: ["AQ", "AA", "Ag"])
    func `an exponent under which anybody can sign is refused`(exponent: String) throws {
        let set = keySet.replacingOccurrences(of: #""e":"AQAB""#, with: #""e":"\#(exponent)""#)
        #expect(set != keySet)
        #expect(throws: CredentialError.self) {
            try JSONWebKeySet(json: Array(set.utf8), path: "jwks")
        }
    }

    @Test func `an Ed25519 key of zero bytes is refused`() throws {
        let zeros = String(repeating: "A", count: 43)
        let set = #"{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"z","x":"\#(zeros)"}]}"#
        #expect(throws: CredentialError.self) {
            try JSONWebKeySet(json: Array(set.utf8), path: "jwks")
        }
    }

    @Test(arguments: [
        ("", "not a JSON Web Key Set"),
        (#"{"keys":[]}"#, "no key with a kid"),
        (#"{"keys":[{"kty":"RSA","kid":"a","n":"AQAB","e":"AQAB"}]}"#, "2048 bits"),
        (#"{"keys":[{"kty":"RSA","kid":"a","e":"AQAB"}]}"#, "no valid n"),
        (#"{"keys":[{"kty":"EC","crv":"P-256","kid":"a","x":"AA","y":"AA"}]}"#, "is no EC key"),
        (#"{"keys":[{"kty":"oct","kid":"a","k":"AQAB"}]}"#, "private key"),
    ])
    func `a key set that cannot be used says why`(text: String, reason: String) {
        let error = #expect(throws: CredentialError.self) {
            try JSONWebKeySet(json: Array(text.utf8), path: "jwks")
        }
        #expect("\(error.map { "\($0)" } ?? "")".contains(reason), "\(String(describing: error))")
    }

    @Test func `a key set with two keys of one id is refused`() {
        let text = #"{"keys":[\#(rsa.webKey(kid: "a")),\#(edwards.webKey(kid: "a"))]}"#
        #expect(throws: CredentialError.self) {
            try JSONWebKeySet(json: Array(text.utf8), path: "jwks")
        }
    }

    @Test(arguments: ["", "${}", "a${b"])
    func `a text that is no template is refused`(text: String) {
        #expect(throws: ClaimTemplateError.self) { try ClaimTemplate(text) }
    }
}

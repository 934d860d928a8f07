// An identity provider whose tokens are accepted: its name, whom its tokens are for, its keys, and
// what its claims mean.

import FoundationEssentials

/// An issuer of JSON Web Tokens [RFC 7519, 4.1.1].
public struct TokenIssuer: Sendable {
    /// The tokens' `iss`.
    public let name: String
    /// What the tokens' `aud` must contain: a token for another service must not open this one
    /// [RFC 8725, 3.9].
    public let audience: String
    /// The app whose users it vouches for.
    public let app: String
    public let keys: JSONWebKeySet
    /// The user that a token is for.
    public let user: ClaimTemplate
    /// The device that a token is bound to; nil for any.
    public let device: ClaimTemplate?
    /// What the bearers may do; nil for the rights of the app.
    public let rights: [ClaimTemplate]?

    public init(
        name: String, audience: String, app: String, keys: JSONWebKeySet, user: ClaimTemplate,
        device: ClaimTemplate? = nil, rights: [ClaimTemplate]? = nil
    ) {
        self.name = name
        self.audience = audience
        self.app = app
        self.keys = keys
        self.user = user
        self.device = device
        self.rights = rights
    }

    /// A decoder of the claims that the templates name.
    var claimDecoder: JSONDecoder {
        let templates = [user] + (device.map { [$0] } ?? []) + (rights ?? [])
        return NamedClaims.decoder(of: Set(templates.flatMap(\.claimNames)))
    }

    /// What the claims of a token allow: the rights of templates with a text of their own, and the
    /// words of claims that stand alone; no list for the rights of the app.
    func rights(
        of claims: NamedClaims
    ) throws(JSONWebTokenError) -> (rights: [String]?, claimed: [String]) {
        guard let rights else { return (nil, []) }
        var (own, claimed): ([String], [String]) = ([], [])
        for template in rights {
            if let words = try template.words(of: claims) {
                claimed += words
            } else {
                own.append(try template.right(of: claims))
            }
        }
        return (own, claimed)
    }

    /// What names a key of this issuer among those of all issuers of its app.
    public func voucher(ofKey id: String) -> String { "\(name) \(id)" }
}

// Texts in which claims of a token take the place of `${name}`, so that tokens of an identity
// provider, whose claims are not ours to choose, name a user, a device and rights:
//
//     ${sub}                        the claim
//     ${realm_access.roles}         a member of a claim that is an object
//     send:plant-${sub}             a claim within a text

/// A value of a claim, as far as templates use it.
indirect enum ClaimValue: Decodable, Hashable, Sendable {
    case text(String)
    case list([ClaimValue])
    case object([String: ClaimValue])
    /// A number, a boolean or nothing.
    case other

    init(from decoder: any Decoder) throws {
        let value = try decoder.singleValueContainer()
        if let text = try? value.decode(String.self) {
            self = .text(text)
        } else if let list = try? value.decode([ClaimValue].self) {
            self = .list(list)
        } else if let object = try? value.decode([String: ClaimValue].self) {
            self = .object(object)
        } else {
            self = .other
        }
    }

    /// The value that a name with dots leads to. A whole name that has dots comes first: claims of
    /// one's own are URLs where a provider wants them to be.
    func member(_ name: Substring) -> ClaimValue? {
        guard case .object(let members) = self else { return nil }
        if let member = members[String(name)] { return member }
        guard let dot = name.firstIndex(of: ".") else { return nil }
        return members[String(name[..<dot])]?.member(name[name.index(after: dot)...])
    }
}

/// Why a text is not a template.
public struct ClaimTemplateError: Error, Hashable, Sendable, CustomStringConvertible {
    public let description: String
}

/// A text with names of claims.
public struct ClaimTemplate: Hashable, Sendable {
    private enum Part: Hashable, Sendable {
        case text(String)
        case claim(String)
    }

    private let parts: [Part]

    /// Reads a template.
    ///
    /// - Throws: ``ClaimTemplateError`` for an empty text, and for `${` without a name or an end.
    public init(_ text: String) throws(ClaimTemplateError) {
        var parts: [Part] = []
        var rest = text[...]
        while let start = rest.firstRange(of: "${") {
            if start.lowerBound > rest.startIndex {
                parts.append(.text(String(rest[..<start.lowerBound])))
            }
            guard let end = rest[start.upperBound...].firstIndex(of: "}"),
                end > start.upperBound
            else {
                throw ClaimTemplateError(description: "\"\(text)\" has ${ without a claim and }")
            }
            parts.append(.claim(String(rest[start.upperBound..<end])))
            rest = rest[rest.index(after: end)...]
        }
        if !rest.isEmpty { parts.append(.text(String(rest))) }
        guard !parts.isEmpty else { throw ClaimTemplateError(description: "is empty") }
        self.parts = parts
    }

    /// The text of a token's claims.
    ///
    /// - Throws: ``JSONWebTokenError/missingClaim(_:)`` and
    ///   ``JSONWebTokenError/malformedClaim(_:)``, with the name of the claim.
    func text(of claims: ClaimValue) throws(JSONWebTokenError) -> String {
        var result = ""
        for part in parts {
            switch part {
            case .text(let text): result += text
            case .claim(let name):
                switch claims.member(name[...]) {
                case .text(let text)?: result += text
                case nil: throw .missingClaim(name)
                default: throw .malformedClaim(name)
                }
            }
        }
        return result
    }

    /// The rights that a token's claims make. A template that is one claim stands for each text of
    /// a list, and for the words of a text, as those of OAuth's `scope`; a token without that claim
    /// has none of them. Within a longer text the claim is a name, so characters with a meaning in
    /// rights are refused: a user whose name is `*` must not get the rights of all.
    ///
    /// - Throws: as ``text(of:)``.
    func rights(of claims: ClaimValue) throws(JSONWebTokenError) -> [String] {
        if parts.count == 1, case .claim(let name) = parts[0] {
            switch claims.member(name[...]) {
            case nil: return []
            case .text(let text)?:
                return text.split(separator: " ").map(String.init)
            case .list(let values)?:
                var rights: [String] = []
                for value in values {
                    guard case .text(let text) = value else { throw .malformedClaim(name) }
                    rights.append(text)
                }
                return rights
            case .object?, .other?: throw .malformedClaim(name)
            }
        }
        for case .claim(let name) in parts {
            guard case .text(let text)? = claims.member(name[...]) else { continue }
            guard !text.utf8.contains(where: Self.rightsCharacters.contains) else {
                throw .malformedClaim(name)
            }
        }
        return [try text(of: claims)]
    }

    private static let rightsCharacters = Set("*+#/%:! ".utf8)
}

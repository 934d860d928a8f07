// Texts in which claims of a token take the place of `${name}`, so that tokens of an identity
// provider, whose claims are not ours to choose, name a user, a device and rights:
//
//     ${sub}                        the claim
//     ${realm_access.roles}         a member of a claim that is an object
//     send:plant-${sub}             a claim within a text

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
    /// - Throws: ``ClaimTemplateError`` for an empty text, for `${` without a name or an end, and
    ///   for two claims without a text between them: `ab` and `c` would be the same as `a` and
    ///   `bc`.
    public init(_ text: String) throws(ClaimTemplateError) {
        var parts: [Part] = []
        var rest = text[...]
        while let start = rest.firstRange(of: "${") {
            if start.lowerBound > rest.startIndex {
                parts.append(.text(String(rest[..<start.lowerBound])))
            } else if !parts.isEmpty {
                throw ClaimTemplateError(
                    description: "\"\(text)\" has two claims without a text between them")
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

    /// The claims that it names.
    var claimNames: [String] {
        parts.compactMap { if case .claim(let name) = $0 { name } else { nil } }
    }

    /// The text of a template without claims; nil for others.
    public var literal: String? {
        guard parts.count == 1, case .text(let text) = parts[0] else { return nil }
        return text
    }

    /// The text of a token's claims. Within a longer text a claim is not empty, and does not
    /// contain the text between it and the next claim: no two tokens with other claims have one
    /// text.
    ///
    /// - Throws: ``JSONWebTokenError/missingClaim(_:)`` and
    ///   ``JSONWebTokenError/malformedClaim(_:)``, with the name of the claim.
    func text(of claims: NamedClaims) throws(JSONWebTokenError) -> String {
        var result = ""
        for (index, part) in parts.enumerated() {
            switch part {
            case .text(let text): result += text
            case .claim(let name):
                guard let value = claims[name] else { throw .missingClaim(name) }
                guard case .text(let text) = value else { throw .malformedClaim(name) }
                if parts.count > 1, text.isEmpty { throw .malformedClaim(name) }
                if index + 2 < parts.count, case .text(let between) = parts[index + 1],
                    text.utf8.firstRange(of: between.utf8) != nil
                {
                    throw .malformedClaim(name)
                }
                result += text
            }
        }
        return result
    }

    /// The words of the claim, if the template is one claim: the texts of a list, or those of a
    /// text with blanks, as OAuth's `scope`. A token without the claim has none. Nil for a template
    /// with a text of its own.
    ///
    /// - Throws: ``JSONWebTokenError/malformedClaim(_:)`` if the claim is neither.
    func words(of claims: NamedClaims) throws(JSONWebTokenError) -> [String]? {
        guard parts.count == 1, case .claim(let name) = parts[0] else { return nil }
        switch claims[name] {
        case nil: return []
        case .text(let text)?: return text.split(separator: " ").map(String.init)
        case .list(let words)?: return words
        case .other?: throw .malformedClaim(name)
        }
    }

    /// The right that a text with claims makes. A claim in it is a name, so characters with a
    /// meaning in rights are refused: a user whose name is `*` must not get the rights of all.
    ///
    /// - Throws: as ``text(of:)``.
    func right(of claims: NamedClaims) throws(JSONWebTokenError) -> String {
        for name in claimNames {
            guard case .text(let text)? = claims[name] else { continue }
            guard !text.utf8.contains(where: Self.rightsCharacters.contains) else {
                throw .malformedClaim(name)
            }
        }
        return try text(of: claims)
    }

    private static let rightsCharacters = Set("*+#/%:! ".utf8)
}

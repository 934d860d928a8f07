// The claims of an identity provider's token that templates name. Others are not decoded: users
// edit some of them at the provider, and they may be of any size and depth.

import FoundationEssentials

/// Claims by their names in templates.
struct NamedClaims: Decodable, Sendable {
    enum Value: Hashable, Sendable {
        case text(String)
        case list([String])
        /// A number, a boolean, null, an object, or a list with such elements.
        case other
    }

    private var values: [String: Value] = [:]

    /// The value of a claim; nil if the token has none.
    subscript(name: String) -> Value? { values[name] }

    /// The names to decode, in the decoder's `userInfo`.
    private static let names = CodingUserInfoKey(rawValue: "names")!

    /// A decoder of the claims with these names.
    static func decoder(of names: Set<String>) -> JSONDecoder {
        let decoder = JSONDecoder()
        decoder.userInfo[Self.names] = names
        return decoder
    }

    init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: Key.self)
        for name in decoder.userInfo[Self.names] as? Set<String> ?? [] {
            values[name] = Self.value(name[...], in: members)
        }
    }

    /// The value that a name with dots leads to. A whole name that has dots comes first: claims of
    /// one's own are URLs where a provider wants them to be.
    private static func value(
        _ name: Substring, in members: KeyedDecodingContainer<Key>
    ) -> Value? {
        let key = Key(name)
        if members.contains(key) {
            return (try? members.decode(Leaf.self, forKey: key))?.value ?? .other
        }
        guard let dot = name.firstIndex(of: "."),
            let inner = try? members.nestedContainer(keyedBy: Key.self, forKey: Key(name[..<dot]))
        else { return nil }
        return value(name[name.index(after: dot)...], in: inner)
    }

    private struct Leaf: Decodable {
        let value: Value

        init(from decoder: any Decoder) throws {
            if let text = try? decoder.singleValueContainer().decode(String.self) {
                value = .text(text)
            } else {
                // The first element that is no text ends it.
                value = .list(try decoder.singleValueContainer().decode([String].self))
            }
        }
    }

    private struct Key: CodingKey {
        let stringValue: String
        var intValue: Int? { nil }

        init(_ name: Substring) { stringValue = String(name) }
        init?(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }
}

// The key of an app, which together with the app's id logs in as any of its users.
// It is for back ends and development.
//
//     mk1_b4zq…   30 bytes: kind and version, then 26 symbols, 130 random bits

/// An app's key as its owner writes or presents it. Only the digest is kept.
public struct AppKey: Sendable {
    /// SHA-256 of the secret as it is written.
    public let digest: SHA256Digest

    /// What every app key begins with.
    public static let prefix = "mk1_"
    /// Symbols of the secret, for the same reason as a token's.
    public static let secretSymbolCount = OpaqueToken.secretSymbolCount

    /// Makes a new key.
    ///
    /// - Returns: the key, and its text, which is shown once and not kept.
    public static func mint() -> (key: AppKey, text: String) {
        let secret = SecretAlphabet.randomSymbols(count: secretSymbolCount)
        let text = prefix + String(decoding: secret, as: UTF8.self)
        return (AppKey(digest: SHA256Digest(of: secret.span.bytes)), text)
    }

    /// Reads a key that a peer presents; nil unless every byte is as ``mint()`` writes it.
    public init?(presented bytes: RawSpan) {
        let text = bytes.withUnsafeBytes { Array($0) }
        let secret = text.dropFirst(Self.prefix.utf8.count)
        guard text.starts(with: Self.prefix.utf8), secret.count == Self.secretSymbolCount,
            secret.allSatisfy({ SecretAlphabet.value(of: $0) != nil })
        else { return nil }
        digest = SHA256Digest(of: secret.span.bytes)
    }

    private init(digest: SHA256Digest) {
        self.digest = digest
    }
}

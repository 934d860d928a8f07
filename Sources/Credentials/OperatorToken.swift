// The token of an operator of the HTTP API. Only the digest is kept.
//
//     mo1_b4zq…   30 bytes: kind and version, then 26 symbols, 130 random bits

/// A token as an operator presents it.
public struct OperatorToken: Sendable {
    /// SHA-256 of the secret as it is written. A fast hash is enough: nobody searches 2^130
    /// secrets.
    public let digest: SHA256Digest

    /// What every operator's token begins with.
    public static let prefix = "mo1_"
    /// Symbols of the secret, for the same reason as a device's token.
    public static let secretSymbolCount = OpaqueToken.secretSymbolCount

    /// Makes a new token.
    ///
    /// - Returns: the token, and its text, which is shown once and not kept.
    public static func mint() -> (token: OperatorToken, text: String) {
        let secret = SecretAlphabet.randomSymbols(count: secretSymbolCount)
        let text = prefix + String(decoding: secret, as: UTF8.self)
        return (OperatorToken(digest: SHA256Digest(of: secret.span.bytes)), text)
    }

    /// Reads a token that a peer presents; nil unless every byte is as ``mint()`` writes it.
    public init?(presented bytes: RawSpan) {
        guard bytes.byteCount == Self.prefix.utf8.count + Self.secretSymbolCount else { return nil }
        let text = bytes.withUnsafeBytes { Array($0) }
        let secret = text.dropFirst(Self.prefix.utf8.count)
        guard text.starts(with: Self.prefix.utf8),
            secret.allSatisfy({ SecretAlphabet.value(of: $0) != nil })
        else { return nil }
        digest = SHA256Digest(of: secret.span.bytes)
    }

    private init(digest: SHA256Digest) {
        self.digest = digest
    }
}

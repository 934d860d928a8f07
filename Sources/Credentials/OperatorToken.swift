// The token of an operator of the HTTP API, and the code of a link to the dashboard. Only digests
// are kept.
//
//     mo1_b4zq…   30 bytes: kind and version, then 26 symbols, 130 random bits
//     ml1_b4zq…   a code, in the same form

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
        let (digest, text) = OperatorSecret.mint(prefix: prefix)
        return (OperatorToken(digest: digest), text)
    }

    /// Reads a token that a peer presents; nil unless every byte is as ``mint()`` writes it.
    public init?(presented bytes: RawSpan) {
        guard let digest = OperatorSecret.digest(of: bytes, prefix: Self.prefix) else { return nil }
        self.digest = digest
    }

    private init(digest: SHA256Digest) {
        self.digest = digest
    }
}

/// The code of a link to the dashboard, which a browser exchanges for a token once.
public struct LoginCode: Sendable {
    /// SHA-256 of the secret as it is written.
    public let digest: SHA256Digest

    /// What every code begins with.
    public static let prefix = "ml1_"

    /// Makes a new code.
    ///
    /// - Returns: the code, and its text, which is shown once and not kept.
    public static func mint() -> (code: LoginCode, text: String) {
        let (digest, text) = OperatorSecret.mint(prefix: prefix)
        return (LoginCode(digest: digest), text)
    }

    /// Reads a code that a peer presents; nil unless every byte is as ``mint()`` writes it.
    public init?(presented bytes: RawSpan) {
        guard let digest = OperatorSecret.digest(of: bytes, prefix: Self.prefix) else { return nil }
        self.digest = digest
    }

    private init(digest: SHA256Digest) {
        self.digest = digest
    }
}

/// The form of both.
private enum OperatorSecret {
    static func mint(prefix: String) -> (digest: SHA256Digest, text: String) {
        let secret = SecretAlphabet.randomSymbols(count: OperatorToken.secretSymbolCount)
        let text = prefix + String(decoding: secret, as: UTF8.self)
        return (SHA256Digest(of: secret.span.bytes), text)
    }

    static func digest(of bytes: RawSpan, prefix: String) -> SHA256Digest? {
        guard bytes.byteCount == prefix.utf8.count + OperatorToken.secretSymbolCount else {
            return nil
        }
        let text = bytes.withUnsafeBytes { Array($0) }
        let secret = text.dropFirst(prefix.utf8.count)
        guard text.starts(with: prefix.utf8),
            secret.allSatisfy({ SecretAlphabet.value(of: $0) != nil })
        else { return nil }
        return SHA256Digest(of: secret.span.bytes)
    }
}

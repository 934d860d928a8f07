// Opaque session tokens: pre-generated here, burnt into a device, valid for years.
//
//     mt1_k3v9qx2mfh7a_b4zq…   43 bytes
//     │   │            └ secret: 26 symbols, 130 random bits
//     │   └ id: 12 symbols, public, in lists and logs
//     └ kind and version, for people and for secret scanners
//
// Only the id and the secret's SHA-256 are kept, so a stolen store opens no session. A fast hash is
// enough: nobody searches 2^130 secrets. It must not know who owns a token or where it is stored.

/// The public half of an opaque token: safe to show and to log.
public struct TokenID: Hashable, Comparable, Sendable, CustomStringConvertible {
    /// 60 bits, five for each symbol, the first symbol in the highest.
    public let raw: UInt64

    /// Symbols in the written form.
    public static let symbolCount = 12

    /// An id that was stored.
    ///
    /// - Parameter raw: below 2^60.
    public init(raw: UInt64) {
        precondition(raw >> 60 == 0, "token id \(raw) exceeds 60 bits")
        self.raw = raw
    }

    /// Reads the written form; nil unless it is exactly 12 symbols.
    public init?(_ text: some StringProtocol) {
        self.init(symbols: Array(text.utf8)[...])
    }

    init?(symbols: ArraySlice<UInt8>) {
        guard symbols.count == Self.symbolCount else { return nil }
        var raw: UInt64 = 0
        for symbol in symbols {
            guard let value = SecretAlphabet.value(of: symbol) else { return nil }
            raw = raw << 5 | UInt64(value)
        }
        self.raw = raw
    }

    public var description: String {
        let shifts = stride(from: 5 * (Self.symbolCount - 1), through: 0, by: -5)
        return String(
            decoding: shifts.map { SecretAlphabet.symbol(of: UInt8(raw >> UInt64($0) & 31)) },
            as: UTF8.self)
    }

    public static func < (left: TokenID, right: TokenID) -> Bool { left.raw < right.raw }
}

/// A token as its owner writes or presents it.
public struct OpaqueToken: Sendable {
    /// The public half.
    public let id: TokenID
    /// SHA-256 of the secret as it is written: what is stored at minting and compared at login.
    public let digest: SHA256Digest

    /// What every token begins with.
    public static let prefix = "mt1_"
    /// Symbols of the secret: 130 bits, the first multiple of five above the 128 that no search
    /// reaches.
    public static let secretSymbolCount = 26
    /// Length of every token in bytes.
    public static let byteCount = prefix.utf8.count + TokenID.symbolCount + 1 + secretSymbolCount

    /// Makes a new token.
    ///
    /// - Returns: the token, and its text, which exists nowhere else: it is shown once and not
    ///   kept.
    public static func mint() -> (token: OpaqueToken, text: String) {
        let idSymbols = SecretAlphabet.randomSymbols(count: TokenID.symbolCount)
        let secret = SecretAlphabet.randomSymbols(count: secretSymbolCount)
        let text =
            prefix + String(decoding: idSymbols + [UInt8(ascii: "_")] + secret, as: UTF8.self)
        guard let token = OpaqueToken(presented: text.utf8.span.bytes) else {
            preconditionFailure("a new token of \(text.utf8.count) bytes cannot be read")
        }
        return (token, text)
    }

    /// Reads a token that a peer presents; nil unless every byte is as ``mint()`` writes it.
    ///
    /// Whether the token is good is for the caller to decide: look the id up, then ask
    /// ``SHA256Digest/matches(_:)``.
    public init?(presented bytes: RawSpan) {
        guard bytes.byteCount == Self.byteCount else { return nil }
        let text = bytes.withUnsafeBytes { Array($0) }
        let idEnd = Self.prefix.utf8.count + TokenID.symbolCount
        let secret = text[(idEnd + 1)...]
        guard Self.isToken(bytes), text[idEnd] == UInt8(ascii: "_"),
            let id = TokenID(symbols: text[Self.prefix.utf8.count..<idEnd]),
            secret.allSatisfy({ SecretAlphabet.value(of: $0) != nil })
        else { return nil }
        self.id = id
        digest = SHA256Digest(of: secret.span.bytes)
    }

    /// Whether a credential claims to be an opaque token, as opposed to a JWT: no JWT begins so,
    /// because its first part is the base64 of `{`.
    public static func isToken(_ bytes: RawSpan) -> Bool {
        bytes.withUnsafeBytes { $0.starts(with: prefix.utf8) }
    }
}

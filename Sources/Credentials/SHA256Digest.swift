// SHA-256 and HMAC-SHA-256 by OpenSSL, held inline and compared in constant time.
import COpenSSL

/// The 32 bytes of a SHA-256 digest.
///
/// It is deliberately not `Equatable`: digests here stand for secrets, and `==` would stop at the
/// first byte that differs. ``matches(_:)`` is the only comparison.
public struct SHA256Digest: Sendable {
    private var words: (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)

    /// Length in bytes [FIPS 180-4].
    public static let byteCount = 32

    /// Hashes `bytes`.
    public init(of bytes: RawSpan) {
        let isDone = withUnsafeMutableBytes(of: &words) { digest in
            bytes.withUnsafeBytes { input in
                EVP_Digest(
                    input.baseAddress, input.count, digest.bindMemory(to: UInt8.self).baseAddress,
                    nil, EVP_sha256(), nil)
            }
        }
        precondition(isDone == 1, "SHA-256 of \(bytes.byteCount) bytes failed")
    }

    /// HMAC-SHA-256 of `bytes` under `key` [RFC 2104].
    public init(of bytes: RawSpan, key: RawSpan) {
        let result = withUnsafeMutableBytes(of: &words) { digest in
            key.withUnsafeBytes { key in
                bytes.withUnsafeBytes { input in
                    EVP_Q_mac(
                        nil, "HMAC", nil, "SHA256", nil, key.baseAddress, key.count,
                        input.bindMemory(to: UInt8.self).baseAddress, input.count,
                        digest.bindMemory(to: UInt8.self).baseAddress, digest.count, nil)
                }
            }
        }
        precondition(result != nil, "HMAC-SHA-256 of \(bytes.byteCount) bytes failed")
    }

    /// A digest that was stored; nil unless there are exactly 32 bytes.
    public init?(stored: some Collection<UInt8>) {
        guard stored.count == Self.byteCount else { return nil }
        withUnsafeMutableBytes(of: &words) { $0.copyBytes(from: stored) }
    }

    /// The bytes to store.
    public var bytes: [UInt8] {
        withUnsafeBytes(of: words) { Array($0) }
    }

    /// Eight bytes of it, for telling apart what is no secret or is not shown to anybody.
    var firstWord: UInt64 { words.0 }

    /// Whether both are the same, found in a time that does not depend on where they differ.
    public func matches(_ other: SHA256Digest) -> Bool {
        withUnsafeBytes(of: words) { mine in
            withUnsafeBytes(of: other.words) { theirs in
                CRYPTO_memcmp(mine.baseAddress, theirs.baseAddress, mine.count) == 0
            }
        }
    }
}

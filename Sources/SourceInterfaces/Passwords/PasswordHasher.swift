// Hashes passwords with scrypt (RFC 7914) of OpenSSL, which is linked already: each guess needs
// memory and time, so that a stolen file tells few passwords.

import COpenSSL

/// Makes hashes of passwords and compares passwords with them.
public protocol PasswordHasher: Sendable {
    /// The hash of a password with new salt, as text that names its parameters.
    func hash(_ password: String) -> String
    /// Whether a password has a hash. False for a hash of unknown form.
    func matches(_ password: String, _ hash: String) -> Bool
}

/// scrypt with N = 2^14, r = 8 and p = 5: 16 MiB and about 0.2 s, the least that OWASP's Password
/// Storage Cheat Sheet names. The texts are `scrypt:14:8:5:SALT:KEY` in hexadecimal digits.
public struct ScryptHasher: PasswordHasher {
    private struct Parameters: Hashable {
        let logarithm: UInt64
        let blockSize: UInt64
        let parallelism: UInt64
    }

    private static let current = Parameters(logarithm: 14, blockSize: 8, parallelism: 5)
    private static let saltByteCount = 16
    private static let keyByteCount = 32
    /// Twice the memory of ``current``: what OpenSSL may use.
    private static let memoryMaximum: UInt64 = 64 << 20

    public init() {}

    public func hash(_ password: String) -> String {
        var generator = SystemRandomNumberGenerator()
        let salt = (0..<Self.saltByteCount).map { _ in UInt8.random(in: 0...255, using: &generator)
        }
        guard let key = Self.key(password, salt: salt, Self.current) else {
            preconditionFailure("scrypt refused \(Self.current)")
        }
        let numbers = [Self.current.logarithm, Self.current.blockSize, Self.current.parallelism]
        return (["scrypt"] + numbers.map { "\($0)" } + [Self.text(salt), Self.text(key)])
            .joined(separator: ":")
    }

    public func matches(_ password: String, _ hash: String) -> Bool {
        let parts = hash.split(separator: ":", omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 6, parts[0] == "scrypt", let logarithm = UInt64(parts[1]),
            let blockSize = UInt64(parts[2]), let parallelism = UInt64(parts[3]),
            // Others are not written, and could need any memory.
            Parameters(logarithm: logarithm, blockSize: blockSize, parallelism: parallelism)
                == Self.current,
            let salt = Self.bytes(parts[4]), let expected = Self.bytes(parts[5]),
            expected.count == Self.keyByteCount,
            let key = Self.key(password, salt: salt, Self.current)
        else { return false }
        // The time does not tell where they differ.
        return CRYPTO_memcmp(key, expected, Self.keyByteCount) == 0
    }

    private static func key(
        _ password: String, salt: [UInt8], _ parameters: Parameters
    ) -> [UInt8]? {
        let text = Array(password.utf8)
        var key = [UInt8](repeating: 0, count: keyByteCount)
        let code = text.withUnsafeBytes { text in
            EVP_PBE_scrypt(
                text.baseAddress?.assumingMemoryBound(to: CChar.self), text.count, salt,
                salt.count, 1 << parameters.logarithm, parameters.blockSize,
                parameters.parallelism, memoryMaximum, &key, key.count)
        }
        return code == 1 ? key : nil
    }

    private static func text(_ bytes: [UInt8]) -> String {
        bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }

    private static func bytes(_ text: String) -> [UInt8]? {
        let digits = text.compactMap(\.hexDigitValue)
        guard digits.count == text.utf8.count, digits.count % 2 == 0 else { return nil }
        return stride(from: 0, to: digits.count, by: 2).map {
            UInt8(digits[$0] << 4 | digits[$0 + 1])
        }
    }
}

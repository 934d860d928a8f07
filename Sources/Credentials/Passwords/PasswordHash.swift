// Hashes of passwords, as text. New ones are argon2id (RFC 9106). Those of Mosquitto's files are
// verified as they are:
//
//     $argon2id$v=19$m=7168,t=5,p=1$SALT$HASH   argon2id, also of Mosquitto 2.1; base64, no padding
//     $7$ITERATIONS$SALT$HASH                   PBKDF2-HMAC-SHA512, Mosquitto 1.6 and 2.0; base64
//     $6$SALT$HASH                              SHA-512 of password and salt, Mosquitto before 1.6

/// Why a text is not a hash that the broker verifies.
public enum PasswordHashError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The kind is not one of the three.
    case unknownKind
    /// The parts are not what the kind requires.
    case malformed
    /// A parameter is above its bound; verifying would take too long, or too much memory.
    case tooCostly(parameter: String, value: UInt64, maximum: UInt64)

    public var description: String {
        switch self {
        case .unknownKind:
            "not a hash of a known kind: $argon2id$, $7$ (PBKDF2-SHA512) or $6$ (SHA-512)"
        case .malformed: "a hash of a known kind with parts that cannot be read"
        case .tooCostly(let parameter, let value, let maximum):
            "\(parameter) of the hash is \(value), more than \(maximum): each login would cost too "
                + "much"
        }
    }
}

/// A salted hash of a password.
public struct PasswordHash: Sendable {
    enum Kind: Hashable, Sendable {
        case argon2id(Argon2Parameters)
        case pbkdf2(iterations: UInt32)
        case sha512
    }

    let kind: Kind
    let salt: [UInt8]
    let digest: [UInt8]

    /// Maximum bytes of a password. Longer ones are refused before they are hashed: MQTT allows 64
    /// KiB, which no device has.
    public static let passwordByteCountMaximum = 1_024
    /// Maximum iterations of PBKDF2-HMAC-SHA512: about a third of a second. OWASP recommends
    /// 210,000, and Mosquitto uses 101 to 1,000.
    public static let iterationsMaximum: UInt64 = 250_000
    /// Iterations of PBKDF2 that take as long as a standard hash: 15 ms, of 0.3 s for
    /// ``iterationsMaximum``.
    private static let standardIterations: UInt32 = 12_500
    /// Bytes of salts. Mosquitto has 12 or 64; libargon2 requires 8.
    static let saltByteCounts = 8...128
    /// Bytes of digests. Below 16, a second password with the same digest could be found.
    static let digestByteCounts = 16...128

    /// Reads a hash as it is stored or imported.
    public init(_ text: [UInt8]) throws(PasswordHashError) {
        let parts = text.split(separator: UInt8(ascii: "$"), omittingEmptySubsequences: false)
        guard parts.count >= 2, parts[0].isEmpty else { throw .unknownKind }
        switch (String(decoding: parts[1], as: UTF8.self), parts.count) {
        case ("argon2id", 6):
            guard parts[2].elementsEqual("v=19".utf8) else { throw .malformed }
            kind = .argon2id(try Argon2Parameters(parts[3]))
        case ("7", 5):
            guard let iterations = UInt64(String(decoding: parts[2], as: UTF8.self)),
                iterations > 0
            else { throw .malformed }
            guard iterations <= Self.iterationsMaximum else {
                throw .tooCostly(
                    parameter: "the number of iterations", value: iterations,
                    maximum: Self.iterationsMaximum)
            }
            kind = .pbkdf2(iterations: UInt32(iterations))
        case ("6", 4): kind = .sha512
        case ("argon2id", _), ("7", _), ("6", _): throw .malformed
        default: throw .unknownKind
        }
        guard let salt = Base64.decode(parts[parts.count - 2]),
            let digest = Base64.decode(parts[parts.count - 1]),
            Self.saltByteCounts.contains(salt.count),
            Self.digestByteCounts.contains(digest.count)
        else { throw .malformed }
        switch kind {
        case .sha512 where digest.count != 64: throw .malformed
        case .sha512, .pbkdf2, .argon2id: break
        }
        self.salt = salt
        self.digest = digest
    }

    /// Hashes a new password.
    ///
    /// - Precondition: at most ``passwordByteCountMaximum`` bytes.
    public init(hashing password: [UInt8]) throws(CredentialError) {
        precondition(
            password.count <= Self.passwordByteCountMaximum,
            "a password of \(password.count) bytes, more than \(Self.passwordByteCountMaximum)")
        kind = .argon2id(.standard)
        salt = SystemRandom.bytes(count: 16)
        var digest = [UInt8](repeating: 0, count: 32)
        let code = Argon2.hash(password, salt: salt, .standard, into: &digest, in: nil)
        guard code == Argon2.success else {
            throw .cryptography(call: "argon2id", reason: "error \(code)")
        }
        self.digest = digest
    }

    /// What the password of nobody is compared with, so that a login takes as long whether its user
    /// name exists or not. Nothing matches it: the digest is random.
    public static let ofNobody = PasswordHash(
        kind: .argon2id(.standard), salt: SystemRandom.bytes(count: 16),
        digest: SystemRandom.bytes(count: 32))

    private init(kind: Kind, salt: [UInt8], digest: [UInt8]) {
        self.kind = kind
        self.salt = salt
        self.digest = digest
    }

    /// The kind, for lists.
    public var kindName: String {
        switch kind {
        case .argon2id: "argon2id"
        case .pbkdf2: "pbkdf2-sha512"
        case .sha512: "sha512"
        }
    }

    /// The text to store.
    public var text: [UInt8] {
        let start: String
        let isPadded: Bool
        switch kind {
        case .argon2id(let parameters):
            start = "$argon2id$v=19$\(parameters.text)$"
            isPadded = false
        case .pbkdf2(let iterations): (start, isPadded) = ("$7$\(iterations)$", true)
        case .sha512: (start, isPadded) = ("$6$", true)
        }
        return Array(start.utf8) + Base64.encode(salt, isPadded: isPadded)
            + Array("$".utf8) + Base64.encode(digest, isPadded: isPadded)
    }

    /// Whether a password has a hash; nil as the hash of nobody. A wrong password costs at least as
    /// much as a standard hash, whatever kind it is compared with.
    ///
    /// - Parameter memory: for the hash; nil to allocate it.
    /// - Returns: nil if the password cannot be hashed now, for lack of memory.
    public static func verify(
        _ password: [UInt8], against hash: PasswordHash?, in memory: HashingMemory? = nil
    ) -> Bool? {
        let isRight = hash.map { $0.matches(password, in: memory) } ?? false
        guard isRight == false, hash?.isCheap ?? true else { return isRight }
        return ofNobody.matches(password, in: memory).map { _ in false }
    }

    /// Whether it costs less than a standard hash.
    private var isCheap: Bool {
        switch kind {
        case .argon2id(let parameters):
            parameters.memoryKibibytes * parameters.passes
                < Argon2Parameters.standard.memoryKibibytes * Argon2Parameters.standard.passes
        case .pbkdf2(let iterations): iterations < Self.standardIterations
        case .sha512: true
        }
    }

    /// Whether a password has this hash. The time does not depend on where they differ.
    ///
    /// - Parameter memory: for the hash; nil to allocate it.
    /// - Returns: nil if the password cannot be hashed now, for lack of memory.
    public func matches(_ password: [UInt8], in memory: HashingMemory? = nil) -> Bool? {
        guard password.count <= Self.passwordByteCountMaximum else { return false }
        var computed = [UInt8](repeating: 0, count: digest.count)
        switch kind {
        case .argon2id(let parameters):
            let code = Argon2.hash(
                password, salt: salt, parameters, into: &computed, in: memory)
            guard code == Argon2.success else { return nil }
        case .pbkdf2(let iterations):
            guard
                SaltedSHA512.derive(
                    password, salt: salt, iterations: iterations, into: &computed)
            else { return nil }
        case .sha512:
            guard SaltedSHA512.digest(password, salt: salt, into: &computed) else { return nil }
        }
        return SaltedSHA512.areEqual(computed, digest)
    }
}

// Secrets come from the system's cryptographic generator by way of OpenSSL, and from nowhere else.
import COpenSSL

/// The source of every secret, id and cookie that must not be guessed.
public enum SystemRandom {
    /// Unpredictable bytes.
    ///
    /// A machine without working randomness stops here: every token made afterwards could be
    /// guessed, which is worse than no broker.
    public static func bytes(count: Int) -> [UInt8] {
        precondition((1...65_536).contains(count), "a secret of an absurd length")
        return [UInt8](unsafeUninitializedCapacity: count) { buffer, initializedCount in
            precondition(
                RAND_bytes(buffer.baseAddress, Int32(count)) == 1, "the system gives no randomness")
            initializedCount = count
        }
    }

    /// An unpredictable number, such as an epoch or a resume cookie.
    public static func number() -> UInt64 {
        bytes(count: 8).reduce(0) { $0 << 8 | UInt64($1) }
    }
}

// The only source of secrets: the system's cryptographic generator, through OpenSSL.
import COpenSSL

/// The source of every secret, id and cookie that must not be guessed.
public enum SystemRandom {
    /// Unpredictable bytes.
    ///
    /// Traps if the generator fails: tokens generated afterwards could be guessed.
    public static func bytes(count: Int) -> [UInt8] {
        precondition((1...65_536).contains(count), "cannot generate a secret of \(count) bytes")
        return [UInt8](unsafeUninitializedCapacity: count) { buffer, initializedCount in
            precondition(
                RAND_bytes(buffer.baseAddress, Int32(count)) == 1,
                "RAND_bytes failed for \(count) bytes")
            initializedCount = count
        }
    }

    /// An unpredictable number, such as an epoch or a resume cookie.
    public static func number() -> UInt64 {
        bytes(count: 8).reduce(0) { $0 << 8 | UInt64($1) }
    }
}

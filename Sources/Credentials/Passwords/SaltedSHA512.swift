// The two hashes of Mosquitto's files before version 2.1, by OpenSSL.
import COpenSSL

enum SaltedSHA512 {
    /// PBKDF2-HMAC-SHA512 [RFC 8018]. False if OpenSSL fails.
    static func derive(
        _ password: [UInt8], salt: [UInt8], iterations: UInt32, into digest: inout [UInt8]
    ) -> Bool {
        let count = Int32(digest.count)
        return password.withUnsafeBufferPointer { bytes in
            bytes.withMemoryRebound(to: CChar.self) { bytes in
                PKCS5_PBKDF2_HMAC(
                    bytes.baseAddress, Int32(bytes.count), salt, Int32(salt.count),
                    Int32(iterations), EVP_sha512(), count, &digest) == 1
            }
        }
    }

    /// SHA-512 of the password and the salt. False if OpenSSL fails.
    static func digest(_ password: [UInt8], salt: [UInt8], into digest: inout [UInt8]) -> Bool {
        precondition(digest.count == 64, "\(digest.count) bytes for a SHA-512, which has 64")
        let input = password + salt
        return EVP_Digest(input, input.count, &digest, nil, EVP_sha512(), nil) == 1
    }

    /// Whether two digests are the same, found in a time that does not depend on where they differ.
    static func areEqual(_ first: [UInt8], _ second: [UInt8]) -> Bool {
        first.count == second.count && CRYPTO_memcmp(first, second, first.count) == 0
    }
}

// The digest of the WebSocket handshake. RFC 6455 requires SHA-1; it protects nothing.
import COpenSSL

public enum HandshakeDigest {
    /// The SHA-1 digest of the bytes: 20 bytes.
    public static func sha1(_ bytes: [UInt8]) -> [UInt8] {
        var digest = [UInt8](repeating: 0, count: Int(SHA_DIGEST_LENGTH))
        _ = SHA1(bytes, bytes.count, &digest)
        return digest
    }
}

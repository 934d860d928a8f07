// A private key of the operator at a provider, and the JSON Web Tokens that it signs
// [RFC 7515, 7519]: ES256 for Apple, RS256 for Google.

import COpenSSL
import JSON5
import WakeTemplates
import WireFormat

/// Why a key cannot be used.
package struct KeyFailure: Error, Hashable, CustomStringConvertible {
    package let description: String
}

/// A private key. It is never printed.
package final class SigningKey: @unchecked Sendable {
    package enum Algorithm: String, Sendable {
        case es256 = "ES256"
        case rs256 = "RS256"
    }

    /// OpenSSL permits signatures with one key on several threads.
    private let key: OpaquePointer
    private let algorithm: Algorithm

    /// Reads a key in PEM without a password.
    package init(pem: [UInt8], for algorithm: Algorithm) throws(KeyFailure) {
        guard let source = BIO_new_mem_buf(pem, Int32(clamping: pem.count)) else {
            preconditionFailure("BIO_new_mem_buf of \(pem.count) bytes failed")
        }
        defer { BIO_free(source) }
        // Without the function OpenSSL would ask for a password on the terminal.
        guard let key = PEM_read_bio_PrivateKey(source, nil, { _, _, _, _ in 0 }, nil) else {
            throw KeyFailure(description: "has no private key in PEM without a password")
        }
        let isFit =
            switch algorithm {
            case .es256: EVP_PKEY_is_a(key, "EC") == 1 && EVP_PKEY_get_bits(key) == 256
            case .rs256: EVP_PKEY_is_a(key, "RSA") == 1 && EVP_PKEY_get_bits(key) >= 2_048
            }
        guard isFit else {
            EVP_PKEY_free(key)
            throw KeyFailure(
                description: algorithm == .es256
                    ? "has a key of another kind: it must be of the curve P-256"
                    : "has a key of another kind: it must be RSA of at least 2048 bits")
        }
        self.key = key
        self.algorithm = algorithm
    }

    deinit { EVP_PKEY_free(key) }

    /// A signed token.
    ///
    /// - Parameters:
    ///   - keyID: the member `kid` of the header; nil for none.
    ///   - claims: the members of the content.
    package func token(keyID: String?, claims: [(String, JSON5Node)]) -> String {
        var header: [(String, JSON5Node)] = [("alg", .text(algorithm.rawValue))]
        if let keyID { header.append(("kid", .text(keyID))) }
        header.append(("typ", .text("JWT")))
        let content =
            Self.base64URL(JSON5Node.object(header).json) + "."
            + Self.base64URL(JSON5Node.object(claims).json)
        return content + "." + Self.base64URL(signature(of: Array(content.utf8)))
    }

    private func signature(of content: [UInt8]) -> [UInt8] {
        guard let context = EVP_MD_CTX_new() else {
            preconditionFailure("no memory for \(content.count) bytes")
        }
        defer { EVP_MD_CTX_free(context) }
        // The longest signature of the key, as RSA has it, and ECDSA in DER.
        var count = Int(EVP_PKEY_get_size(key))
        var bytes = [UInt8](repeating: 0, count: count)
        let code = EVP_DigestSignInit(context, nil, EVP_sha256(), nil, key)
        precondition(code == 1, "EVP_DigestSignInit returned \(code)")
        let signed = EVP_DigestSign(context, &bytes, &count, content, content.count)
        precondition(signed == 1, "a signature of \(content.count) bytes failed: \(signed)")
        let signature = Array(bytes[..<count])
        return algorithm == .es256 ? Self.joined(signature) : signature
    }

    /// The two numbers of an ECDSA signature in DER, each with 32 bytes, one behind the other
    /// [RFC 7518, 3.4].
    static func joined(_ signature: [UInt8]) -> [UInt8] {
        // SEQUENCE, its length, INTEGER, its length, …: all lengths are below 128.
        var rest = signature.dropFirst(2)
        var joined: [UInt8] = []
        for _ in 0..<2 {
            let count = Int(rest[rest.startIndex + 1])
            let number = rest.dropFirst(2).prefix(count).drop { $0 == 0 }
            joined += [UInt8](repeating: 0, count: 32 - number.count) + number
            rest = rest.dropFirst(2 + count)
        }
        return joined
    }

    static func base64URL(_ bytes: [UInt8]) -> String {
        var text: [UInt8] = []
        Base64.append(bytes.span.bytes, to: &text)
        return String(
            decoding: text.compactMap { byte in
                switch byte {
                case UInt8(ascii: "+"): UInt8(ascii: "-")
                case UInt8(ascii: "/"): UInt8(ascii: "_")
                case UInt8(ascii: "="): nil
                default: byte
                }
            } as [UInt8], as: UTF8.self)
    }
}

// Signatures and ids of requests as Standard Webhooks specifies them (standardwebhooks.com,
// "Webhook Headers" and "Signature scheme"): HMAC-SHA-256 of id, time and body.

import COpenSSL
import WireFormat

/// A key that a destination knows too. It is never printed.
package struct WebhookSecret: Sendable {
    private let key: [UInt8]

    /// The prefix of a secret for symmetric signatures.
    private static let prefix = "whsec_"

    /// Reads `whsec_` and base64; nil for anything else, and for a length that the specification
    /// does not permit.
    package init?(_ text: String) {
        guard text.hasPrefix(Self.prefix) else { return nil }
        var key: [UInt8] = []
        let digits = Array(text.dropFirst(Self.prefix.count).utf8)
        guard Base64.append(decoding: digits.span.bytes, to: &key),
            RelayLimits.secretByteCounts.contains(key.count)
        else { return nil }
        self.key = key
    }

    /// One signature: `v1,` and base64.
    ///
    /// - Parameter seconds: the time of the attempt, in Unix seconds.
    package func signature(identifier: String, seconds: UInt64, body: [UInt8]) -> String {
        let content = Array("\(identifier).\(seconds).".utf8) + body
        var text = Array("v1,".utf8)
        Base64.append(OpenSSLDigest.hmac(of: content, key: key).span.bytes, to: &text)
        return String(decoding: text, as: UTF8.self)
    }
}

/// SHA-256 and HMAC-SHA-256 by OpenSSL.
package enum OpenSSLDigest {
    private static let byteCount = 32

    package static func sha256(of bytes: [UInt8]) -> [UInt8] {
        var digest = [UInt8](repeating: 0, count: byteCount)
        let code = EVP_Digest(bytes, bytes.count, &digest, nil, EVP_sha256(), nil)
        precondition(code == 1, "SHA-256 of \(bytes.count) bytes failed")
        return digest
    }

    package static func hmac(of bytes: [UInt8], key: [UInt8]) -> [UInt8] {
        var digest = [UInt8](repeating: 0, count: byteCount)
        let result = EVP_Q_mac(
            nil, "HMAC", nil, "SHA256", nil, key, key.count, bytes, bytes.count, &digest,
            digest.count, nil)
        precondition(result != nil, "HMAC-SHA-256 of \(bytes.count) bytes failed")
        return digest
    }
}

/// The ids of events, and of requests with several of them. The same event has the same id in every
/// attempt, also after a restart.
package enum EventIdentifier {
    /// The id of a message with a place in an inbox.
    package static func of(user: String, epoch: UInt64, number: UInt64) -> String {
        make(Array(user.utf8) + [0] + bytes(epoch) + bytes(number))
    }

    /// The id of a transient message, which has no place: from the run's random number and a count.
    package static func ofTransient(run: UInt64, count: UInt64) -> String {
        make([1] + bytes(run) + bytes(count))
    }

    /// The id of a request with several events; that of a single event is the event's.
    package static func ofBatch(_ identifiers: [String]) -> String {
        identifiers.count == 1
            ? identifiers[0] : make(Array(identifiers.joined(separator: " ").utf8))
    }

    /// The id of what one message means for one of several receivers.
    package static func of(
        user: String, epoch: UInt64, number: UInt64, receiver: UInt64
    ) -> String {
        make(Array(user.utf8) + [0] + bytes(epoch) + bytes(number) + bytes(receiver))
    }

    private static func make(_ source: [UInt8]) -> String {
        let digest = OpenSSLDigest.sha256(of: source)
        var digits: [UInt8] = []
        for start in [0, 8] {
            digits.append(
                hexadecimal: digest[start..<start + 8].reduce(0) { $0 << 8 | UInt64($1) })
        }
        return "msg_" + String(decoding: digits, as: UTF8.self)
    }

    private static func bytes(_ number: UInt64) -> [UInt8] {
        withUnsafeBytes(of: number.bigEndian) { Array($0) }
    }
}

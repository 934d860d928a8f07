// The field Idempotency-Key, with which a program makes a message safe to repeat
// (draft-ietf-httpapi-idempotency-key-header).

import BrokerCore
import Credentials
import WireFormat

/// Reads the field and makes the core's key of it.
enum IdempotencyKey {
    /// The key in the value of the field: a string of structured fields (RFC 8941, 3.3.3), or the
    /// same characters without quotes, as many clients send it. Nil where it is malformed.
    static func read(_ value: RawSpan) -> [UInt8]? {
        var bytes = value.withUnsafeBytes { Array($0) }
        let quote = UInt8(ascii: "\"")
        let isQuoted = bytes.first == quote
        if isQuoted {
            guard bytes.count >= 2, bytes.removeLast() == quote else { return nil }
            bytes.removeFirst()
        }
        var key: [UInt8] = []
        var isEscaped = false
        for byte in bytes {
            guard byte >= 0x20, byte < 0x7F else { return nil }
            if isEscaped {
                guard byte == quote || byte == UInt8(ascii: "\\") else { return nil }
                isEscaped = false
            } else if isQuoted, byte == UInt8(ascii: "\\") {
                isEscaped = true
                continue
            } else {
                // Without quotes, these would be other structured fields.
                let isPlain = byte != 0x20 && byte != UInt8(ascii: ";") && byte != UInt8(ascii: ",")
                guard byte != quote, isQuoted || isPlain else { return nil }
            }
            key.append(byte)
        }
        guard !isEscaped, (1...WebLimits.idempotencyKeyByteCountMaximum).contains(key.count) else {
            return nil
        }
        return key
    }

    /// The key as the core remembers it: one principal does not meet the keys of others.
    static func sendKey(_ key: [UInt8], of request: APIRequest) -> SendKey {
        var content: [UInt8] = []
        // A repeat may wait for the result that the first request did not wait for.
        let query = request.query.filter { $0.name != "wait" }
        var parts = request.path + query.flatMap { [$0.name, $0.value] }
        parts.append(request.actingUser ?? "")
        if request.isPayload { parts.append(request.mediaType ?? "") }
        for part in parts {
            withUnsafeBytes(of: UInt32(part.utf8.count)) { content += $0 }
            content += part.utf8
        }
        content += request.content
        return SendKey(
            name: digest(request.credential.identity + key), content: digest(content))
    }

    private static func digest(_ bytes: [UInt8]) -> Digest {
        Digest(SHA256Digest(of: bytes.span.bytes))
    }
}

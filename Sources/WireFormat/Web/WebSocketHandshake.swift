// The opening handshake of WebSocket (RFC 6455, 4.2). The caller computes the digest, because this
// target has no cryptography. SHA-1 only proves that the server understood the request.

import Primitives

public enum WebSocketHandshake {
    /// Appended to the key before the digest is computed (RFC 6455, 1.3).
    private static let suffix: StaticString = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

    /// Whether a key is 16 bytes in base64: 22 characters, of which the last uses only two of its
    /// six bits, and two characters of padding.
    public static func isKey(_ bytes: RawSpan) -> Bool {
        guard bytes.byteCount == WebLimits.keyByteCount, bytes[22] == UInt8(ascii: "="),
            bytes[23] == UInt8(ascii: "=")
        else { return false }
        for index in 0..<22 {
            guard let value = Base64.value(of: bytes[index]) else { return false }
            if index == 21, value & 0x0F != 0 { return false }
        }
        return true
    }

    /// The bytes whose SHA-1 digest answers a key.
    public static func digestInput(key: RawSpan) -> [UInt8] {
        var bytes: [UInt8] = []
        for offset in key.byteOffsets { bytes.append(key[offset]) }
        bytes.append(suffix)
        return bytes
    }

    /// The response that opens a WebSocket.
    ///
    /// - Parameters:
    ///   - digest: the SHA-1 digest of ``digestInput(key:)``.
    ///   - subprotocol: the subprotocol that the server chose; nil for none.
    public static func response(digest: [UInt8], subprotocol: StaticString?) -> [UInt8] {
        precondition(digest.count == 20, "a SHA-1 digest of \(digest.count) bytes")
        var bytes: [UInt8] = []
        bytes.reserveCapacity(160)
        HTTPResponse.appendStatusLine(.switchingProtocols, to: &bytes)
        bytes.append("Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ")
        Base64.append(digest.span.bytes, to: &bytes)
        if let subprotocol {
            bytes.append("\r\nSec-WebSocket-Protocol: ")
            bytes.append(subprotocol)
        }
        bytes.append("\r\n\r\n")
        return bytes
    }
}

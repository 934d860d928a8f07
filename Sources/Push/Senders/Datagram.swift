// The datagram that wakes a device, small enough for its firmware:
//
//     | 4 bytes "MLW1" | 8 bytes time | 8 bytes nonce | 16 bytes proof |
//
// The time is in Unix milliseconds, big-endian. It grows with each wake-up of a device, so a device
// takes only a greater one than before, and needs no clock. The proof is the beginning of the
// HMAC-SHA-256 of the 20 bytes before it. Its key is that of the device: the HMAC-SHA-256 of
// "USER/DEVICE" with the operator's key, so that nobody who opens one device can wake another.

import Relay
import WireFormat

/// The operator's key for datagrams. It is never printed.
package struct DatagramKey: Sendable {
    private let key: [UInt8]

    /// Reads hexadecimal digits; nil for anything else, and for too few.
    package init?(_ text: String) {
        let digits = Array(text.utf8)
        guard digits.count % 2 == 0, PushLimits.datagramKeyByteCounts.contains(digits.count / 2)
        else { return nil }
        var key: [UInt8] = []
        for start in stride(from: 0, to: digits.count, by: 2) {
            guard let high = Self.value(digits[start]), let low = Self.value(digits[start + 1])
            else { return nil }
            key.append(high << 4 | low)
        }
        self.key = key
    }

    private static func value(_ digit: UInt8) -> UInt8? {
        switch digit {
        case 0x30...0x39: digit - 0x30
        case 0x41...0x46: digit - 0x41 + 10
        case 0x61...0x66: digit - 0x61 + 10
        default: nil
        }
    }

    /// The key of one device, which its firmware has.
    package func deviceKey(user: String, device: String) -> [UInt8] {
        OpenSSLDigest.hmac(of: Array("\(user)/\(device)".utf8), key: key)
    }

    /// A datagram.
    ///
    /// - Parameters:
    ///   - time: Unix milliseconds.
    ///   - nonce: the same in all datagrams of one wake-up.
    package func datagram(user: String, device: String, time: UInt64, nonce: UInt64) -> [UInt8] {
        var bytes = Array("MLW1".utf8)
        for number in [time, nonce] {
            withUnsafeBytes(of: number.bigEndian) { bytes += $0 }
        }
        let proof = OpenSSLDigest.hmac(
            of: bytes, key: deviceKey(user: user, device: device))
        return bytes + proof.prefix(16)
    }
}

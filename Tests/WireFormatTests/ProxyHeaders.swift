// Headers of the PROXY protocol as a load balancer writes them, for the tests of their reader.

import BrokerTerms

/// The bytes of headers.
enum ProxyHeaders {
    static let signature: [UInt8] = [
        0x0D, 0x0A, 0x0D, 0x0A, 0x00, 0x0D, 0x0A, 0x51, 0x55, 0x49, 0x54, 0x0A,
    ]

    static func line(_ text: String) -> [UInt8] { Array("PROXY \(text)\r\n".utf8) }

    /// A header of version 2.
    static func binary(
        command: UInt8 = 0x21, family: UInt8, _ content: [UInt8], length: Int? = nil
    ) -> [UInt8] {
        let length = length ?? content.count
        return signature + [command, family, UInt8(length >> 8), UInt8(length & 0xFF)] + content
    }

    /// 192.0.2.7 port 56324 to 198.51.100.1 port 8883.
    static let version4: [UInt8] = [192, 0, 2, 7, 198, 51, 100, 1, 0xDC, 0x04, 0x22, 0xB3]

    /// 2001:db8::7 port 56324 to 2001:db8::1 port 8883.
    static let version6: [UInt8] =
        [0x20, 0x01, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7]
        + [0x20, 0x01, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1] + [0xDC, 0x04, 0x22, 0xB3]

    static let client4 = IPAddress("192.0.2.7".utf8)!
    static let client6 = IPAddress("2001:db8::7".utf8)!
}

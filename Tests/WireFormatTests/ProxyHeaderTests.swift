// The reader of PROXY headers: both versions, every truncation, every changed bit.

import BrokerTerms
import Primitives
import Testing

@testable import WireFormat

@Suite("A PROXY header")
struct ProxyHeaderTests {
    private func parse(_ bytes: [UInt8]) -> Result<ProxyHeaderParsing, ProxyHeaderFault> {
        Result { () throws(ProxyHeaderFault) in try ProxyHeader.parse(bytes.span.bytes) }
    }

    /// A TLV of the type that applications may choose.
    private static let value: [UInt8] = [0xE0, 0, 3, 1, 2, 3]

    private static let good: [(bytes: [UInt8], header: ProxyHeader)] = [
        (
            ProxyHeaders.line("TCP4 192.0.2.7 198.51.100.1 56324 8883"),
            .client(ProxyHeaders.client4, port: 56_324)
        ),
        (
            ProxyHeaders.line("TCP4 255.255.255.255 255.255.255.255 65535 65535"),
            .client(IPAddress(version4: .max), port: 65_535)
        ),
        (
            ProxyHeaders.line("TCP6 2001:db8::7 2001:DB8::1 56324 8883"),
            .client(ProxyHeaders.client6, port: 56_324)
        ),
        (
            ProxyHeaders.line(
                "TCP6 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff "
                    + "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535"),
            .client(IPAddress(high: .max, low: .max), port: 65_535)
        ),
        // One client has one address.
        (
            ProxyHeaders.line("TCP6 ::ffff:192.0.2.7 ::1 0 0"),
            .client(ProxyHeaders.client4, port: 0)
        ),
        (ProxyHeaders.line("UNKNOWN"), .own),
        (
            ProxyHeaders.line(
                "UNKNOWN ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff "
                    + "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535"), .own
        ),
        (ProxyHeaders.line("UNKNOWN \u{0}\u{7F} anything"), .own),
        (
            ProxyHeaders.binary(family: 0x11, ProxyHeaders.version4),
            .client(ProxyHeaders.client4, port: 56_324)
        ),
        (
            ProxyHeaders.binary(family: 0x21, ProxyHeaders.version6),
            .client(ProxyHeaders.client6, port: 56_324)
        ),
        (
            ProxyHeaders.binary(family: 0x11, ProxyHeaders.version4 + value),
            .client(ProxyHeaders.client4, port: 56_324)
        ),
        // The TLVs are skipped, whatever they are.
        (
            ProxyHeaders.binary(family: 0x21, ProxyHeaders.version6 + [9, 0xFF, 0xFF]),
            .client(ProxyHeaders.client6, port: 56_324)
        ),
        (
            ProxyHeaders.binary(
                family: 0x11,
                ProxyHeaders.version4
                    + [UInt8](repeating: 4, count: WireLimits.proxyHeaderByteCountMaximum - 28)),
            .client(ProxyHeaders.client4, port: 56_324)
        ),
        (ProxyHeaders.binary(command: 0x20, family: 0, []), .own),
        (ProxyHeaders.binary(command: 0x20, family: 0, value), .own),
        // LOCAL has no addresses, whatever its family says.
        (ProxyHeaders.binary(command: 0x20, family: 0x11, ProxyHeaders.version4), .own),
        (ProxyHeaders.binary(command: 0x20, family: 0xFF, [1]), .own),
        (ProxyHeaders.binary(family: 0, []), .own),
        (ProxyHeaders.binary(family: 0x12, ProxyHeaders.version4), .own),
        (ProxyHeaders.binary(family: 0x20, ProxyHeaders.version6), .own),
        (ProxyHeaders.binary(family: 0x31, [UInt8](repeating: 7, count: 216)), .own),
    ]

    @Test func `names the client, or says that the connection's own address counts`() {
        for (bytes, header) in Self.good {
            let expected = ProxyHeaderParsing.header(header, byteCount: bytes.count)
            #expect(parse(bytes) == .success(expected), "\(bytes)")
            // What follows is not looked at.
            #expect(parse(bytes + [0x16, 3, 1]) == .success(expected), "\(bytes)")
            #expect(parse(bytes + bytes) == .success(expected), "\(bytes)")
        }
    }

    @Test func `is incomplete in each of its beginnings`() {
        for (bytes, _) in Self.good {
            for count in 0..<bytes.count {
                #expect(
                    parse(Array(bytes[..<count])) == .success(.incomplete), "\(count): \(bytes)")
            }
        }
    }

    @Test func `has the maximum that the specification names`() {
        let longest = Self.good.map(\.bytes).filter { $0[0] == UInt8(ascii: "P") }.map(\.count)
        #expect(longest.max() == 107)
        #expect(WireLimits.proxyLineByteCountMaximum == 107)
    }

    private static let bad: [(bytes: [UInt8], fault: ProxyHeaderFault)] = [
        ([0x16, 3, 1], .missingBeforeTLS), ([0x10, 12], .missingBeforePacket),
        (Array("GET / HTTP/1.1\r\n".utf8), .missing), (Array("PUT /".utf8), .missing),
        (Array("PROXY\t".utf8), .missing), (Array("proxy ".utf8), .missing), ([0], .missing),
        ([0x0D, 0x0A, 0x0D, 0x0A, 1], .missing), ([0x0D, 0x0D], .missing),
        (ProxyHeaders.line("TCP4 192.0.2.7 198.51.100.1 56324"), .line),
        (ProxyHeaders.line("TCP4 192.0.2.7 198.51.100.1 56324 8883 "), .line),
        (ProxyHeaders.line("TCP4  192.0.2.7 198.51.100.1 56324 8883"), .line),
        (ProxyHeaders.line(" TCP4 192.0.2.7 198.51.100.1 56324 8883"), .line),
        (ProxyHeaders.line("tcp4 192.0.2.7 198.51.100.1 56324 8883"), .line),
        (ProxyHeaders.line("UDP4 192.0.2.7 198.51.100.1 56324 8883"), .line),
        (ProxyHeaders.line("UNKNOWN4"), .line), (ProxyHeaders.line(""), .line),
        (Array("PROXY TCP4 192.0.2.7 198.51.100.1 56324 8883\n".utf8), .line),
        (Array("PROXY TCP4 192.0.2.7\r198".utf8), .line),
        (Array("PROXY UNKNOWN\n\r\n".utf8), .line),
        (ProxyHeaders.line("TCP4 192.0.2.7 2001:db8::1 56324 8883"), .address),
        (ProxyHeaders.line("TCP4 2001:db8::7 2001:db8::1 56324 8883"), .address),
        (ProxyHeaders.line("TCP6 192.0.2.7 198.51.100.1 56324 8883"), .address),
        (ProxyHeaders.line("TCP4 192.0.2.256 198.51.100.1 56324 8883"), .address),
        (ProxyHeaders.line("TCP4 192.0.02.7 198.51.100.1 56324 8883"), .address),
        (ProxyHeaders.line("TCP4 192.0.2.7 198.51.100 56324 8883"), .address),
        (ProxyHeaders.line("TCP4 192.0.2.7 198.51.100.1 65536 8883"), .address),
        (ProxyHeaders.line("TCP4 192.0.2.7 198.51.100.1 056324 8883"), .address),
        (ProxyHeaders.line("TCP4 192.0.2.7 198.51.100.1 -1 8883"), .address),
        (ProxyHeaders.line("TCP4 192.0.2.7 198.51.100.1 56324 x"), .address),
        (ProxyHeaders.line("TCP6 2001:db8::7%lo 2001:db8::1 56324 8883"), .address),
        (ProxyHeaders.line("UNKNOWN " + String(repeating: "x", count: 92)), .lineTooLong),
        (Array(("PROXY TCP4 " + String(repeating: "1", count: 96)).utf8), .lineTooLong),
        (ProxyHeaders.binary(command: 0x11, family: 0x11, ProxyHeaders.version4), .version),
        (ProxyHeaders.binary(command: 0x31, family: 0x11, ProxyHeaders.version4), .version),
        (ProxyHeaders.binary(command: 0x22, family: 0x11, ProxyHeaders.version4), .command),
        (ProxyHeaders.binary(command: 0x2F, family: 0, []), .command),
        (ProxyHeaders.binary(family: 0x41, ProxyHeaders.version4), .family),
        (ProxyHeaders.binary(family: 0x13, ProxyHeaders.version4), .family),
        (ProxyHeaders.binary(family: 0x11, Array(ProxyHeaders.version4.dropLast())), .tooShort),
        (ProxyHeaders.binary(family: 0x21, ProxyHeaders.version4), .tooShort),
        (ProxyHeaders.binary(family: 0x31, ProxyHeaders.version6), .tooShort),
        (ProxyHeaders.binary(family: 0x11, [], length: 4_081), .tooLong),
        (ProxyHeaders.binary(command: 0x20, family: 0, [], length: 65_535), .tooLong),
    ]

    @Test func `is refused where it differs from the specification`() {
        for (bytes, fault) in Self.bad {
            #expect(
                parse(bytes) == .failure(fault),
                "\(String(decoding: bytes, as: UTF8.self)): \(bytes)")
        }
    }

    @Test func `faults that only the connection shows are not the codec's`() {
        let shown = Set(Self.bad.map(\.fault))
        #expect(Set(ProxyHeaderFault.allCases).subtracting(shown) == [.ended, .late])
        let limits = [ProxyHeaderFault.lineTooLong, .tooLong].map { $0.text.description }
        #expect(limits[0].contains("\(WireLimits.proxyLineByteCountMaximum)"))
        #expect(limits[1].contains("\(WireLimits.proxyHeaderByteCountMaximum)"))
    }

    @Test func `with one changed bit is another valid header or a fault, in any pieces`() {
        for bytes in Self.good.map(\.bytes) + Self.bad.map(\.bytes) {
            // The values of the longest one are all alike.
            for bit in 0..<min(bytes.count, 64) * 8 {
                var changed = bytes
                changed[bit / 8] ^= 1 << (bit % 8)
                let whole = parse(changed)
                if case .success(.header(_, let byteCount)) = whole, byteCount > changed.count {
                    Issue.record("\(byteCount) bytes of \(changed)")
                }
                // One bit of each byte in all pieces.
                if bit % 8 == bit / 8 % 8 { checkPieces(changed, whole) }
            }
        }
    }

    /// Whether a header that is decided stays so, whatever follows.
    private func checkPieces(
        _ bytes: [UInt8], _ whole: Result<ProxyHeaderParsing, ProxyHeaderFault>
    ) {
        var isDecided = false
        for count in 0...min(bytes.count, 250) {
            let part = parse(Array(bytes[..<count]))
            if part == .success(.incomplete) {
                if isDecided { Issue.record("open again at \(count): \(bytes)") }
            } else {
                isDecided = true
                if part != whole { Issue.record("\(part), not \(whole), at \(count): \(bytes)") }
            }
        }
    }
}

// Addresses and networks in their written form, compared with what the C library reads and writes.

import BrokerTerms
import TestSurroundings
import Testing

@testable import NetTransport

@Suite("An IP address")
struct IPAddressTests {
    /// Pieces of which texts are made that are often, but not always, addresses.
    private static let pieces = [
        "0", "1", "01", "10", "127", "255", "256", "ffff", "FFFF", "10000", "db8", "g", ".", ".",
        ".", ":", ":", ":", "::", "1.2.3.4", "::ffff:", "%lo", " ", "-1", "",
    ]

    @Test func `is read and written as the C library does`() throws {
        var generator = SeededRandom(seed: 11)
        var validCount = 0
        for _ in 0..<40_000 {
            let count = Int.random(in: 1...15, using: &generator)
            let text = (0..<count).map { _ in Self.pieces.randomElement(using: &generator)! }
                .joined()
            let expected = SocketAddress(numericHost: text, port: 7)
            let address = IPAddress(text.utf8)
            guard let expected, let address else {
                #expect((expected == nil) == (address == nil), "\(text)")
                continue
            }
            validCount += 1
            guard !address.isVersion4 || !text.contains(":") else { continue }
            #expect(SocketAddress(address, port: 7) == expected, "\(text)")
            #expect(expected.ipAddress == address, "\(text)")
        }
        #expect(validCount > 200)
    }

    @Test func `has one written form`() throws {
        var generator = SeededRandom(seed: 12)
        for _ in 0..<5_000 {
            // Words of zeros make runs.
            let words = (0..<8).map { _ in
                Bool.random(using: &generator)
                    ? 0 : UInt64(UInt16.random(in: 0...UInt16.max, using: &generator))
            }
            let address = IPAddress(
                high: words[..<4].reduce(0) { $0 << 16 | $1 },
                low: words[4...].reduce(0) { $0 << 16 | $1 })
            #expect(IPAddress(address.description.utf8) == address)
            // The C library writes the last 32 bits of some addresses as those of IPv4.
            if !SocketAddress(address, port: 0).host.contains(".") {
                #expect(address.description == SocketAddress(address, port: 0).host)
            }
        }
        #expect(IPAddress(version4: 0xC000_0207).description == "192.0.2.7")
        #expect(IPAddress("::FFFF:192.0.2.7".utf8)?.description == "192.0.2.7")
        #expect(IPAddress("1:0:0:2:0:0:0:3".utf8)?.description == "1:0:0:2::3")
        #expect(IPAddress("1:0:2:3:4:5:6:7".utf8)?.description == "1:0:2:3:4:5:6:7")
    }

    @Test func `belongs to the networks that begin with its bits`() throws {
        func contains(_ network: String, _ address: String) throws -> Bool {
            try IPNetwork(network.utf8).contains(#require(IPAddress(address.utf8)))
        }
        let inside = [
            ("10.0.0.0/8", "10.255.255.255"), ("10.0.0.0/8", "::ffff:10.1.2.3"),
            ("192.0.2.128/25", "192.0.2.128"), ("0.0.0.0/0", "255.255.255.255"),
            ("192.0.2.7", "192.0.2.7"), ("fd00::/8", "fdff::1"), ("::/0", "2001:db8::1"),
            ("2001:db8::/65", "2001:db8::7fff:ffff:ffff:ffff"), ("::1", "::1"),
            ("2001:db8:0:ff00::/56", "2001:db8:0:ffff::1"),
        ]
        for (network, address) in inside { #expect(try contains(network, address)) }
        let outside = [
            ("10.0.0.0/8", "11.0.0.0"), ("10.0.0.0/8", "9.255.255.255"), ("10.0.0.0/8", "a00::"),
            ("192.0.2.128/25", "192.0.2.127"), ("192.0.2.7", "192.0.2.6"), ("::/0", "1.2.3.4"),
            ("::/0", "::ffff:1.2.3.4"), ("0.0.0.0/0", "::1"), ("fd00::/8", "fe00::"),
            ("2001:db8::/65", "2001:db8::8000:0:0:0"), ("::1", "::2"),
            ("2001:db8:0:ff00::/56", "2001:db8:0:fe00::"),
        ]
        for (network, address) in outside { #expect(try !contains(network, address)) }
        #expect(throws: IPNetwork.Fault.host(try IPNetwork("10.0.0.0/8".utf8))) {
            try IPNetwork("10.0.0.1/8".utf8)
        }
        #expect(throws: IPNetwork.Fault.mapped) { try IPNetwork("::ffff:0:0/96".utf8) }
    }
}

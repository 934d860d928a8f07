// X-Forwarded-For: which address counts, and what a client can write without being believed.

import BrokerTerms
import Primitives
import Testing

@testable import WireFormat

@Suite("X-Forwarded-For")
struct ForwardedClientTests {
    private let proxies = [
        try! IPNetwork("10.0.0.0/8".utf8), try! IPNetwork("2001:db8:1::/48".utf8),
    ]

    /// The finding of a request with these fields.
    private func find(_ fields: String...) throws -> ForwardedClient.Finding {
        let text =
            "GET / HTTP/1.1\r\nHost: h\r\n" + fields.map { $0 + "\r\n" }.joined() + "\r\n"
        let bytes = Array(text.utf8)
        guard case .head(let head, _) = try HTTPRequestHead.parse(bytes.span.bytes) else {
            throw HTTPFault.requestLine
        }
        return ForwardedClient.find(
            in: head.forwardedFor, of: bytes.span.bytes, behind: proxies)
    }

    private func client(_ text: String, port: UInt16 = 0) -> ForwardedClient.Finding {
        ForwardedClient.Finding(client: ForwardedClient(IPAddress(text.utf8)!, port: port))
    }

    @Test func `the rightmost address that is no proxy's counts`() throws {
        #expect(try find("X-Forwarded-For: 192.0.2.7") == client("192.0.2.7"))
        #expect(try find("x-FORWARDED-for:192.0.2.7") == client("192.0.2.7"))
        #expect(try find("X-Forwarded-For: 192.0.2.7, 10.0.0.1") == client("192.0.2.7"))
        #expect(try find("X-Forwarded-For: 1.1.1.1, 192.0.2.7,10.0.0.1") == client("192.0.2.7"))
        #expect(
            try find("X-Forwarded-For: 192.0.2.7, 2001:db8:1::5, 10.0.0.1") == client("192.0.2.7"))
        // All are proxies: the one that is farthest away.
        #expect(try find("X-Forwarded-For: 10.0.0.3, 10.0.0.2") == client("10.0.0.3"))
    }

    @Test func `what a client writes to the left of its address is not looked at`() throws {
        for forged in ["127.0.0.1", "10.0.0.9", "unknown", "\"", ",,", "1.2.3.4.5", "\u{E9}"] {
            #expect(try find("X-Forwarded-For: \(forged), 192.0.2.7") == client("192.0.2.7"))
            #expect(
                try find("X-Forwarded-For: \(forged)", "X-Forwarded-For: 192.0.2.7, 10.0.0.1")
                    == client("192.0.2.7"))
        }
    }

    @Test func `fields are one list in their order`() throws {
        #expect(
            try find("X-Forwarded-For: 192.0.2.7", "X-Forwarded-For: 10.0.0.1")
                == client("192.0.2.7"))
        #expect(
            try find("X-Forwarded-For: 10.0.0.1", "X-Forwarded-For: 192.0.2.7")
                == client("192.0.2.7"))
    }

    @Test func `addresses are read with and without a port`() throws {
        #expect(try find("X-Forwarded-For: 192.0.2.7:4711") == client("192.0.2.7", port: 4_711))
        #expect(try find("X-Forwarded-For: 2001:db8::7") == client("2001:db8::7"))
        #expect(try find("X-Forwarded-For: [2001:db8::7]") == client("2001:db8::7"))
        #expect(
            try find("X-Forwarded-For: [2001:db8::7]:4711") == client("2001:db8::7", port: 4_711))
        #expect(try find("X-Forwarded-For: ::ffff:192.0.2.7") == client("192.0.2.7"))
    }

    @Test(arguments: [
        "unknown", "_hidden", "192.0.2", "192.0.2.7:", "192.0.2.7:65536", "192.0.2.7:x",
        "[192.0.2.7]", "[2001:db8::7", "[2001:db8::7]x", "[2001:db8::7]:", "[]", "[",
        "192.0.2.7 192.0.2.8", "for=192.0.2.7", "\"192.0.2.7\"", "2001:db8::7%1",
    ])
    func `an element that is no address ends the search`(element: String) throws {
        let none = ForwardedClient.Finding(client: nil, isMalformed: true)
        #expect(try find("X-Forwarded-For: 192.0.2.1, \(element)") == none)
        var nearest = client("10.0.0.1")
        nearest.isMalformed = true
        #expect(try find("X-Forwarded-For: 192.0.2.1, \(element), 10.0.0.1") == nearest)
    }

    @Test func `without an address the connection's counts`() throws {
        #expect(try find() == ForwardedClient.Finding())
        #expect(try find("X-Forwarded-For:") == ForwardedClient.Finding())
        #expect(try find("X-Forwarded-For: , ,") == ForwardedClient.Finding())
        // A proxy that writes X-Forwarded-For passes on what a client writes here.
        #expect(try find("Forwarded: for=192.0.2.7") == ForwardedClient.Finding())
    }
}

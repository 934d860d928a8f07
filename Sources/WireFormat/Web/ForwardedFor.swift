// The client of a request that reverse proxies passed on, from X-Forwarded-For. Each proxy appends
// the address of its peer; what is to the left of the first address that is no proxy's was written
// by the client, and may be anything.
//
// `Forwarded` (RFC 7239) says the same in another form and is not read: a proxy that writes one of
// the two passes the other one on as the client sent it, so that whoever reads both believes the
// client.

import BrokerTerms
import Primitives

/// An address in `X-Forwarded-For`.
public struct ForwardedClient: Sendable, Equatable {
    public let address: IPAddress
    /// 0 where there is none.
    public let port: UInt16

    public init(_ address: IPAddress, port: UInt16 = 0) {
        self.address = address
        self.port = port
    }
}

extension ForwardedClient {
    /// What a request says about its client.
    public struct Finding: Sendable, Equatable {
        /// The rightmost address that is in none of the proxies' networks; the leftmost one if all
        /// are. Nil if there is none: the address of the connection counts.
        public var client: ForwardedClient?
        /// Whether an element that is no address ended the search. The addresses to the right of it
        /// count.
        public var isMalformed = false

        public init(client: ForwardedClient? = nil, isMalformed: Bool = false) {
            self.client = client
            self.isMalformed = isMalformed
        }
    }

    /// Finds the client of a request.
    ///
    /// - Parameters:
    ///   - lists: the values of all `X-Forwarded-For` in `bytes`, in their order.
    ///   - proxies: the networks whose members appended true addresses.
    public static func find(
        in lists: [ByteRange], of bytes: RawSpan, behind proxies: [IPNetwork]
    ) -> Finding {
        var finding = Finding()
        for list in lists.reversed() {
            let text = list.bytes(in: bytes).withUnsafeBytes { Array($0) }
            for element in text.split(separator: UInt8(ascii: ",")).reversed() {
                let element = trimmed(element)
                if element.isEmpty { continue }
                guard let client = ForwardedClient(element) else {
                    finding.isMalformed = true
                    return finding
                }
                finding.client = client
                guard proxies.contain(client.address) else { return finding }
            }
        }
        return finding
    }

    /// Reads `192.0.2.1` or `2001:db8::1`, or with a port `192.0.2.1:80` or `[2001:db8::1]:80`.
    private init?(_ element: ArraySlice<UInt8>) {
        let colons = element.count { $0 == UInt8(ascii: ":") }
        var host = element
        var port: ArraySlice<UInt8>?
        if element.first == UInt8(ascii: "[") {
            guard let end = element.firstIndex(of: UInt8(ascii: "]")) else { return nil }
            host = element[(element.startIndex + 1)..<end]
            guard host.contains(UInt8(ascii: ":")) else { return nil }
            let rest = element[(end + 1)...]
            guard rest.isEmpty || rest.first == UInt8(ascii: ":") else { return nil }
            if !rest.isEmpty { port = rest.dropFirst() }
        } else if colons == 1, let colon = element.firstIndex(of: UInt8(ascii: ":")) {
            host = element[..<colon]
            port = element[(colon + 1)...]
        }
        guard let address = IPAddress(host) else { return nil }
        guard let port else {
            self.init(address)
            return
        }
        guard let number = UInt16(decimal: port) else { return nil }
        self.init(address, port: number)
    }

    private static func trimmed(_ element: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        var element = element
        while let first = element.first, HTTPCharacter.isSpace(first) { element.removeFirst() }
        while let last = element.last, HTTPCharacter.isSpace(last) { element.removeLast() }
        return element
    }
}

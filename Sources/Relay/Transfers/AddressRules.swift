// Which addresses a relay may connect to. The address is checked when a connection is opened, and
// before each request on it, so that no name leads into the operator's own network, whatever it
// resolves to and whoever opened the connection.

import BrokerTerms

package struct AddressRules: Sendable {
    /// Private networks that the operator permits.
    package let allowed: [IPNetwork]

    package init(allowed: [IPNetwork]) {
        self.allowed = allowed
    }

    /// Networks that are not the public internet (IANA's registries of special-purpose addresses),
    /// and those of IPv6 that contain addresses of IPv4, which may be private.
    private static let special: [IPNetwork] = [
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16",
        "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.168.0.0/16", "198.18.0.0/15",
        "198.51.100.0/24", "203.0.113.0/24", "192.88.99.0/24", "224.0.0.0/4", "240.0.0.0/4",
        "::/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23",
        "2001:db8::/32", "2002::/16", "3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10",
        "fec0::/10", "ff00::/8",
    ].map { text in
        guard let network = try? IPNetwork(text.utf8) else {
            preconditionFailure("\(text) is no network")
        }
        return network
    }

    package func permits(_ address: IPAddress) -> Bool {
        allowed.contain(address) || !Self.special.contain(address)
    }

    /// - Parameter bytes: 4 or 16, as on the wire; anything else is not permitted.
    package func permits(bytes: [UInt8]) -> Bool {
        func number(_ part: some Sequence<UInt8>) -> UInt64 {
            part.reduce(0) { $0 << 8 | UInt64($1) }
        }
        switch bytes.count {
        case 4: return permits(IPAddress(version4: UInt32(truncatingIfNeeded: number(bytes))))
        case 16:
            return permits(
                IPAddress(high: number(bytes.prefix(8)), low: number(bytes.dropFirst(8))))
        default: return false
        }
    }
}

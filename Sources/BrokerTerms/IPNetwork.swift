// A network of IP addresses, such as 10.0.0.0/8.

/// The addresses that begin with the same bits. A network of IPv6 contains no IPv4 address.
public struct IPNetwork: Hashable, Sendable {
    /// The first address.
    public let base: IPAddress
    /// The number of bits that all addresses share: of 32 for IPv4, of 128 for IPv6.
    public let prefixBitCount: Int

    /// Networks in one list. A list has one entry for each subnet with proxies; it is searched for
    /// each connection, which costs a nanosecond per network.
    public static let listMaximum = 64

    /// What is wrong with the written form of a network.
    public enum Fault: Error, Hashable, Sendable {
        /// Neither an address nor a network.
        case malformed
        /// An IPv4 network in the form of IPv6, where its prefix would have two meanings.
        case mapped
        /// Bits behind the prefix are set; the network that was perhaps meant.
        case host(IPNetwork)
    }

    /// Reads `10.0.0.0/8`, `fd00::/8` or an address, which is a network of one.
    public init(_ text: some Collection<UInt8>) throws(Fault) {
        let slash = text.firstIndex(of: UInt8(ascii: "/"))
        guard let address = IPAddress(text[..<(slash ?? text.endIndex)]) else { throw .malformed }
        if address.isVersion4, text.contains(UInt8(ascii: ":")) { throw .mapped }
        let width = address.isVersion4 ? 32 : 128
        var prefix = width
        if let slash {
            guard let number = UInt16(decimal: text[text.index(after: slash)...]), number <= width
            else { throw .malformed }
            prefix = Int(number)
        }
        let base = Self.masked(address, prefixBitCount: prefix + 128 - width)
        let network = IPNetwork(base: base, prefixBitCount: prefix)
        guard base == address else { throw .host(network) }
        self = network
    }

    private init(base: IPAddress, prefixBitCount: Int) {
        self.base = base
        self.prefixBitCount = prefixBitCount
    }

    public func contains(_ address: IPAddress) -> Bool {
        guard address.isVersion4 == isVersion4 else { return false }
        let bits = prefixBitCount + (isVersion4 ? 96 : 0)
        return Self.masked(address, prefixBitCount: bits) == base
    }

    // The base of an IPv4 network keeps the mark of IPv4, because its mask has 96 bits at least.
    private var isVersion4: Bool { base.isVersion4 }

    /// The address with the bits behind the first `count` of 128 cleared.
    private static func masked(_ address: IPAddress, prefixBitCount count: Int) -> IPAddress {
        // A shift by 64 clears all bits.
        let high = UInt64.max << (64 - min(count, 64))
        let low = UInt64.max << (64 - max(count - 64, 0))
        return IPAddress(high: address.high & high, low: address.low & low)
    }
}

extension IPNetwork: CustomStringConvertible {
    /// The written form; of one address without its prefix.
    public var description: String {
        prefixBitCount == (isVersion4 ? 32 : 128) ? "\(base)" : "\(base)/\(prefixBitCount)"
    }
}

extension [IPNetwork] {
    /// Whether one of the networks contains an address.
    public func contain(_ address: IPAddress) -> Bool {
        for network in self where network.contains(address) { return true }
        return false
    }
}

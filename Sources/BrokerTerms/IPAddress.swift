// IP addresses and networks as plain values, with their written forms. They are read strictly:
// whoever names an address decides who is trusted.

/// An IPv4 or IPv6 address without a port.
public struct IPAddress: Hashable, Sendable {
    /// The address as one number; an IPv4 address is `::ffff:a.b.c.d` [RFC 4291, 2.5.5.2], so that
    /// a client has one address whichever form names it.
    public let high: UInt64
    public let low: UInt64

    /// Bits 32 to 47 of an IPv4 address.
    private static let version4Mark: UInt64 = 0xFFFF

    /// An IPv6 address, or an IPv4 address in its IPv6 form.
    public init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// An IPv4 address; its first byte is the highest of the number.
    public init(version4 number: UInt32) {
        high = 0
        low = Self.version4Mark << 32 | UInt64(number)
    }

    public var isVersion4: Bool { high == 0 && low >> 32 == Self.version4Mark }

    /// The number of an IPv4 address; of no use for another one.
    public var version4: UInt32 { UInt32(truncatingIfNeeded: low) }

    /// What one client has at least: an IPv4 address, or the first 64 bits of an IPv6 address, the
    /// rest of which a host chooses itself [RFC 4291, 2.5.1].
    public var network: IPAddress {
        isVersion4 ? self : IPAddress(high: high, low: 0)
    }
}

// MARK: - The written form

extension IPAddress {
    /// Reads `192.0.2.1` or `2001:db8::1`; nil for anything else: a leading zero, which some
    /// programs read as octal, a zone, brackets, a port, spaces.
    public init?(_ text: some Collection<UInt8>) {
        guard
            let address = text.contains(UInt8(ascii: ":"))
                ? Self.version6(text) : Self.version4Number(text).map(IPAddress.init(version4:))
        else { return nil }
        self = address
    }

    /// Reads four numbers of 0 to 255.
    private static func version4Number(_ text: some Collection<UInt8>) -> UInt32? {
        let words = text.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard words.count == 4 else { return nil }
        var number: UInt32 = 0
        for word in words {
            guard let part = UInt16(decimal: word), part <= 255 else { return nil }
            number = number << 8 | UInt32(part)
        }
        return number
    }

    /// Reads eight groups, of which one `::` replaces one or more, and of which an IPv4 address
    /// replaces the last two [RFC 4291, 2.2].
    private static func version6(_ text: some Collection<UInt8>) -> IPAddress? {
        let words = text.split(separator: UInt8(ascii: ":"), omittingEmptySubsequences: false)
        // `::` is an empty word in the middle; at an end there are two of them.
        guard words.count >= 3, words.count <= 9 else { return nil }
        var groups: [UInt16] = []
        var gap: Int?
        for (index, word) in words.enumerated() {
            if word.isEmpty {
                let isEnd = index == 0 || index == words.count - 1
                if isEnd {
                    let neighbour = index == 0 ? words[1] : words[words.count - 2]
                    guard neighbour.isEmpty else { return nil }
                    continue
                }
                guard gap == nil else { return nil }
                gap = groups.count
            } else if index == words.count - 1, word.contains(UInt8(ascii: ".")) {
                guard let number = version4Number(word) else { return nil }
                groups += [UInt16(number >> 16), UInt16(truncatingIfNeeded: number)]
            } else {
                guard let group = UInt16(hexadecimal: word) else { return nil }
                groups.append(group)
            }
        }
        if let gap {
            guard groups.count < 8 else { return nil }
            groups.insert(contentsOf: repeatElement(0, count: 8 - groups.count), at: gap)
        }
        guard groups.count == 8 else { return nil }
        return IPAddress(
            high: groups[..<4].reduce(0) { $0 << 16 | UInt64($1) },
            low: groups[4...].reduce(0) { $0 << 16 | UInt64($1) })
    }
}

extension IPAddress: CustomStringConvertible {
    /// The form of RFC 5952: lowercase, and `::` for the first longest run of zeros.
    public var description: String {
        if isVersion4 {
            return (0..<4).map { "\(version4 >> (24 - 8 * $0) & 0xFF)" }.joined(separator: ".")
        }
        let groups = (0..<8).map { index in
            UInt16(truncatingIfNeeded: (index < 4 ? high : low) >> (48 - 16 * (index % 4)))
        }
        var run = 0..<0
        var start = 0
        while start < 8 {
            var end = start
            while end < 8, groups[end] == 0 { end += 1 }
            if end - start > max(1, run.count) { run = start..<end }
            start = end + 1
        }
        func text(_ part: ArraySlice<UInt16>) -> String {
            part.map { String($0, radix: 16) }.joined(separator: ":")
        }
        if run.isEmpty { return text(groups[...]) }
        return text(groups[..<run.lowerBound]) + "::" + text(groups[run.upperBound...])
    }
}

extension UInt16 {
    /// Reads decimal digits without a leading zero; nil for anything else.
    public init?(decimal digits: some Collection<UInt8>) {
        guard let first = digits.first, digits.count <= 5,
            first != UInt8(ascii: "0") || digits.count == 1
        else { return nil }
        var number: UInt32 = 0
        for digit in digits {
            guard digit >= UInt8(ascii: "0"), digit <= UInt8(ascii: "9") else { return nil }
            number = number * 10 + UInt32(digit - UInt8(ascii: "0"))
        }
        guard number <= UInt32(UInt16.max) else { return nil }
        self = UInt16(number)
    }

    /// Reads one to four hexadecimal digits; nil for anything else.
    fileprivate init?(hexadecimal digits: some Collection<UInt8>) {
        guard (1...4).contains(digits.count) else { return nil }
        var number: UInt16 = 0
        for digit in digits {
            let value: UInt8
            switch digit {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): value = digit - UInt8(ascii: "0")
            case UInt8(ascii: "a")...UInt8(ascii: "f"): value = digit - UInt8(ascii: "a") + 10
            case UInt8(ascii: "A")...UInt8(ascii: "F"): value = digit - UInt8(ascii: "A") + 10
            default: return nil
            }
            number = number << 4 | UInt16(value)
        }
        self = number
    }
}

// The pattern of a right, for names or for topics. The values of `%u` and `%d` are compared as
// plain text, so a user called `*` matches no other user. Such a value never adds a level or a
// wildcard to a filter, and is not part of a first level that begins with `$`.

/// A pattern for names or an MQTT filter. It is parsed once, so that a check allocates nothing.
/// ``RightFilters`` matches filters.
enum RightPattern: Hashable, Sendable {
    /// Matches everything.
    case everything
    /// A name, which may contain `*`.
    case name([Part])
    /// The levels of a filter.
    case filter([Level])

    enum Part: Hashable, Sendable {
        case text([UInt8])
        case user
        case device
        /// `*`: any bytes, or none.
        case anything
    }

    enum Level: Hashable, Sendable {
        /// One level with exactly this text.
        case text([Part])
        /// `+`: any one level.
        case one
        /// `#`: this level and all levels below it, and the one above it.
        case rest
    }

    private static let plus = [UInt8(ascii: "+")]
    private static let hash = [UInt8(ascii: "#")]

    /// Parses a pattern for names.
    init(name text: [UInt8]) throws(RightsError) {
        let parts = try Self.parts(text[...], allowsStars: true, whole: text)
        self = parts == [.anything] ? .everything : .name(parts)
    }

    /// Parses a filter (MQTT 4.7): `+` and `#` are alone in their level, and `#` is the last level.
    init(filter text: [UInt8]) throws(RightsError) {
        var levels: [Level] = []
        let written = text.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        for (index, level) in written.enumerated() {
            if level.elementsEqual(Self.plus) {
                levels.append(.one)
            } else if level.elementsEqual(Self.hash), index == written.count - 1 {
                levels.append(.rest)
            } else if level.contains(Self.plus[0]) || level.contains(Self.hash[0]) {
                throw .malformedPattern(text)
            } else {
                levels.append(.text(try Self.parts(level, allowsStars: false, whole: text)))
            }
        }
        self = levels == [.rest] ? .everything : .filter(levels)
    }

    private static func parts(
        _ text: ArraySlice<UInt8>, allowsStars: Bool, whole: [UInt8]
    ) throws(RightsError) -> [Part] {
        var parts: [Part] = []
        var plain: [UInt8] = []
        var rest = text
        func flush(_ part: Part?) {
            if !plain.isEmpty { parts.append(.text(plain)) }
            plain = []
            if let part { parts.append(part) }
        }
        while let byte = rest.popFirst() {
            switch byte {
            case UInt8(ascii: "*") where allowsStars: flush(.anything)
            case UInt8(ascii: "%"):
                switch rest.popFirst() {
                case UInt8(ascii: "u"): flush(.user)
                case UInt8(ascii: "d"): flush(.device)
                case UInt8(ascii: "%"): plain.append(byte)
                default: throw .malformedPattern(whole)
                }
            default: plain.append(byte)
            }
        }
        flush(nil)
        return parts
    }

    /// The text of the parts if it is the same for every principal; otherwise nil.
    static func bytes(of parts: [Part]) -> [UInt8]? {
        var bytes: [UInt8] = []
        for part in parts {
            guard case .text(let text) = part else { return nil }
            bytes += text
        }
        return bytes
    }

    // MARK: - Checks

    /// Matches the parts from front to back. After a mismatch, the last `*` takes one more byte.
    /// The cost is at most the product of both lengths.
    ///
    /// - Parameter comparisons: increased by the number of parts compared.
    static func matches(
        _ parts: [Part], _ subject: UnsafeRawBufferPointer, for names: PrincipalNames,
        comparisons: inout Int
    ) -> Bool {
        var part = 0
        var offset = 0
        var star: (part: Int, offset: Int)?
        while true {
            comparisons += 1
            if part < parts.count, parts[part] == .anything {
                star = (part, offset)
                part += 1
                continue
            }
            if part == parts.count, offset == subject.count { return true }
            if part < parts.count,
                let count = matchedCount(of: parts[part], subject, at: offset, for: names)
            {
                part += 1
                offset += count
                continue
            }
            guard let last = star, last.offset < subject.count else { return false }
            star = (last.part, last.offset + 1)
            part = last.part + 1
            offset = last.offset + 1
        }
    }

    /// The number of bytes that a part matches at an offset of the subject; nil if it does not
    /// match.
    private static func matchedCount(
        of part: Part, _ subject: UnsafeRawBufferPointer, at offset: Int, for names: PrincipalNames
    ) -> Int? {
        switch part {
        case .text(let text): prefixCount(text, subject, at: offset)
        case .user:
            PrincipalNames.isSpellable(names.user)
                ? prefixCount(names.user, subject, at: offset) : nil
        case .device:
            PrincipalNames.isSpellable(names.device)
                ? prefixCount(names.device, subject, at: offset) : nil
        case .anything: preconditionFailure("\(part) is matched with the rest at \(offset)")
        }
    }

    private static func prefixCount(
        _ text: some RandomAccessCollection<UInt8>, _ subject: UnsafeRawBufferPointer,
        at offset: Int
    ) -> Int? {
        guard offset + text.count <= subject.count else { return nil }
        var position = offset
        for byte in text {
            if subject[position] != byte { return nil }
            position += 1
        }
        return text.count
    }
}

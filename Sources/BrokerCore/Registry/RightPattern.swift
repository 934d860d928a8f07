// The part of a right that names users or topics. What `%u` and `%d` stand for is compared as plain
// text: a user called `*` matches nobody else. It never adds a level or a wildcard to a filter, and
// it is no part of a first level that begins with `$`.

/// A pattern for names or an MQTT filter, taken apart once so that a check allocates nothing.
enum RightPattern: Hashable, Sendable {
    /// Whatever is asked for.
    case everything
    /// A name with `*`.
    case name([Part])
    /// The levels of a filter.
    case filter([Level])

    enum Part: Hashable, Sendable {
        case text([UInt8])
        case user
        case device
        /// `*`: any bytes, none included.
        case anything
    }

    enum Level: Hashable, Sendable {
        /// One level of exactly this text.
        case text([Part])
        /// `+`: any one level.
        case one
        /// `#`: this level and all below it, and the one above it.
        case rest
    }

    private static let plus = [UInt8(ascii: "+")]
    private static let hash = [UInt8(ascii: "#")]

    /// Reads a pattern for names.
    init(name text: [UInt8]) throws(RightsError) {
        let parts = try Self.parts(text[...], allowsStars: true, whole: text)
        self = parts == [.anything] ? .everything : .name(parts)
    }

    /// Reads a filter (MQTT 4.7): `+` and `#` stand alone in their level, `#` in the last one.
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

    /// Whether it is a filter whose first level is a text.
    var beginsWithText: Bool {
        if case .filter(let levels) = self, case .text? = levels.first { return true }
        return false
    }

    // MARK: - Checks

    /// Whether the pattern allows a subject: a name, a topic, or a filter of which every topic has
    /// to be allowed.
    func covers(_ subject: UnsafeRawBufferPointer, _ bearer: RightsBearer) -> Bool {
        switch self {
        case .everything: true
        case .name(let parts): Self.matches(parts, subject: subject, bearer: bearer)
        case .filter(let levels): Self.covers(levels, subject: subject, bearer: bearer)
        }
    }

    /// Matches parts from front to back; after a mismatch the last `*` takes one byte more. The
    /// cost is at most the product of both lengths.
    private static func matches(
        _ parts: [Part], subject: UnsafeRawBufferPointer, bearer: RightsBearer
    ) -> Bool {
        var part = 0
        var offset = 0
        var star: (part: Int, offset: Int)?
        while true {
            if part < parts.count, parts[part] == .anything {
                star = (part, offset)
                part += 1
                continue
            }
            if part == parts.count, offset == subject.count { return true }
            if part < parts.count,
                let count = matchedCount(of: parts[part], subject, at: offset, bearer)
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

    /// How many bytes of a subject a part takes at an offset; nil where it does not fit.
    private static func matchedCount(
        of part: Part, _ subject: UnsafeRawBufferPointer, at offset: Int, _ bearer: RightsBearer
    ) -> Int? {
        switch part {
        case .text(let text): prefixCount(text, subject, at: offset)
        case .user:
            RightsBearer.isSpellable(bearer.user)
                ? prefixCount(bearer.user, subject, at: offset) : nil
        case .device:
            RightsBearer.isSpellable(bearer.device)
                ? prefixCount(bearer.device, subject, at: offset) : nil
        case .anything: preconditionFailure("a star takes what is left over")
        }
    }

    private static func prefixCount(
        _ text: some RandomAccessCollection<UInt8>, _ subject: UnsafeRawBufferPointer,
        at offset: Int
    ) -> Int? {
        guard offset + text.count <= subject.count else { return nil }
        var place = offset
        for byte in text {
            if subject[place] != byte { return nil }
            place += 1
        }
        return text.count
    }

    /// Whether a level is the same text for every bearer.
    private static func isFixed(_ parts: [Part]) -> Bool {
        !parts.contains(.user) && !parts.contains(.device)
    }

    /// Whether every topic that `subject` stands for is allowed. A topic stands for itself.
    private static func covers(
        _ levels: [Level], subject: UnsafeRawBufferPointer, bearer: RightsBearer
    ) -> Bool {
        var start = 0
        for level in levels {
            // "a/#" allows "a" too, so this stands before the end of the subject.
            if level == .rest { return true }
            guard start <= subject.count else { return false }
            var end = start
            while end < subject.count && subject[end] != UInt8(ascii: "/") { end += 1 }
            let text = UnsafeRawBufferPointer(rebasing: subject[start..<end])
            switch level {
            case .one:
                if text.elementsEqual(Self.hash) { return false }
            case .text(let parts):
                // What is put in for a name never makes a level that is the broker's own: whoever
                // is called `$SYS` gets nothing of it by `%d/#`.
                if start == 0, subject.first == UInt8(ascii: "$"), !isFixed(parts) {
                    return false
                }
                // A wildcard of the subject's is never equal to a text.
                if !matches(parts, subject: text, bearer: bearer) { return false }
            case .rest: break
            }
            start = end + 1
        }
        return start > subject.count
    }
}

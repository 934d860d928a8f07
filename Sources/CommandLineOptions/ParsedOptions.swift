// The result of parsing a command line, read by option. Conversions are here because only the
// caller knows the type and range that it needs; each error names the option as it was written.

/// The options and positional words of one command line.
public struct ParsedOptions<Rules: OptionRules>: Sendable {
    /// Words without dashes, in order.
    public internal(set) var positionals: [String] = []
    /// Values in order of appearance; an empty list for a flag that is present.
    var values: [Rules: [String]] = [:]

    /// Whether the option was given.
    public func has(_ option: Rules) -> Bool {
        values[option] != nil
    }

    /// The value of an option, nil if it was not given. For a repeated option, the last one.
    public subscript(option: Rules) -> String? {
        precondition(option.shape != .flag, "\(option) is a flag: use has(_:)")
        return values[option]?.last
    }

    /// All values of a repeated option in order; empty if it was not given.
    public func all(_ option: Rules) -> [String] {
        precondition(option.shape == .repeated, "\(option) is not a repeated option")
        return values[option] ?? []
    }

    /// The value of a required option.
    public func required(_ option: Rules) throws(UsageError) -> String {
        guard let value = self[option] else {
            throw UsageError("missing --\(option.rawValue)")
        }
        return value
    }

    /// A decimal whole number within `range`, nil if the option was not given.
    public func integer(
        _ option: Rules, in range: ClosedRange<Int>
    ) throws(UsageError) -> Int? {
        guard let text = self[option] else { return nil }
        guard let number = Int(text), range.contains(number) else {
            throw UsageError(
                "--\(option.rawValue) must be a whole number from \(range.lowerBound) to "
                    + "\(range.upperBound), not \"\(text)\"")
        }
        return number
    }

    /// Like ``seconds(_:)``, but the unit is required: people who write `--expires 10` mean days
    /// more often than seconds. 0 needs none.
    public func duration(_ option: Rules) throws(UsageError) -> UInt64? {
        if let text = self[option], text != "0", UInt64(text) != nil {
            throw UsageError(
                "--\(option.rawValue) needs a unit: \(text)s, \(text)m, \(text)h, \(text)d or "
                    + "\(text)y, not \"\(text)\"")
        }
        return try seconds(option)
    }

    /// Seconds written as a number with a unit, `90s`, `15m`, `12h`, `30d`, `10y`; a bare number is
    /// in seconds. nil if the option was not given. A year is 365 days: a token for ten years needs
    /// no calendar.
    public func seconds(_ option: Rules) throws(UsageError) -> UInt64? {
        guard let text = self[option] else { return nil }
        let units: [Character: UInt64] = [
            "s": 1, "m": 60, "h": 3600, "d": 86_400, "y": 365 * 86_400,
        ]
        let unit = text.last.flatMap { units[$0] }
        let digits = unit == nil ? text[...] : text.dropLast()
        guard digits.allSatisfy(\.isASCII), !digits.hasPrefix("+"), let count = UInt64(digits),
            case let (product, overflow) = count.multipliedReportingOverflow(by: unit ?? 1),
            !overflow
        else {
            throw UsageError(
                "--\(option.rawValue) must be a time such as 90s, 15m, 12h, 30d or 10y, "
                    + "not \"\(text)\"")
        }
        return product
    }
}

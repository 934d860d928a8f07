// A row of the table of statistics: the name, the kind, the unit, the meaning and the value of one
// number. `/metrics`, `$SYS` topics, `martlet stats` and docs/operating/statistics.md are made of
// these rows, so that a number cannot be in one of them and not in the others.

/// A number of the broker.
struct Statistic: Sendable {
    enum Kind: String {
        /// It only increases.
        case counter
        /// It may also decrease.
        case gauge
    }

    /// As under `$SYS/broker/`: `clients/connected`.
    let name: String
    let kind: Kind
    /// What is counted, such as `connections`.
    let unit: String
    /// What the number says, as a sentence without its full stop. Settings and other names are in
    /// backquotes.
    let meaning: String
    /// Its value; nil where there is nothing to count.
    let value: @Sendable (StatisticsSources) -> UInt64?

    /// The unit of times until something expires. `/metrics` has seconds, because days are no base
    /// unit.
    static let days = "days"

    static func counter(
        _ name: String, of unit: String, _ meaning: String,
        value: @escaping @Sendable (StatisticsSources) -> UInt64
    ) -> Statistic {
        Statistic(name: name, kind: .counter, unit: unit, meaning: meaning, value: value)
    }

    static func gauge(
        _ name: String, of unit: String, _ meaning: String,
        value: @escaping @Sendable (StatisticsSources) -> UInt64?
    ) -> Statistic {
        Statistic(name: name, kind: .gauge, unit: unit, meaning: meaning, value: value)
    }
}

/// A statistic at one moment.
struct StatisticValue {
    let statistic: Statistic
    let value: UInt64

    var name: String { statistic.name }
}

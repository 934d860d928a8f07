// The ids of users as QuickBlox writes them.

extension SourceValue {
    /// A user's id: a number where it is written like one, as all ids of QuickBlox are.
    static func user(_ name: String) -> SourceValue {
        guard let number = Int64(name), "\(number)" == name else { return .text(name) }
        return .number(number)
    }
}

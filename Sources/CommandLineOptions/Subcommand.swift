// Finds the subcommand of programs such as `martlet token mint`: one or two words before the
// options.

extension RawRepresentable where RawValue == String, Self: CaseIterable {
    /// Removes the words of a subcommand from the front of the arguments. Raw values are the words
    /// as typed, separated by one space: `"send"`, `"token mint"`. The longest match is taken.
    ///
    /// - Throws: ``UsageError`` with the nearest known one, or all of them if none was given.
    public static func takeSubcommand(
        from arguments: inout ArraySlice<String>
    ) throws(UsageError) -> Self {
        let words = arguments.prefix { !$0.hasPrefix("-") }
        for count in stride(from: min(3, words.count), to: 0, by: -1) {
            if let command = Self(rawValue: words.prefix(count).joined(separator: " ")) {
                arguments.removeFirst(count)
                return command
            }
        }
        let known = allCases.map(\.rawValue)
        guard let first = words.first else {
            throw UsageError("missing command, one of: \(known.joined(separator: ", "))")
        }
        // "token" alone is incomplete and not misspelled.
        let continuations = known.filter { $0.hasPrefix(first + " ") }
        if !continuations.isEmpty {
            throw UsageError(
                "\"\(words.prefix(2).joined(separator: " "))\" is not a command; "
                    + "there is \(continuations.joined(separator: ", "))")
        }
        let typed = words.prefix(2).joined(separator: " ")
        let nearest =
            Spelling.nearest(to: first, among: known) ?? Spelling.nearest(to: typed, among: known)
        throw UsageError(
            "unknown command \"\(first)\"" + (nearest.map { "; did you mean \"\($0)\"?" } ?? ""))
    }
}

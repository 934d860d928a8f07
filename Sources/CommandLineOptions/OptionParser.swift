// Parses a command line by rules: `--key=value`, `--key value`, `-k value`, flags, `--` and
// positional words. It converts no values; `ParsedOptions` converts on demand.

/// The request of a command line.
public enum ParseOutcome<Rules: OptionRules>: Sendable {
    /// Run with these options.
    case run(ParsedOptions<Rules>)
    /// `--help` or `-h` was among the arguments: print the help page to standard output, exit 0.
    case help
}

/// The parser. It has no state.
public enum OptionParser<Rules: OptionRules> {
    /// Parses the arguments that follow the program's name (and subcommand).
    ///
    /// - Parameters:
    ///   - arguments: the words as the shell passed them.
    ///   - positionalMaximum: the number of words without dashes that are allowed.
    ///   - accepted: the options of this command, if others share its rules; nil for all.
    /// - Throws: ``UsageError`` naming the invalid word and, for an unknown option, the nearest
    ///   one.
    public static func parse(
        _ arguments: some Sequence<String>, positionalMaximum: Int = 0,
        accepting accepted: Set<Rules>? = nil
    ) throws(UsageError) -> ParseOutcome<Rules> {
        let words = Array(arguments)
        var parsed = ParsedOptions<Rules>()
        // `-h` is help, unless the program uses it for the host.
        let usesLetterH = Rules.allCases.contains { $0.letter == "h" }
        var index = 0
        while index < words.count {
            let word = words[index]
            index += 1
            if word == "--" {
                parsed.positionals.append(contentsOf: words[index...])
                break
            }
            // A single dash is by convention a file name: standard input.
            guard word.hasPrefix("-"), word != "-" else {
                parsed.positionals.append(word)
                continue
            }
            if word == "--help" || word == "-h" && !usesLetterH { return .help }
            let (rule, spelling, inlineValue) = try lookUp(word)
            // Ignored silently, it would let a script believe that it has an effect.
            if let accepted, !accepted.contains(rule) {
                throw UsageError("this command has no option --\(rule.rawValue)")
            }
            var value = inlineValue
            if rule.shape != .flag, value == nil, index < words.count,
                !words[index].hasPrefix("--")
            {
                value = words[index]
                index += 1
            }
            try record(rule, spelling: spelling, value: value, into: &parsed)
        }
        if parsed.positionals.count > positionalMaximum {
            throw UsageError("unexpected word \"\(parsed.positionals[positionalMaximum])\"")
        }
        return .run(parsed)
    }

    /// The options that a help page does not name, for the test of the page.
    public static func namesMissing(inHelp help: String, for rules: Rules.Type = Rules.self)
        -> [String]
    {
        let words = Set(help.split { " ,=[]\n\t".contains($0) }.map(String.init))
        return Rules.allCases.flatMap { rule in
            ["--\(rule.rawValue)"] + (rule.letter.map { ["-\($0)"] } ?? [])
        }.filter { !words.contains($0) }
    }

    /// The rule of a word with dashes, the word without its value, and the value after `=`.
    private static func lookUp(
        _ word: String
    ) throws(UsageError) -> (rule: Rules, spelling: String, inlineValue: String?) {
        guard word.hasPrefix("--") else {
            let name = word.dropFirst()
            if let rule = Rules.allCases.first(where: {
                $0.letter.map { name == String($0) } ?? false
            }) {
                return (rule, word, nil)
            }
            let advice = Rules.foreignNames[String(name)].map { "; did you mean \($0)?" }
            throw UsageError("unknown option \(word)\(advice ?? "")")
        }
        let equals = word.firstIndex(of: "=")
        let spelling = String(word[..<(equals ?? word.endIndex)])
        let name = String(spelling.dropFirst(2))
        guard let rule = Rules(rawValue: name) else {
            let known = Rules.allCases.map(\.rawValue) + ["help"]
            let nearest =
                Rules.foreignNames[name]
                ?? Spelling.nearest(to: name, among: known).map { "--\($0)" }
            let advice = nearest.map { "; did you mean \($0)?" }
            throw UsageError("unknown option \(spelling)\(advice ?? "")")
        }
        return (rule, spelling, equals.map { String(word[word.index(after: $0)...]) })
    }

    private static func record(
        _ rule: Rules, spelling: String, value: String?, into parsed: inout ParsedOptions<Rules>
    ) throws(UsageError) {
        switch rule.shape {
        case .flag:
            if value != nil { throw UsageError("\(spelling) takes no value") }
            parsed.values[rule] = []
        case .value, .repeated:
            guard let value else {
                throw UsageError("missing value: \(spelling) VALUE")
            }
            // Accepting the last of two silently would ignore a script's option.
            if rule.shape == .value, parsed.values[rule] != nil {
                throw UsageError("--\(rule.rawValue) is given twice")
            }
            parsed.values[rule, default: []].append(value)
        }
    }
}

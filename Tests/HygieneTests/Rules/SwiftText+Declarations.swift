// The names that Swift sources declare, and the symbols that their comments refer to.

/// The declarations of a set of sources.
struct Declarations {
    /// Types, protocols, functions with their labels, such as `write(to:)`, properties and cases.
    private(set) var names: Set<String> = []
    /// The same by type: all names of the files that declare or extend it.
    private(set) var membersOfTypes: [String: Set<String>] = [:]

    mutating func add(_ source: SwiftText) {
        let (types, names) = source.declarations()
        self.names.formUnion(names)
        for type in types { membersOfTypes[type, default: []].formUnion(names) }
    }

    /// Whether a link such as `Name`, `name(of:)` or `Type/name` refers to a declaration.
    func resolve(_ link: Substring) -> Bool {
        let parts = link.split(separator: "/")
        guard let last = parts.last else { return false }
        if parts.count == 1 { return names.contains(String(last)) }
        return membersOfTypes[String(parts[parts.count - 2])]?.contains(String(last)) == true
    }
}

extension SwiftText {
    /// The types that the source declares or extends, and all names that it declares. Functions and
    /// cases are also named without their labels. All words after `case` count as names.
    func declarations() -> (types: Set<String>, names: Set<String>) {
        var (types, names) = (Set<String>(), Set<String>())
        var keyword = ""
        var index = 0
        while index < code.count {
            guard Self.isNamePart(code[index]) else {
                if code[index] == UInt8(ascii: "\n"), keyword != "func" { keyword = "" }
                index += 1
                continue
            }
            let start = index
            while index < code.count, Self.isNamePart(code[index]) { index += 1 }
            let word = String(decoding: code[start..<index], as: UTF8.self)
            switch keyword {
            case "struct", "class", "enum", "protocol", "actor", "typealias", "extension":
                types.insert(word)
                names.insert(word)
                // The last part of `extension A.B` is the type.
                if keyword != "extension" || index == code.count
                    || code[index] != UInt8(ascii: ".")
                {
                    keyword = ""
                }
            case "var", "let":
                names.insert(word)
                keyword = ""
            case "func":
                names.insert(word)
                if let labels = labels(after: start, isFunction: true) {
                    names.insert(word + labels)
                }
                keyword = ""
            case "case":
                names.insert(word)
                if let labels = caseLabels(after: index) { names.insert(word + labels) }
            default:
                if word == "init", let labels = labels(after: index, isFunction: false) {
                    names.insert(word + labels)
                }
                keyword = word
            }
        }
        return (types, names)
    }

    private func labels(after end: Int, isFunction: Bool) -> String? {
        guard let opening = opening(after: end, isFunction: isFunction) else { return nil }
        let labels = items(ofParenthesesAt: opening).map { parameter($0)?.label ?? "_" }
        return "(" + labels.map { $0 + ":" }.joined() + ")"
    }

    /// The labels of a case's values, which may have none.
    private func caseLabels(after end: Int) -> String? {
        guard end < code.count, code[end] == UInt8(ascii: "(") else { return nil }
        let labels = items(ofParenthesesAt: end).map { item -> String in
            let words = String(decoding: code[item], as: UTF8.self)
                .split(separator: ":", maxSplits: 1)
            return words.count == 2 && words[0].utf8.allSatisfy(Self.isNamePart)
                ? String(words[0]) : "_"
        }
        return "(" + labels.map { $0 + ":" }.joined() + ")"
    }

    /// The symbols between double grave accents in the comments, with their lines.
    func symbolLinks() -> [(link: Substring, line: Int)] {
        let lines = String(decoding: bytes, as: UTF8.self)
            .split(separator: "\n", omittingEmptySubsequences: false)
        return lines.indices.flatMap { index -> [(link: Substring, line: Int)] in
            let line = lines[index]
            guard line.utf8.contains(UInt8(ascii: "`")),
                line.drop(while: { $0 == " " }).hasPrefix("//")
            else { return [] }
            return line.matches(of: /``([^`]+)``/).map { ($0.output.1, index + 1) }
        }
    }
}

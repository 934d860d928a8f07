// Reads an acl_file of Mosquitto, and turns it into rights.
//
// Mosquitto asks the lines of a user first, those that deny before the others, and then the
// patterns. Here all that deny come before all that allow, so that a pattern that denies counts
// also where a line of the user allows. Mosquitto admits every subscription and compares each
// message; here a subscription is admitted as a whole or not. The report tells where that differs.
// No pattern counts for a name with + or #, in Mosquitto and here.

/// The lines of an access list.
struct MosquittoAccess {
    struct Entry {
        enum Kind: String { case read, write, readwrite, deny }

        let kind: Kind
        let topic: String
        let place: String
    }

    /// By the bytes of the user name: texts that only look the same are equal in Swift.
    private var entries: [[UInt8]: [Entry]] = [:]
    private(set) var patterns: [Entry] = []

    /// Users in the order of the file.
    private(set) var users: [String] = []

    /// The lines of a user.
    func entries(of name: String) -> [Entry] { entries[Array(name.utf8)] ?? [] }

    init?(_ path: String, report: inout ImportReport) {
        // Behind a line that cannot be read, the next ones may be another user's.
        guard let file = ImportFile(path, "the access list", report: &report), file.isComplete
        else { return nil }
        var user: [UInt8]?
        for line in file.lines {
            let words = line.text.split(separator: " ", maxSplits: 1)
            guard let word = words.first, !line.text.hasPrefix("#") else { continue }
            let rest = words.count > 1 ? words[1].trimmed : ""
            switch word {
            case "user" where rest.isEmpty:
                report.add(
                    .refused, at: line.place, "user without a name; topics below it are nobody's")
                user = nil
            case "user":
                let name = Array(rest.utf8)
                user = name
                if entries[name] == nil {
                    entries[name] = []
                    users.append(rest)
                }
            case "topic", "pattern":
                guard let entry = Self.entry(rest, at: line.place, report: &report) else {
                    continue
                }
                if word == "pattern" {
                    patterns.append(entry)
                } else if let user {
                    entries[user]?.append(entry)
                } else {
                    report.add(
                        .refused, at: line.place,
                        "topic \(rest) before the first user is for clients without a user name, "
                            + "who are not taken with an access list")
                }
            default:
                report.add(
                    .refused, at: line.place,
                    "\(word) is no user, topic or pattern; Mosquitto would "
                        + "not start with it")
            }
        }
        if !patterns.isEmpty || !users.isEmpty {
            report.add(
                .changed, at: path,
                "a subscription needs a right for all topics of its filter; Mosquitto admits it "
                    + "and leaves messages out")
        }
        if let entry = patterns.first(where: { $0.kind != .deny && !$0.topic.contains("%c") }) {
            report.add(
                .changed, at: entry.place,
                "patterns without %c count for client ids with + or # too; Mosquitto refuses them")
        }
    }

    private static func entry(
        _ rest: String, at place: String, report: inout ImportReport
    ) -> Entry? {
        let words = rest.split(separator: " ", maxSplits: 1)
        let kind: Entry.Kind
        let topic: String
        switch words.count {
        case 0:
            report.add(.refused, at: place, "the line has no topic")
            return nil
        case 1: (kind, topic) = (.readwrite, String(words[0]))
        default:
            guard let known = Entry.Kind(rawValue: String(words[0])) else {
                report.add(
                    .refused, at: place,
                    "\(words[0]) is no access; it is read, write, readwrite or deny")
                return nil
            }
            (kind, topic) = (known, words[1].trimmed)
        }
        let levels = topic.split(separator: "/", omittingEmptySubsequences: false)
        for (index, level) in levels.enumerated() where level.contains(where: { "+#".contains($0) })
        {
            guard level == "+" || level == "#" && index == levels.count - 1 else {
                report.add(.refused, at: place, "the topic \(topic) is no filter of MQTT")
                return nil
            }
        }
        return Entry(kind: kind, topic: topic, place: place)
    }

    // MARK: - Rights

    /// The rights of a user; told in the report where they differ from the list.
    ///
    /// - Parameters:
    ///   - user: the name of the user here, which `%u` stands for.
    ///   - isDevice: whether the user name is the client id, so that `%c` stands for it too.
    func rights(
        of name: String, user: String, isDevice: Bool, countMaximum: Int,
        report: inout ImportReport
    ) -> [String] {
        let own = entries(of: name)
        let isWild = name.contains { "+#".contains($0) }
        let patterns = isWild ? [] : patterns
        if isWild, let first = self.patterns.first {
            report.add(
                .ignored, at: first.place,
                "user \(name): no pattern counts, because the name has + or #, as in Mosquitto")
        }
        var (denied, allowed): ([String], [String]) = ([], [])
        // Rights are bytes, too.
        var known: Set<[UInt8]> = []
        func add(_ entry: Entry, _ topic: String) {
            var made: [String] = []
            if entry.kind != .write { made.append("subscribe:\(topic)") }
            if entry.kind != .read { made.append("publish:\(topic)") }
            for right in made {
                let right = entry.kind == .deny ? "!" + right : right
                guard known.insert(Array(right.utf8)).inserted else { continue }
                if entry.kind == .deny { denied.append(right) } else { allowed.append(right) }
            }
        }
        for entry in own { add(entry, Self.escaped(entry.topic)) }
        for entry in patterns {
            add(
                entry,
                Self.pattern(entry.topic, name: name, isSame: name == user, isDevice: isDevice))
        }
        tellDifferences(of: name, own, patterns, report: &report)
        var rights = denied + allowed
        if rights.count > countMaximum {
            for right in rights[countMaximum...] {
                report.add(
                    .refused, at: own.first?.place ?? "acl_file",
                    "user \(name): \(right) is more than \(countMaximum) rights; use a wildcard")
            }
            // Without all that deny, the rest would allow too much.
            rights = denied.count > countMaximum ? [] : Array(rights[..<countMaximum])
        }
        return rights
    }

    private func tellDifferences(
        of name: String, _ own: [Entry], _ patterns: [Entry], report: inout ImportReport
    ) {
        let allowing = own.filter { $0.kind != .deny }
        for denial in own where denial.kind == .deny {
            let wider = allowing.first {
                $0.kind != .write && $0.topic != denial.topic
                    && Self.overlap($0.topic, denial.topic)
            }
            if let wider {
                report.add(
                    .changed, at: denial.place,
                    "user \(name): a subscription to \(wider.topic) is refused, because it would "
                        + "receive \(denial.topic); Mosquitto admits it and leaves these out")
            }
            if allowing.contains(where: { $0.topic == denial.topic }) {
                report.add(
                    .changed, at: denial.place,
                    "user \(name): \(denial.topic) is allowed and denied; it is denied, as in "
                        + "Mosquitto")
            }
        }
        for denial in patterns where denial.kind == .deny {
            if let line = allowing.first(where: { Self.overlap($0.topic, denial.topic) }) {
                report.add(
                    .changed, at: denial.place,
                    "user \(name): the pattern denies \(denial.topic), which \(line.topic) at "
                        + "\(line.place) allows in Mosquitto; here it is denied")
            }
        }
    }

    /// Whether two filters have a topic in common. `%c` and `%u` may be any level.
    static func overlap(_ first: String, _ second: String) -> Bool {
        let first = first.split(separator: "/", omittingEmptySubsequences: false)
        let second = second.split(separator: "/", omittingEmptySubsequences: false)
        for index in 0..<max(first.count, second.count) {
            if index < first.count, first[index] == "#" { return true }
            if index < second.count, second[index] == "#" { return true }
            guard index < first.count, index < second.count else { return false }
            let isWild = [first[index], second[index]].contains { $0 == "+" || $0.contains("%") }
            if !isWild, first[index] != second[index] { return false }
        }
        return true
    }

    /// A topic in which no character stands for a name.
    private static func escaped(_ topic: String) -> String {
        topic.split(separator: "%", omittingEmptySubsequences: false).joined(separator: "%%")
    }

    /// A pattern: `%c` is the client id, which is the device here.
    private static func pattern(
        _ topic: String, name: String, isSame: Bool, isDevice: Bool
    ) -> String {
        let user = isSame ? "%u" : escaped(name)
        var result = ""
        var rest = Substring(topic)
        while let character = rest.popFirst() {
            guard character == "%" else {
                result.append(character)
                continue
            }
            switch rest.first {
            case "c":
                rest.removeFirst()
                result += isDevice ? user : "%d"
            case "u":
                rest.removeFirst()
                result += user
            default: result += "%%"
            }
        }
        return result
    }
}

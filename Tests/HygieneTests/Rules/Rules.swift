// The rules as functions from a text to the lines that break them. They read no files, so that a
// test can show each one a text that breaks it.

enum Rules {
    // MARK: Parameters

    /// Names of what the core keeps in its tables. A parameter that ends in one of them identifies
    /// a row, so its type says of which table.
    static let entities: Set<String> = [
        "session", "user", "app", "group", "will", "message", "audience", "subscription",
        "connection", "owner", "sender", "receiver", "recipient", "member", "subscriber", "gateway",
        "share", "topic", "outbox", "inbox", "token",
    ]

    /// Lines with a parameter that names an entity and whose type is a bare number.
    static func bareEntities(in text: SwiftText) -> [Int] {
        let bare: Set = ["UInt32", "Int", "UInt32?", "Int?", "[UInt32]", "[Int]"]
        return text.parameterLists().joined().filter { parameter in
            guard bare.contains(parameter.type) else { return false }
            return [parameter.name, parameter.label ?? ""].contains { name in
                var words = Words.of(name)
                if ["index", "slot", "number"].contains(words.last), words.count > 1 {
                    words.removeLast()
                }
                // `senderCount` is a count, `ofSender` a sender.
                return words.last.map(entities.contains) ?? false
            }
        }.map { text.line(at: $0.offset) }
    }

    /// Lines of declarations with three or more parameters without a label. Closures at the end
    /// are written behind the call or below it and are not counted.
    static func unlabelled(in text: SwiftText) -> [Int] {
        text.parameterLists().compactMap { parameters in
            let counted = parameters[..<((parameters.lastIndex { !$0.isClosure } ?? -1) + 1)]
            let bare = counted.filter { $0.label == nil }
            return bare.count >= 3 ? text.line(at: bare[0].offset) : nil
        }
    }

    // MARK: Pointers

    /// Lines that name a pointer without bounds and lifetime, once for each time.
    static func pointers(in text: SwiftText) -> [Int] {
        ["Pointer", "RawPointer", "BufferPointer", "RawBufferPointer"].flatMap { kind in
            ["Unsafe" + kind, "UnsafeMutable" + kind].flatMap { text.ends(of: $0) }
        }.map { text.line(at: $0) }.sorted()
    }

    // MARK: Locks

    /// Lines with a lock whose value is a function.
    static func lockedFunctions(in text: String) -> [Int] {
        text.split(separator: "\n", omittingEmptySubsequences: false).enumerated().filter {
            !$0.element.contains("//") && $0.element.contains(#/Locked<[^=]*->/#)
        }.map { $0.offset + 1 }
    }

    // MARK: Resets

    /// The stored variables of a type at the top level of a file that a method of the type does not
    /// name; nil if there is no such type or method.
    static func propertiesNotReset(
        in text: SwiftText, type: String, function: String
    ) -> [String]? {
        let lines = String(decoding: text.code, as: UTF8.self)
            .split(separator: "\n", omittingEmptySubsequences: false)
        func words(_ line: Substring) -> [Substring] {
            line.split { !SwiftText.isNamePart($0.utf8.first!) }
        }
        guard
            let start = lines.firstIndex(where: {
                words($0).contains("struct")
                    && words($0).contains(Substring(type)) && !$0.hasPrefix(" ")
            }),
            let end = lines[start...].firstIndex(of: "}"),
            let first = lines[start..<end].firstIndex(where: {
                let words = words($0)
                return words.contains("func") && words.contains(Substring(function))
            }), let last = lines[first..<end].firstIndex(of: "    }")
        else { return nil }
        let named = Set(lines[first...last].flatMap(words))
        return lines[start..<end].filter { line in
            line.hasPrefix("    ") && !line.hasPrefix("     ") && words(line).contains("var")
                && !line.contains("{")
        }.compactMap { line in
            let words = words(line)
            return words.firstIndex(of: "var").map { words[$0 + 1] }
        }.filter { !named.contains($0) }.map(String.init)
    }

    // MARK: Traps

    /// Lines of traps whose message shows no value of what was found.
    static func silentTraps(in text: SwiftText) -> [Int] {
        ["precondition", "preconditionFailure", "fatalError"].flatMap { name in
            text.ends(of: name).compactMap { end in
                guard end < text.code.count, text.code[end] == UInt8(ascii: "(") else { return nil }
                // The condition of `precondition` comes first; it can hold a text of its own.
                let items = text.items(ofParenthesesAt: end)
                let messages = items.dropFirst(name == "precondition" ? 1 : 0)
                let isTold = messages.contains { item in
                    let message = text.text(item)
                    // A message that is not a literal is a value itself.
                    return message.contains("\\(") || !message.contains("\"")
                }
                return isTold ? nil : text.line(at: end)
            }
        }.sorted()
    }

    // MARK: Words

    /// A word that the field does not use for the thing, and the one to use.
    struct ForbiddenWord {
        /// In lower case; several words are matched where they follow each other in a name or text.
        let word: String
        let instead: String
        /// Texts that may hold the word, in lower case.
        let allowed: [String]

        init(_ word: String, instead: String, allowed: [String] = []) {
            self.word = word
            self.instead = instead
            self.allowed = allowed
        }
    }

    /// One row for each word; add rows here. docs/GLOSSARY.md has the words to use.
    static let forbiddenWords = [
        ForbiddenWord("agenda", instead: "event queue"),
        // QuickBlox has a field of this name, and HTTP a value.
        ForbiddenWord(
            "attachment", instead: "connected session",
            allowed: ["\"attachments", "`attachments", "content-disposition: attachment"]),
        ForbiddenWord("book", instead: "the table's or the map's name"),
        ForbiddenWord("carrier", instead: "encoder, or transport connection"),
        ForbiddenWord("census", instead: "connection limiter"),
        ForbiddenWord("clerk", instead: "what the thing is"),
        ForbiddenWord("departure", instead: "removal"),
        ForbiddenWord("desk", instead: "decoder, verifier or service"),
        ForbiddenWord("door", instead: "admin socket", allowed: ["hall/door"]),
        ForbiddenWord("doorkeeper", instead: "authenticator"),
        ForbiddenWord("draft", instead: "staging file", allowed: ["internet-draft", "draft-"]),
        ForbiddenWord("farm", instead: "broker launcher"),
        ForbiddenWord("gathering", instead: "pending batch"),
        ForbiddenWord("keep house", instead: "housekeeping"),
        ForbiddenWord("lane", instead: "event loop"),
        ForbiddenWord("ledger", instead: "record, or model"),
        ForbiddenWord(
            "mail", instead: "messages, or offline queue", allowed: ["e-mail", "mailing list"]),
        ForbiddenWord("mailbox", instead: "offline queue"),
        ForbiddenWord("note taker", instead: "log sink"),
        ForbiddenWord("seat", instead: "listener state"),
        ForbiddenWord("stop word", instead: "stop flag"),
    ]

    /// How often a text has each forbidden word, singular or plural, in prose or in a name.
    static func forbiddenWords(in lines: [Substring]) -> [String: Int] {
        var counts: [String: Int] = [:]
        for line in lines where mayHaveForbiddenWord(line) {
            let words = Words.of(line)
            for index in words.indices {
                for row in rows(for: words[index]) {
                    guard matches(row, words[index...]) else { continue }
                    let lowercased = line.lowercased()
                    if !row.allowed.contains(where: { lowercased.contains($0) }) {
                        counts[row.word, default: 0] += 1
                    }
                }
            }
        }
        return counts
    }

    /// Whether four letters in a row begin a row of the table. Taking 200,000 lines apart into
    /// words takes 15 seconds in a debug build; this takes one.
    private static func mayHaveForbiddenWord(_ line: Substring) -> Bool {
        var key = 0
        for byte in line.utf8 {
            key = (key << 5 | Int(byte & 0x1F)) & 0xF_FFFF
            if beginnings[key] { return true }
        }
        return false
    }

    /// By the low five bits of each of four letters, which are the same in both cases.
    private static let beginnings: [Bool] = {
        var beginnings = [Bool](repeating: false, count: 1 << 20)
        for row in forbiddenWords {
            beginnings[row.word.utf8.prefix(4).reduce(0) { $0 << 5 | Int($1 & 0x1F) }] = true
        }
        return beginnings
    }()

    private static func rows(for word: String) -> [ForbiddenWord] {
        forbiddenWords.filter { word.hasPrefix($0.word.prefix { $0 != " " }) }
    }

    private static func matches(_ row: ForbiddenWord, _ words: ArraySlice<String>) -> Bool {
        let parts = row.word.split(separator: " ").map(String.init)
        guard words.count >= parts.count else { return false }
        return zip(words, parts).allSatisfy { word, part in
            word == part || word == part + "s"
        }
    }
}

/// The words of prose and of names in camel case, in lower case.
enum Words {
    static func of(_ text: some StringProtocol) -> [String] {
        var words: [String] = []
        var word: [UInt8] = []
        var isAfterLower = false
        func end() {
            if !word.isEmpty { words.append(String(decoding: word, as: UTF8.self)) }
            word.removeAll(keepingCapacity: true)
        }
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"):
                // `TLSFarm`: the last capital of a row begins the word.
                if !isAfterLower, word.count > 1 {
                    let first = word.removeLast()
                    end()
                    word.append(first)
                }
                word.append(byte)
                isAfterLower = true
            case UInt8(ascii: "A")...UInt8(ascii: "Z"):
                if isAfterLower { end() }
                word.append(byte | 0x20)
                isAfterLower = false
            default:
                end()
                isAfterLower = false
            }
        }
        end()
        return words
    }
}

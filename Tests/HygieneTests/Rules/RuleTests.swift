// The rules on the sources. What breaks a rule today is counted in Exceptions.txt, whose numbers
// only become smaller.
import Foundation
import Testing

@Suite struct RuleTests {
    /// More than a reader finds a file among without searching.
    private let filesPerFolderMaximum = 20

    @Test func `the core identifies rows by typed indices`() throws {
        expectNone(
            try Repository.files(in: ["Sources/BrokerCore"], endings: [".swift"]).flatMap { file in
                Rules.bareEntities(in: file.swift).map { "\(file.path):\($0)" }
            },
            remedy: "Give the parameter the type Index<…> or Handle<…> of its table, so that the "
                + "compiler refuses the number of another table.")
    }

    @Test func `arguments have labels`() throws {
        var found: [String: [String]] = [:]
        for file in try Repository.files(in: ["Sources"], endings: [".swift"]) {
            let lines = Rules.unlabelled(in: file.swift)
            if !lines.isEmpty { found[file.name] = lines.map { "\(file.path):\($0)" } }
        }
        try Exceptions.compare(
            found, rule: "unlabelled parameters",
            remedy: "Three arguments in a row without labels can be exchanged unnoticed: label "
                + "all but the first.")
    }

    @Test func `bytes are viewed by spans`() throws {
        var found: [String: [String]] = [:]
        for file in try Repository.files(in: ["Sources"], endings: [".swift"]) {
            let lines = Rules.pointers(in: file.swift).map { "\(file.path):\($0)" }
            if !lines.isEmpty { found[file.target, default: []] += lines }
        }
        try Exceptions.compare(
            found, rule: "pointers",
            remedy: "A pointer checks no bounds in a release build and outlives its memory: use "
                + "RawSpan or Span<UInt8>. See docs/decisions/0005-byte-views.md.")
    }

    @Test func `no lock holds a function`() throws {
        expectNone(
            try Repository.files(in: ["Sources", "Tests"], endings: [".swift"]).flatMap { file in
                Rules.lockedFunctions(in: file.lines.joined(separator: "\n"))
                    .map { "\(file.path):\($0)" }
            },
            remedy: "Swift 6.3 wraps a function once more whenever it is passed inout to a generic "
                + "closure: each use of the lock makes the next call deeper, until the stack ends. "
                + "Store a value that has the function as a property.")
    }

    @Test func `no folder exceeds its maximum of files`() throws {
        let files = try Repository.files(in: ["Sources", "Tests"], endings: [".swift"])
        let folders = Dictionary(grouping: files) {
            $0.path.split(separator: "/").dropLast().joined(separator: "/")
        }
        try Exceptions.compare(
            folders.filter { $0.value.count > filesPerFolderMaximum }.mapValues { $0.map(\.path) },
            rule: "files in a folder",
            remedy: "Group the files by subject in folders of at most \(filesPerFolderMaximum).")
    }

    /// The hand-over sets the sequence and the moment of each batch.
    @Test(arguments: [
        ("Commits/PendingBatch", "PendingBatch.reset", []),
        ("Commits/StoreBatch", "StoreBatch.removeAll", ["sequence", "moment"]),
        ("Commits/StoreBatch", "StoreResult.removeAll", []),
    ])
    func `a reset sets every stored property`(
        path: String, method: String, except: [String]
    ) throws {
        let file = try Repository.file("Sources/BrokerCore/\(path).swift")
        let parts = method.split(separator: ".").map(String.init)
        let missing = try #require(
            Rules.propertiesNotReset(in: file.swift, type: parts[0], function: parts[1]))
        expectNone(
            missing.filter { !except.contains($0) },
            remedy: "A value of the last batch would become a part of the next: reset it in "
                + "\(method).")
    }

    @Test func `links to symbols resolve`() throws {
        let files = try Repository.files(in: ["Sources", "Tests"], endings: [".swift"])
        var declarations = Declarations()
        for file in files { declarations.add(file.swift) }
        expectNone(
            files.filter { $0.target != "HygieneTests" }.flatMap { file in
                file.swift.symbolLinks().filter { !declarations.resolve($0.link) }
                    .map { "\(file.path):\($0.line): \($0.link)" }
            },
            remedy: "Name a declaration as it is written, with the labels of all arguments.")
    }

    @Test func `a trap shows the value that it found`() throws {
        var found: [String: [String]] = [:]
        for file in try Repository.files(in: ["Sources"], endings: [".swift"]) {
            let lines = Rules.silentTraps(in: file.swift)
            if !lines.isEmpty { found[file.name] = lines.map { "\(file.path):\($0)" } }
        }
        try Exceptions.compare(
            found, rule: "traps without a value",
            remedy: #"Put the value that broke the condition into the message: "\(count) is above "#
                + #"\(maximum)"."#)
    }

    @Test func `names and prose use the words of the glossary`() throws {
        var found: [String: [String]] = [:]
        let files = try Repository.files(
            in: ["Sources", "Tests", "docs"], endings: [".swift", ".c", ".h", ".md"])
        for file in files where file.target != "HygieneTests" {
            let folder = file.path.split(separator: "/").prefix(2).joined(separator: "/")
            for (word, count) in Rules.forbiddenWords(in: file.lines) {
                found["\(folder) \(word)", default: []] += Array(repeating: file.path, count: count)
            }
        }
        let words = Rules.forbiddenWords.map { "\($0.word): \($0.instead)" }
        try Exceptions.compare(
            found, rule: "words",
            remedy: "Use the words of docs/GLOSSARY.md. \(words.joined(separator: "; ")).")
    }
}

/// Exceptions.txt: per rule and place, how many violations it still has.
private enum Exceptions {
    private static let path = "Tests/HygieneTests/Exceptions.txt"

    /// Fails where a place has more violations than its row, and where it has fewer: the row is
    /// then lowered, so that they do not come back. With MARTLET_UPDATE_DOCS=1 it lowers the rows
    /// itself; it raises none and adds none.
    static func compare(
        _ found: [String: [String]], rule: String, remedy: String,
        sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        let allowed = try counts(rule: rule)
        let worse = found.filter { $0.value.count > allowed[$0.key] ?? 0 }.sorted {
            $0.key < $1.key
        }
        expectNone(
            worse.map { place, lines in
                "\(place) has \(lines.count), \(path) allows \(allowed[place] ?? 0):\n"
                    + Set(lines).sorted().joined(separator: "\n")
            }, remedy: remedy, sourceLocation: sourceLocation)
        let better = allowed.filter { $0.value > found[$0.key]?.count ?? 0 }
        if ProcessInfo.processInfo.environment["MARTLET_UPDATE_DOCS"] == "1" {
            try lower(rule: rule, to: found.mapValues(\.count))
        } else {
            expectNone(
                better.keys.sorted().map {
                    "\($0) has \(found[$0]?.count ?? 0), \(path) still allows \(allowed[$0]!)"
                },
                remedy: "Lower the rows: MARTLET_UPDATE_DOCS=1 swift test --filter RuleTests",
                sourceLocation: sourceLocation)
        }
    }

    /// The rows of a rule: `rule | place | count`.
    private static func counts(rule: String) throws -> [String: Int] {
        try Repository.file(path).lines.reduce(into: [:]) { counts, line in
            guard let row = row(line), row.rule == rule else { return }
            counts[row.place] = row.count
        }
    }

    private static func row(_ line: Substring) -> (rule: String, place: String, count: Int)? {
        guard !line.hasPrefix("#") else { return nil }
        let cells = line.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
        guard cells.count == 3, let count = Int(cells[2]) else { return nil }
        return (cells[0], cells[1], count)
    }

    private static let writing = NSLock()

    private static func lower(rule: String, to found: [String: Int]) throws {
        try writing.withLock {
            let lines = try Repository.file(path).lines.compactMap { line -> String? in
                guard let row = row(line), row.rule == rule else { return String(line) }
                let count = min(row.count, found[row.place] ?? 0)
                return count == 0 ? nil : "\(row.rule) | \(row.place) | \(count)"
            }
            try lines.joined(separator: "\n").write(
                to: Repository.root.appending(path: path), atomically: true, encoding: .utf8)
        }
    }
}

extension Repository.File {
    fileprivate var swift: SwiftText { SwiftText(lines.joined(separator: "\n")) }

    /// Target and file name without the folders between, so that a file can move within its target.
    fileprivate var name: String { "\(target)/\(path.split(separator: "/").last!.dropLast(6))" }
}

// docs/CONFORMANCE.md from the tests: each statement of MQTT with the tests that name it. A test
// names what it proves in a comment right above it, such as `// [MQTT-3.1.0-1]
// [MQTT-3.1.0-2/311]`; a vector of Tests/Vectors/mqtt/invalid.txt names what it breaks.
// MARTLET_UPDATE_DOCS=1 writes the page.
import Foundation
import Testing

@Suite struct ConformancePageTests {
    @Test func `the conformance page matches the statements and tests`() throws {
        let page = try Page().text
        let path = Repository.root.appending(path: "docs/CONFORMANCE.md")
        if ProcessInfo.processInfo.environment["MARTLET_UPDATE_DOCS"] == "1" {
            try page.write(to: path, atomically: true, encoding: .utf8)
        }
        let written = try? String(contentsOf: path, encoding: .utf8)
        #expect(
            written == page,
            "run MARTLET_UPDATE_DOCS=1 swift test --filter ConformancePageTests")
    }

    @Test func `every statement that a test names exists`() throws {
        let page = try Page()
        let known = Set(page.statements.map(\.name))
        let strangers = Set(page.proofs.keys).subtracting(known).sorted()
        expectNone(strangers, remedy: "Correct the number, or add it to Tests/Conformance.")
    }

    @Test func `the rules to be disabled are those of the seed`() throws {
        let page = try Page()
        let candidates = page.statements.filter { $0.binding == .broker }.map(\.name)
        let chosen = candidates.sorted { page.rank(of: $0) < page.rank(of: $1) }
            .prefix(page.disabledRules.count)
        #expect(chosen.count >= 30)
        #expect(page.disabledRules.map(\.statement).sorted() == chosen.sorted())
    }

    @Test func `every rule to be disabled has its text once, and a test that names it`() throws {
        let page = try Page()
        var violations: [String] = []
        for rule in page.disabledRules {
            let source = try Repository.file(rule.path).lines.joined(separator: "\n")
            if source.ranges(of: rule.decidingText + "\n").count != 1 {
                violations.append("\(rule.path) does not have once:\n\(rule.decidingText)")
            }
            let proofs = page.proofs[rule.statement] ?? []
            let isOfVectors = proofs.contains { $0.hasPrefix("vector") }
            let proves =
                proofs.contains("*\(rule.test)*")
                || (isOfVectors && rule.test == Page.testOfVectors)
            if !proves {
                violations.append("MQTT-\(rule.statement) is not named by \"\(rule.test)\"")
            }
        }
        expectNone(violations, remedy: "Correct Tests/Conformance/disabled.txt.")
    }
}

/// A numbered statement of one of the specifications.
private struct Statement {
    enum Binding: String {
        case broker, client
        /// What it asks for depends on something that is not there.
        case none
    }

    let version: String
    let number: String
    let binding: Binding
    let meaning: String
    let reason: String

    /// As tests write it: the number of 3.1.1 is marked.
    var name: String { version == "5.0" ? number : "\(number)/311" }
}

/// A paragraph of Tests/Conformance/disabled.txt, which explains it.
private struct DisabledRule {
    let statement: String
    let change: String
    let test: String
    let path: String
    let decidingText: String

    /// Nil for a paragraph that is not about a rule.
    init?(_ paragraph: ArraySlice<Substring>) {
        guard paragraph.count > 3,
            let head = paragraph.first?.wholeMatch(of: /\[MQTT-([^\]]+)\] (.+)/)
        else { return nil }
        let lines = Array(paragraph)
        statement = String(head.1)
        change = String(head.2)
        test = String(lines[1].dropFirst("test: ".count))
        path = String(lines[2].dropFirst("file: ".count))
        decidingText = lines.filter { $0.hasPrefix("-") }.map { $0.dropFirst() }
            .joined(separator: "\n")
    }
}

/// The page, and what it is made of.
private struct Page {
    var statements: [Statement] = []
    /// Tests by the statement they name.
    var proofs: [String: [String]] = [:]
    var tests: [(name: String, file: String)] = []
    var disabledRules: [DisabledRule] = []
    private var seed = ""
    /// It throws every vector at a broker.
    static let testOfVectors = "every invalid packet ends only its own connection"

    init() throws {
        var meanings: [String: String] = [:]
        for fields in try Self.rows("Tests/Conformance/statements.txt") {
            var meaning = fields[3]
            if meaning.hasPrefix("=") { meaning = meanings[String(meaning.dropFirst())] ?? "" }
            if fields[0] == "5.0" { meanings[fields[1]] = meaning }
            statements.append(
                Statement(
                    version: fields[0], number: fields[1],
                    binding: Statement.Binding(rawValue: fields[2])!, meaning: meaning,
                    reason: fields.count > 4 ? fields[4] : ""))
        }
        for file in try Repository.files(in: ["Tests"], endings: [".swift"]) { read(file) }
        for fields in try Self.rows("Tests/Vectors/mqtt/invalid.txt") {
            guard let mark = fields[4].range(of: "breaks=MQTT-") else { continue }
            let name = String(fields[4][mark.upperBound...])
            proofs[name, default: []].append("vector `\(fields[0])`")
        }
        let list = try Repository.file("Tests/Conformance/disabled.txt").lines
        disabledRules = list.split(separator: "").compactMap(DisabledRule.init)
        seed = list.first { $0.hasPrefix("seed: ") }.map { String($0.dropFirst(6)) } ?? ""
    }

    /// Where chance puts a statement: FNV-1a of the seed and the name, and then the end of
    /// SplitMix64, so that names which differ in their last digit are far from each other.
    func rank(of name: String) -> UInt64 {
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        for byte in "\(seed) \(name)".utf8 {
            hash = (hash ^ UInt64(byte)) &* 0x0000_0100_0000_01B3
        }
        hash = (hash ^ hash >> 30) &* 0xBF58_476D_1CE4_E5B9
        hash = (hash ^ hash >> 27) &* 0x94D0_49BB_1331_11EB
        return hash ^ hash >> 31
    }

    private static func rows(_ path: String) throws -> [[String]] {
        try Repository.file(path).lines.filter { !$0.isEmpty && !$0.hasPrefix("#") }.map {
            $0.split(separator: "\t", omittingEmptySubsequences: false).map(String.init)
        }
    }

    /// Takes the tests of a file with the statements above them.
    private mutating func read(_ file: Repository.File) {
        var named: [String] = []
        var isTest = false
        for line in file.lines {
            let text = line.drop { $0 == " " }
            if text.hasPrefix("//") {
                for match in text.matches(of: /\[MQTT-([0-9.\-]+(?:\/311)?)\]/) {
                    named.append(String(match.1))
                }
            } else if text.hasPrefix("@Test") || isTest {
                isTest = true
                guard let match = text.firstMatch(of: /func `([^`]+)`/) else { continue }
                isTest = false
                let test = String(match.1)
                tests.append((test, file.path))
                for name in named { proofs[name, default: []].append("*\(test)*") }
                named = []
            } else {
                named = []
            }
        }
    }

    var text: String {
        var lines = Self.introduction + countLines + disabledLines
        for version in ["5.0", "3.1.1"] {
            lines += [
                "", "## MQTT \(version)", "", "| statement | meaning | proof |", "|---|---|---|",
            ]
            for statement in statements where statement.version == version {
                lines.append(
                    "| MQTT-\(statement.number) | \(statement.meaning) | \(proof(statement)) |")
            }
        }
        return lines.joined(separator: "\n") + "\n"
    }

    private var countLines: [String] {
        var lines = [
            "| MQTT | statements | bind the broker | proven | open | bind clients | do not apply |",
            "|---|---|---|---|---|---|---|",
        ]
        for version in ["5.0", "3.1.1"] {
            let all = statements.filter { $0.version == version }
            let broker = all.filter { $0.binding == .broker }
            let open = broker.filter { proofs[$0.name] == nil }.count
            let others = [Statement.Binding.client, .none].map { binding in
                all.filter { $0.binding == binding }.count
            }
            lines.append(
                "| \(version) | \(all.count) | \(broker.count) | \(broker.count - open) | \(open) "
                    + "| \(others[0]) | \(others[1]) |")
        }
        let open = statements.filter { $0.binding == .broker && proofs[$0.name] == nil }
        if !open.isEmpty {
            let names = open.map { "[MQTT-\($0.name)]" }.joined(separator: ", ")
            lines += ["", "Not proven: \(names)."]
        }
        return lines
    }

    private func proof(_ statement: Statement) -> String {
        switch statement.binding {
        case .client: return "binds the client"
        case .none: return "does not apply: \(statement.reason)"
        case .broker: break
        }
        guard let found = proofs[statement.name] else { return "**not proven**" }
        let tests = found.filter { $0.hasPrefix("*") }
        let vectors = found.filter { !$0.hasPrefix("*") }
        var shown = Array(tests.prefix(4))
        if tests.count > 4 { shown.append("and \(tests.count - 4) more") }
        if !vectors.isEmpty {
            let more = vectors.count > 1 ? " and \(vectors.count - 1) more" : ""
            shown.append(vectors[0] + more)
        }
        return shown.joined(separator: "; ")
    }

    private var disabledLines: [String] {
        var lines = [
            "", "## Rules that are disabled to see whether a test notices", "",
            "The statements are chosen at random, by the seed in `Tests/Conformance/disabled.txt`.",
            "`make conformance` disables each of them in a copy of the sources, as the table says,",
            "and the test beside it has to fail there, which it did for all of them.", "",
            "| statement | what is changed | where | test that fails |", "|---|---|---|---|",
        ]
        for rule in disabledRules {
            let file = rule.path.split(separator: "/").last ?? ""
            lines.append(
                "| MQTT-\(rule.statement) | \(rule.change) | `\(file)` | *\(rule.test)* |")
        }
        return lines
    }

    private static let introduction: [String] = """
        # Conformance to MQTT

        This page lists every normative statement of MQTT 5.0 and MQTT 3.1.1, paraphrased, with the
        tests that check it. `ConformancePageTests` generates it from three sources: the lists in
        `Tests/Conformance`, the comments above the tests, and the invalid packets in
        `Tests/Vectors/mqtt/invalid.txt`. `MQTTVectorTests` decodes these packets, and
        `MQTTConformance` sends them to a running broker.

        Most tests exchange single packets with a running broker:
        `swift test --filter MQTTConformance`. [TESTING.md](TESTING.md) names the public test suites
        that run against the broker, and lists where the broker deviates from them.

        """.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
}

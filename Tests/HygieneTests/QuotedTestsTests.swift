// Tests that documents name: quoted titles, names of suites, and the patterns of `--filter`. Each
// must match a test, so that a renamed test cannot leave its old name in a page.

import Foundation
import Testing

/// The names that `swift test --filter` matches, and the titles that pages quote.
private struct TestNames {
    /// Titles in backticks, such as `an empty payload removes the retained message`.
    let titles: Set<String>
    /// Suites, their extensions, the test targets, and the files of tests: the identifier of a test
    /// contains the name of its file.
    let suites: Set<String>

    init(_ files: [Repository.File]) throws {
        let title = try Regex("func `([^`]+)`", as: (Substring, Substring).self)
        let suite = try Regex(
            #"^ *(?:@Suite.*)?\b(?:struct|enum|extension) ([A-Za-z.]+)"#,
            as: (Substring, Substring).self)
        var titles: Set<String> = []
        var suites: Set<String> = []
        for file in files {
            suites.insert(file.target)
            if let name = file.path.split(separator: "/").last {
                suites.insert(String(name.dropLast(".swift".count)))
            }
            for line in file.lines {
                titles.formUnion(line.matches(of: title).map { String($0.output.1) })
                if let match = line.firstMatch(of: suite) {
                    suites.formUnion(match.output.1.split(separator: ".").map(String.init))
                }
            }
        }
        self.titles = titles
        self.suites = suites
    }

    /// Whether a pattern of `--filter` selects any test.
    func matches(_ pattern: String) throws -> Bool {
        let regex = try Regex(pattern)
        return suites.contains { $0.contains(regex) } || titles.contains { $0.contains(regex) }
    }
}

/// The names of tests in a page that match no test.
private func unknownTests(
    in lines: [Substring], path: String, names: TestNames
) throws -> (quoteCount: Int, unknown: [String]) {
    let filter = try Regex(
        #"--filter (?:'([^']+)'|([A-Za-z]+))"#, as: (Substring, Substring?, Substring?).self)
    let suite = try Regex(
        "`([A-Za-z]+Tests|[A-Z][A-Za-z]+Conformance)`", as: (Substring, Substring).self)
    let title = try Regex(
        #"(?:^|[ (])\*([^*| ][^*|]*)\*"#, as: (Substring, Substring).self)
    // Titles are quoted in italics, in pages that say so in their first lines.
    let quotesTitles = lines.prefix(10).contains { $0.contains("italics") }
    var quoteCount = 0
    var unknown: [String] = []
    func check(_ name: Substring, _ isKnown: Bool) {
        quoteCount += 1
        if !isKnown { unknown.append("\(path): \(name)") }
    }
    for line in lines {
        for match in line.matches(of: filter) {
            let pattern = match.output.1 ?? match.output.2 ?? ""
            check(pattern, try names.matches(String(pattern)))
        }
        for match in line.matches(of: suite) {
            check(match.output.1, names.suites.contains(String(match.output.1)))
        }
    }
    guard quotesTitles else { return (quoteCount, unknown) }
    // A title in a paragraph may go on in the next line; one word in italics is an emphasis.
    let text = lines.joined(separator: "\n").split(separator: "\n\n")
    for paragraph in text {
        let flat =
            paragraph.hasPrefix("|")
            ? paragraph : Substring(paragraph.split(separator: "\n").joined(separator: " "))
        for match in flat.matches(of: title) where match.output.1.contains(" ") {
            check(match.output.1, names.titles.contains(String(match.output.1)))
        }
    }
    return (quoteCount, unknown)
}

@Suite struct QuotedTestsTests {
    private let names: TestNames

    init() throws {
        names = try TestNames(Repository.files(in: ["Tests"], endings: [".swift"]))
    }

    @Test func `every test that a document names exists`() throws {
        let files =
            try Repository.files(
                in: ["docs", "Bench", "Examples", "Firmware-Samples"], endings: [".md"])
            + ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "Makefile"].map(
                Repository.file)
        var quoteCount = 0
        for file in files {
            let result = try unknownTests(in: file.lines, path: file.path, names: names)
            quoteCount += result.quoteCount
            expectNone(
                result.unknown,
                remedy: "Name the test, the suite or the filter as it is called now.")
        }
        #expect(quoteCount > 100, "found \(quoteCount) names of tests in the documents")
    }

    @Test func `each kind of wrong name is found`() throws {
        let page = """
            Each row names in *italics* a test.

            A *grade* is no title: *a test that nobody wrote* is.
            A title may go on: *every test that
            a document names exists*.
            `swift test --filter NoSuchSuite`, `--filter 'Quoted(Tests)+'`, `NoSuchTests`,
            `QuotedTestsTests`
            """
        let result = try unknownTests(
            in: page.split(separator: "\n", omittingEmptySubsequences: false), path: "page",
            names: names)
        #expect(
            result.unknown.sorted() == [
                "page: NoSuchSuite", "page: NoSuchTests", "page: a test that nobody wrote",
            ])
        #expect(result.quoteCount == 6)
    }
}

// Habits that no compiler checks. Each message says what to do instead.
import Foundation
import Testing

@Suite struct StyleTests {
    /// More does not fit one sitting: the style asks for about 500, and this is where it insists.
    private let lineCountMaximum = 700
    /// As in .swift-format, which sees neither C nor comments.
    private let columnMaximum = 100

    @Test func `the top level is exactly the known list`() throws {
        let required: Set = [
            "Package.swift", "README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md",
            "Makefile", "LICENSE", ".gitignore", ".swift-format", ".editorconfig",
            ".ci", "docs", "Sources", "Tests",
        ]
        let optional: Set = [".github", "Bench", "Examples", "Firmware-Samples", "packaging"]
        let names = try Repository.topLevelNames()
        expectNone(
            names.subtracting(required).subtracting(optional).sorted(),
            remedy:
                "Put it into docs, Sources, Tests, Bench, Firmware-Samples or packaging; what is "
                + "made by a run goes into .gitignore.")
        expectNone(
            required.subtracting(names).sorted(), remedy: "The top level lost what people look for."
        )
    }

    @Test func `every file opens with what it is`() throws {
        let silent = try Repository.code().filter { file in
            guard let first = file.lines.first else { return true }
            return !first.hasPrefix("// ") && !first.hasPrefix("/* ")
        }
        expectNone(
            silent.map(\.path),
            remedy:
                "Open the file with a paragraph of comment: what it is, and what it must not know.")
    }

    @Test func `no file exceeds its maximum of lines`() throws {
        let long = try Repository.code().filter { $0.lines.count > lineCountMaximum }
        expectNone(
            long.map { "\($0.path): \($0.lines.count) lines" },
            remedy: "Find the second subject in it and give that its own file; the limit is "
                + "\(lineCountMaximum) lines.")
    }

    @Test func `no line exceeds 100 columns`() throws {
        let wide = places { [columnMaximum] in $0.count > columnMaximum }
        expectNone(
            try wide(
                Repository.code() + [
                    Repository.file("Makefile"), Repository.file(".ci/run"),
                ]),
            remedy:
                "Break the line at \(columnMaximum) columns; `make format` does code, not comments."
        )
    }

    @Test func `the code has no notes for later`() throws {
        // Written in halves, so that this file passes its own test.
        let marks = ["TO" + "DO", "FIX" + "ME", "[^X]X" + "XX[^X]", "not yet " + "implemented"]
        let pattern = try Regex(marks.joined(separator: "|"))
        let open = places { $0.contains(pattern) }
        expectNone(
            try open(Repository.code()),
            remedy: "Do it now, or write down as a decision or a known limit why it is not done.")
    }

    @Test func `no path of a developer's machine is in the tree`() throws {
        let pattern = /(?:^|[^A-Za-z0-9_.~}])\/(?:home|root|Users|work|mnt)\//
        let foreign = places { $0.contains(pattern) }
        let files =
            try Repository.code()
            + Repository.files(in: ["docs", ".ci"], endings: [".md", "run"])
            + [Repository.file("Makefile"), Repository.file("Package.swift")]
        expectNone(
            foreign(files),
            remedy: "Use a path relative to the repository, or take it as an option.")
    }

    @Test func `every cited document is in the repository or public`() throws {
        // Codes of rows and sections of documents outside this repository.
        let codes = places { line in
            // A regular expression on each of 100,000 lines takes a minute.
            let bytes = line.utf8
            let mayHaveCode = zip(bytes, bytes.dropFirst()).contains { letter, digit in
                (0x30...0x39).contains(digit) && [0x44, 0x4C, 0x51, 0x53].contains(letter)
            }
            return mayHaveCode && line.contains(/\([^()]*\b[DLQS][0-9]{1,2}\b/)
                || line.contains("requirement row") || line.contains("design section")
        }
        let texts =
            try Repository.code().filter { $0.target != "HygieneTests" }
            + Repository.files(in: ["docs"], endings: [".md"])
            + ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"].map { try Repository.file($0) }
        expectNone(
            codes(texts),
            remedy: "Say the reason in words, or cite an RFC, a specification or a page of docs/.")
    }

    @Test func `the version is defined once`() throws {
        let file = try Repository.file("Sources/CommandLineOptions/ProgramVersion.swift")
        let text = file.lines.joined(separator: "\n")
        let version = try #require(text.firstMatch(of: /text = "([0-9.]+)"/)).output.1
        let places = places { $0.contains(version) }
        let sources = try Repository.files(in: ["Sources"], endings: [".swift"])
        #expect(places(sources).count == 1, "Use ProgramVersion.text.")
    }

    @Test func `every public declaration of the SDK has a comment`() throws {
        let bare = try Repository.files(in: ["Sources/MartletClient"], endings: [".swift"])
            .flatMap { file in
                file.lines.indices.filter { index in
                    let text = file.lines[index].drop { $0 == " " }
                    guard text.hasPrefix("public "), !text.hasPrefix("public typealias") else {
                        return false
                    }
                    let above = file.lines[..<index].last { !$0.drop { $0 == " " }.hasPrefix("@") }
                    return above?.drop { $0 == " " }.hasPrefix("///") != true
                }.map { "\(file.path):\($0 + 1)" }
            }
        expectNone(bare, remedy: "Say what it is, with units, ranges and the errors it throws.")
    }

    @Test func `no program runs the exit handlers of libraries`() throws {
        let pattern = /\bexit\(/.wordBoundaryKind(.simple)
        let calls = places { $0.contains(pattern) }
        expectNone(
            calls(try Repository.files(in: ["Sources"], endings: [".swift"])),
            remedy: "Use ExitCode.endProcess: a handler frees what other threads use.")
    }

    @Test func `no test sleeps`() throws {
        // Simple word boundaries: the default ones take `Thread.sleep` for one word.
        let pattern = /\b(?:sleep|usleep|nanosleep)\(/.wordBoundaryKind(.simple)
        let calls = places { $0.contains(pattern) }
        let tests = try Repository.files(in: ["Tests"], endings: [".swift", ".py", ".c"])
            .filter { $0.target != "HygieneTests" }
        expectNone(
            calls(tests),
            remedy: "Wait for the event itself, or pass the time in and move it by hand.")
    }

    @Test func `no test is switched off`() throws {
        let calls = places { $0.contains(/\.disabled\(|XCTSkip|withKnownIssue/) }
        let tests = try Repository.files(in: ["Tests"], endings: [".swift"])
            .filter { $0.target != "HygieneTests" }
        expectNone(calls(tests), remedy: "Mend what it shows, or delete the test with its reason.")
    }

    @Test func `HACKING.md names every make target`() throws {
        let targets = try Repository.file("Makefile").lines
            .filter { $0.hasPrefix(".PHONY:") }
            .flatMap { $0.split(separator: " ").dropFirst() }
        let page = try Repository.file("docs/HACKING.md").lines.joined(separator: "\n")
        expectNone(
            targets.filter { !page.contains("`make \($0)`") }.map(String.init),
            remedy: "Give the make target a row in docs/HACKING.md.")
        #expect(targets.count >= 7, "the reader of the Makefile no longer finds its targets")
    }

    /// A function that lists the lines of files for which `isFound` holds, as `path:line`.
    private func places(
        _ isFound: @escaping (Substring) -> Bool
    ) -> ([Repository.File]) -> [String] {
        { files in
            files.flatMap { file in
                file.lines.enumerated().filter { isFound($0.element) }
                    .map { "\(file.path):\($0.offset + 1)" }
            }
        }
    }
}

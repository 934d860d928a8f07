// The pages for people who run the broker, held against the code and the tests: what they list is
// there, and what is there they list.
import Foundation
import Testing

@Suite struct OperatingDocsTests {
    private func page(_ name: String) throws -> [Substring] {
        try Repository.file("docs/operating/\(name).md").lines
    }

    /// First groups of a pattern's matches in a file.
    private func found(
        _ pattern: String, in lines: some Sequence<Substring>
    ) throws -> [String] {
        let regex = try Regex(pattern)
        return lines.flatMap { line in
            line.matches(of: regex).compactMap { match in
                match.output.dropFirst().first { $0.substring != nil }?.substring.map(String.init)
            }
        }
    }

    private func expectSame(
        _ listed: [String], _ real: [String], _ page: String,
        sourceLocation: SourceLocation = #_sourceLocation
    ) {
        #expect(
            real.count > 3, "the reader of the code finds nothing", sourceLocation: sourceLocation)
        expectNone(
            Set(real).subtracting(listed).sorted(), remedy: "Give each a row in \(page).",
            sourceLocation: sourceLocation)
        expectNone(
            Set(listed).subtracting(real).sorted(),
            remedy: "Take from \(page) what is not in the code any more.",
            sourceLocation: sourceLocation)
    }

    @Test func `log.md lists every event of the log`() throws {
        let source = try Repository.file("Sources/BrokerRuntime/Logging/LogLine.swift").lines
        let enumeration = source.drop { !$0.contains("enum LogEvent") }.prefix { $0 != "}" }
        let events =
            try found(#"^    case \w+ = "(\w+)"$"#, in: enumeration)
            + found(#"^    case (\w+)$"#, in: enumeration)
        expectSame(try found(#"^\| `(\w+)` \|"#, in: page("log")), events, "log.md")
    }

    @Test func `every event of the log is used`() throws {
        let source = try Repository.file("Sources/BrokerRuntime/Logging/LogLine.swift").lines
        let enumeration = source.drop { !$0.contains("enum LogEvent") }.prefix { $0 != "}" }
        let code = try Repository.files(in: ["Sources/BrokerRuntime"], endings: [".swift"])
            .filter { !$0.path.hasSuffix("LogLine.swift") }.flatMap(\.lines)
        let silent = try found(#"^    case (\w+)"#, in: enumeration).filter { name in
            !code.contains { $0.contains(".\(name)") }
        }
        expectNone(silent, remedy: "Write the event, or take it away.")
    }

    @Test func `the jail of fail2ban bans from every port of install.md`() throws {
        let jail = try Repository.file("docs/operating/fail2ban/jail.conf").lines
        let banned = try found(#"^port = (\S+)$"#, in: jail).flatMap { $0.split(separator: ",") }
        expectSame(
            banned.map(String.init), try found(#"^\| (\d+), TCP \|"#, in: page("install")),
            "fail2ban/jail.conf")
    }

    @Test func `the unit lets the broker write where the pages put backups`() throws {
        let unit = try Repository.file("docs/operating/martletd.service").lines
        let writable = try found(#"^ReadWritePaths=-?(\S+)$"#, in: unit)
        let pages = try Repository.files(in: ["docs/operating"], endings: [".md"]).flatMap(\.lines)
        let used = try found(#"martlet backup (?:--data \S+ )?(/[^\s`$]+)"#, in: pages)
        #expect(used.count > 1)
        expectNone(
            used.filter { path in !writable.contains { path.hasPrefix("\($0)/") } },
            remedy: "Name a directory that martletd.service has in ReadWritePaths.")
    }

    @Test(arguments: [
        ("bridge", "Sources/Bridge", "BridgeTotals"),
        ("webhooks", "Sources/Webhooks", "WebhookTotals"), ("push", "Sources/Push", "PushTotals"),
    ])
    func `the page of a program lists every event, number and key of it`(
        name: String, folder: String, totals: String
    ) throws {
        let files = try Repository.files(in: [folder], endings: [".swift"])
        // The bridge has a loop of its own.
        let shared =
            name == "bridge" ? [] : try Repository.file("Sources/Relay/RelayLoop.swift").lines
        let code = [Substring((files.flatMap(\.lines) + shared).joined(separator: " "))]
        let page = try page(name)
        let events = page.drop { $0 != "| event | means |" }.prefix { !$0.isEmpty }
        expectSame(
            try found(#"^\| `([a-z_]+)` \|"#, in: events),
            try found(#"(?:log|print)\(\s*"([a-z_]+)","#, in: code), "\(name).md")
        let numbers = page.drop { $0 != "| number of `totals` | counts |" }.dropFirst()
        let totals = try Repository.file("\(folder)/\(totals).swift").lines
        expectSame(
            try found(#"`([a-z_]+)`(?=[^|]*\|[^|]*\|$)"#, in: numbers),
            try found(#"([a-z_]+)=\\\("#, in: totals), "\(name).md")
        let keys = try found(#"case "([a-zA-Z]+)":"#, in: code)
        let documented = page.joined(separator: "\n")
        expectNone(
            keys.filter { key in
                !["`\(key)`", ".\(key)`", "{\(key):"].contains(where: documented.contains)
            }, remedy: "Give each a row in \(name).md.")
        #expect(keys.count > 15)
    }

    @Test func `gateway.md lists every event of the gateway`() throws {
        let code = try Repository.file("Sources/Gateway/GatewayLog.swift").lines
        let events = try page("gateway").drop { $0 != "| event | means |" }.prefix { !$0.isEmpty }
        expectSame(
            try found(#"^\| `([a-z_]+)` \|"#, in: events),
            try found(#"case [a-zA-Z]+ = "([a-z_]+)""#, in: code), "gateway.md")
    }

    @Test func `codes.md lists every reason code and every exit code`() throws {
        let reasons = try Repository.file("Sources/BrokerTerms/ReasonCode.swift").lines
        let values = try found(#"^    case \w+ = (0x[0-9A-F]{2}|\d+)$"#, in: reasons).map {
            $0.hasPrefix("0x") ? Int($0.dropFirst(2), radix: 16)! : Int($0)!
        }
        let rows = values.map { value in
            let digits = String(value, radix: 16, uppercase: true)
            return "\(value) (0x\(digits.count == 1 ? "0" : "")\(digits))"
        }
        expectSame(
            try found(#"^\| (\d+ \(0x[0-9A-F]{2}\)) \|"#, in: page("codes")), rows, "codes.md")
        let exits = try Repository.file("Sources/CommandLineOptions/ExitCode.swift").lines
        expectSame(
            try found(#"^\| (\d+) \|"#, in: page("codes")),
            try found(#"= ExitCode\((\d+)\)"#, in: exits), "codes.md")
    }

    @Test func `codes.md says of every failure whether the broker sends it`() throws {
        let reasons = try Repository.file("Sources/BrokerTerms/ReasonCode.swift").lines
        let failures = try reasons.compactMap { line in
            try found(#"^    case (\w+) = 0x[89A][0-9A-F]$"#, in: [line]).first.map {
                (name: $0, value: line.suffix(4))
            }
        }
        #expect(failures.count > 30, "the reader of the code finds nothing")
        // Patterns of a `switch` only read codes.
        let code = try Repository.files(
            in: ["BrokerCore", "BrokerRuntime", "Dialects", "WireFormat"].map { "Sources/\($0)" },
            endings: [".swift"]
        ).flatMap(\.lines).filter { line in
            let text = line.drop { $0 == " " }
            return !text.hasPrefix("case ") && !text.hasPrefix("//")
                && text.wholeMatch(of: /(?:\.\w+(?:, |,|:)?)+/) == nil
        }
        let used = Set(
            code.flatMap { line in
                line.split(separator: ".", omittingEmptySubsequences: false).dropFirst().map {
                    String($0.prefix { $0.isLetter || $0.isNumber })
                }
            })
        for sent in ["yes", "no"] {
            let listed = try found(
                #"^\| \d+ \((0x[0-9A-F]{2})\) \| [\w-]+ \| \#(sent) \|"#, in: page("codes"))
            let real = failures.filter { used.contains($0.name) == (sent == "yes") }
                .map { String($0.value) }
            expectSame(listed, real, "codes.md with \(sent)")
        }
    }

    @Test func `commands.md names existing members of the JSON`() throws {
        let code = try Repository.files(
            in: ["Sources/Administration", "Sources/martlet"], endings: [".swift"]
        ).flatMap(\.lines)
        let rows = try page("commands").drop { !$0.hasPrefix("## JSON") }
            .filter { $0.hasPrefix("| `") }
            .map { $0.split(separator: "|", maxSplits: 1).last ?? "" }
        let members = try found(#"`([a-zA-Z]+)`"#, in: rows)
        #expect(members.count > 40, "the reader of the page finds nothing")
        expectNone(
            Set(members).sorted().filter { name in
                !code.contains { $0.contains("var \(name):") || $0.contains("\"\(name)\"") }
                    && !["msg", "from", "time"].contains(name)
            },
            remedy: "Name the members as the JSON has them.")
    }

    @Test func `pages name existing configuration keys`() throws {
        let reference = Set(try found(#"^\| `([a-zA-Z0-9.]+)` \|"#, in: page("configuration")))
        let files =
            try Repository.files(in: ["docs/operating"], endings: [".md"])
            + [Repository.file("README.md")]
        let sections = "(?:limits|queues|store|tls|log|jwt)"
        for file in files {
            let keys = try found(#"`(\#(sections)\.[a-zA-Z0-9]+)`"#, in: file.lines)
            expectNone(
                keys.filter { !reference.contains($0) }.map { "\(file.path): \($0)" },
                remedy: "Name the key as configuration.md does.")
        }
    }

    @Test func `a long page has a table of contents`() throws {
        let pages = try Repository.files(in: ["docs"], endings: [".md"])
            .filter { $0.lines.count > 150 && $0.path != "docs/CONFORMANCE.md" }
        #expect(pages.count > 5, "the reader of the pages finds nothing")
        for page in pages {
            let text = page.lines.joined(separator: "\n")
            let headings = page.lines.filter { $0.hasPrefix("## ") }.map { $0.dropFirst(3) }
            expectNone(
                headings.filter { !text.contains("[\($0)](#") }.map { "\(page.path): \($0)" },
                remedy: "Add the heading to the paragraph \"Contents\" in front of the first one.")
        }
    }

    @Test func `every link in the documents points to a file`() throws {
        let files =
            try Repository.files(in: ["docs", "Firmware-Samples", "Bench"], endings: [".md"])
            + ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"].map(Repository.file)
        for file in files {
            let folder = Repository.root.appending(path: file.path).deletingLastPathComponent()
            let links = try found(#"\]\(([^)#:]+)(?:#[^)]*)?\)"#, in: file.lines)
            expectNone(
                links.filter {
                    !FileManager.default.fileExists(atPath: folder.appending(path: $0).path)
                }.map { "\(file.path): \($0)" },
                remedy: "Mend the link.")
        }
    }

    @Test func `every link to a heading in the documents has one`() throws {
        func anchor(_ heading: Substring) -> String {
            let text = heading.drop { $0 == "#" }
                .replacing(#/\[([^\]]*)\]\([^)]*\)/#, with: { "\($0.1)" })
            return String(
                text.lowercased().drop { $0 == " " }.compactMap { character -> Character? in
                    if character == " " { return "-" }
                    let stays = character.isLetter || character.isNumber || "-_".contains(character)
                    return stays ? character : nil
                })
        }
        let files =
            try Repository.files(in: ["docs", "Firmware-Samples", "Bench"], endings: [".md"])
            + ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"].map(Repository.file)
        let headings = Dictionary(
            uniqueKeysWithValues: files.map { file in
                (file.path, Set(file.lines.filter { $0.hasPrefix("#") }.map(anchor)))
            })
        var linkCount = 0
        for file in files {
            var wrong: [String] = []
            for link in file.lines.flatMap({ $0.matches(of: #/\]\(([^)#: ]*)#([^)]+)\)/#) }) {
                var parts = link.1.isEmpty ? file.path.split(separator: "/") : []
                if parts.isEmpty {
                    parts = file.path.split(separator: "/").dropLast()
                    for part in link.1.split(separator: "/") {
                        if part == ".." { parts.removeLast() } else { parts.append(part) }
                    }
                }
                linkCount += 1
                guard let there = headings[parts.joined(separator: "/")] else { continue }
                if !there.contains(String(link.2)) { wrong.append("\(file.path): \(link.0)") }
            }
            expectNone(wrong, remedy: "Name a heading of the page as its address has it.")
        }
        #expect(linkCount > 100, "the reader of the pages finds nothing")
    }

    @Test func `troubleshooting.md lists every event of the log and every code that is sent`()
        throws
    {
        let page = try page("troubleshooting")
        func rows(_ heading: String) -> [Substring] {
            Array(page.drop { $0 != "## \(heading)" }.dropFirst().prefix { !$0.hasPrefix("## ") })
        }
        func names(_ pattern: String, _ heading: String) throws -> [String] {
            try found(pattern, in: rows(heading).map { $0.dropFirst().prefix { $0 != "|" } })
        }
        expectSame(
            try names(#"`([a-z_]+)`"#, "Index of events"),
            try found(#"^\| `(\w+)` \|"#, in: self.page("log")), "troubleshooting.md")
        let sent = #"^\| (\d+) \(0x[89A][0-9A-F]\) \| [\w-]+ \| yes \|"#
        expectSame(
            try names(#"(\d+)"#, "Index of codes"), try found(sent, in: self.page("codes")),
            "troubleshooting.md")
    }

    @Test func `the index links every page`() throws {
        let index = try page("README").joined(separator: "\n")
        let names = try Repository.files(in: ["docs/operating"], endings: [".md"])
            .map { String($0.path.split(separator: "/").last ?? "") }
        expectNone(
            names.filter { $0 != "README.md" && !index.contains("(\($0))") },
            remedy: "Give the page a row in docs/operating/README.md.")
    }
}

// docs/operating/source-systems.md against the code: each path has a row, each row a verdict and a
// test, and each limit its number.

import Foundation
import Testing

@testable import SourceInterfaces

@Suite struct SourceSystemsPageTests {
    private let lines: [Substring]

    init() throws {
        let root = URL(filePath: #filePath).deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent()
        let page = root.appending(path: "docs/operating/source-systems.md")
        lines = try String(contentsOf: page, encoding: .utf8).split(separator: "\n")
    }

    /// The cells of the rows of tables with a verdict.
    private var rows: [[Substring]] { Self.rows(of: lines) }

    private static func rows(of lines: [Substring]) -> [[Substring]] {
        var rows: [[Substring]] = []
        var hasVerdicts = false
        for line in lines {
            guard line.hasPrefix("|") else {
                hasVerdicts = false
                continue
            }
            let cells = line.split(separator: "|").map {
                Substring($0.trimmingCharacters(in: .whitespaces))
            }
            if cells.count == 3, cells[1] == "verdict" {
                hasVerdicts = true
            } else if hasVerdicts, !line.hasPrefix("|---") {
                rows.append(cells)
            }
        }
        return rows
    }

    @Test func `everything that the systems describe has one row`() {
        for system in SourceSystemRows.all {
            let start = lines.firstIndex(of: "## \(system.section)") ?? lines.endIndex
            let section = lines[start...].dropFirst().prefix { !$0.hasPrefix("## ") }
            let found = Self.rows(of: Array(section)).map { String($0[0]) }
            #expect(found.sorted() == system.subjects.sorted(), "\(system.section)")
        }
    }

    @Test func `the tests that rows name are there`() throws {
        let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        let files = try #require(
            FileManager.default.enumerator(at: root, includingPropertiesForKeys: nil))
        var titles: Set<Substring> = []
        for case let file as URL in files where file.pathExtension == "swift" {
            let text = try String(contentsOf: file, encoding: .utf8)
            for match in text.matches(of: /func `([^`]+)`/) { titles.insert(match.output.1) }
        }
        for row in rows where row[2] != "–" {
            for title in row[2].dropFirst().dropLast().split(separator: "*, *") {
                #expect(titles.contains(title), "\(row)")
            }
        }
    }

    @Test func `each row works, differs or is not applicable, and names its test`() {
        #expect(rows.count > 40)
        for row in rows {
            let verdict = row[1]
            #expect(
                verdict.hasPrefix("works") || verdict.hasPrefix("differs: ")
                    || verdict.hasPrefix("not applicable: "), "\(row)")
            let isTested = row[2].hasPrefix("*") && row[2].hasSuffix("*")
            #expect(isTested != verdict.hasPrefix("not applicable"), "\(row)")
        }
    }

    @Test(arguments: [
        ("POST", ["auth", "register"]), ("POST", ["auth", "login"]),
        ("POST", ["conversations", "create"]), ("GET", ["conversations"]),
        ("GET", ["chat", "Dialog"]), ("POST", ["chat", "Dialog"]),
        ("PUT", ["chat", "Dialog", "{id}"]), ("GET", ["chat", "Message"]),
        ("POST", ["chat", "Message"]), ("PUT", ["chat", "Message", "{id},{id}"]),
        ("DELETE", ["chat", "Message", "{id}"]), ("GET", ["1", "auth", "nonce"]),
        ("POST", ["1", "auth", "login"]),
    ])
    func `each method of a path has a row`(method: String, path: [String]) {
        let methods: [String: SourceRoute.Method] = [
            "GET": .get, "POST": .post, "PUT": .put, "DELETE": .delete,
        ]
        guard case .route? = methods[method].map({ SourceRoute.find($0, path) }) else {
            Issue.record("\(method) \(path) has no route")
            return
        }
        let name = "`\(method) /\(path.joined(separator: "/"))`"
        #expect(rows.contains { $0[0] == name }, "\(name)")
    }

    @Test func `the limits are those of the code`() {
        let limits: [(String, Int)] = [
            ("items of an answer, and without `limit`", SourceLimits.pageCountDefault),
            ("`skip`", SourceLimits.dialogsMaximum),
            ("conditions of a request", SourceLimits.conditionsMaximum),
            (
                "values of all conditions of a request", SourceLimits.conditionValuesMaximum
            ),
            ("conditions `ctn` of a request", SourceLimits.searchesMaximum),
            (
                "KiB of the items of an answer on a socket, unless one has more",
                SourceLimits.answerByteCountMaximum >> 10
            ),
            ("bytes of the state of a chat in an event", SourceLimits.stateByteCountMaximum),
            ("ids of `whiteList` in an answer or an event", SourceLimits.occupantsMaximum),
            ("users that a request adds or removes", SourceLimits.membersMaximum),
            (
                "messages that a request marks or deletes",
                SourceLimits.messageIdentifiersMaximum
            ),
            ("members of a form or a query", SourceLimits.fieldsMaximum),
            ("levels of JSON", SourceLimits.depthMaximum),
            ("values of JSON in one request", SourceLimits.valuesMaximum),
            ("bytes of a password", SourceLimits.passwordByteCountMaximum),
            ("logins of a user", SourceLimits.sessionsPerUserMaximum),
            ("bytes of `meta` of a chat", SourceLimits.chatMetaByteCountMaximum),
            ("bytes of `meta` of a message", SourceLimits.messageMetaByteCountMaximum),
            ("members of a chat whose read marks are told", SourceLimits.readersMaximum),
            (
                "bytes of a message on a socket, without a file",
                SocketLimits.messageByteCountMaximum
            ),
            ("events before the login", Int(SocketLimits.eventsBeforeLoginMaximum)),
        ]
        for (what, number) in limits {
            let digits =
                number >= 1_000 ? "\(number / 1_000)," + "\(number + 1_000)".suffix(3) : "\(number)"
            #expect(lines.contains("| \(what) | \(digits) |"), "\(what): \(digits)")
        }
        #expect(SourceLimits.sessionSeconds == 30 * 86_400)
        #expect(SourceLimits.messagesMaximum == 1_000)
        #expect(SourceLimits.nonceSeconds == 5 * 60)
        #expect(SourceLimits.newestMessagesMaximum == 100)
    }
}

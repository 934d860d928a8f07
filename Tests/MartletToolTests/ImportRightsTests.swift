// What an import may not do: give users of Mosquitto more rights than they have there.

import Foundation
import TestSurroundings
import Testing

@testable import martlet

@Suite("The import of Mosquitto")
struct ImportRightsTests {
    private let files: TemporaryDirectory

    init() throws { files = try TemporaryDirectory() }

    /// A hash of PBKDF2, whose password nobody knows.
    private static let hash =
        "$7$101$AAECAwQFBgcICQoL$" + String(repeating: "A", count: 86) + "=="

    private func write(_ name: String, _ bytes: [UInt8]) throws {
        try Data(bytes).write(to: URL(filePath: files.file(name)))
    }

    /// The plan of a configuration, with the users alice, bob and `+`.
    private func plan(
        _ configuration: [String], access: [UInt8]? = Array("user alice\ntopic read a/#\n".utf8)
    ) throws -> ImportPlan {
        try write(
            "passwd", ["alice", "bob", "+"].flatMap { Array("\($0):\(Self.hash)\n".utf8) })
        if let access { try write("acl", access) }
        let lines =
            configuration + [
                "password_file \(files.file("passwd"))", "acl_file \(files.file("acl"))",
            ]
        try write("mosquitto.conf", Array((lines.joined(separator: "\n") + "\n").utf8))
        return ImportPlan(
            configuration: files.file("mosquitto.conf"), store: nil, app: "demo", unixSeconds: 0)
    }

    @Test func `takes users with the rights of their list`() throws {
        let plan = try plan([])
        #expect(plan.passwords.map(\.name) == ["alice", "bob", "+"])
        #expect(plan.passwords[0].rights == ["subscribe:a/#"])
        #expect(plan.passwords.allSatisfy { $0.rights?.isEmpty == false })
    }

    @Test func `takes no user if the list cannot be read`() throws {
        let plan = try plan([], access: nil)
        #expect(plan.passwords.isEmpty)
        #expect(plan.report.lines.contains { $0.text.hasPrefix("no user is taken: the access") })
    }

    /// What follows such a line may be another user's.
    @Test func `takes no user if a line of the list is no UTF-8`() throws {
        let list = Array("user alice\ntopic read a/#\nuser jos".utf8) + [0xE9]
        let plan = try plan([], access: list + Array("\ntopic readwrite #\n".utf8))
        #expect(plan.passwords.isEmpty)
    }

    @Test(arguments: [["per_listener_settings true"], ["acl_file /proc/nonexistent"]])
    func `takes no user, and opens no listener, if listeners have lists of their own`(
        _ lines: [String]
    ) throws {
        let plan = try plan(lines + ["allow_anonymous true", "listener 1883"])
        #expect(plan.passwords.isEmpty)
        #expect(!plan.configuration.contains("anonymous"))
    }

    @Test func `opens nothing to clients without a name that Mosquitto refuses`() throws {
        #expect(try !plan(["allow_anonymous false"]).configuration.contains("anonymous"))
        #expect(try plan([]).configuration.contains("?anonymous"))
    }

    @Test func `makes no wildcard of a user's name`() throws {
        let plan = try plan([], access: Array("pattern readwrite site/%u/#\n".utf8))
        let rights = try #require(plan.passwords.last?.rights)
        #expect(plan.passwords.last?.name == "+" && !rights.contains { $0.contains("site") })
    }
}

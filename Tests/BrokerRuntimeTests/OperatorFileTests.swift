// The operators of the HTTP API: their file, their tokens, and the limit of refused requests.

import Administration
import Credentials
import Foundation
import NetTransport
import Primitives
import TestSurroundings
import Testing

@testable import BrokerRuntime

@Suite("The operators")
struct OperatorFileTests {
    private let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    private var path: String { directory.file(Operators.fileName) }

    private func read() throws -> Operators { try Operators(dataDirectory: directory.path) }

    private func add(
        _ name: String, to operators: Operators, role: OperatorRole = .view, expires: UInt64? = nil
    ) throws -> String {
        let minted = OperatorToken.mint()
        let isNew = try operators.add(
            Operators.Operator(
                name: name, role: role, madeUnixSeconds: 5, expiresUnixSeconds: expires,
                digest: minted.token.digest))
        #expect(isNew)
        return minted.text
    }

    private func find(_ token: String, _ operators: Operators, at seconds: UInt64 = 9) -> String? {
        operators.find(Array(token.utf8).span.bytes, unixSeconds: seconds)?.name
    }

    @Test func `are those of the file, which nobody else may read`() throws {
        let first = try read()
        #expect(first.list.isEmpty)
        let alice = try add("alice", to: first, role: .own)
        let bob = try add("bob@example.com", to: first, expires: 100)
        let second = try read()
        for operators in [first, second] {
            #expect(operators.list.map(\.name) == ["alice", "bob@example.com"])
            #expect(operators.list.map(\.role) == [.own, .view])
            #expect(operators.list.map(\.madeUnixSeconds) == [5, 5])
            #expect(find(alice, operators) == "alice")
            #expect(find(bob, operators, at: 99) == "bob@example.com")
            #expect(find(bob, operators, at: 100) == nil)
        }
        var information = stat()
        #expect(stat(path, &information) == 0 && information.st_mode & 0o777 == 0o600)
        let text = try String(contentsOfFile: path, encoding: .utf8)
        #expect(!text.contains(alice.dropFirst(4)))
    }

    @Test func `are refused by any other token, and after they are removed`() throws {
        let operators = try read()
        let token = try add("alice", to: operators)
        let other = OperatorToken.mint().text
        for wrong in ["", "x", other, String(token.dropLast()), token + "a", token.uppercased()] {
            #expect(find(wrong, operators) == nil, "\(wrong)")
        }
        #expect(try operators.remove("bob") == false)
        #expect(try operators.remove("alice"))
        #expect(find(token, operators) == nil)
        #expect(try read().list.isEmpty)
    }

    @Test func `have one name each`() throws {
        let operators = try read()
        _ = try add("alice", to: operators)
        let again = Operators.Operator(
            name: "alice", role: .own, madeUnixSeconds: 0, expiresUnixSeconds: nil,
            digest: OperatorToken.mint().token.digest)
        #expect(try !operators.add(again))
        #expect(Operators.isName("a.B-9_@") && Operators.isName(String(repeating: "a", count: 64)))
        for name in ["", "a b", "a\n", "ü", "a/b", "%41", String(repeating: "a", count: 65)] {
            #expect(!Operators.isName(name), "\(name)")
        }
    }

    @Test func `of a damaged file prevent the start, and the message names the line`() throws {
        let operators = try read()
        _ = try add("alice", to: operators, role: .own)
        _ = try add("bob", to: operators)
        let whole = try String(contentsOfFile: path, encoding: .utf8)
        let line = try #require(whole.split(separator: "\n").dropLast().last)
        let entries = whole.dropLast("end\n".count)
        let cases: [(String, String)] = [
            ("", "line 1"), ("martlet-operators 2\nend\n", "line 1"),
            (whole.replacing("own", with: "god"), "line 2"), (entries + line + "\nend\n", "line 4"),
            (whole + "\n", "line 5"), (whole.replacing(" 5 ", with: " -5 "), "line 2"),
            (entries.dropLast(2) + "\nend\n", "line 3"),
            (whole.replacing("bob ", with: ""), "line 3"),
            (whole.replacing("never", with: "ever"), "line 2"),
        ]
        for (text, place) in cases {
            try Data(text.utf8).write(to: URL(filePath: path))
            let error = #expect(throws: CredentialError.self, "\(text)") { try read() }
            #expect("\(error!)".contains("\(path): \(place) "), "\(error!)")
        }
        for count in 0..<whole.utf8.count {
            try Data(whole.prefix(count).utf8).write(to: URL(filePath: path))
            #expect(throws: CredentialError.self) { try read() }
        }
        try Data([0xFF]).write(to: URL(filePath: path))
        #expect(throws: CredentialError.self) { try read() }
    }

    @Test func `of a file that others may read prevent the start`() throws {
        _ = try add("alice", to: try read())
        #expect(chmod(path, 0o644) == 0)
        let error = #expect(throws: CredentialError.self) { try read() }
        #expect("\(error!)".contains("others may read it"))
    }

    @Test func `stay as they were when the file cannot be written`() throws {
        let operators = try read()
        let token = try add("alice", to: operators)
        #expect(mkdir(path + ".new", 0o700) == 0)
        #expect(throws: CredentialError.self) { try operators.remove("alice") }
        #expect(find(token, operators) == "alice")
    }
}

@Suite("Refused requests")
struct CredentialFailureTests {
    private static func address(_ number: Int) throws -> SocketAddress {
        try #require(
            SocketAddress(
                numericHost: "10.\(number >> 16 & 255).\(number >> 8 & 255).\(number & 255)",
                port: UInt16(1 + number % 1_000)))
    }

    private static func at(_ seconds: UInt64) -> Instant { Instant(milliseconds: seconds * 1_000) }

    @Test func `of one address are answered ten times a minute, whatever its port is`() throws {
        let failures = AddressCounts()
        let (one, other) = (try Self.address(1), try Self.address(2))
        for _ in 0..<10 { #expect(failures.note(one, at: Self.at(100)) == nil) }
        #expect(failures.note(one, at: Self.at(100)) == 60)
        #expect(failures.note(one, at: Self.at(140)) == 20)
        let port = try #require(SocketAddress(numericHost: "10.0.0.1", port: 9))
        #expect(failures.note(port, at: Self.at(159)) == 1)
        #expect(failures.note(other, at: Self.at(140)) == nil)
        #expect(failures.note(one, at: Self.at(160)) == nil)
        #expect(failures.total == 15)
    }

    @Test func `of many addresses take bounded memory`() throws {
        let failures = AddressCounts()
        for number in 0..<20_000 {
            _ = failures.note(try Self.address(number), at: Self.at(100 + UInt64(number) / 100))
            #expect(failures.addressCount <= AddressCounts.addressesMaximum)
        }
        #expect(failures.addressCount > 400)
        #expect(failures.total == 20_000)
        // All at the same time.
        let burst = AddressCounts()
        for number in 0..<3_000 { _ = burst.note(try Self.address(number), at: Self.at(1)) }
        #expect(burst.addressCount <= AddressCounts.addressesMaximum)
    }
}

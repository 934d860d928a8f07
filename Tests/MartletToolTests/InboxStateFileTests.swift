// The file of `martlet listen --state`.
import Foundation
import MartletClient
import Testing

@testable import martlet

@Suite struct InboxStateFileTests {
    private func withPath(_ body: (String) throws -> Void) throws {
        let path = FileManager.default.temporaryDirectory
            .appending(path: "martlet-state-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: path) }
        try body(path)
    }

    @Test func `a stored record is read, also by the next run`() throws {
        try withPath { path in
            let file = InboxStateFile(path: path)
            #expect(try file.read() == nil)
            for record in [
                InboxRecord(epoch: 1, number: 1), InboxRecord(epoch: .max, number: 1 << 62),
            ] {
                try file.write(record)
                #expect(try InboxStateFile(path: path).read() == record)
            }
            let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions]
            #expect(mode as? Int == 0o600)
        }
    }

    @Test func `a first write that is incomplete at any byte counts as absent`() throws {
        try withPath { path in
            let line = "martlet-inbox 1 0123456789abcdef 1742\n"
            for count in 0..<line.utf8.count {
                for zeros in [0, line.utf8.count - count] {
                    let bytes = Array(line.utf8.prefix(count)) + Array(repeating: 0, count: zeros)
                    try Data(bytes).write(to: URL(filePath: path))
                    #expect(try InboxStateFile(path: path).read() == nil, "\(count), \(zeros)")
                }
            }
            // It is a place to write to again.
            let record = InboxRecord(epoch: 3, number: 4)
            try InboxStateFile(path: path).write(record)
            #expect(try InboxStateFile(path: path).read() == record)
        }
    }

    @Test func `a file that cannot store anything is refused at once`() throws {
        try withPath { path in
            #expect(mkfifo(path, 0o600) == 0)
            for path in [path, "/dev/zero", "/tmp"] {
                #expect(throws: CommandFailure.self) { try InboxStateFile(path: path).read() }
            }
        }
    }

    @Test func `a write that fails leaves the old record`() throws {
        try withPath { path in
            let record = InboxRecord(epoch: 3, number: 4)
            try InboxStateFile(path: path).write(record)
            try FileManager.default.createSymbolicLink(
                atPath: "\(path).new", withDestinationPath: "/dev/full")
            defer { try? FileManager.default.removeItem(atPath: "\(path).new") }
            #expect(throws: CommandFailure.self) {
                try InboxStateFile(path: path).write(InboxRecord(epoch: 3, number: 5))
            }
            #expect(try InboxStateFile(path: path).read() == record)
        }
    }

    @Test(arguments: [
        "x", "\n", "martlet-inbox 2 ab 1", "martlet-inbox 1 zz 1", "martlet-inbox 1 ab\n",
        "martlet-inbox 1 ffffffffffffffff 18446744073709551615\n", "martlet-inbox 1 0 1\n",
        "martlet-inbox 1 ab 9223372036854775808\n", "martlet-inbox 1 ab 1 1\n",
        "martlet-inbox 1 123456789abcdef01 1\n",
    ])
    func `a foreign file is refused and not overwritten`(text: String) throws {
        try withPath { path in
            try text.write(toFile: path, atomically: true, encoding: .utf8)
            #expect(throws: CommandFailure.self) { try InboxStateFile(path: path).read() }
            #expect(try String(contentsOfFile: path, encoding: .utf8) == text)
        }
    }
}

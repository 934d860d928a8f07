// The file in which `martlet listen --state` keeps its place.
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

    @Test func `what was written is read, by the next run too`() throws {
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

    @Test(arguments: [
        "", "x", "martlet-inbox 2 ab 1", "martlet-inbox 1 zz 1", "martlet-inbox 1 ab",
    ])
    func `a file of somebody else's is refused, not overwritten`(text: String) throws {
        try withPath { path in
            try text.write(toFile: path, atomically: true, encoding: .utf8)
            #expect(throws: CommandFailure.self) { try InboxStateFile(path: path).read() }
            #expect(try String(contentsOfFile: path, encoding: .utf8) == text)
        }
    }
}

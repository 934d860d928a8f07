// The program with a truncated or damaged backup: it refuses with a message and the exit code of an
// unusable store, and no signal ends it. And a broker whose store is damaged while it runs: a
// backup fails, and the broker continues.

import Foundation
import MartletClient
import TestSurroundings
import Testing

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(5 * Sanitizer.patience))) struct DamagedBackupTests {
        private func data(_ directory: String) -> URL { URL(filePath: "\(directory)/data.mdb") }

        /// Makes a broker with some messages, and a backup of it.
        private func backup() async throws -> (broker: TestBroker, directory: String) {
            let broker = try await TestBroker()
            try broker.addUsers("bob")
            let alice = try await broker.client("alice")
            for number in 0..<30 {
                let text = String(repeating: "\(number) ", count: 300)
                try await alice.send(OutgoingMessage(to: .user("bob"), text: text))
            }
            await alice.close()
            let directory = broker.directory + "-backup"
            let made = try ChildProcess(
                "martlet", ["backup", directory, "--data", broker.directory])
            #expect(try await made.exit() == .code(0), "\(made.text)")
            return (broker, directory)
        }

        @Test func `every program refuses a truncated or damaged backup with a message`()
            async throws
        {
            let (broker, directory) = try await backup()
            try await broker.stop()
            let sound = try Data(contentsOf: data(directory))
            let target = broker.directory + "-restored"
            let pages = sound.count / 4096
            #expect(pages > 8)
            func refusal(_ arguments: [String], _ what: String) async throws {
                let child = try ChildProcess("martletd", arguments)
                let exit = try await child.exit()
                #expect(exit == .code(4), "\(what): \(exit) \(child.text)")
                #expect(child.text.contains("damaged"), "\(what): \(child.text)")
                #expect(!FileManager.default.fileExists(atPath: target), "\(what)")
            }
            for page in 0..<pages {
                for rest in [0, 100] {
                    try sound.prefix(page * 4096 + rest).write(to: data(directory))
                    let what = "cut at \(page) + \(rest)"
                    try await refusal(["--restore", directory, "--data", target], what)
                    try await refusal(["--verify-store", "--data", directory], what)
                }
            }
            // The roots of the trees, and what leads to them.
            for page in 0..<2 {
                var damaged = sound
                for offset in 64..<160 { damaged[page * 4096 + offset] ^= 0xA5 }
                try damaged.write(to: data(directory))
                try await refusal(
                    ["--restore", directory, "--data", target], "meta page \(page) is noise")
            }
            try sound.write(to: data(directory))
            let restore = try ChildProcess("martletd", ["--restore", directory, "--data", target])
            #expect(try await restore.exit() == .code(0), "\(restore.text)")
        }

        @Test func `a broker with a damaged store refuses a backup and continues`() async throws {
            let (broker, _) = try await backup()
            let whole = try Data(contentsOf: data(broker.directory))
            let file = try FileHandle(forUpdating: data(broker.directory))
            // A message that waits: nobody reads its page until it is fetched.
            let marker = try #require(whole.firstRange(of: Data("7 7 7 7 7 7 7 7 ".utf8)))
            let page = marker.lowerBound / 4096 * 4096
            try file.seek(toOffset: UInt64(page))
            try file.write(contentsOf: Data(count: 16))
            let failed = try ChildProcess(
                "martlet", ["backup", broker.directory + "-2", "--data", broker.directory])
            #expect(try await failed.exit() == .code(2), "\(failed.text)")
            #expect(failed.text.contains("the store is damaged"), "\(failed.text)")
            _ = try await broker.process.line(with: "event=backup_failed")
            // It answers, and the page put right it copies.
            try file.seek(toOffset: UInt64(page))
            try file.write(contentsOf: whole[page..<page + 16])
            let made = try ChildProcess(
                "martlet", ["backup", broker.directory + "-2", "--data", broker.directory])
            #expect(try await made.exit() == .code(0), "\(made.text)")
            try await broker.stop()
        }
    }
}

// The repair of a damaged store by the program: what a dry run names, that it changes nothing, and
// a broker that starts and delivers afterwards.

import BrokerCore
import Foundation
import MartletClient
import QueueStore
import TestSurroundings
import Testing

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(2 * Sanitizer.patience))) struct RepairedStoreTests {
        private func check(_ broker: TestBroker, _ options: String...) async throws -> (
            exit: ChildExit, lines: [String]
        ) {
            let child = try ChildProcess(
                "martletd", ["--verify-store"] + options + ["--data", broker.directory])
            return (try await child.exit(), child.lines)
        }

        /// Every file of the store, by name.
        private func files(_ broker: TestBroker) throws -> [String: Data] {
            var contents: [String: Data] = [:]
            for name in ["data.mdb", "dev.env"] {
                contents[name] = try Data(
                    contentsOf: URL(filePath: "\(broker.directory)/\(name)"))
            }
            return contents
        }

        /// Flips a bit of every copy of some bytes in the store's file.
        private func spoil(_ text: String, of broker: TestBroker) throws {
            let url = URL(filePath: "\(broker.directory)/data.mdb")
            var data = try Data(contentsOf: url)
            var start = data.startIndex
            while let found = data.firstRange(of: Data(text.utf8), in: start..<data.endIndex) {
                data[found.lowerBound] ^= 0x10
                start = found.upperBound
            }
            try #require(start > data.startIndex, "the store has no \(text)")
            try data.write(to: url)
        }

        @Test func `a repaired store starts and delivers what was not damaged`() async throws {
            let broker = try await TestBroker()
            try broker.addUsers("bob")
            let alice = try await broker.client("alice")
            for text in ["first", "rotten second", "third"] {
                try await alice.send(OutgoingMessage(to: .user("bob"), text: text))
            }
            await alice.close()
            try await broker.stop()
            let sound = try await check(broker, "--repair", "--dry-run")
            #expect(sound.exit == .code(0), "\(sound.lines)")
            #expect(sound.lines.last == "sound: nothing to repair", "\(sound.lines)")

            try spoil("rotten second", of: broker)
            #expect(try await check(broker).exit == .code(4))
            let before = try files(broker)
            let plan = try await check(broker, "--repair", "--dry-run")
            #expect(plan.exit == .code(4), "\(plan.lines)")
            #expect(plan.lines.count { $0.contains("(demo/bob)") } == 1, "\(plan.lines)")
            #expect(plan.lines.last == "--repair would make 2 changes", "\(plan.lines)")
            #expect(try files(broker) == before, "a dry run changed the store")

            let repair = try await check(broker, "--repair")
            #expect(repair.exit == .code(0), "\(repair.lines)")
            #expect(repair.lines.last == "sound", "\(repair.lines)")
            #expect(try await check(broker).exit == .code(0))
            try await broker.start()
            let bob = try await broker.client("bob")
            #expect(try await bob.nextTexts(2) == ["first", "third"])
            await bob.close()
            try await broker.stop()
            #expect(try await check(broker).exit == .code(0))
        }

        @Test func `a record of an app that is gone is removed`() async throws {
            let broker = try await TestBroker()
            try await broker.stop()
            var store = try LMDBQueueStore(directory: broker.directory)
            var batch = StoreBatch()
            // The key of a user begins with its app.
            batch.records.append(
                RecordChange(table: .users, key: [4] + Array("gonebob".utf8), value: [1]))
            var result = StoreResult()
            try store.carryOut(batch, into: &result)
            store.close()
            let before = try files(broker)
            let plan = try await check(broker, "--repair", "--dry-run")
            #expect(plan.exit == .code(4))
            #expect(
                plan.lines.first?.hasPrefix(
                    "record %04gonebob of table users belongs to nothing: remove it") == true,
                "\(plan.lines)")
            #expect(try files(broker) == before)
            #expect(try await check(broker, "--repair").exit == .code(0))
            try await broker.start()
            try await broker.stop()
        }

        @Test func `a queue whose owner is missing is a finding`() async throws {
            let broker = try await TestBroker()
            try broker.addUsers("zoe")
            let alice = try await broker.client("alice")
            for text in ["one", "two"] {
                try await alice.send(OutgoingMessage(to: .user("zoe"), text: text))
            }
            await alice.close()
            try await broker.stop()
            #expect(try await check(broker).exit == .code(0))
            var store = try LMDBQueueStore(directory: broker.directory)
            var rows = UserRows(name: "zoe")
            _ = try store.restore(into: &rows)
            #expect(rows.keys.count == 1)
            var batch = StoreBatch()
            batch.records += rows.keys.map { RecordChange(table: .users, key: $0, value: nil) }
            var result = StoreResult()
            try store.carryOut(batch, into: &result)
            store.close()

            let found = try await check(broker)
            #expect(found.exit == .code(4))
            #expect(
                found.lines.contains { $0.hasSuffix("has 2 entries and no owner") },
                "\(found.lines)")
            let plan = try await check(broker, "--repair", "--dry-run")
            #expect(plan.exit == .code(4))
            #expect(
                plan.lines.contains {
                    $0.contains("has 2 entries and no owner: mark it as deleted")
                }, "\(plan.lines)")
            #expect(try await check(broker, "--repair").exit == .code(0))
            try await broker.start()
            try await broker.stop()
            #expect(try await check(broker).exit == .code(0))
        }

        @Test func `a store that no repair makes whole stays as it is`() async throws {
            let broker = try await TestBroker()
            let carl = try await broker.client("carl", device: "distinctive")
            await carl.close()
            try await broker.stop()
            // The record of the session.
            try spoil("distinctive", of: broker)
            let before = try files(broker)
            for options in [["--dry-run"], []] {
                let child = try ChildProcess(
                    "martletd",
                    ["--verify-store", "--repair", "--data", broker.directory] + options)
                #expect(try await child.exit() == .code(4), "\(child.lines)")
                #expect(
                    child.lines.contains { $0.contains("of table sessions") }, "\(child.lines)")
                #expect(
                    child.lines.last?.hasPrefix("nothing is repaired: ") == true,
                    "\(child.lines)")
            }
            #expect(try files(broker) == before)
        }

        @Test func `a repair needs a verification, and a dry run a repair`() async throws {
            for options in [["--repair"], ["--verify-store", "--dry-run"]] {
                let child = try ChildProcess("martletd", options + ["--data", "/nonexistent"])
                #expect(try await child.exit() == .code(1), "\(child.lines)")
            }
        }
    }
}

/// The keys of the users of a name in all apps, behind the app's name and its length.
private struct UserRows: StoreVisitor {
    let name: String
    var keys: [[UInt8]] = []

    mutating func visitRecord(
        table: RecordTable, key: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer
    ) {
        let key = Array(key)
        if table == .users, key.suffix(name.utf8.count).elementsEqual(name.utf8) {
            keys.append(key)
        }
    }

    mutating func visitQueue(_ outline: QueueOutline) {}
}

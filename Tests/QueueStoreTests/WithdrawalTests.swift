// Withdrawals from long queues: the message is found among others, in time.

import BrokerCore
import Primitives
import Testing

@testable import QueueStore

@Suite struct `A withdrawal` {
    /// Messages of many senders to one queue, and one that is looked for.
    private static let count: UInt64 = 100_000

    private func filledStore(_ directory: TemporaryDirectory) throws -> LMDBQueueStore {
        var options = StoreOptions.small
        options.mapByteCount = 1 << 30
        options.softLimitByteCount = 1 << 29
        var store = try LMDBQueueStore(directory: directory.path, options: options)
        for start in stride(from: 1, through: Self.count, by: 10_000) {
            var batch = StoreBatch(at: start)
            batch.sequence = start
            for id in start..<start + 10_000 {
                // Numbers with gaps, as after restarts.
                batch.send(id, "text", to: [7], number: id + id / 1_000 * 500)
            }
            _ = try store.carryOut(batch)
        }
        return store
    }

    private func withdraw(_ message: UInt64, isProbe: Bool = false) -> StoreBatch {
        var batch = StoreBatch(at: 1_000_000)
        batch.sequence = 1_000_000 + message
        batch.withdrawals = [
            EntryWithdrawal(
                queue: QueueID(raw: 7), message: StoredMessageID(raw: message), afterNumber: 10,
                isProbe: isProbe)
        ]
        return batch
    }

    @Test func `finds a message among 100,000 others, and does not find an absent one`() throws {
        let directory = TemporaryDirectory()
        var store = try filledStore(directory)
        let clock = ContinuousClock()
        var times: [Duration] = []
        for message in [50_000, 11, 99_999, 77_777, 1_001] as [UInt64] {
            let batch = withdraw(message)
            let start = clock.now
            let transaction = try store.carryOut(batch)
            times.append(clock.now - start)
            #expect(transaction.withdrawn.map(\.state) == [.found], "message \(message)")
        }
        print("a withdrawal among 100,000 entries, with its commit: \(times)")
        #expect(try store.carryOut(withdraw(50_000)).withdrawn.map(\.state) == [.absent])
        #expect(try store.carryOut(withdraw(9)).withdrawn.map(\.state) == [.sent])
        #expect(try store.carryOut(withdraw(12, isProbe: true)).withdrawn.map(\.state) == [.found])
        #expect(try store.carryOut(withdraw(12)).withdrawn.map(\.state) == [.found])
    }

    @Test func `leaves the work of finding to a few steps`() throws {
        let directory = TemporaryDirectory()
        let store = try filledStore(directory)
        var transaction = try WriteTransaction(
            environment: store.environment, tables: store.tables, scratch: store.scratch.bytes)
        var tally = RemovalTally()
        let clock = ContinuousClock()
        let start = clock.now
        for message in stride(from: UInt64(100), to: Self.count, by: 1_000) {
            let outcome = try transaction.withdraw(
                EntryWithdrawal(
                    queue: QueueID(raw: 7), message: StoredMessageID(raw: message),
                    afterNumber: 0), removalTally: &tally)
            #expect(outcome.state == .found)
        }
        let time = (clock.now - start) / 100
        print("a withdrawal among 100,000 entries: \(time)")
        #expect(time < .milliseconds(1))
    }
}

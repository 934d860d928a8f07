// The stores of a cluster's nodes: one decides, the others repeat its records, and all have the
// same rows.

import BrokerCore
import BrokerSimulation
import CLMDB
import Primitives
import Replication
import Testing

@testable import QueueStore

@Suite struct `A replicated store` {
    @Test(arguments: 1...6 as ClosedRange<UInt64>)
    func `has the same rows on every node, whatever the batches are`(seed: UInt64) throws {
        let nodes = try Nodes()
        var driver = BatchDriver(seed: seed)
        var model = InMemoryStore()
        var primary = try nodes.open(0)
        var standby = try nodes.open(1)
        var (expiredCount, earlyCount) = (0, 0)
        for round in 0..<80 {
            let batch = driver.makeBatch()
            var result = StoreResult()
            var decided = try primary.decide(batch, into: &result)
            while let record = decided {
                let position = primary.position!.following(term: 1)
                expiredCount += record.outcome.expired.count
                try standby.apply([record.overTheLog(at: position)])
                let isCompleted = primary.completeDecided(&result)
                var told = result
                decided = try primary.commitDecided(at: position, into: &told)
                // Nothing follows a result that was told before the commit.
                #expect(!isCompleted || decided == nil, "seed \(seed), round \(round)")
                if isCompleted {
                    earlyCount += 1
                    #expect(told.usedBytes == result.usedBytes, "seed \(seed), round \(round)")
                } else {
                    result = told
                }
            }
            var expected = StoreResult()
            model.carryOut(batch, into: &expected)
            typealias Outcome = `The store and its model`.Outcome
            #expect(Outcome(result) == Outcome(expected), "seed \(seed), round \(round)")
            if round % 10 == 9 {
                #expect(try primary.rows() == standby.rows(), "seed \(seed), round \(round)")
            }
        }
        #expect(primary.position == standby.position)
        #expect(expiredCount > 0 && earlyCount > 0)
    }

    @Test(arguments: 11...14 as ClosedRange<UInt64>)
    func `has the same rows if it applies many records in one commit`(seed: UInt64) throws {
        let nodes = try Nodes()
        var driver = BatchDriver(seed: seed)
        var primary = try nodes.open(0)
        var standby = try nodes.open(1)
        var records: [ReplayedRecord] = []
        for round in 0..<120 {
            let batch = driver.makeBatch()
            var result = StoreResult()
            var decided = try primary.decide(batch, into: &result)
            while let record = decided {
                let position = primary.position!.following(term: 1)
                records.append(try record.overTheLog(at: position))
                decided = try primary.commitDecided(at: position, into: &result)
            }
            guard round % 40 == 39 else { continue }
            try standby.apply(records)
            records = []
            #expect(try primary.rows() == standby.rows(), "seed \(seed), round \(round)")
            #expect(primary.nextMessage == standby.nextMessage)
            #expect(primary.doomedQueues == standby.doomedQueues)
        }
    }

    @Test func `commits no heartbeat by itself, and its position with the next batch`() throws {
        let nodes = try Nodes()
        let founding: ReplicaPosition
        do {
            var standby = try nodes.open(1)
            founding = standby.position!
            let before = try standby.rows()
            var heartbeats: [ReplayedRecord] = []
            for _ in 0..<300 {
                let last = heartbeats.last?.position ?? founding
                heartbeats.append(
                    ReplayedRecord(nil, StoreBatch(at: 9).moment, at: last.following(term: 1)))
            }
            try standby.apply(heartbeats)
            #expect(standby.position?.sequence == LogSequence(raw: 300))
            #expect(standby.writtenPosition == founding)
            #expect(try standby.rows() == before)
        }
        // A restart replays them.
        var standby = try nodes.open(1)
        #expect(standby.position == founding)
        let heartbeat = ReplayedRecord(
            nil, StoreBatch(at: 9).moment, at: founding.following(term: 1))
        var batch = StoreBatch(at: 10)
        batch.send(1, "hello", to: [7], number: 1)
        let record = try DecidedBatch(batch, digested()).overTheLog(
            at: heartbeat.position.following(term: 1))
        try standby.apply([heartbeat])
        try standby.apply([record])
        #expect(standby.writtenPosition == record.position)
        // Without a batch it is written when its owner says so.
        let later = ReplayedRecord(
            nil, StoreBatch(at: 11).moment, at: record.position.following(term: 1))
        try standby.apply([later])
        #expect(standby.writtenPosition == record.position)
        try standby.writePosition()
        #expect(standby.writtenPosition == later.position)
    }

    private func digested() -> BatchOutcome {
        var outcome = BatchOutcome()
        outcome.digest = BatchOutcome.digest(of: StoreResult())
        return outcome
    }

    @Test func `repeats a refusal, whatever room it has itself`() throws {
        let nodes = try Nodes()
        var primary = try nodes.open(0)
        var standby = try nodes.open(1)
        var batch = StoreBatch(at: 5)
        batch.send(1, "hello", to: [7], number: 1)
        batch.put(.users, "u", "row")
        var result = StoreResult()
        _ = try #require(try primary.decide(batch, into: &result))
        #expect(result.refusal == nil)
        // The log is full.
        primary.abortDecided()
        let refused = try #require(try primary.decide(batch, refusesSends: true, into: &result))
        #expect(result.refusal == .full && refused.outcome.refusesSends)
        #expect(try refused.overTheLog(at: primary.position!).decided?.batch.hasSends == false)
        let position = primary.position!.following(term: 1)
        _ = try primary.commitDecided(at: position, into: &result)
        try standby.apply([refused.overTheLog(at: position)])
        let rows = try primary.rows()
        #expect(rows["entries"] == [] && rows["records"]?.count == 1)
        #expect(try standby.rows() == rows)
    }

    @Test func `repeats a refusal of a batch that has sends alone`() throws {
        let nodes = try Nodes()
        var primary = try nodes.open(0)
        var standby = try nodes.open(1)
        var batch = StoreBatch(at: 5)
        let text = String(repeating: "x", count: ReplicationLimits.recordByteCountMaximum)
        batch.send(1, text, to: [7], number: 1)
        var result = StoreResult()
        #expect(try primary.decide(batch, into: &result)?.encoded == nil)
        primary.abortDecided()
        let refused = try #require(try primary.decide(batch, refusesSends: true, into: &result))
        let position = primary.position!.following(term: 1)
        _ = try primary.commitDecided(at: position, into: &result)
        try standby.apply([refused.overTheLog(at: position)])
        #expect(try standby.rows() == primary.rows())
        #expect(standby.nextMessage == primary.nextMessage)
    }

    @Test func `replays the record whose commit it did not reach`() throws {
        let nodes = try Nodes()
        var batch = StoreBatch(at: 5)
        batch.send(1, "hello", to: [7], number: 1)
        var record: DecidedBatch?
        do {
            var primary = try nodes.open(0)
            var result = StoreResult()
            record = try primary.decide(batch, into: &result)
            // The log has the record, and the result is told; the process dies.
            let isTold = primary.completeDecided(&result)
            #expect(isTold)
        }
        var restarted = try nodes.open(0)
        #expect(restarted.position?.sequence == .start)
        #expect(try restarted.rows()["entries"] == [])
        let decided = try #require(record)
        let position = restarted.position!.following(term: 1)
        try restarted.apply([decided.overTheLog(at: position)])
        #expect(try restarted.rows()["entries"]?.count == 1)
        #expect(restarted.position == position)
        #expect(restarted.nextMessage == 2)
    }

    @Test func `continues a long deletion exactly as far as the primary`() throws {
        let nodes = try Nodes()
        var primary = try nodes.open(0)
        var standby = try nodes.open(1)
        var batches = [StoreBatch(at: 1), StoreBatch(at: 2), StoreBatch(at: 3), StoreBatch(at: 4)]
        for number in 1...UInt64(StoreLimits.deletedEntryMaximum) + 500 {
            batches[0].send(number, "x", to: [7], number: number)
        }
        batches[1].deletedQueues = [QueueID(raw: 7)]
        // The others are empty, and go on with the deletion.
        var unfinished: [Bool] = []
        for batch in batches {
            var result = StoreResult()
            guard let record = try primary.decide(batch, into: &result) else { continue }
            let position = primary.position!.following(term: 1)
            _ = try primary.commitDecided(at: position, into: &result)
            try standby.apply([record.overTheLog(at: position)])
            unfinished.append(result.isUnfinished)
            #expect(try primary.rows() == standby.rows())
            #expect(primary.doomedQueues == standby.doomedQueues)
        }
        #expect(unfinished == [false, true, false])
        #expect(try primary.rows()["entries"] == [])
    }

    @Test func `sets aside what the primary could not read, and stops if it differs otherwise`()
        throws
    {
        let nodes = try Nodes()
        var primary = try nodes.open(0)
        var standby = try nodes.open(1)
        var sends = StoreBatch(at: 1)
        for number in 1...3 as ClosedRange<UInt64> {
            sends.send(number, "text", to: [7], number: number)
        }
        try nodes.carryOut(sends, on: &primary, and: &standby)
        var trim = StoreBatch(at: 2)
        trim.trims = [QueueTrim(queue: QueueID(raw: 7), afterNumber: 0, count: 2)]
        var result = StoreResult()
        var record = try #require(try primary.decide(trim, into: &result))
        primary.abortDecided()
        // As if the primary had found the first entry unreadable.
        record.outcome.setAside = [EntryName(queue: QueueID(raw: 7), number: 1)]
        let position = standby.position!.following(term: 1)
        try standby.apply([record.overTheLog(at: position)])
        #expect(try standby.rows()["damaged"]?.count == 1)
        #expect(try standby.rows()["entries"] == [])
        // The primary's outcome is that of two entries.
        record.outcome.setAside = []
        let next = position.following(term: 1)
        #expect(throws: StoreError.divergedCopy(sequence: next.sequence.raw)) {
            try standby.apply([record.overTheLog(at: next)])
        }
    }

    @Test func `is copied for another node with its identity and its position`() throws {
        let nodes = try Nodes()
        var primary = try nodes.open(0)
        var standby = try nodes.open(1)
        var batch = StoreBatch(at: 5)
        batch.send(1, "hello", to: [7], number: 1)
        try nodes.carryOut(batch, on: &primary, and: &standby)
        let (forNode, backup) = (TemporaryDirectory(), TemporaryDirectory())
        let snapshot = try primary.snapshot()
        _ = try snapshot.copy(to: forNode.path, isNode: true)
        _ = try snapshot.copy(to: backup.path)
        snapshot.end()
        var third = try LMDBQueueStore(directory: forNode.path, options: .small)
        #expect(third.identity == primary.identity)
        #expect(third.position == primary.position)
        var next = StoreBatch(at: 6)
        next.acknowledge(7, through: 1)
        try nodes.carryOut(next, on: &primary, and: &third)
        #expect(try primary.rows() == third.rows())
        let restored = try LMDBQueueStore(directory: backup.path, options: .small)
        #expect(restored.identity != primary.identity)
        #expect(restored.position == nil)
    }
}

/// Two stores with one identity, at the start of a log.
private struct Nodes {
    let directories = [TemporaryDirectory(inMemory: true), TemporaryDirectory(inMemory: true)]

    init() throws {
        var first = try LMDBQueueStore(directory: directories[0].path, options: .small)
        try first.join(at: .founding(first.identity))
        let snapshot = try first.snapshot()
        defer { snapshot.end() }
        _ = try snapshot.copy(to: directories[1].path, isNode: true)
    }

    func open(_ node: Int) throws -> LMDBQueueStore {
        try LMDBQueueStore(directory: directories[node].path, options: .small)
    }

    func carryOut(
        _ batch: StoreBatch, on primary: inout LMDBQueueStore, and standby: inout LMDBQueueStore
    ) throws {
        var result = StoreResult()
        var decided = try primary.decide(batch, into: &result)
        while let record = decided {
            let position = primary.position!.following(term: 1)
            try standby.apply([record.overTheLog(at: position)])
            decided = try primary.commitDecided(at: position, into: &result)
        }
    }
}

extension ReplicaPosition {
    /// The position of the next record.
    func following(term: UInt64) -> ReplicaPosition {
        ReplicaPosition(
            cluster: cluster, sequence: sequence.next, term: Term(raw: term), number: number + 1)
    }
}

extension DecidedBatch {
    /// As another node reads it.
    fileprivate func overTheLog(at position: ReplicaPosition) throws -> ReplayedRecord {
        let decided = try DecidedBatch(decoding: try #require(encoded))
        return ReplayedRecord(decided, decided.batch.moment, at: position)
    }
}

extension LMDBQueueStore {
    /// All rows of all tables, as the bytes that are stored.
    func rows() throws -> [String: [[UInt8]]] {
        var begun: OpaquePointer?
        try check(mdb_txn_begin(environment.handle, nil, UInt32(MDB_RDONLY), &begun), "begin")
        defer { mdb_txn_abort(begun) }
        var rows: [String: [[UInt8]]] = [:]
        for (name, table) in [
            ("entries", tables.entries), ("messages", tables.messages),
            ("releases", tables.releases), ("records", tables.records),
            ("doomed", tables.doomed), ("damaged", tables.damaged),
        ] {
            var cursor = try Cursor(transaction: begun!, table: table, scratch: scratch.bytes)
            var list: [[UInt8]] = []
            while try cursor.next() { list.append([UInt8](cursor.key) + [UInt8](cursor.value)) }
            mdb_cursor_close(cursor.handle)
            rows[name] = list
        }
        let stamp = try metaValue(.stamp, transaction: begun!, table: tables.meta) { [UInt8]($0) }
        rows["stamp"] = [stamp ?? []]
        return rows
    }
}

// Random batches on the store and on its model in memory: results and states must be equal, with
// closings and openings in between. A failure's message contains its seed.

import BrokerCore
import BrokerSimulation
import Glibc
import Primitives
import Testing

@testable import QueueStore

@Suite struct `The store and its model` {
    @Test(arguments: 1...12 as ClosedRange<UInt64>)
    func `agree on random batches`(seed: UInt64) throws {
        let directory = TemporaryDirectory()
        var driver = BatchDriver(seed: seed)
        var model = InMemoryStore()
        var rounds = 0
        while rounds < 120 {
            var store = try LMDBQueueStore(directory: directory.path, options: .small)
            // A sweep starts over in a new process; the model is told by a crash between batches.
            model.crash(committing: false)
            var restored = Restored()
            var expected = Restored()
            let state = try store.restore(into: &restored)
            let expectedState = model.restore(into: &expected)
            #expect(restored == expected, "seed \(seed), round \(rounds)")
            #expect(state.nextMessage == expectedState.nextMessage)
            #expect(state.stamp?.moment == expectedState.stamp?.moment)
            for _ in 0..<driver.random.next(upTo: 20) + 1 {
                rounds += 1
                if driver.random.next(upTo: 4) == 0 {
                    try store.releasePages(at: Instant(milliseconds: 0))
                }
                let batch = driver.makeBatch()
                let result = try store.carryOut(batch)
                var modelResult = StoreResult()
                model.carryOut(batch, into: &modelResult)
                #expect(
                    Outcome(result) == Outcome(modelResult), "seed \(seed), round \(rounds)")
                let held = try store.storedMessages()
                #expect(held == model.heldMessages, "seed \(seed), round \(rounds)")
            }
        }
    }

    /// A store above its soft limit leaves out sends; moves and transfers take no room of theirs,
    /// and go on.
    @Test(arguments: 1...6 as ClosedRange<UInt64>)
    func `agree while the store is full`(seed: UInt64) throws {
        let directory = TemporaryDirectory()
        var driver = BatchDriver(seed: seed)
        var model = InMemoryStore()
        var full = StoreOptions.small
        full.softLimitByteCount = 1
        var refusedCount = 0
        for round in 0..<60 {
            // Every other life of the store has no room.
            let isFull = round % 2 == 1
            var store = try LMDBQueueStore(
                directory: directory.path, options: isFull ? full : .small)
            model.isFull = isFull
            model.crash(committing: false)
            for _ in 0..<4 {
                let batch = driver.makeBatch()
                // What the last one wrote decides about this one: a full store is told by a write.
                let result = try store.carryOut(batch)
                var expected = StoreResult()
                model.carryOut(batch, into: &expected)
                refusedCount += result.refusal == nil ? 0 : 1
                #expect(Outcome(result) == Outcome(expected), "seed \(seed), round \(round)")
                let held = try store.storedMessages()
                #expect(held == model.heldMessages, "seed \(seed), round \(round)")
            }
            var restored = Restored()
            var expected = Restored()
            _ = try store.restore(into: &restored)
            _ = model.restore(into: &expected)
            #expect(restored == expected, "seed \(seed), round \(round)")
        }
        #expect(refusedCount > 20)
    }

    /// The process dies in a batch of moves and transfers: its data file as it was before the
    /// commit is a store without them, and the file after it one with all of them.
    @Test(arguments: 1...6 as ClosedRange<UInt64>)
    func `agree when the process dies within a batch`(seed: UInt64) throws {
        let directory = TemporaryDirectory()
        let copy = TemporaryDirectory()
        var driver = BatchDriver(seed: seed)
        var model = InMemoryStore()
        for round in 0..<30 {
            let batch = driver.makeBatch()
            var store = try LMDBQueueStore(directory: directory.path, options: .small)
            for isCommitted in [false, true] {
                // A commit is in the file when it is reported, whatever the process does then.
                if isCommitted { _ = try store.carryOut(batch) }
                model.begin(batch)
                model.crash(committing: isCommitted)
                var expected = Restored()
                _ = model.restore(into: &expected)
                let restored = try restored(from: directory.dataFile, in: copy)
                #expect(restored == expected, "seed \(seed), round \(round)")
            }
        }
    }

    private func restored(
        from file: String, in directory: TemporaryDirectory
    ) throws -> Restored {
        overwrite(directory.dataFile, at: 0, readFile(file), flags: O_CREAT | O_TRUNC)
        var store = try LMDBQueueStore(directory: directory.path, options: .small)
        var restored = Restored()
        _ = try store.restore(into: &restored)
        return restored
    }

    /// The parts of a result that both must agree on.
    struct Outcome: Equatable {
        var refusal: SendRefusal?
        var loads: [[LoadedEntry]]
        var ends: [Bool]
        var examined: [UInt64]
        var blocks: [UInt8]
        var tallies: [QueueTally]
        var trimmed: [QueueTally]
        var transferred: [QueueTally]
        var missedMoves: [Int]
        var expired: [QueueTally]
        var swept: [ExpiredEntry]
        var damaged: [QueueTally]
        var withdrawn: [WithdrawalOutcome]

        init(_ result: StoreResult) {
            refusal = result.refusal
            loads = result.loads.map(\.entries)
            ends = result.loads.map(\.reachedEnd)
            examined = result.loads.map(\.examinedThrough)
            blocks = result.blocks
            tallies = result.tallies
            trimmed = result.trimmed
            transferred = result.transferred
            missedMoves = result.missedMoves
            expired = result.expired
            swept = result.swept
            damaged = result.damaged
            withdrawn = result.withdrawn
        }
    }
}

/// Makes batches such as a core would: numbers rise per queue, ids rise, deleted queues stay
/// deleted.
struct BatchDriver {
    var random: SeededRandom
    private var sequence: UInt64 = 0
    private var now: UInt64 = 1
    private var nextMessage: UInt64 = 1
    private var nextQueue: UInt64 = 6
    private var queues: [UInt64] = [1, 2, 3, 4, 5]
    private var nextNumbers: [UInt64: UInt64] = [:]
    /// Messages of one queue: a queue has none of them twice.
    private var singles: [(message: UInt64, queue: UInt64)] = []

    init(seed: UInt64) {
        random = SeededRandom(seed: seed)
    }

    mutating func makeBatch() -> StoreBatch {
        sequence += 1
        now += random.next(upTo: 30)
        var batch = StoreBatch(at: now)
        batch.sequence = sequence
        for _ in 0..<random.next(upTo: 6) { addSend(to: &batch) }
        for _ in 0..<random.next(upTo: 4) { addMove(to: &batch) }
        for _ in 0..<random.next(upTo: 4) {
            batch.acknowledge(anyQueue(), through: random.next(upTo: 60), wantsTally: true)
        }
        for _ in 0..<random.next(upTo: 3) {
            let queue = QueueID(raw: anyQueue())
            batch.removals.append(EntryRemoval(queue: queue, number: random.next(upTo: 60)))
            batch.states.append(
                EntryStateChange(
                    queue: QueueID(raw: anyQueue()), number: random.next(upTo: 60),
                    state: anyState()))
        }
        if random.next(upTo: 4) == 0 {
            batch.trims.append(
                QueueTrim(
                    queue: QueueID(raw: anyQueue()), afterNumber: random.next(upTo: 40),
                    count: random.next(upTo: 4), byteCount: random.next(upTo: 800)))
        }
        addWithdrawals(to: &batch)
        if random.next(upTo: 8) == 0 { addTransfer(to: &batch) }
        addWithdrawals(to: &batch)
        if random.next(upTo: 12) == 0 { addDeletion(to: &batch) }
        for _ in 0..<random.next(upTo: 3) {
            let value = random.next(upTo: 3) == 0 ? nil : "value \(random.next(upTo: 1000))"
            batch.put(.sessions, "key \(random.next(upTo: 20))", value)
        }
        if random.next(upTo: 4) == 0 {
            batch.sendRecords.append(
                RecordChange(table: .outboxes, key: [UInt8(random.next(upTo: 9))], value: [1]))
        }
        for _ in 0..<random.next(upTo: 4) {
            batch.load(
                anyQueue(), after: random.next(upTo: 40),
                sentThrough: random.next(upTo: 1) * random.next(upTo: 60),
                countMaximum: Int(random.next(upTo: 8)),
                byteMaximum: Int(random.next(upTo: 4000)))
            batch.loads[batch.loads.count - 1].isInspection = random.next(upTo: 3) == 0
            if random.next(upTo: 3) == 0 {
                batch.loads[batch.loads.count - 1].beforeNumber = random.next(upTo: 80)
            }
        }
        if random.next(upTo: 3) == 0 { batch.sweepMaximum = Int(random.next(upTo: 12)) }
        return batch
    }

    private mutating func anyQueue() -> UInt64 {
        queues[Int(random.next(upTo: UInt64(queues.count - 1)))]
    }

    private mutating func addSend(to batch: inout StoreBatch) {
        // Some bodies are larger than a page, which LMDB keeps apart from the small ones.
        let length = random.next(upTo: 9) == 0 ? 9000 : random.next(upTo: 300)
        let text = String(repeating: "abcdefgh"[Int(random.next(upTo: 7))], count: Int(length))
        let receivers = Set((0...random.next(upTo: 3)).map { _ in anyQueue() }).sorted()
        let deadline =
            random.next(upTo: 2) == 0
            ? Instant(milliseconds: now + random.next(upTo: 200)) : .never
        let number =
            (receivers.map { nextNumbers[$0, default: 1] }.max() ?? 1) + random.next(upTo: 1)
        batch.send(nextMessage, text, to: receivers, number: number, deadline: deadline)
        for index in batch.entries.indices.suffix(receivers.count) {
            batch.entries[index].state = anyState()
        }
        for queue in receivers { nextNumbers[queue] = number + 1 }
        if receivers.count == 1 { singles.append((nextMessage, receivers[0])) }
        nextMessage += 1 + random.next(upTo: 2)
    }

    private mutating func addTransfer(to batch: inout StoreBatch) {
        let source = anyQueue()
        let destination = anyQueue()
        guard source != destination else { return }
        let first = nextNumbers[destination, default: 1]
        let count: UInt64 = random.next(upTo: 3) == 0 ? 1 + random.next(upTo: 10) : 1_000
        let scope: TransferScope =
            switch random.next(upTo: 2) {
            case 0: .all
            case 1: .shared
            default: .userMessages(before: StoredMessageID(raw: random.next(upTo: nextMessage)))
            }
        batch.transfers.append(
            QueueTransfer(
                source: QueueID(raw: source), destination: QueueID(raw: destination),
                firstNumber: first, countMaximum: count,
                byteMaximum: random.next(upTo: 4) == 0 ? random.next(upTo: 3_000) : .max,
                scope: scope, sentThrough: random.next(upTo: 40)))
        nextNumbers[destination] = first + count
    }

    /// Withdraws or probes a message, which may have moved, and gives another one a new block.
    private mutating func addWithdrawals(to batch: inout StoreBatch) {
        guard !singles.isEmpty else { return }
        for _ in 0..<random.next(upTo: 2) {
            let last = UInt64(singles.count - 1)
            let (message, queue) = singles[Int(last - random.next(upTo: min(last, 12)))]
            batch.withdrawals.append(
                EntryWithdrawal(
                    queue: QueueID(raw: random.next(upTo: 3) == 0 ? anyQueue() : queue),
                    message: StoredMessageID(raw: message), afterNumber: random.next(upTo: 30),
                    isProbe: random.next(upTo: 3) == 0,
                    followsTransfers: batch.transfers.count))
        }
        if random.next(upTo: 3) == 0 {
            let message = singles[Int(random.next(upTo: UInt64(singles.count - 1)))].message
            batch.replace(message, String(repeating: "n", count: Int(random.next(upTo: 6_000))))
        }
    }

    /// Moves an entry that may not be there, or that an earlier move of the batch has taken.
    private mutating func addMove(to batch: inout StoreBatch) {
        let source = anyQueue()
        let destination = anyQueue()
        guard source != destination else { return }
        let number = nextNumbers[destination, default: 1]
        batch.moves.append(
            EntryMove(
                queue: QueueID(raw: source),
                number: random.next(upTo: nextNumbers[source, default: 1]),
                destination: QueueID(raw: destination), destinationNumber: number,
                state: anyState()))
        nextNumbers[destination] = number + 1
    }

    /// What scopes of transfers look at.
    private mutating func anyState() -> EntryState {
        EntryState(
            grade: random.next(upTo: 1) == 0 ? .durable : .once,
            options: [[], .shared, .ownOnly, .received, [.shared, .ownOnly]][
                Int(random.next(upTo: 4))],
            share: UInt16(random.next(upTo: 65_535)))
    }

    private mutating func addDeletion(to batch: inout StoreBatch) {
        let index = Int(random.next(upTo: UInt64(queues.count - 1)))
        batch.deletedQueues.append(QueueID(raw: queues[index]))
        queues[index] = nextQueue
        nextQueue += 1
    }
}

/// Random numbers that a seed repeats: the counter times an odd constant, mixed twice.
struct SeededRandom {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    /// A number from 0 to `maximum`.
    mutating func next(upTo maximum: UInt64) -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return (mixed ^ (mixed >> 31)) % (maximum + 1)
    }
}

extension StringProtocol {
    fileprivate subscript(offset: Int) -> String {
        String(self[index(startIndex, offsetBy: offset)])
    }
}

extension LMDBQueueStore {
    /// The ids of all bodies, in order.
    func storedMessages() throws -> [StoredMessageID] {
        let transaction = try WriteTransaction(
            environment: environment, tables: tables, scratch: scratch.bytes)
        var cursor = transaction.messages
        var ids: [StoredMessageID] = []
        while try cursor.next() {
            ids.append(StoredMessageID(raw: cursor.key.bigEndian(at: 0)))
        }
        return ids
    }
}

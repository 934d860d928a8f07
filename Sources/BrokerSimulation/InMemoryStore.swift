// The store as a plain value: a simple implementation of QueueStore in memory. The simulation uses
// it for the broker, and QueueStore's tests compare with it. It uses neither LMDB nor files, and
// its only time is that of the batch.

import BrokerCore
import Primitives
import Replication

/// A store without a disk. A batch is in flight between ``begin(_:)`` and ``finish(into:)``; a
/// crash in between leaves all of it, or nothing.
public struct InMemoryStore: Sendable {
    /// Whether sends are refused, as on a disk without space.
    public var isFull = false
    /// Bytes by which rows may grow until the next result.
    public var rowRoomByteCount = Int.max
    /// The identity that ``restore(into:)`` reports; a new value stands for a restored backup.
    public var identity: StoreIdentity

    private struct Body {
        /// Receivers that have not released it.
        var holderCount: UInt32
        var block: [UInt8]
    }

    private struct RecordKey: Hashable, Comparable {
        var table: UInt8
        var key: [UInt8]

        static func < (left: RecordKey, right: RecordKey) -> Bool {
            left.table != right.table
                ? left.table < right.table : left.key.lexicographicallyPrecedes(right.key)
        }
    }

    private var bodies: [StoredMessageID: Body] = [:]
    /// Each queue's entries in the order of their numbers; no queue is empty.
    private var queues: [QueueID: [EntryPut]] = [:]
    private var records: [RecordKey: [UInt8]] = [:]
    private var nextMessage = StoredMessageID(raw: 1)
    private var stamp: StoreStamp?
    /// The entry the next sweep starts with, or the first one after it.
    private var sweepStart = (queue: QueueID(raw: 0), number: UInt64(0))
    private var inFlightBatch: StoreBatch?
    /// Entries that the loads of the last batch found expired, and removed.
    private var departed: [EntryName] = []

    public init(identity: StoreIdentity = StoreIdentity(high: 0, low: 1)) {
        self.identity = identity
    }

    // MARK: Batches

    /// Takes a batch, which does not change the store yet.
    public mutating func begin(_ batch: StoreBatch) {
        precondition(
            inFlightBatch == nil, "batch \(inFlightBatch?.sequence ?? 0) is in flight")
        inFlightBatch = batch
    }

    /// Commits the batch in flight, and returns its result.
    public mutating func finish(into result: inout StoreResult) {
        guard let batch = inFlightBatch else {
            preconditionFailure("result \(result.sequence) without a batch in flight")
        }
        inFlightBatch = nil
        apply(batch, into: &result)
    }

    /// The process is killed. At the next start the whole batch in flight is present, or none of
    /// it; its result is lost in either case.
    public mutating func crash(committing: Bool) {
        if let batch = inFlightBatch, committing {
            var lost = StoreResult()
            apply(batch, into: &lost)
        }
        inFlightBatch = nil
        sweepStart = (QueueID(raw: 0), 0)
    }

    /// ``begin(_:)`` and ``finish(into:)`` in one.
    public mutating func carryOut(_ batch: StoreBatch, into result: inout StoreResult) {
        begin(batch)
        finish(into: &result)
    }

    // MARK: Replication

    /// Carries out a batch as a primary's store does.
    ///
    /// - Returns: its outcome; nil if the batch has changed nothing.
    mutating func decide(_ batch: StoreBatch, into result: inout StoreResult) -> BatchOutcome? {
        carryOut(batch, into: &result)
        guard batch.changesStore || !departed.isEmpty else { return nil }
        noteTime(batch.moment)
        var outcome = BatchOutcome()
        outcome.refusesSends = result.refusal != nil
        outcome.expired = departed
        outcome.digest = BatchOutcome.digest(of: result)
        return outcome
    }

    /// Repeats what a primary's store has decided.
    ///
    /// - Returns: whether it had the same effect here.
    mutating func replay(_ decided: DecidedBatch) -> Bool {
        var result = StoreResult()
        let wasFull = isFull
        isFull = decided.outcome.refusesSends
        carryOut(decided.batch, into: &result)
        isFull = wasFull
        // The record has a time although nothing may be left of its batch but refused sends.
        noteTime(decided.batch.moment)
        for name in decided.outcome.expired {
            _ = remove(name.queue) { $0.number == name.number }
        }
        return BatchOutcome.digest(of: result) == decided.outcome.digest
    }

    /// A sum of all rows: stores with the same rows have the same one.
    var fingerprint: UInt64 {
        var sum = Checksum(seed: nextMessage.raw)
        sum.mix(stamp?.moment.instant.milliseconds ?? 0)
        // The order of a dictionary differs from run to run: the sums of rows are added.
        var total: UInt64 = 0
        for (key, value) in records {
            var row = Checksum(seed: UInt64(key.table))
            key.key.withUnsafeBytes { row.mix($0) }
            value.withUnsafeBytes { row.mix($0) }
            total &+= row.value
        }
        for (id, body) in bodies {
            var row = Checksum(seed: id.raw)
            row.mix(UInt64(body.holderCount))
            body.block.withUnsafeBytes { row.mix($0) }
            total &+= row.value
        }
        for entry in queues.values.joined() {
            var row = Checksum(seed: entry.queue.raw)
            for word in [
                entry.number, entry.message.raw, entry.deadline.milliseconds,
                UInt64(entry.byteCount), UInt64(entry.state.options.rawValue),
                UInt64(entry.state.grade.rawValue), UInt64(entry.state.share),
                UInt64(entry.state.subscriptionIdentifier),
            ] { row.mix(word) }
            total &+= row.value
        }
        sum.mix(total)
        return sum.value
    }

    /// Passes all contents to a visitor, in the order of ``StoreVisitor``.
    public func restore(into visitor: inout some StoreVisitor & ~Copyable) -> RestoredState {
        for (key, value) in records.sorted(by: { $0.key < $1.key }) {
            guard let table = RecordTable(rawValue: key.table) else {
                preconditionFailure("a row of table \(key.table), which does not exist")
            }
            key.key.withUnsafeBytes { name in
                value.withUnsafeBytes { value in
                    visitor.visitRecord(table: table, key: name, value: value)
                }
            }
        }
        for (queue, entries) in queues.sorted(by: { $0.key < $1.key }) {
            guard let first = entries.first, let last = entries.last else {
                preconditionFailure("queue \(queue.raw) is empty")
            }
            visitor.visitQueue(
                QueueOutline(
                    tally: InMemoryStore.tally(queue, entries), firstNumber: first.number,
                    lastNumber: last.number))
        }
        var state = RestoredState(
            identity: identity, nextMessage: nextMessage, stamp: stamp, damaged: [])
        state.isFull = isFull
        state.rowRoomByteCount = rowRoomByteCount
        return state
    }

    /// The ids of the stored bodies, in order: for tests.
    public var heldMessages: [StoredMessageID] { bodies.keys.sorted() }

    /// Whether conversations have all messages.
    var isDrained: Bool {
        let kept = queues.values.joined().filter { $0.state.options.contains(.kept) }
        return Set(kept.map(\.message)).count == bodies.count
            && queues.values.allSatisfy { $0.allSatisfy { $0.state.options.contains(.kept) } }
    }

    /// Whether a queue has an entry with this number.
    func holds(_ number: UInt64, in queue: QueueID) -> Bool {
        queues[queue]?.contains { $0.number == number } ?? false
    }

    /// The size of the row that a change replaces or removes; 0 if there is none.
    func rowByteCount(_ change: RecordChange) -> Int {
        records[RecordKey(table: change.table.rawValue, key: change.key)]?.count ?? 0
    }

    /// The first row of a table, as a change that writes it again.
    func firstRow(of table: RecordTable) -> RecordChange? {
        records.filter { $0.key.table == table.rawValue }.min { $0.key < $1.key }.map {
            RecordChange(table: table, key: $0.key.key, value: $0.value)
        }
    }

    /// Whether a queue is empty.
    func isEmpty(_ queue: QueueID) -> Bool { queues[queue] == nil }

    /// Loses all entries of a queue, as no store should: for tests.
    public mutating func lose(_ queue: QueueID) { _ = remove(queue) { _ in true } }

    // MARK: The parts of a batch

    private mutating func apply(_ batch: StoreBatch, into result: inout StoreResult) {
        result.removeAll()
        result.sequence = batch.sequence
        result.isFull = isFull
        result.rowRoomByteCount = rowRoomByteCount
        if isFull, batch.hasSends {
            result.refusal = .full
        } else {
            putSends(batch)
        }
        for index in batch.moves.indices where !move(batch.moves[index]) {
            result.missedMoves.append(index)
        }
        for removal in batch.removals {
            _ = remove(removal.queue) { $0.number == removal.number }
        }
        acknowledge(batch, followingTransfers: 0, into: &result)
        for trim in batch.trims { result.trimmed.append(apply(trim)) }
        for change in batch.states {
            let index = queues[change.queue]?.firstIndex { $0.number == change.number }
            if let index { queues[change.queue]?[index].state = change.state }
        }
        for replacement in batch.replacements {
            let range = Int(replacement.block.offset)..<replacement.block.endOffset
            bodies[replacement.message]?.block = Array(batch.blocks[range])
        }
        withdraw(batch, followingTransfers: 0, into: &result)
        for index in batch.transfers.indices {
            result.transferred.append(move(batch.transfers[index]))
            acknowledge(batch, followingTransfers: index + 1, into: &result)
            withdraw(batch, followingTransfers: index + 1, into: &result)
        }
        for queue in batch.deletedQueues { _ = remove(queue) { _ in true } }
        for change in batch.records where result.refusal == nil || change.part != .send {
            apply(change)
        }
        if batch.changesStore { noteTime(batch.moment) }
        read(batch, into: &result)
    }

    private mutating func noteTime(_ moment: Moment) {
        stamp = StoreStamp(
            moment: moment, boot: StoreIdentity(high: 0, low: 0),
            bootMilliseconds: moment.instant.milliseconds)
    }

    private mutating func acknowledge(
        _ batch: StoreBatch, followingTransfers count: Int, into result: inout StoreResult
    ) {
        for acknowledgement in batch.acknowledgements
        where acknowledgement.followsTransfers == count {
            let removed = remove(acknowledgement.queue) {
                $0.number <= acknowledgement.throughNumber
            }
            if acknowledgement.wantsTally {
                result.tallies.append(InMemoryStore.tally(acknowledgement.queue, removed))
            }
        }
    }

    private mutating func withdraw(
        _ batch: StoreBatch, followingTransfers count: Int, into result: inout StoreResult
    ) {
        for withdrawal in batch.withdrawals where withdrawal.followsTransfers == count {
            let entry = queues[withdrawal.queue]?.first { $0.message == withdrawal.message }
            let outcome = entry.map {
                withdrawal.outcome(number: $0.number, state: $0.state, byteCount: $0.byteCount)
            }
            result.withdrawn.append(outcome ?? WithdrawalOutcome(.absent))
            guard let entry, outcome?.state == .found, !withdrawal.isProbe else { continue }
            _ = remove(withdrawal.queue) { $0.number == entry.number }
        }
    }

    private mutating func putSends(_ batch: StoreBatch) {
        for message in batch.messages {
            precondition(
                message.id >= nextMessage,
                "message \(message.id.raw) after \(nextMessage.raw) was expected")
            let range = Int(message.block.offset)..<message.block.endOffset
            bodies[message.id] = Body(
                holderCount: message.receiverCount, block: Array(batch.blocks[range]))
            nextMessage = StoredMessageID(raw: message.id.raw + 1)
        }
        for entry in batch.entries { insert(entry) }
    }

    private mutating func apply(_ change: RecordChange) {
        records[RecordKey(table: change.table.rawValue, key: change.key)] = change.value
    }

    private mutating func insert(_ entry: EntryPut) {
        var entries = queues.removeValue(forKey: entry.queue) ?? []
        let index = entries.firstIndex { $0.number >= entry.number } ?? entries.endIndex
        precondition(
            index == entries.endIndex || entries[index].number != entry.number,
            "queue \(entry.queue.raw) has an entry #\(entry.number)")
        entries.insert(entry, at: index)
        queues[entry.queue] = entries
    }

    /// Removes entries of a queue, releases their bodies, and returns the entries.
    private mutating func remove(
        _ queue: QueueID, where leaves: (EntryPut) -> Bool
    ) -> [EntryPut] {
        guard let entries = queues[queue] else { return [] }
        let removed = entries.filter(leaves)
        let kept = entries.filter { !leaves($0) }
        queues[queue] = kept.isEmpty ? nil : kept
        for entry in removed {
            guard var body = bodies[entry.message] else {
                preconditionFailure("no body of message \(entry.message.raw)")
            }
            body.holderCount -= 1
            bodies[entry.message] = body.holderCount == 0 ? nil : body
        }
        return removed
    }

    private mutating func apply(_ trim: QueueTrim) -> QueueTally {
        var tally = QueueTally(queue: trim.queue, count: 0, byteCount: 0)
        for entry in queues[trim.queue] ?? []
        where entry.number > trim.afterNumber
            && (tally.count < trim.count || tally.byteCount < trim.byteCount)
        {
            _ = remove(trim.queue) { $0.number == entry.number }
            tally.count += 1
            tally.byteCount += UInt64(entry.byteCount)
        }
        return tally
    }

    private mutating func move(_ transfer: QueueTransfer) -> QueueTally {
        var moved: [EntryPut] = []
        var kept: [EntryPut] = []
        var tally = QueueTally(queue: transfer.destination, count: 0, byteCount: 0)
        var hasRoom = true
        for var entry in queues.removeValue(forKey: transfer.source) ?? [] {
            let isMoved = transfer.scope.contains(entry.message, entry.state)
            hasRoom = hasRoom && (!isMoved || transfer.hasRoom(behind: tally, for: entry.byteCount))
            if isMoved && hasRoom {
                if entry.number <= transfer.sentThrough {
                    entry.state.options.insert(.sentBefore)
                }
                moved.append(entry)
                tally.count += 1
                tally.byteCount += UInt64(entry.byteCount)
            } else {
                kept.append(entry)
            }
        }
        queues[transfer.source] = kept.isEmpty ? nil : kept
        for index in moved.indices {
            moved[index].queue = transfer.destination
            moved[index].number = transfer.firstNumber + UInt64(index)
            insert(moved[index])
        }
        return tally
    }

    private mutating func move(_ move: EntryMove) -> Bool {
        guard var source = queues[move.queue],
            let index = source.firstIndex(where: { $0.number == move.number })
        else { return false }
        var entry = source.remove(at: index)
        queues[move.queue] = source.isEmpty ? nil : source
        entry.queue = move.destination
        entry.number = move.destinationNumber
        entry.state = move.state
        insert(entry)
        return true
    }

    // MARK: Loads and sweeps

    private mutating func read(_ batch: StoreBatch, into result: inout StoreResult) {
        let now = batch.moment.instant
        var leaving: [EntryPut] = []
        departed = []
        for request in batch.loads { load(request, now: now, into: &result, leaving: &leaving) }
        for entry in leaving {
            let removed = remove(entry.queue) { $0.number == entry.number }
            guard !removed.isEmpty else { continue }
            departed.append(EntryName(queue: entry.queue, number: entry.number))
            let tally = InMemoryStore.tally(entry.queue, removed)
            if let last = result.expired.indices.last, result.expired[last].queue == entry.queue {
                result.expired[last].count += tally.count
                result.expired[last].byteCount += tally.byteCount
            } else {
                result.expired.append(tally)
            }
        }
        sweep(countMaximum: batch.sweepMaximum, now: now, into: &result)
    }

    private func load(
        _ request: LoadRequest, now: Instant, into result: inout StoreResult,
        leaving: inout [EntryPut]
    ) {
        var loaded = LoadedQueue(
            queue: request.queue, entries: [], reachedEnd: true,
            examinedThrough: request.afterNumber)
        let blocksBefore = result.blocks.count
        var skippedCount = 0
        var entries = queues[request.queue] ?? []
        if let end = request.beforeNumber {
            entries = entries.filter { $0.number < end }.reversed()
            loaded.examinedThrough = end
        }
        for entry in entries where entry.number > request.afterNumber {
            if loaded.entries.count + skippedCount >= request.countMaximum {
                loaded.reachedEnd = false
                break
            }
            if entry.state.isExpired(entry.deadline, at: now),
                !entry.state.lasts(entry.number, sentThrough: request.sentThrough)
            {
                if request.isInspection { skippedCount += 1 } else { leaving.append(entry) }
                loaded.examinedThrough = entry.number
                continue
            }
            guard let block = bodies[entry.message]?.block else {
                preconditionFailure("no body of message \(entry.message.raw)")
            }
            let total = result.blocks.count - blocksBefore + block.count
            if total > request.byteMaximum, !loaded.entries.isEmpty {
                loaded.reachedEnd = false
                break
            }
            loaded.entries.append(
                LoadedEntry(
                    number: entry.number, message: entry.message, deadline: entry.deadline,
                    byteCount: entry.byteCount, state: entry.state,
                    block: ByteRange(offset: result.blocks.count, count: block.count)))
            result.blocks += block
            loaded.examinedThrough = entry.number
        }
        result.loads.append(loaded)
    }

    private mutating func sweep(
        countMaximum: Int, now: Instant, into result: inout StoreResult
    ) {
        guard countMaximum > 0 else { return }
        var examinedCount = 0
        for (queue, entries) in queues.sorted(by: { $0.key < $1.key }) {
            for entry in entries where (queue, entry.number) >= sweepStart {
                if examinedCount == countMaximum {
                    sweepStart = (queue, entry.number)
                    return
                }
                examinedCount += 1
                if entry.state.isExpired(entry.deadline, at: now) {
                    result.swept.append(
                        ExpiredEntry(
                            queue: queue, number: entry.number, byteCount: entry.byteCount,
                            state: entry.state))
                }
            }
        }
        sweepStart = (QueueID(raw: 0), 0)
    }

    private static func tally(_ queue: QueueID, _ entries: [EntryPut]) -> QueueTally {
        QueueTally(
            queue: queue, count: UInt64(entries.count),
            byteCount: entries.reduce(0) { $0 + UInt64($1.byteCount) })
    }
}

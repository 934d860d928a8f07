// The store on disk: opens a directory and executes the core's batches, one at a time. It decides
// which changes enter a transaction and which are refused; WriteTransaction makes the changes. It
// interprets no sessions, topics or packets, and uses no thread but the caller's.

import BrokerCore
import Glibc
import Primitives
import Replication

/// Queues, messages and records in LMDB.
///
/// Opened, used and closed by one thread. When ``carryOut(_:into:)`` returns, what the batch
/// changed is synced to disk. If the process dies during the call, the next start finds all of the
/// batch or none of it.
public struct LMDBQueueStore: ~Copyable {
    /// A batch whose transaction is open until the log has it. It is destroyed first: LMDB ends
    /// transactions before their environment.
    var prepared: PreparedBatch?
    let options: StoreOptions
    private(set) var environment: Environment
    private(set) var tables: Tables
    var reader: Reader
    /// False only after ``releasePages(at:)`` has failed.
    private var isReaderOpen = true
    let scratch: KeyScratch
    private var claim: SpaceClaim
    var snapshots = Snapshots()
    private var keptPages = KeptPages()
    /// Whether the disk had the space that the last write needed.
    var hasDiskSpace = true
    /// Set by the first error: no commit may follow a failed sync.
    var hasFailed = false
    let pageByteCount: Int
    private let boot: StoreIdentity

    /// The identity of this store.
    public let identity: StoreIdentity
    /// The next message id, above all stored ids.
    var nextMessage: UInt64
    /// The format that this code writes.
    public static var format: UInt32 { StoreFormats.known.current }
    /// The older format from which the opening upgraded the store; nil if it was current.
    public let upgradedFormat: UInt32?
    /// The stamp of the last commit before the opening.
    public let openingStamp: StoreStamp?
    /// Deleted queues that still have entries.
    var doomedQueues: [QueueID]
    /// Bytes of pages in use after the last commit.
    public internal(set) var usedByteCount: UInt64

    /// The position of the last record that this store has applied; nil for a store of no cluster.
    public internal(set) var position: ReplicaPosition?
    /// The position on the disk. Records without rows may lie between the two.
    public internal(set) var writtenPosition: ReplicaPosition?
    /// The time of the last record without rows that is not on the disk.
    var passedMoment: Moment?
    /// Entries that the restoration of a cluster's node could not read. The first record sets them
    /// aside.
    var restoredDamage: [EntryKey] = []

    private var sweepStart = EntryKey(queue: 0, number: 0)
    var removalTally = RemovalTally()
    var leaving: [Leaving] = []

    /// Opens the store in a directory, and creates both if they are missing (0700, files 0600).
    ///
    /// A store of an older format is upgraded, in one transaction.
    ///
    /// Throws ``StoreError/inUse(directory:processIdentifier:)`` if another opening holds the
    /// directory, and errors of the file system, the format or the pages.
    public init(directory: String, options: StoreOptions = StoreOptions()) throws(StoreError) {
        try self.init(directory: directory, options: options, formats: .known)
    }

    init(
        directory: String, options: StoreOptions, formats: StoreFormats
    ) throws(StoreError) {
        let lock = try DirectoryLock(directory: directory, createsDirectory: true)
        try LMDBQueueStore.makeIfMissing(
            directory, mapByteCount: options.mapByteCount, formats: formats)
        let path = directory + "/" + Environment.dataFile
        if options.checksPages {
            try PageCheck.run(path: path)
        } else {
            // LMDB maps the file and reads both meta pages at once.
            _ = try PageFile(path: path).meta()
        }
        let environment = try Environment(
            directory: directory, lock: lock, mapByteCount: options.mapByteCount)
        let scratch = KeyScratch()
        let opening = try Opening(
            environment: environment, directory: directory, formats: formats,
            scratch: scratch.bytes)
        let reader = try Reader(
            environment: environment, tables: opening.tables, scratch: scratch.bytes)
        self.options = options
        tables = opening.tables
        identity = opening.identity
        upgradedFormat = opening.olderFormat
        openingStamp = opening.stamp?.stamp
        position = opening.position
        writtenPosition = opening.position
        nextMessage = opening.stamp?.nextMessage ?? 1
        doomedQueues = opening.doomedQueues
        usedByteCount = opening.usedByteCount
        pageByteCount = environment.pageByteCount
        claim = SpaceClaim(descriptor: environment.fileDescriptor)
        boot = .currentBoot()
        self.scratch = scratch
        self.reader = reader
        self.environment = environment
    }

    /// Creates the store's file if there is none.
    private static func makeIfMissing(
        _ directory: String, mapByteCount: Int, formats: StoreFormats
    ) throws(StoreError) {
        try StagingFile.removeLeftover(in: directory)
        let path = directory + "/" + Environment.dataFile
        var status = stat()
        if stat(path, &status) == 0 {
            // No crash of the broker leaves an empty file, so its contents were lost.
            guard status.st_size > 0 else {
                throw .damagedPage(number: 0, finding: "the file is empty")
            }
            return
        }
        guard errno == ENOENT else { throw .system(call: "stat", path: path, errno: errno) }
        let stagingFile = try StagingFile(directory: directory)
        do {
            let environment = try Environment(stagingFile: stagingFile, mapByteCount: mapByteCount)
            let scratch = KeyScratch()
            _ = try Opening(
                environment: environment, directory: directory, formats: formats,
                scratch: scratch.bytes)
        }
        try stagingFile.publish()
    }

    deinit {
        if isReaderOpen { reader.close() }
    }

    /// Closes the store. All executed batches are on disk.
    public consuming func close() {}

    /// Executes a batch, syncs it, and returns the results of its loads and its sweep.
    ///
    /// Without space for the batch's messages and entries, the other changes are committed and
    /// `result.refusal` is set. Every thrown error is fatal: the process must end.
    public mutating func carryOut(
        _ batch: StoreBatch, into result: inout StoreResult
    ) throws(StoreError) {
        checkUse()
        precondition(
            position == nil, "a batch without a record after \(position?.sequence.raw ?? 0)")
        hasFailed = true
        result.removeAll()
        result.sequence = batch.sequence
        removalTally.removeAll()
        if batch.changesStore || !doomedQueues.isEmpty {
            try write(batch, into: &result)
        }
        if !batch.loads.isEmpty {
            try load(batch, into: &result)
            result.keepsLeaving = !(try removeLeaving(moment: batch.moment))
        }
        if batch.sweepMaximum > 0 { try sweep(batch, into: &result) }
        complete(&result)
        hasFailed = false
    }

    /// Tells what the batch's removals found, and how full the store is.
    func complete(_ result: inout StoreResult) {
        result.expired.append(contentsOf: removalTally.expired.tallies)
        result.damaged.append(contentsOf: removalTally.damaged.tallies)
        result.damagedUncounted = removalTally.damagedUncounted
        result.isUnfinished = !doomedQueues.isEmpty
        result.isFull = !hasRoom
        result.lacksDiskSpace = !hasDiskSpace
        result.rowRoomByteCount = rowRoomByteCount
        result.usedBytes = usedByteCount
        result.softLimitBytes = UInt64(options.softLimitByteCount)
    }

    /// Bytes of the pages of each table after the last commit, by the table's name.
    public func tableByteCounts() -> [(name: String, byteCount: UInt64)] {
        checkUse()
        return isReaderOpen ? reader.byteCounts(of: tables) : []
    }

    /// Whether LMDB keeps much memory that no transaction has needed for a while.
    public func keepsPages(at now: Instant) -> Bool { keptPages.areUnused(at: now) }

    /// Makes LMDB free the memory of earlier transactions, or tries again later if the process has
    /// few descriptors left. No snapshot may exist.
    ///
    /// Throws if the store cannot be opened again, which is fatal: the process must end.
    public mutating func releasePages(at now: Instant) throws(StoreError) {
        checkUse()
        guard let reserve = DescriptorReserve() else { return keptPages.postpone(at: now) }
        hasFailed = true
        reader.close()
        isReaderOpen = false
        try environment.reopen(using: reserve)
        claim.descriptor = environment.fileDescriptor
        let transaction = try WriteTransaction(
            environment: environment, making: [], scratch: scratch.bytes)
        tables = transaction.tables
        // The transaction has changed nothing, and writes nothing.
        try transaction.commit()
        reader = try Reader(environment: environment, tables: tables, scratch: scratch.bytes)
        isReaderOpen = true
        keptPages = KeptPages()
        hasFailed = false
    }

    func checkUse() {
        precondition(
            !hasFailed, "the store is used after an error, with \(usedByteCount) bytes in use")
    }

    /// Whether sends are admitted, according to the last write.
    var hasRoom: Bool {
        hasDiskSpace && usedByteCount <= options.softLimitByteCount && !isHeldUp
    }

    /// Whether the file has grown, because of other processes' snapshots, until only half of the
    /// space above the soft limit is left: the rest is for acknowledgements, which need new pages
    /// too.
    private var isHeldUp: Bool {
        let limit = (options.softLimitByteCount + options.mapByteCount) / 2
        return environment.highWaterByteCount > limit && snapshots.haveGrown(environment)
    }

    // MARK: Writing

    private mutating func write(
        _ batch: StoreBatch, into result: inout StoreResult
    ) throws(StoreError) {
        try snapshots.look(at: environment)
        hasDiskSpace = claimRoom(for: batch)
        if batch.hasSends, hasRoom {
            do throws(StoreError) {
                return try attempt(batch, withSends: true, into: &result)
            } catch {
                guard error.isFull else { throw error }
            }
        }
        if batch.hasSends { result.refusal = .full }
        try attempt(batch, withSends: false, into: &result)
    }

    /// Claims disk space for everything the batch may write, for the reserve, and for the rows of
    /// the next batches; false if the disk does not have the first two.
    mutating func claimRoom(for batch: StoreBatch) -> Bool {
        var need = RoomNeed()
        need.add(batch, page: pageByteCount)
        return claimRoom(for: need, at: batch.moment)
    }

    /// The same for batches of one transaction.
    mutating func claimRoom(for need: RoomNeed, at moment: Moment) -> Bool {
        keptPages.note(countMaximum: need.changeCount, at: moment)
        let needed = need.byteCount(page: pageByteCount)
        let growth = max(
            needed + StoreLimits.reserveByteCount - freeByteCount, need.runByteCount)
        let end = min(environment.highWaterByteCount + growth, options.mapByteCount)
        return claim.extend(
            to: end,
            wanting: min(StoreLimits.rowRoomByteCountMaximum, options.mapByteCount - end))
    }

    /// LMDB reuses free pages first. Half of them are counted on: the youngest are not free yet,
    /// and a body of several pages needs contiguous ones. With snapshots none may be left.
    private var freeByteCount: Int {
        snapshots.haveGrown(environment)
            ? 0 : max(environment.highWaterByteCount - Int(usedByteCount), 0) / 2
    }

    /// Bytes that are certain for rows that are new or grow, beyond the reserve on the disk and
    /// half of the rest of the map.
    var rowRoomByteCount: Int {
        let start = environment.highWaterByteCount - freeByteCount
        let map = (options.mapByteCount - start) / 2
        let disk =
            claim.isSupported
            ? claim.byteCount - start - StoreLimits.reserveByteCount : .max
        // The core counts in pages of 4 KiB; on larger pages a row may need as much more.
        return max(min(map, disk, StoreLimits.rowRoomByteCountMaximum), 0)
            / max(pageByteCount / 4_096, 1)
    }

    /// Claims the space of the first batches of rows before a broker starts, and returns it.
    public mutating func claimRoom(telling state: inout RestoredState) {
        hasDiskSpace = claimRoom(for: StoreBatch())
        state.isFull = !hasRoom
        state.lacksDiskSpace = !hasDiskSpace
        state.rowRoomByteCount = rowRoomByteCount
        state.usedBytes = usedByteCount
        state.softLimitBytes = UInt64(options.softLimitByteCount)
    }

    private mutating func attempt(
        _ batch: StoreBatch, withSends: Bool, into result: inout StoreResult
    ) throws(StoreError) {
        clear(&result)
        var transaction = try WriteTransaction(
            environment: environment, tables: tables, scratch: scratch.bytes)
        if withSends { try LMDBQueueStore.putSends(batch, in: &transaction) }
        let nextMessage = nextMessage(after: batch, withSends: withSends)
        try changeEntries(batch, in: &transaction, into: &result)
        let doomed = try deleteQueues(batch, in: &transaction) { _ in }
        try changeRecords(batch, withSends: withSends, in: &transaction)
        let stamp = MetaStamp(stamp: .now(batch.moment, boot: boot), nextMessage: nextMessage)
        try transaction.putMeta(.stamp, stamp.bytes)
        let used = transaction.usedByteCount
        do throws(StoreError) {
            try transaction.commit()
        } catch {
            // LMDB reports EIO after a short write, as on a disk that becomes full. Nothing has
            // happened: pages are written before the sync, and the meta page after it. If it was
            // the sync that failed, another attempt writes all pages again; after a failed meta
            // page, LMDB begins no other transaction.
            guard error == .syncFailed(code: EIO), claim.isDiskFull else { throw error }
            throw .lmdb(call: "mdb_txn_commit", code: ENOSPC)
        }

        self.nextMessage = nextMessage
        doomedQueues = doomed
        usedByteCount = used
    }

    /// Forgets what an attempt has found.
    mutating func clear(_ result: inout StoreResult) {
        removalTally.removeAll()
        result.tallies.removeAllKeepingCapacity()
        result.trimmed.removeAllKeepingCapacity()
        result.transferred.removeAllKeepingCapacity()
        result.withdrawn.removeAllKeepingCapacity()
        result.missedMoves.removeAllKeepingCapacity()
    }

    /// The next message id after a batch.
    func nextMessage(after batch: StoreBatch, withSends: Bool) -> UInt64 {
        guard withSends, let last = batch.messages.last else { return nextMessage }
        return max(nextMessage, last.id.raw + 1)
    }

    /// Changes the records, after all else of a batch.
    mutating func changeRecords(
        _ batch: StoreBatch, withSends: Bool, in transaction: inout WriteTransaction
    ) throws(StoreError) {
        removalTally.countsDamage = true
        for change in batch.records where withSends || change.part != .send {
            try transaction.change(change)
        }
        try transaction.settleReleases(&removalTally)
    }

    static func putSends(
        _ batch: StoreBatch, in transaction: inout WriteTransaction
    ) throws(StoreError) {
        try batch.blocks.withBytes { (blocks) throws(StoreError) in
            for message in batch.messages {
                try transaction.put(message, block: message.block.bytes(in: blocks))
            }
        }
        for entry in batch.entries {
            try transaction.put(
                StoredEntry(entry), at: EntryKey(queue: entry.queue.raw, number: entry.number))
        }
    }

    mutating func changeEntries(
        _ batch: StoreBatch, in transaction: inout WriteTransaction, into result: inout StoreResult
    ) throws(StoreError) {
        removalTally.countsDamage = false
        for index in batch.moves.indices
        where !(try transaction.move(batch.moves[index], removalTally: &removalTally)) {
            result.missedMoves.append(index)
        }
        for removal in batch.removals {
            try transaction.remove(
                EntryKey(queue: removal.queue.raw, number: removal.number),
                removalTally: &removalTally)
        }
        for acknowledgement in batch.acknowledgements
        where acknowledgement.followsTransfers == 0 {
            try acknowledge(acknowledgement, in: &transaction, into: &result)
        }
        removalTally.countsDamage = true
        for trim in batch.trims {
            result.trimmed.append(try transaction.trim(trim, removalTally: &removalTally))
        }
        removalTally.countsDamage = false
        for change in batch.states {
            try transaction.setState(
                change.state, at: EntryKey(queue: change.queue.raw, number: change.number),
                removalTally: &removalTally)
        }
        try batch.blocks.withBytes { (blocks) throws(StoreError) in
            for replacement in batch.replacements {
                try transaction.replace(
                    replacement.message.raw, block: replacement.block.bytes(in: blocks).bytes)
            }
        }
        // In the order of the transfers that they follow.
        var withdrawals = batch.withdrawals[...]
        try withdraw(&withdrawals, followingTransfers: 0, in: &transaction, into: &result)
        var late = batch.acknowledgements.filter { $0.followsTransfers > 0 }[...]
        for index in batch.transfers.indices {
            // The core counts what stays in the source.
            removalTally.countsDamage = true
            result.transferred.append(
                try transaction.transfer(batch.transfers[index], removalTally: &removalTally))
            while let next = late.first, next.followsTransfers == index + 1 {
                try acknowledge(late.removeFirst(), in: &transaction, into: &result)
            }
            try withdraw(
                &withdrawals, followingTransfers: index + 1, in: &transaction, into: &result)
        }
        removalTally.countsDamage = false
    }

    /// Carries out the first withdrawals of a list that follow so many transfers.
    private mutating func withdraw(
        _ withdrawals: inout ArraySlice<EntryWithdrawal>, followingTransfers count: Int,
        in transaction: inout WriteTransaction, into result: inout StoreResult
    ) throws(StoreError) {
        removalTally.countsDamage = true
        while let next = withdrawals.first, next.followsTransfers == count {
            result.withdrawn.append(
                try transaction.withdraw(withdrawals.removeFirst(), removalTally: &removalTally))
        }
    }

    private mutating func acknowledge(
        _ acknowledgement: QueueAcknowledgement, in transaction: inout WriteTransaction,
        into result: inout StoreResult
    ) throws(StoreError) {
        removalTally.countsDamage = acknowledgement.wantsTally
        let removal = try transaction.remove(
            queue: acknowledgement.queue, throughNumber: acknowledgement.throughNumber,
            removalTally: &removalTally)
        if acknowledgement.wantsTally { result.tallies.append(removal.tally) }
    }

    /// Deletes the batch's queues and continues earlier deletions, within the limit of one
    /// transaction; returns the incomplete ones.
    ///
    /// - Parameter told: gets each deletion, as far as it went.
    mutating func deleteQueues(
        _ batch: StoreBatch, in transaction: inout WriteTransaction, told: (QueueDeletion) -> Void
    ) throws(StoreError) -> [QueueID] {
        var left: [QueueID] = []
        var budget = StoreLimits.deletedEntryMaximum
        for queue in doomedQueues + batch.deletedQueues {
            let removal = try transaction.delete(
                queue: queue, countMaximum: budget, removalTally: &removalTally)
            budget -= removal.examinedCount
            // An incomplete removal ends before the first entry that stays.
            let next = removal.isComplete ? nil : EntryKey(transaction.entries.key)
            told(
                QueueDeletion(
                    queue: queue, throughNumber: next.map { max($0.number, 1) - 1 } ?? .max,
                    isComplete: removal.isComplete))
            if !removal.isComplete { left.append(queue) }
        }
        return left
    }

    // MARK: Reading

    mutating func load(
        _ batch: StoreBatch, into result: inout StoreResult
    ) throws(StoreError) {
        try reader.begin()
        defer { reader.end() }
        for request in batch.loads {
            try reader.load(
                request, now: batch.moment.instant, into: &result, leaving: &leaving)
        }
    }

    /// Looks for expired entries, in the state that the loads left.
    mutating func sweep(
        _ batch: StoreBatch, into result: inout StoreResult
    ) throws(StoreError) {
        try reader.begin()
        defer { reader.end() }
        sweepStart =
            try reader.sweep(
                from: sweepStart, countMaximum: batch.sweepMaximum, now: batch.moment.instant,
                into: &result.swept) ?? EntryKey(queue: 0, number: 0)
    }

    /// Removes entries that the loads found expired or damaged. An entry that was found twice
    /// counts once. Without space even for this, the next load finds them again.
    ///
    /// - Returns: whether there was space.
    @discardableResult
    mutating func removeLeaving(moment: Moment) throws(StoreError) -> Bool {
        guard !leaving.isEmpty else { return true }
        defer { leaving.removeAllKeepingCapacity() }
        let before = removalTally
        keptPages.note(countMaximum: leaving.count, at: moment)
        do throws(StoreError) {
            var transaction = try WriteTransaction(
                environment: environment, tables: tables, scratch: scratch.bytes)
            for item in leaving { try transaction.remove(item, removalTally: &removalTally) }
            try transaction.settleReleases(&removalTally)
            let stamp = MetaStamp(stamp: .now(moment, boot: boot), nextMessage: nextMessage)
            try transaction.putMeta(.stamp, stamp.bytes)
            let used = transaction.usedByteCount
            try transaction.commit()
            usedByteCount = used
        } catch {
            guard error.isFull else { throw error }
            removalTally = before
            return false
        }
        return true
    }
}

extension WriteTransaction {
    /// Removes an entry that loads found expired or damaged, if it is still there.
    mutating func remove(
        _ item: Leaving, removalTally: inout RemovalTally
    ) throws(StoreError) {
        guard try entries.seek(item.key) else { return }
        switch item.cause {
        case .expired:
            if let entry = try take(item.key, removalTally: &removalTally) {
                removalTally.expired.add(item.key.queue, byteCount: UInt64(entry.byteCount))
            }
        case .damaged(let cause):
            try setAside(item.key, cause, removalTally: &removalTally)
        }
    }
}

/// The buffer for keys: the longest is a table and a record's key.
struct KeyScratch: ~Copyable {
    let bytes = UnsafeMutableRawPointer.allocate(
        byteCount: 1 + RecordChange.keyByteCountMaximum, alignment: 8)

    deinit {
        bytes.deallocate()
    }
}

/// What batches may need of the file.
struct RoomNeed {
    private(set) var changeCount = 0
    private(set) var runByteCount = 0
    private(set) var pagesMaximum = 64

    func byteCount(page pageByteCount: Int) -> Int {
        runByteCount + pagesMaximum * pageByteCount
    }

    /// Copy-on-write: every scattered change may need a page of its own, and split it. Long rows
    /// also have contiguous pages of their own.
    mutating func add(_ batch: StoreBatch, page pageByteCount: Int) {
        changeCount += batch.changeCount + batch.transferPageCount
        runByteCount += 2 * batch.blocks.count + batch.longRowByteCount(page: pageByteCount)
        pagesMaximum += 2 * batch.changeCount + batch.transferPageCount
    }
}

extension StoreBatch {
    /// Changes that may each need a page of their own.
    fileprivate var changeCount: Int {
        entries.count + acknowledgements.count + removals.count + states.count + records.count
            + 2 * trims.count + 2 * moves.count
            + 2 * transfers.count + deletedQueues.count + withdrawals.count
            + 2 * replacements.count
    }

    /// Pages for transfers: the entries of a queue are adjacent. LMDB merges a page that is less
    /// than a quarter full, with 16 entries of 60 bytes, and splits one into halves. Each entry
    /// changes one page at its old and one at its new place.
    fileprivate var transferPageCount: Int {
        transfers.reduce(0) { sum, transfer in sum + Int(clamping: transfer.countMaximum / 8) * 2 }
    }

    /// Bytes of the pages for rows that do not fit on half a page.
    fileprivate func longRowByteCount(page: Int) -> Int {
        records.reduce(0) { sum, change in
            let byteCount = (change.value?.count ?? 0) + 2 * SealedValue.headByteCount
            return byteCount <= page / 2 ? sum : sum + (byteCount + page) / page * page
        }
    }
}

// The writer, the only thread that uses the store. Whenever the core has a pending batch, the
// writer takes it, executes it and returns the result. The core fills the next batch meanwhile. No
// timer delays a batch.

import BrokerCore
import CLinuxShims
import NetTransport
import QueueStore

/// Executes the core's batches until it is stopped.
struct StoreWriter: ~Copyable {
    private let store: Box<LMDBQueueStore>
    private let shared: SharedBroker
    private let clock: BrokerClock
    private let backups: BackupRunner
    /// The shard's place, which backups name.
    private let place: Int
    private var batch = StoreBatch()
    private var result = StoreResult()
    /// When the sizes of the tables are read again.
    private var tablesDue: UInt64 = 0
    private static let tablesIntervalNanoseconds: UInt64 = 1_000_000_000

    init(
        store: Box<LMDBQueueStore>, shared: SharedBroker, clock: BrokerClock,
        backups: BackupRunner, place: Int
    ) {
        self.backups = backups
        self.place = place
        self.store = store
        self.shared = shared
        self.clock = clock
        let sizes = store.value.tableByteCounts()
        shared.commits.tables.withLock { $0 = sizes }
    }

    /// Runs on its own thread. A batch that is pending at the stop is still stored.
    ///
    /// - Throws: an error that makes the store unusable. The process must end, because the state of
    ///   the last batch on disk is unknown.
    mutating func run() throws(StoreError) {
        var isRunning = true
        while isRunning {
            isRunning = shared.writerSignal.wait()
            while takeBatch() {
                try carryOut()
                shared.finish(result, at: clock.moment())
            }
            backups.serve(store.value, of: place)
            try releasePages()
        }
    }

    /// Executes the batch and measures it. Batches that change nothing commit nothing.
    private mutating func carryOut() throws(StoreError) {
        guard batch.changesStore else { return try store.value.carryOut(batch, into: &result) }
        let begin = EventLoop.readNanoseconds()
        try store.value.carryOut(batch, into: &result)
        let end = EventLoop.readNanoseconds()
        let commits = shared.commits
        commits.times.record((end - begin) / 1_000)
        commits.messageCounts.record(UInt64(batch.messages.count))
        commits.byteCounts.record(UInt64(batch.blocks.count))
        if end >= tablesDue {
            let sizes = store.value.tableByteCounts()
            commits.tables.withLock { $0 = sizes }
            tablesDue = end + Self.tablesIntervalNanoseconds
        }
    }

    /// Returns the memory of large batches to the system once no batch needs it. Snapshots are made
    /// on this thread, so none can begin meanwhile.
    private mutating func releasePages() throws(StoreError) {
        let now = clock.moment().instant
        guard store.value.keepsPages(at: now), !backups.isRunning else { return }
        try store.value.releasePages(at: now)
        malloc_trim(0)
    }

    private mutating func takeBatch() -> Bool {
        let clock = clock
        var batch = StoreBatch()
        swap(&batch, &self.batch)
        let hasBatch = shared.enter { state in
            state.broker.takeBatch(into: &batch, at: clock.moment())
        }
        swap(&batch, &self.batch)
        return hasBatch
    }
}

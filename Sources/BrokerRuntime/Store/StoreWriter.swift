// The writer: the one thread that touches the store. It takes a batch whenever the core has one and
// it is free, and brings the result back; the next batch gathers meanwhile. There is no timer in
// the way.

import BrokerCore
import QueueStore

/// Carries batches between core and store until it is stopped.
struct StoreWriter: ~Copyable {
    private var store: LMDBQueueStore
    private let shared: SharedBroker
    private let clock: BrokerClock
    private let backups: BackupRunner
    private var batch = StoreBatch()
    private var result = StoreResult()

    init(
        store: consuming LMDBQueueStore, shared: SharedBroker, clock: BrokerClock,
        backups: BackupRunner
    ) {
        self.backups = backups
        self.store = store
        self.shared = shared
        self.clock = clock
    }

    /// Runs on its own thread. What is gathered when the stop comes is still stored.
    ///
    /// - Throws: what makes the store unusable; the process must end, since nobody knows what the
    ///   disk has of the last batch.
    mutating func run() throws(StoreError) {
        var isRunning = true
        while isRunning {
            isRunning = shared.writerSignal.wait()
            while takeBatch() {
                try store.carryOut(batch, into: &result)
                shared.bring(result, at: clock.moment())
            }
            backups.serve(store)
        }
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

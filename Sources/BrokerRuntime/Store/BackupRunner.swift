// Makes backups of the running broker's stores, one at a time, on a separate thread. A store
// belongs to the thread of its writer, which creates a snapshot between two batches and continues
// to commit. The log records the result of every backup.

import Administration
import Glibc
import QueueStore
import Threads

/// Makes backups until it is stopped.
final class BackupRunner: Sendable {
    private struct Job {
        var number: UInt64
        var directory: String
        var progress = CopyProgress()
        var outcome: Result<Report, StoreError>?
    }

    /// What was copied, of all shards.
    private struct Report {
        var byteCount: Int
        var findings: [String]
        var findingCount: Int
    }

    private enum Handover {
        case idle
        /// The snapshot of the store of the shard at this place.
        case requested(place: Int)
        case ready(Result<StoreSnapshot, StoreError>)
    }

    private struct State {
        var job: Job?
        var handover = Handover.idle
        var thread: Thread?
        var isStopped = false
        /// The place of the store whose snapshot is wanted or held.
        var place: Int?
    }

    private let state = Locked(State())
    private let snapshotReady = WakeSignal()
    private let map: ShardMap
    private let dataDirectory: String
    private let log: LogWriter

    init(_ map: ShardMap, of dataDirectory: String, log: LogWriter) {
        self.map = map
        self.dataDirectory = dataDirectory
        self.log = log
    }

    /// Starts a backup.
    ///
    /// - Parameter wakeWriter: wakes the thread of a shard's writer.
    /// - Returns: its status; nil if another backup is running or the broker is stopping.
    func start(
        _ directory: String, wakeWriter: @escaping @Sendable (_ place: Int) -> Void
    ) throws(StoreError) -> BackupStatus? {
        // Errors of the directory are reported before the thread starts.
        try LMDBQueueStore.checkDestination(directory)
        let previous: (isFree: Bool, thread: Thread?) = state.withLock { state in
            if state.isStopped { return (false, nil) }
            if let job = state.job, job.outcome == nil { return (false, nil) }
            defer { state.thread = nil }
            return (true, state.thread)
        }
        guard previous.isFree else { return nil }
        previous.thread?.join()
        // Only one thread calls this function, so no other backup has started since.
        state.withLock { state in
            state.job = Job(number: (state.job?.number ?? 0) + 1, directory: directory)
            state.handover = .idle
            state.thread = Thread.attempt(name: "backup") { self.run(wakeWriter) }
            guard state.thread == nil else { return }
            state.job?.outcome = .failure(
                .system(call: "pthread_create", path: directory, errno: EAGAIN))
        }
        return status()
    }

    /// Whether a directory is among those of the shards' stores, where the next start would take a
    /// backup for a store.
    func isAmongStores(_ directory: String) -> Bool {
        "\(directory)/".hasPrefix("\(dataDirectory)/\(ShardMap.folder)/")
    }

    /// The progress or result of the last backup; nil if there was none.
    func status() -> BackupStatus? {
        state.withLock { state in
            guard let job = state.job else { return nil }
            var status = BackupStatus(number: job.number, directory: job.directory)
            status.readByteCount = UInt64(job.progress.doneByteCount)
            status.totalByteCount = UInt64(job.progress.totalByteCount)
            if map.count > 1 { status.hasShards = true }
            switch job.outcome {
            case nil: break
            case .success(let report):
                status.isFinished = true
                status.byteCount = UInt64(report.byteCount)
                status.findings = Array(
                    report.findings.prefix(BackupStatus.findingsMaximum))
            case .failure(let error):
                status.isFinished = true
                status.failure = "\(error)"
            }
            return status
        }
    }

    /// Whether a backup may hold a snapshot of the store, or be about to.
    var isRunning: Bool { state.withLock { $0.job.map { $0.outcome == nil } ?? false } }

    /// Cancels the running backup and waits until it has ended. The writer must still be running.
    func stop() {
        let thread: Thread? = state.withLock { state in
            state.isStopped = true
            state.job?.progress.cancel()
            // The store of a node that is not open yet would have none for a long time.
            if case .requested = state.handover { state.handover = .ready(.failure(.cancelled)) }
            defer { state.thread = nil }
            return state.thread
        }
        snapshotReady.notify()
        thread?.join()
    }

    /// Cancels the running backup if it has a snapshot of a shard's store or wants one, and returns
    /// when it has none. Called on the thread of the store's writer, or when that has ended, before
    /// the store is closed.
    func end(of place: Int) {
        let isConcerned = state.withLock { state in
            guard state.place == place else { return false }
            state.job?.progress.cancel()
            if case .requested = state.handover { state.handover = .ready(.failure(.cancelled)) }
            return true
        }
        guard isConcerned else { return }
        snapshotReady.notify()
        while state.withLock({ $0.place == place }) { _ = poll(nil, 0, 1) }
    }

    /// Creates the requested snapshot, if one of this shard is requested. Runs on the thread of its
    /// writer.
    func serve(_ store: borrowing LMDBQueueStore, of place: Int) {
        let isRequested = state.withLock {
            if case .requested(place) = $0.handover { true } else { false }
        }
        guard isRequested else { return }
        let snapshot: Result<StoreSnapshot, StoreError>
        do throws(StoreError) {
            snapshot = .success(try store.snapshot())
        } catch {
            snapshot = .failure(error)
        }
        let isWanted = state.withLock { state in
            guard case .requested(place) = state.handover else { return false }
            state.handover = .ready(snapshot)
            return true
        }
        if isWanted {
            snapshotReady.notify()
        } else if case .success(let snapshot) = snapshot {
            snapshot.end()
        }
    }

    // MARK: The backup's thread

    private func run(_ wakeWriter: (_ place: Int) -> Void) {
        guard let job = state.withLock({ $0.job }) else { return }
        log.write(
            .info, .backupStarted,
            fields: ["number": .number(job.number), "directory": .text(job.directory)])
        let outcome: Result<Report, StoreError>
        do throws(StoreError) {
            let reports = try ShardCopies.make(map, in: job.directory) {
                (place, directory) throws(StoreError) in
                state.withLock { state in
                    state.place = place
                    state.handover = .requested(place: place)
                }
                defer { state.withLock { $0.place = nil } }
                wakeWriter(place)
                let snapshot = try takeSnapshot().get()
                defer { snapshot.end() }
                return try snapshot.copy(
                    to: directory, besides: place == 0 ? [ShardMap.folder] : [],
                    progress: job.progress)
            }
            outcome = .success(
                Report(
                    byteCount: reports.reduce(0) { $0 + $1.byteCount },
                    findings: reports.flatMap(\.verification.findings),
                    findingCount: reports.reduce(0) { $0 + $1.verification.findingCount }))
        } catch {
            outcome = .failure(error)
        }
        logOutcome(outcome, of: job)
        state.withLock { $0.job?.outcome = outcome }
    }

    private func takeSnapshot() -> Result<StoreSnapshot, StoreError> {
        while true {
            _ = snapshotReady.wait()
            let snapshot: Result<StoreSnapshot, StoreError>? = state.withLock { state in
                guard case .ready(let snapshot) = state.handover else { return nil }
                state.handover = .idle
                return snapshot
            }
            if let snapshot { return snapshot }
        }
    }

    private func logOutcome(_ outcome: Result<Report, StoreError>, of job: Job) {
        switch outcome {
        case .success(let report):
            log.write(
                .info, .backupFinished,
                fields: [
                    "number": .number(job.number), "directory": .text(job.directory),
                    "bytes": .number(report.byteCount),
                    "findings": .number(report.findingCount),
                ])
        case .failure(let error):
            log.write(
                .error, .backupFailed,
                fields: [
                    "number": .number(job.number), "directory": .text(job.directory),
                    "detail": .text("\(error)"),
                ])
        }
    }
}

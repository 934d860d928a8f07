// Backups of the running broker's store: one at a time, on a thread of its own. The store belongs
// to the writer's thread, which hands out a snapshot between two batches and goes on committing.
// How a backup ended is in the log, whether anybody waits for it or not.

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
        var outcome: Result<CopyReport, StoreError>?
    }

    private enum Handover {
        case idle
        case wanted
        case ready(Result<StoreSnapshot, StoreError>)
    }

    private struct State {
        var job: Job?
        var handover = Handover.idle
        var thread: Thread?
        var isStopped = false
    }

    private let state = Locked(State())
    private let snapshotReady = WakeSignal()
    private let log: LogWriter

    init(log: LogWriter) {
        self.log = log
    }

    /// Starts a backup.
    ///
    /// - Parameter wakeWriter: gets the writer's attention.
    /// - Returns: its status, or nil where another one is under way or the broker stops.
    func start(
        _ directory: String, wakeWriter: @escaping @Sendable () -> Void
    ) throws(StoreError) -> BackupStatus? {
        // What is wrong with the directory is said at once.
        try LMDBQueueStore.checkDestination(directory)
        let previous: (isFree: Bool, thread: Thread?) = state.withLock { state in
            if state.isStopped { return (false, nil) }
            if let job = state.job, job.outcome == nil { return (false, nil) }
            defer { state.thread = nil }
            return (true, state.thread)
        }
        guard previous.isFree else { return nil }
        previous.thread?.join()
        // One thread asks: what was free is free still.
        state.withLock { state in
            state.job = Job(number: (state.job?.number ?? 0) + 1, directory: directory)
            state.handover = .wanted
            state.thread = Thread.attempt(name: "backup") { self.run(wakeWriter) }
            guard state.thread == nil else { return }
            state.handover = .idle
            state.job?.outcome = .failure(
                .system(call: "pthread_create", path: directory, errno: EAGAIN))
        }
        return status()
    }

    /// How far the last backup has come, or how it ended; nil where there was none.
    func status() -> BackupStatus? {
        state.withLock { state in
            guard let job = state.job else { return nil }
            var status = BackupStatus(number: job.number, directory: job.directory)
            status.readByteCount = UInt64(job.progress.doneByteCount)
            status.totalByteCount = UInt64(job.progress.totalByteCount)
            switch job.outcome {
            case nil: break
            case .success(let report):
                status.isFinished = true
                status.byteCount = UInt64(report.byteCount)
                status.findings = Array(
                    report.verification.findings.prefix(BackupStatus.findingsMaximum))
            case .failure(let error):
                status.isFinished = true
                status.failure = "\(error)"
            }
            return status
        }
    }

    /// Cancels the backup that is under way and waits until it has ended. The writer still runs.
    func stop() {
        let thread: Thread? = state.withLock { state in
            state.isStopped = true
            state.job?.progress.cancel()
            defer { state.thread = nil }
            return state.thread
        }
        thread?.join()
    }

    /// Hands out the snapshot that is wanted, on the writer's thread.
    func serve(_ store: borrowing LMDBQueueStore) {
        let isWanted = state.withLock {
            if case .wanted = $0.handover { true } else { false }
        }
        guard isWanted else { return }
        let snapshot: Result<StoreSnapshot, StoreError>
        do throws(StoreError) {
            snapshot = .success(try store.snapshot())
        } catch {
            snapshot = .failure(error)
        }
        state.withLock { $0.handover = .ready(snapshot) }
        snapshotReady.raise()
    }

    // MARK: The backup's thread

    private func run(_ wakeWriter: () -> Void) {
        guard let job = state.withLock({ $0.job }) else { return }
        log.write(
            .info, .backupStarted,
            ["number": .number(job.number), "directory": .text(job.directory)])
        let outcome: Result<CopyReport, StoreError>
        do throws(StoreError) {
            wakeWriter()
            let snapshot = try takeSnapshot().get()
            defer { snapshot.end() }
            outcome = .success(try snapshot.copy(to: job.directory, progress: job.progress))
        } catch {
            outcome = .failure(error)
        }
        tell(job, outcome)
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

    private func tell(_ job: Job, _ outcome: Result<CopyReport, StoreError>) {
        switch outcome {
        case .success(let report):
            log.write(
                .info, .backupFinished,
                [
                    "number": .number(job.number), "directory": .text(job.directory),
                    "bytes": .number(report.byteCount),
                    "findings": .number(report.verification.findingCount),
                ])
        case .failure(let error):
            log.write(
                .error, .backupFailed,
                [
                    "number": .number(job.number), "directory": .text(job.directory),
                    "detail": .text("\(error)"),
                ])
        }
    }
}

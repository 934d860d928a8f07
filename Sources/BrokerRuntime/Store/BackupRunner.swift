// Makes backups of the running broker's store, one at a time, on a separate thread. The writer's
// thread owns the store; it creates a snapshot between two batches and continues to commit. The log
// records the result of every backup.

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
        case requested
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
    /// - Parameter wakeWriter: wakes the writer's thread.
    /// - Returns: its status; nil if another backup is running or the broker is stopping.
    func start(
        _ directory: String, wakeWriter: @escaping @Sendable () -> Void
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
            state.handover = .requested
            state.thread = Thread.attempt(name: "backup") { self.run(wakeWriter) }
            guard state.thread == nil else { return }
            state.handover = .idle
            state.job?.outcome = .failure(
                .system(call: "pthread_create", path: directory, errno: EAGAIN))
        }
        return status()
    }

    /// The progress or result of the last backup; nil if there was none.
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

    /// Whether a backup may hold a snapshot of the store, or be about to.
    var isRunning: Bool { state.withLock { $0.job.map { $0.outcome == nil } ?? false } }

    /// Cancels the running backup and waits until it has ended. The writer must still be running.
    func stop() {
        let thread: Thread? = state.withLock { state in
            state.isStopped = true
            state.job?.progress.cancel()
            defer { state.thread = nil }
            return state.thread
        }
        thread?.join()
    }

    /// Creates the requested snapshot, if there is a request. Runs on the writer's thread.
    func serve(_ store: borrowing LMDBQueueStore) {
        let isRequested = state.withLock {
            if case .requested = $0.handover { true } else { false }
        }
        guard isRequested else { return }
        let snapshot: Result<StoreSnapshot, StoreError>
        do throws(StoreError) {
            snapshot = .success(try store.snapshot())
        } catch {
            snapshot = .failure(error)
        }
        state.withLock { $0.handover = .ready(snapshot) }
        snapshotReady.notify()
    }

    // MARK: The backup's thread

    private func run(_ wakeWriter: () -> Void) {
        guard let job = state.withLock({ $0.job }) else { return }
        log.write(
            .info, .backupStarted,
            fields: ["number": .number(job.number), "directory": .text(job.directory)])
        let outcome: Result<CopyReport, StoreError>
        do throws(StoreError) {
            wakeWriter()
            let snapshot = try takeSnapshot().get()
            defer { snapshot.end() }
            outcome = .success(try snapshot.copy(to: job.directory, progress: job.progress))
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

    private func logOutcome(_ outcome: Result<CopyReport, StoreError>, of job: Job) {
        switch outcome {
        case .success(let report):
            log.write(
                .info, .backupFinished,
                fields: [
                    "number": .number(job.number), "directory": .text(job.directory),
                    "bytes": .number(report.byteCount),
                    "findings": .number(report.verification.findingCount),
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

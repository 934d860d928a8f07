// One committed state of a store, held while it is copied. LMDB does not reuse pages that a read
// transaction sees, so commits continue meanwhile, and the file may grow. Every page is read with
// pread(2) and checked before it is written: a damaged store gives an error and no copy.

import BrokerCore
import CLMDB
import Glibc

/// A state of a store, until ``end()``. Only one thread at a time may use it.
public final class StoreSnapshot: @unchecked Sendable {
    private let transaction: OpaquePointer
    private let file: PageFile
    private let meta: StoreMeta

    /// Takes the state after the last commit, even while another process commits.
    init(_ environment: borrowing Environment, _ file: PageFile) throws(StoreError) {
        for _ in 0..<StoreSnapshot.attemptMaximum {
            var begun: OpaquePointer?
            try check(
                mdb_txn_begin(environment.handle, nil, UInt32(MDB_RDONLY), &begun), "mdb_txn_begin")
            do throws(StoreError) {
                let meta = try file.meta()
                if Int(exactly: meta.commit) == mdb_txn_id(begun) {
                    (transaction, self.file, self.meta) = (begun!, file, meta)
                    return
                }
            } catch {
                mdb_txn_abort(begun)
                throw error
            }
            mdb_txn_abort(begun)
        }
        throw .damagedPage(number: 0, finding: "the meta pages do not say what the readers see")
    }

    /// A commit of another process may fall between two system calls, but rarely does so
    /// repeatedly.
    private static let attemptMaximum = 100

    /// Bytes of a copy.
    var byteCount: UInt64 { UInt64((meta.lastPage + 1) * meta.pageByteCount) }

    /// Releases the state. Called once, before the store is closed.
    public func end() {
        mdb_txn_abort(transaction)
    }

    /// Copies the state into a new or empty directory, checks the copy, and then renames it to its
    /// final name. If that fails, the directory is left as it was.
    ///
    /// The first opening of the copy gives it a new identity, so that the core renews all epochs:
    /// the copy lacks everything that was acknowledged after it was made.
    ///
    /// - Parameters:
    ///   - besides: names of files that may exist in the directory.
    ///   - isNode: the copy is of a node for another node of its cluster. It keeps its identity and
    ///     its position in the log, from which the other node goes on; a backup loses both.
    public func copy(
        to destination: String, besides: Set<String> = [], isNode: Bool = false,
        progress: CopyProgress? = nil
    ) throws(StoreError) -> CopyReport {
        // Each page is read twice: in the store, and in the copy.
        progress?.begin(totalByteCount: 2 * Int(byteCount))
        let place = try CopyDestination(destination, besides: besides)
        do throws(StoreError) {
            let stagingFile = try StagingFile(directory: destination)
            try fill(stagingFile, progress)
            let report = try settle(stagingFile, isNode: isNode, progress)
            try stagingFile.publish()
            return report
        } catch {
            place.clear()
            throw error
        }
    }

    private func fill(_ stagingFile: StagingFile, _ progress: CopyProgress?) throws(StoreError) {
        let descriptor = open(stagingFile.path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            throw .system(call: "open", path: stagingFile.path, errno: errno)
        }
        defer { close(descriptor) }
        try PageCheck.copy(file, meta, to: descriptor, path: stagingFile.path, progress: progress)
    }

    /// Marks the staging file as a backup, which also syncs it, reads it again and checks it.
    private func settle(
        _ stagingFile: StagingFile, isNode: Bool, _ progress: CopyProgress?
    ) throws(StoreError) -> CopyReport {
        let found: UInt32
        do {
            let environment = try Environment(
                stagingFile: stagingFile, mapByteCount: StoreOptions().mapByteCount)
            // It may have an older format: the first opening of the copy upgrades it.
            let formats = StoreFormats.known
            found = try storedFormat(environment, directory: file.path) ?? formats.current
            try formats.check(found)
            let scratch = KeyScratch()
            let transaction = try WriteTransaction(
                environment: environment, making: formats.newTables(since: found),
                scratch: scratch.bytes)
            let isBackup = try metaValue(
                .backup, transaction: transaction.handle, table: transaction.tables.meta
            ) { _ in true }
            // A backup is written completely, so its length is known. The last pages of a store may
            // be free.
            try require(
                isBackup == nil || (meta.lastPage + 1) * meta.pageByteCount <= meta.byteCount,
                page: meta.lastPage, "the file is too short")
            if !isNode {
                try transaction.putMeta(.backup, [])
                try transaction.deleteMeta(.position)
            }
            try transaction.commit()
        }
        let copy = try PageFile(path: stagingFile.path)
        copy.forgetCachedPages()
        var report = VerificationReport()
        try LMDBQueueStore.verify(stagingFile, format: found, progress: progress, into: &report)
        if report.preventsStart {
            throw .unusableCopy(finding: report.fatalFinding ?? "", count: report.findingCount)
        }
        return CopyReport(byteCount: try copy.meta().byteCount, verification: report)
    }
}

/// The result of a copy.
public struct CopyReport: Hashable, Sendable {
    public let byteCount: Int
    /// Damage in the original, and so in the copy, that does not prevent a start.
    public let verification: VerificationReport
}

extension LMDBQueueStore {
    /// The only file of a store's directory that a backup must contain.
    public static let dataFileName = Environment.dataFile

    /// Takes the state after the last commit, so that another thread can copy it while this one
    /// continues. It must be ended before the store is closed.
    public func snapshot() throws(StoreError) -> StoreSnapshot {
        try StoreSnapshot(
            environment,
            PageFile(duplicating: environment.fileDescriptor, path: Environment.dataFile))
    }

    /// Copies the state after the last commit, as
    /// ``StoreSnapshot/copy(to:besides:isNode:progress:)`` does, while this thread waits.
    @discardableResult
    public func copy(to destination: String) throws(StoreError) -> CopyReport {
        let snapshot = try snapshot()
        defer { snapshot.end() }
        return try snapshot.copy(to: destination)
    }

    /// Copies the store of a directory that another process may have open, but not this process.
    /// Meanwhile the other process does not reuse pages, so its file may grow.
    @discardableResult
    public static func copy(
        directory: String, to destination: String, besides: Set<String> = [],
        isNode: Bool = false, options: StoreOptions = StoreOptions()
    ) throws(StoreError) -> CopyReport {
        let file = try PageFile(path: directory + "/" + Environment.dataFile)
        // LMDB maps the file and reads both meta pages at once.
        _ = try file.meta()
        let environment = try Environment(
            directory: directory, lock: nil, mapByteCount: options.mapByteCount, isReadOnly: true)
        defer { withExtendedLifetime(environment) {} }
        let snapshot = try StoreSnapshot(environment, file)
        defer { snapshot.end() }
        return try snapshot.copy(to: destination, besides: besides, isNode: isNode)
    }
}

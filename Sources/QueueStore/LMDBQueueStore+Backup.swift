// Backups: a consistent, compact copy of a store while it runs. It knows nothing of where copies
// are kept or how often they are made.

import BrokerCore
import CLMDB
import Glibc

extension LMDBQueueStore {
    /// The one file in a store's directory that a backup has to keep.
    public static let dataFileName = Environment.dataFile

    /// Copies the state after the last commit into a directory that is new or empty. Commits wait
    /// until it is done; a backup that must not hold them back is made by another process with
    /// ``copy(directory:to:options:)``.
    ///
    /// The first opening of the copy gives it an identity of its own, so that the core renews
    /// all epochs: what was promised after the copy was made is not in it.
    public func copy(to destination: String) throws(StoreError) {
        try LMDBQueueStore.copy(environment, to: destination)
    }

    /// Copies the store in a directory that another process may have open; never one that this
    /// process has open. Meanwhile the other process does not reuse pages, so its file may grow.
    public static func copy(
        directory: String, to destination: String, options: StoreOptions = StoreOptions()
    ) throws(StoreError) {
        let environment = try Environment(
            directory: directory, lock: nil, mapByteCount: options.mapByteCount, isReadOnly: true)
        try copy(environment, to: destination)
    }

    private static func copy(
        _ environment: borrowing Environment, to destination: String
    ) throws(StoreError) {
        // It may be of an older format: the copy's first opening upgrades it.
        let formats = StoreFormats.known
        let found = try storedFormat(environment, directory: destination) ?? formats.current
        try formats.check(found)
        let lock = try DirectoryLock(directory: destination, createsDirectory: true)
        guard access("\(destination)/\(Environment.dataFile)", F_OK) != 0 else {
            throw .holdsStore(directory: destination)
        }
        let draft = try Draft(directory: destination)
        try fill(draft, from: environment)
        try markAsBackup(draft, making: formats.newTables(since: found))
        try draft.publish()
        withExtendedLifetime(lock) {}
    }

    private static func fill(
        _ draft: Draft, from environment: borrowing Environment
    ) throws(StoreError) {
        let descriptor = open(draft.path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw .system(call: "open", path: draft.path, errno: errno) }
        defer { Glibc.close(descriptor) }
        try check(
            mdb_env_copyfd2(environment.handle, descriptor, UInt32(MDB_CP_COMPACT)),
            "mdb_env_copyfd2")
    }

    private static func markAsBackup(
        _ draft: Draft, making missing: Set<String>
    ) throws(StoreError) {
        let environment = try Environment(
            draft: draft, mapByteCount: StoreOptions().mapByteCount)
        let scratch = KeyScratch()
        let transaction = try WriteTransaction(
            environment: environment, making: missing, scratch: scratch.bytes)
        try transaction.putMeta(.backup, [])
        // Syncs what was copied, too.
        try transaction.commit()
    }
}

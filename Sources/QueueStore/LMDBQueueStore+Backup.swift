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
        let lock = try DirectoryLock(directory: destination, createsDirectory: true)
        // LMDB refuses to write over a data file, but not in words.
        guard access("\(destination)/\(Environment.dataFile)", F_OK) != 0 else {
            throw .holdsStore(directory: destination)
        }
        try check(
            mdb_env_copy2(environment.handle, destination, UInt32(MDB_CP_COMPACT)),
            "mdb_env_copy2")
        let dataFile = destination + "/" + Environment.dataFile
        guard chmod(dataFile, 0o600) == 0 else {
            throw .system(call: "chmod", path: dataFile, errno: errno)
        }
        try markAsBackup(destination, lock: lock)
    }

    private static func markAsBackup(
        _ directory: String, lock: consuming DirectoryLock
    ) throws(StoreError) {
        let environment = try Environment(
            directory: directory, lock: lock, mapByteCount: StoreOptions().mapByteCount)
        let scratch = KeyScratch()
        let transaction = try WriteTransaction(
            environment: environment, isNewStore: false, scratch: scratch.bytes)
        try transaction.putMeta(.backup, [])
        // Synced, as every commit: a backup is whole once this returns.
        try transaction.commit()
    }
}

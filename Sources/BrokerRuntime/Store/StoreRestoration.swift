// `martletd --restore`: a backup becomes the store of a broker that has none.

import Administration
import Configuration
import QueueStore

/// `martletd --restore DIR`: makes a backup the store of a data directory that has none.
public enum StoreRestoration {
    /// Restores a backup of the stores of all shards. Devices get a new epoch at their next login
    /// and resume at 0, because the backup lacks the numbers that were assigned after it was made.
    ///
    /// - Returns: the damage in the backup that does not prevent a start.
    @discardableResult
    public static func run(
        _ settings: BrokerSettings, from backup: String
    ) throws(StartError) -> [String] {
        let map = ShardMap(settings.shards)
        try ShardLayout(settings, in: backup).checkBackup()
        try ShardLayout(settings, in: settings.dataDirectory).checkDefault()
        do throws(StoreError) {
            let reports = try ShardCopies.make(map, in: settings.dataDirectory) {
                (place, directory) throws(StoreError) in
                try LMDBQueueStore.copy(
                    directory: map.directory(of: place, in: backup), to: directory,
                    besides: place == 0 ? filesBesideStore : [], options: StoreOptions(settings))
            }
            return reports.flatMap(\.verification.findings)
        } catch {
            throw .store(error)
        }
    }

    /// The files of a broker in its data directory besides the store, which remain when the store
    /// is removed. LMDB recreates its lock file.
    private static let filesBesideStore: Set = [
        AdministrationLine.socketName, ClusterLine.socketName, BrokerServer.ticketKeyFile,
        Operators.fileName,
        DevelopmentSetup.variablesFile,
        DevelopmentSetup.certificateFolder, "lock.mdb", ShardMap.folder,
    ]
}

extension StoreOptions {
    init(_ settings: BrokerSettings) {
        self.init(
            mapByteCount: settings.store.mapBytes,
            softLimitByteCount: settings.store.softLimitBytes,
            checksPages: settings.store.checksPages)
    }
}

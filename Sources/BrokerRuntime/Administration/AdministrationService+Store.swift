// Operations on the store: a backup while the broker runs.

import Administration
import QueueStore

extension AdministrationService {
    func backUp(_ request: BackUpStore) throws(AdministrationRefusal) -> BackupStatus {
        guard request.directory.hasPrefix("/") else {
            throw AdministrationRefusal(
                .payloadFormatInvalid,
                "\(request.directory) is not an absolute path; the broker has a working directory "
                    + "of its own")
        }
        guard !backups.isAmongStores(request.directory) else {
            throw AdministrationRefusal(
                .payloadFormatInvalid,
                "\(request.directory) is among the stores of the shards, where the next start "
                    + "would take the backup for one")
        }
        for (place, core) in shards.cores.enumerated()
        where !core.takesEvents && core.standbyRows.withLock({ $0 == nil }) {
            throw AdministrationRefusal(
                .unspecifiedError,
                "the store of the shard \(shards.map.names[place]) is not open yet")
        }
        do throws(StoreError) {
            let status = try backups.start(request.directory) { [shards] place in
                shards.cores[place].writerSignal.notify()
            }
            if let status { return status }
        } catch {
            throw AdministrationRefusal(.unspecifiedError, "\(error)")
        }
        let other = backups.status()?.directory ?? "another directory"
        throw AdministrationRefusal(.unspecifiedError, "a backup into \(other) is under way")
    }

    func showBackup() -> ShowBackup.Reply { ShowBackup.Reply(backup: backups.status()) }
}

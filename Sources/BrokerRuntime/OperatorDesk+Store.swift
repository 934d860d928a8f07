// What an operator does with the store: copied while the broker runs.

import Administration
import Glibc
import QueueStore

extension OperatorDesk {
    func backUp(_ request: BackUpStore) throws(AdministrationRefusal) -> BackUpStore.Reply {
        guard request.directory.hasPrefix("/") else {
            throw AdministrationRefusal(
                .payloadFormatInvalid,
                "\(request.directory) is not an absolute path; the broker has a working directory "
                    + "of its own")
        }
        do throws(StoreError) {
            try backups.request(request.directory) { shared.writerSignal.raise() }
        } catch {
            throw AdministrationRefusal(.unspecifiedError, "\(error)")
        }
        var information = stat()
        let isThere = stat("\(request.directory)/\(LMDBQueueStore.dataFileName)", &information) == 0
        let byteCount = isThere ? UInt64(information.st_size) : 0
        log.write(
            .info, .administration,
            [
                "request": "store.backup", "directory": .text(request.directory),
                "bytes": .number(byteCount),
            ])
        return BackUpStore.Reply(byteCount: byteCount)
    }
}

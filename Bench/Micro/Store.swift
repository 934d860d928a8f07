// A real store for cases that need one, in a directory of its own.

import BrokerCore
import Glibc
import QueueStore

/// Nothing makes room for others.
var roomyLimits: CoreLimits {
    var limits = CoreLimits()
    limits.historyCountMaximum = .max
    limits.historyBytesMaximum = .max / 4
    limits.historyBytesPerAppMaximum = .max / 4
    limits.queueCountMaximum = .max
    limits.queueBytesMaximum = .max / 4
    return limits
}

func makeDirectory() -> String {
    var template = Array("/tmp/martlet-micro-XXXXXX".utf8CString)
    return String(cString: mkdtemp(&template))
}

func remove(_ directory: String) {
    for name in ["data.mdb", "lock.mdb", "martlet.lock"] { unlink(directory + "/" + name) }
    rmdir(directory)
}

func openStore(_ directory: String) -> LMDBQueueStore {
    do throws(StoreError) {
        return try LMDBQueueStore(directory: directory)
    } catch {
        preconditionFailure("\(error)")
    }
}

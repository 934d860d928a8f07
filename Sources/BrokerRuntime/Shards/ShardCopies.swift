// Copies of the stores of all shards, for backups and restores: a directory has that of the default
// shard itself, and those of the others in folders, as a data directory has.

import Glibc
import QueueStore

enum ShardCopies {
    /// Makes a copy of each store, or none. That of the default shard comes last: a directory
    /// without it is no backup, so that an interrupted one is never taken for whole.
    ///
    /// - Parameters:
    ///   - root: the directory of the copies.
    ///   - copy: copies the store of the shard at a place into a directory.
    /// - Returns: what was copied, by place.
    static func make(
        _ map: ShardMap, in root: String,
        _ copy: (_ place: Int, _ directory: String) throws(StoreError) -> CopyReport
    ) throws(StoreError) -> [CopyReport] {
        guard map.count > 1 else { return [try copy(0, root)] }
        let folder = "\(root)/\(ShardMap.folder)"
        var made: [String] = []
        var reports: [CopyReport] = []
        do throws(StoreError) {
            for directory in [root, folder] {
                if mkdir(directory, 0o700) == 0 {
                    made.append(directory)
                } else if errno != EEXIST {
                    throw .system(call: "mkdir", path: directory, errno: errno)
                }
            }
            for place in 1..<map.count {
                reports.append(try copy(place, map.directory(of: place, in: root)))
            }
            return [try copy(0, root)] + reports
        } catch {
            for place in 1..<reports.count + 1 {
                LMDBQueueStore.removeCopy(map.directory(of: place, in: root))
            }
            for directory in made.reversed() { rmdir(directory) }
            throw error
        }
    }
}

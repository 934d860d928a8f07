// A new data file: written in a folder of its own, and given the store's name when all of it is on
// the disk. So a directory holds a whole store or none, also where the power went while the first
// pages were written: nobody had been told anything by then, and the next start begins anew.

import Glibc

/// A data file that is not the store's yet. Whoever has one holds the directory's lock.
struct StagingFile {
    static let folderName = "new"

    private let directory: String

    /// Makes the folder, without what an earlier attempt left in it.
    init(directory: String) throws(StoreError) {
        try StagingFile.removeLeftover(in: directory)
        self.directory = directory
        guard mkdir(folder, 0o700) == 0 else {
            throw .system(call: "mkdir", path: folder, errno: errno)
        }
    }

    /// Removes what an earlier attempt left in a directory.
    static func removeLeftover(in directory: String) throws(StoreError) {
        let folder = directory + "/" + folderName
        guard unlink(folder + "/" + Environment.dataFile) == 0 || errno == ENOENT,
            rmdir(folder) == 0 || errno == ENOENT
        else { throw .system(call: "rmdir", path: folder, errno: errno) }
    }

    /// The directory in which LMDB creates the file.
    var folder: String { directory + "/" + StagingFile.folderName }
    var path: String { folder + "/" + Environment.dataFile }

    /// Makes the staging file the store's file. All of its bytes are synced, as each commit leaves
    /// them.
    func publish() throws(StoreError) {
        guard rename(path, directory + "/" + Environment.dataFile) == 0, rmdir(folder) == 0 else {
            throw .system(call: "rename", path: path, errno: errno)
        }
        try syncDirectory(directory)
    }
}

/// Syncs a directory: syncing a new file does not make its name durable.
func syncDirectory(_ path: String) throws(StoreError) {
    let descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard descriptor >= 0 else { throw .system(call: "open", path: path, errno: errno) }
    defer { close(descriptor) }
    // Some file systems keep no such order and say EINVAL: theirs is no better without us.
    guard fsync(descriptor) == 0 || errno == EINVAL else {
        throw .system(call: "fsync", path: path, errno: errno)
    }
}

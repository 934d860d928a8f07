// A new data file: written in its own folder, and renamed to the store's file when all of it is on
// disk. A directory therefore contains a complete store or none, even after a loss of power while
// the first pages were written: nothing had been acknowledged then, and the next start begins anew.

import Glibc

/// A data file that is not the store's yet. Its owner holds the directory's lock.
struct StagingFile {
    static let folderName = "new"

    private let directory: String

    /// Creates the folder, without the files of an earlier attempt.
    init(directory: String) throws(StoreError) {
        try StagingFile.removeLeftover(in: directory)
        self.directory = directory
        guard mkdir(folder, 0o700) == 0 else {
            throw .system(call: "mkdir", path: folder, errno: errno)
        }
    }

    /// Removes the files of an earlier attempt from a directory.
    static func removeLeftover(in directory: String) throws(StoreError) {
        let folder = directory + "/" + folderName
        guard unlink(folder + "/" + Environment.dataFile) == 0 || errno == ENOENT,
            rmdir(folder) == 0 || errno == ENOENT
        else { throw .system(call: "rmdir", path: folder, errno: errno) }
    }

    /// The directory in which LMDB creates the file.
    var folder: String { directory + "/" + StagingFile.folderName }
    var path: String { folder + "/" + Environment.dataFile }

    /// Makes the staging file the store's file. All of its bytes are synced, because each commit
    /// syncs them.
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
    // Some file systems return EINVAL: they cannot sync a directory, and their order cannot be
    // improved.
    guard fsync(descriptor) == 0 || errno == EINVAL else {
        throw .system(call: "fsync", path: path, errno: errno)
    }
}

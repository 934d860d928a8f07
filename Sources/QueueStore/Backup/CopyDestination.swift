// The destination directory of a copy, which is locked while the copy is made.

import Glibc

/// A directory that has room for a store, until it goes out of scope.
struct CopyDestination: ~Copyable {
    private let path: String
    private let isNew: Bool
    private let lock: DirectoryLock

    /// Names that an interrupted copy leaves, and that a file system has in its root.
    private static let harmless: Set = [
        DirectoryLock.fileName, StagingFile.folderName, "lost+found",
    ]

    /// Throws unless a path can name a directory for a copy, and the directory is absent or empty.
    ///
    /// - Parameter besides: names of files that may exist there.
    /// - Returns: whether the directory does not exist yet.
    @discardableResult
    static func check(_ path: String, besides: Set<String> = []) throws(StoreError) -> Bool {
        // A path with a NUL would be truncated there and name another directory.
        guard !path.isEmpty, !path.utf8.contains(0) else { throw .impossiblePath(path) }
        guard let directory = opendir(path) else {
            if errno == ENOENT { return true }
            throw .system(call: "opendir", path: path, errno: errno)
        }
        defer { closedir(directory) }
        guard access(path + "/" + Environment.dataFile, F_OK) != 0 else {
            throw .holdsStore(directory: path)
        }
        while let entry = readdir(directory) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) { tuple in
                tuple.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            guard name == "." || name == ".." || harmless.contains(name) || besides.contains(name)
            else { throw .notEmpty(directory: path, name: name) }
        }
        return false
    }

    /// Creates the directory (0700, if it is missing) and takes its lock.
    init(_ path: String, besides: Set<String>) throws(StoreError) {
        let isNew = try CopyDestination.check(path, besides: besides)
        let lock = try DirectoryLock(directory: path, createsDirectory: true)
        // Another copy may have finished before the lock was taken.
        try CopyDestination.check(path, besides: besides)
        self.path = path
        self.isNew = isNew
        self.lock = lock
    }

    /// Removes the files of a failed copy.
    consuming func clear() {
        try? StagingFile.removeLeftover(in: path)
        guard isNew else { return }
        unlink(path + "/" + DirectoryLock.fileName)
        rmdir(path)
    }
}

extension LMDBQueueStore {
    /// Throws unless a copy could go into a directory now.
    public static func checkDestination(_ path: String) throws(StoreError) {
        try CopyDestination.check(path)
    }

    /// Removes a copy that was made and is not wanted, and its directory if nothing else is there.
    public static func removeCopy(_ path: String) {
        unlink(path + "/" + Environment.dataFile)
        unlink(path + "/" + DirectoryLock.fileName)
        rmdir(path)
    }
}

/// Free space of a disk.
enum FreeSpace {
    /// Throws unless the disk of an existing directory has space for a copy and leaves
    /// ``StoreLimits/copyReserveByteCount``: a copy that fills the disk stops the store on it.
    static func check(_ directory: String, for byteCount: UInt64) throws(StoreError) {
        var status = statvfs()
        guard statvfs(directory, &status) == 0 else {
            throw .system(call: "statvfs", path: directory, errno: errno)
        }
        let free = UInt64(status.f_bavail) * UInt64(status.f_frsize)
        let reserve = UInt64(StoreLimits.copyReserveByteCount)
        guard free > reserve, byteCount <= free - reserve else {
            throw .noRoomForCopy(directory: directory, byteCount: byteCount, freeByteCount: free)
        }
    }
}

// A copy of a node's store for other nodes: a file without a name, so that its space is free again
// when its last user or the process ends.

import BrokerCore
import Glibc

/// A complete copy, until it goes out of scope. Any thread may read it.
public final class UnnamedCopy: Sendable {
    private let descriptor: Int32
    public let byteCount: Int
    private let path: String

    /// Takes a file that is complete, and its name from it.
    fileprivate init(path: String) throws(StoreError) {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
        guard descriptor >= 0 else { throw .system(call: "open", path: path, errno: errno) }
        var information = stat()
        guard fstat(descriptor, &information) == 0, unlink(path) == 0 else {
            let code = errno
            close(descriptor)
            throw .system(call: "unlink", path: path, errno: code)
        }
        self.descriptor = descriptor
        self.path = path
        byteCount = Int(information.st_size)
    }

    deinit { close(descriptor) }

    /// The bytes from an offset on: `count`, or what is there until the end.
    public func read(at offset: Int, count: Int) throws(StoreError) -> [UInt8] {
        let wanted = max(0, min(count, byteCount - offset))
        var failure: Int32 = 0
        let bytes = [UInt8](unsafeUninitializedCapacity: wanted) { buffer, initialized in
            while initialized < wanted {
                let count = pread(
                    descriptor, buffer.baseAddress! + initialized, wanted - initialized,
                    off_t(offset + initialized))
                if count < 0, errno == EINTR { continue }
                guard count > 0 else {
                    failure = count < 0 ? errno : EIO
                    return
                }
                initialized += count
            }
        }
        guard bytes.count == wanted else {
            throw .system(call: "pread", path: path, errno: failure)
        }
        return bytes
    }
}

extension StoreSnapshot {
    /// The folder of a store's directory in which a copy is made.
    private static let copyFolderName = "copy"

    /// Copies the state for another node of the cluster: with its identity and its position in the
    /// log. The copy needs as much space as the used pages of the store.
    ///
    /// - Parameter directory: that of the store, in a folder of which the file is written.
    public func copyForNode(
        in directory: String, progress: CopyProgress
    ) throws(StoreError) -> UnnamedCopy {
        let folder = directory + "/" + Self.copyFolderName
        try Self.removeLeftover(of: folder)
        try FreeSpace.check(directory, for: byteCount)
        defer { try? Self.removeLeftover(of: folder) }
        _ = try copy(to: folder, isNode: true, progress: progress)
        return try UnnamedCopy(path: folder + "/" + Environment.dataFile)
    }

    /// Removes what a process left that died while it made a copy.
    private static func removeLeftover(of folder: String) throws(StoreError) {
        guard access(folder, F_OK) == 0 else { return }
        try StagingFile.removeLeftover(in: folder)
        for name in [Environment.dataFile, DirectoryLock.fileName] { unlink(folder + "/" + name) }
        guard rmdir(folder) == 0 else {
            throw .system(call: "rmdir", path: folder, errno: errno)
        }
    }
}

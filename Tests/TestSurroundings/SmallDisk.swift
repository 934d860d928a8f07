// A small file system, for tests of a full disk.

import Glibc

/// A file system in memory that is soon full; unmounted when it goes out of scope.
package final class SmallDisk {
    package let path: String

    package static let canBeMounted = SmallDisk(byteCount: 1 << 20) != nil

    /// - Parameter fileMaximum: files and directories, with the root; nil for the system's limit.
    package init?(byteCount: Int, fileMaximum: Int? = nil) {
        var template = Array("/tmp/martlet-disk-XXXXXX".utf8CString)
        path = String(cString: mkdtemp(&template))
        let options = "size=\(byteCount)" + (fileMaximum.map { ",nr_inodes=\($0)" } ?? "")
        guard mount("tmpfs", path, "tmpfs", 0, options) == 0 else {
            rmdir(path)
            return nil
        }
    }

    deinit {
        umount2(path, Int32(MNT_DETACH))
        rmdir(path)
    }
}

// A small file system, for tests of a full disk.

import Glibc

/// A file system in memory that is soon full; unmounted when it goes out of scope.
package final class SmallDisk {
    package let path: String

    package static let canBeMounted = SmallDisk(byteCount: 1 << 20) != nil

    package init?(byteCount: Int) {
        var template = Array("/tmp/martlet-disk-XXXXXX".utf8CString)
        path = String(cString: mkdtemp(&template))
        guard mount("tmpfs", path, "tmpfs", 0, "size=\(byteCount)") == 0 else {
            rmdir(path)
            return nil
        }
    }

    deinit {
        umount2(path, Int32(MNT_DETACH))
        rmdir(path)
    }
}

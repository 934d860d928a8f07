// Notices that files were exchanged, without a signal: whoever renews certificates rarely knows
// whom to tell.

import Glibc

/// The files of a configuration as they were when somebody last looked.
struct FileWatch {
    /// What tells one state of a file from another. A file that is not there has a state too.
    private struct Stamp: Hashable {
        var device: UInt = 0
        var inode: UInt = 0
        var byteCount = 0
        var seconds = 0
        var nanoseconds = 0
    }

    private var stamps: [String: Stamp] = [:]

    /// - Parameter paths: looked at now; what they are from now on is a change.
    init(_ paths: Set<String>) {
        for path in paths { stamps[path] = Self.stamp(path) }
    }

    /// The files that are not what they were; they are known as they are now.
    mutating func takeChanges() -> [String] {
        var changed: [String] = []
        for (path, old) in stamps {
            let new = Self.stamp(path)
            guard new != old else { continue }
            stamps[path] = new
            changed.append(path)
        }
        return changed.sorted()
    }

    private static func stamp(_ path: String) -> Stamp {
        var information = stat()
        guard stat(path, &information) == 0 else { return Stamp() }
        return Stamp(
            device: information.st_dev, inode: information.st_ino,
            byteCount: information.st_size, seconds: information.st_mtim.tv_sec,
            nanoseconds: information.st_mtim.tv_nsec)
    }
}

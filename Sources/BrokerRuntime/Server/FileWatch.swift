// Detects changed files without a signal, because programs that renew certificates often send none.

import Glibc

/// The state of a configuration's files at the last check.
struct FileWatch {
    /// Distinguishes the states of a file. A missing file has a stamp of zeros.
    private struct Stamp: Hashable {
        var device: UInt = 0
        var inode: UInt = 0
        var byteCount = 0
        var seconds = 0
        var nanoseconds = 0
    }

    private var stamps: [String: Stamp] = [:]

    /// - Parameter paths: the files; later changes are relative to their state now.
    init(_ paths: Set<String>) {
        for path in paths { stamps[path] = Self.stamp(path) }
    }

    /// Returns the files that have changed since the last call.
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

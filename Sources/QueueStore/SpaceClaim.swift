// Disk space that is claimed before it is needed, so that a full disk shows while there is still a
// choice: in front of a transaction, not inside a commit. It knows how much, not what for.

import CLMDB
import Glibc

/// How much of the data file's room is certain.
struct SpaceClaim {
    private let descriptor: Int32
    /// Bytes from the start of the file that have blocks on disk.
    private(set) var byteCount = 0
    /// False on file systems without fallocate: there LMDB finds out within a commit whether there
    /// is room. A copy-on-write file system (btrfs) accepts the call and does not keep
    /// the promise.
    private(set) var isSupported = true

    init(descriptor: Int32) {
        self.descriptor = descriptor
    }

    /// Claims the first `needed` bytes of the file, and a step more if there is room for it. False
    /// where the disk or a quota has none. The file's length stays: LMDB alone decides that.
    mutating func extend(to needed: Int) -> Bool {
        if needed <= byteCount || !isSupported { return true }
        return claim(needed + StoreLimits.claimStepByteCount) || claim(needed)
    }

    private mutating func claim(_ end: Int) -> Bool {
        var result: Int32
        repeat {
            // From the claimed end on; at first from 0, which also fills holes of the file.
            result = fallocate(
                descriptor, FALLOC_FL_KEEP_SIZE, off_t(byteCount), off_t(end - byteCount))
        } while result != 0 && errno == EINTR
        if result == 0 {
            byteCount = end
        } else if errno == EOPNOTSUPP || errno == ENOSYS {
            isSupported = false
            return true
        }
        return result == 0
    }
}

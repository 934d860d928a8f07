// Allocates disk space before it is needed, so that a full disk is detected before a transaction
// and not inside a commit.

import CLMDB
import Glibc

/// The allocated part of the data file.
struct SpaceClaim {
    /// LMDB's descriptor of the data file.
    var descriptor: Int32
    /// Bytes from the start of the file that have blocks on disk.
    private(set) var byteCount = 0
    /// False on file systems without fallocate: there LMDB detects a full disk only within a
    /// commit. A copy-on-write file system (btrfs) accepts the call and does not keep the promise.
    private(set) var isSupported = true

    init(descriptor: Int32) {
        self.descriptor = descriptor
    }

    /// Claims the first `needed` bytes of the file, and as much of `wanted` more as the disk has,
    /// in steps that save system calls. False if the disk or a quota does not have `needed`. The
    /// file's length stays: only LMDB changes it.
    mutating func extend(to needed: Int, wanting wanted: Int) -> Bool {
        if needed + wanted <= byteCount || !isSupported { return true }
        var extra = wanted + StoreLimits.claimStepByteCount
        while extra >= StoreLimits.claimStepByteCountMinimum {
            if needed + extra <= byteCount || claim(needed + extra) { return true }
            extra /= 4
        }
        return needed <= byteCount || claim(needed)
    }

    /// Whether the disk has less than the smallest step beyond the file and its claimed space.
    var isDiskFull: Bool {
        mutating get {
            var status = stat()
            guard isSupported, fstat(descriptor, &status) == 0 else { return false }
            let end = max(byteCount, Int(status.st_blocks) * 512, Int(status.st_size))
            return !claim(end + StoreLimits.claimStepByteCountMinimum)
        }
    }

    private mutating func claim(_ end: Int) -> Bool {
        var result: Int32
        repeat {
            // From the end of the claimed part on; at first from 0, which also fills holes of the
            // file.
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

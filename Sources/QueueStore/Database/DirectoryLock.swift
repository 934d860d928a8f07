// The lock of the store's directory: one broker at a time may use it.

import Glibc

/// Holds a directory for this process until it goes out of scope or the process dies.
///
/// LMDB lets several processes share a file, but two brokers would assign the same numbers twice.
/// The kernel releases flock(2), so a crash leaves nothing to clean up. The lock also excludes a
/// second opening within the same process, which LMDB forbids.
struct DirectoryLock: ~Copyable {
    private let descriptor: Int32

    static let fileName = "martlet.lock"

    /// Creates the directory (0700, if it is missing) and takes the lock.
    init(directory: String, createsDirectory: Bool) throws(StoreError) {
        if createsDirectory {
            if mkdir(directory, 0o700) == 0 {
                try syncDirectory(directory + "/..")
            } else if errno != EEXIST {
                throw .system(call: "mkdir", path: directory, errno: errno)
            }
        }
        let path = directory + "/" + DirectoryLock.fileName
        try createLockFile(path, in: directory)
        let descriptor = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw .system(call: "open", path: path, errno: errno) }
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            let failure = errno
            defer { Glibc.close(descriptor) }
            guard failure == EWOULDBLOCK else {
                throw .system(call: "flock", path: path, errno: failure)
            }
            throw .inUse(
                directory: directory, processIdentifier: DirectoryLock.holder(descriptor))
        }
        self.descriptor = descriptor
        // The process id is only for the error message of a second broker; the kernel keeps the
        // lock.
        var text = "\(getpid())\n"
        text.withUTF8 { text in
            _ = ftruncate(descriptor, 0)
            _ = pwrite(descriptor, text.baseAddress, text.count, 0)
        }
    }

    deinit {
        // A child process that is being started shares the open file until it runs its own program:
        // closing alone would leave the lock with it.
        _ = flock(descriptor, LOCK_UN)
        Glibc.close(descriptor)
    }

    private static func holder(_ descriptor: Int32) -> Int32 {
        withUnsafeTemporaryAllocation(byteCount: 16, alignment: 1) { text in
            let count = pread(descriptor, text.baseAddress, text.count, 0)
            let digits = text.prefix(max(count, 0)).prefix { $0 >= 0x30 && $0 <= 0x39 }
            return Int32(String(decoding: digits, as: UTF8.self)) ?? 0
        }
    }
}

/// Creates a file that is a lock and has no contents yet, if it is missing. Of root it becomes the
/// owner's of the directory: a store that root has checked must still be the broker's.
///
/// It gives away no file that it has not created. Whoever opens the file next reports failures of
/// access.
///
/// - Parameter byteCount: bytes that LMDB writes into it through a map. Without room on the disk
///   that would end the process.
func createLockFile(
    _ path: String, in directory: String, byteCount: Int = 0
) throws(StoreError) {
    let descriptor = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { return }
    defer { Glibc.close(descriptor) }
    var status = stat()
    if geteuid() == 0, stat(directory, &status) == 0 {
        _ = fchown(descriptor, status.st_uid, status.st_gid)
    }
    guard byteCount > 0 else { return }
    let code = posix_fallocate(descriptor, 0, off_t(byteCount))
    if code == ENOSPC || code == EDQUOT {
        unlink(path)
        throw .system(call: "posix_fallocate", path: path, errno: code)
    }
}

// The record on disk: a file that entries are appended to, written anew when most of it is
// obsolete. When a synced write returns, it survives a loss of power.

import Files
import Glibc

/// The reason why the record cannot be kept.
public enum RecordFailure: Error, Hashable, CustomStringConvertible {
    /// It cannot be read, or another relay uses it.
    case damaged(String)
    /// The disk is full; the file is as before.
    case noRoom(String)
    /// The state of the disk is unknown.
    case failed(String)

    public var description: String {
        switch self {
        case .damaged(let text), .noRoom(let text), .failed(let text): text
        }
    }
}

package struct RecordFile<Content: RecordedContent>: ~Copyable {
    private let path: String
    private var descriptor: Int32
    /// Its lock file stays when the record is replaced.
    private let lock: Int32
    package private(set) var byteCount: Int
    /// The same when it was last written anew; 0 before.
    var renewedByteCount = 0
    /// What the file had when it was opened.
    package let stored: Content

    private init(
        path: String, descriptor: Int32, lock: Int32, byteCount: Int, stored: Content
    ) {
        self.path = path
        self.descriptor = descriptor
        self.lock = lock
        self.byteCount = byteCount
        self.stored = stored
    }

    deinit {
        close(descriptor)
        Self.release(lock)
    }

    /// A child process that is being started shares the open file until it runs its own program:
    /// closing alone would leave the lock with it.
    private static func release(_ lock: Int32) {
        _ = flock(lock, LOCK_UN)
        close(lock)
    }

    /// Opens or creates the file. No other process writes it while this value exists.
    package static func open(_ path: String) throws(RecordFailure) -> RecordFile {
        let lock = Glibc.open(path + ".lock", O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard lock >= 0 else { throw failure("open", path: path + ".lock") }
        guard flock(lock, LOCK_EX | LOCK_NB) == 0 else {
            close(lock)
            throw .damaged("\(path): another relay uses it")
        }
        let descriptor = Glibc.open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            release(lock)
            throw failure("open", path: path)
        }
        let content: Content
        let end: Int
        do throws(RecordFailure) {
            (content, end) = try Content.read(readAll(descriptor, path), path: path)
        } catch {
            close(descriptor)
            release(lock)
            throw error
        }
        var file = RecordFile(
            path: path, descriptor: descriptor, lock: lock, byteCount: end, stored: content)
        try file.cut()
        if end == 0 { try file.begin() }
        return file
    }

    /// Reads the file of a relay that may run.
    package static func content(of path: String) throws(RecordFailure) -> Content {
        let descriptor = Glibc.open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw failure("open", path: path) }
        defer { close(descriptor) }
        return try Content.read(readAll(descriptor, path), path: path).content
    }

    private static func readAll(
        _ descriptor: Int32, _ path: String
    ) throws(RecordFailure) -> [UInt8] {
        do throws(SystemError) {
            return try DescriptorIO.read(from: descriptor, byteCountMaximum: .max)
        } catch {
            throw .damaged("cannot read \(path): \(error)")
        }
    }

    /// Removes what follows the last complete entry.
    private mutating func cut() throws(RecordFailure) {
        guard ftruncate(descriptor, off_t(byteCount)) == 0,
            lseek(descriptor, off_t(byteCount), SEEK_SET) >= 0
        else { throw Self.failure("truncate", path: path) }
    }

    private mutating func begin() throws(RecordFailure) {
        try append([UInt8](), isSynced: true)
        try Self.syncDirectory(of: path)
    }

    private static func syncDirectory(of path: String) throws(RecordFailure) {
        let folder = path.lastIndex(of: "/").map { String(path[...$0]) } ?? "."
        let directory = Glibc.open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard directory >= 0 else { throw failure("open", path: folder) }
        defer { close(directory) }
        guard fsync(directory) == 0 else { throw failure("sync", path: folder) }
    }

    // MARK: - Writing

    /// Appends entries.
    ///
    /// - Parameter isSynced: whether they survive a loss of power when this returns.
    package mutating func append(_ entries: [Content.Entry], isSynced: Bool) throws(RecordFailure) {
        var bytes: [UInt8] = []
        for entry in entries { bytes += entry.encoded }
        try append(bytes, isSynced: isSynced)
    }

    private mutating func append(_ bytes: [UInt8], isSynced: Bool) throws(RecordFailure) {
        let bytes = byteCount == 0 ? Content.Entry.magic + bytes : bytes
        do throws(SystemError) {
            try DescriptorIO.write(bytes, to: descriptor)
        } catch {
            let failure = Self.failure("write", path: path, error)
            if case .noRoom = failure { try cut() }
            throw failure
        }
        byteCount += bytes.count
        // What of it is on disk is unknown, also if there was no room.
        if isSynced, fdatasync(descriptor) != 0 {
            throw .failed("cannot sync \(path): \(SystemError.last)")
        }
    }

    /// Replaces the file by one with these entries only.
    package mutating func replace(with entries: [Content.Entry]) throws(RecordFailure) {
        let staging = path + ".new"
        let new = Glibc.open(staging, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        guard new >= 0 else { throw Self.failure("open", path: staging) }
        var bytes = Content.Entry.magic
        for entry in entries { bytes += entry.encoded }
        do throws(SystemError) {
            try DescriptorIO.write(bytes, to: new)
        } catch {
            close(new)
            unlink(staging)
            throw Self.failure("write", path: staging, error)
        }
        guard fdatasync(new) == 0, rename(staging, path) == 0 else {
            let error = SystemError.last
            close(new)
            unlink(staging)
            throw Self.failure("replace", path: path, error)
        }
        close(descriptor)
        descriptor = new
        byteCount = bytes.count
        renewedByteCount = byteCount
        try Self.syncDirectory(of: path)
    }

    /// Empties the file and writes these entries, without a second file: a crash between loses
    /// what it had. For a file that has nothing of value, on a full disk.
    package mutating func restart(with entries: [Content.Entry]) throws(RecordFailure) {
        byteCount = 0
        try cut()
        try append(entries, isSynced: true)
        renewedByteCount = byteCount
    }

    private static func failure(
        _ call: String, path: String, _ error: SystemError = .last
    ) -> RecordFailure {
        let text = "cannot \(call) \(path): \(error)"
        // No blocks, no quota, no inode, or the limit of a file's size (RLIMIT_FSIZE).
        return [ENOSPC, EDQUOT, EFBIG].contains(error.code) ? .noRoom(text) : .failed(text)
    }
}

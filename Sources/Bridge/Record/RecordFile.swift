// The record on disk: one file with two slots, written alternately, so that one of them is always
// complete. When `save` returns, the write survives a loss of power.

import Glibc

/// The reason why a record cannot be kept.
public struct RecordFailure: Error, Hashable, CustomStringConvertible {
    public let description: String
}

struct RecordFile: ~Copyable {
    private let path: String
    private let descriptor: Int32
    private var sequence: UInt64
    /// The record in the file; nil for a new file.
    let stored: BridgeRecord?

    private static let slotByteCount = BridgeLimits.recordByteCountMaximum

    private init(
        path: String, descriptor: Int32, stored: BridgeRecord?, sequence: UInt64
    ) {
        self.path = path
        self.descriptor = descriptor
        self.stored = stored
        self.sequence = sequence
    }

    /// Opens or creates the file. No other process can use it while this value exists.
    static func open(_ path: String) throws(RecordFailure) -> RecordFile {
        let descriptor = Glibc.open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw failure("open", path) }
        do throws(RecordFailure) {
            guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
                throw RecordFailure(description: "\(path): another bridge uses it")
            }
            let (stored, sequence) = try read(descriptor, path)
            if stored == nil { try claim(descriptor, path) }
            return RecordFile(
                path: path, descriptor: descriptor, stored: stored, sequence: sequence)
        } catch {
            release(descriptor)
            throw error
        }
    }

    deinit { Self.release(descriptor) }

    /// A child process that is being started shares the open file until it runs its own program:
    /// closing alone would leave the lock with it.
    private static func release(_ descriptor: Int32) {
        _ = flock(descriptor, LOCK_UN)
        close(descriptor)
    }

    /// The space is allocated now, so that a full disk prevents the start and no later write.
    private static func claim(_ descriptor: Int32, _ path: String) throws(RecordFailure) {
        guard posix_fallocate(descriptor, 0, off_t(2 * slotByteCount)) == 0,
            fsync(descriptor) == 0
        else { throw failure("claim room for", path) }
        let folder = path.lastIndex(of: "/").map { String(path[...$0]) } ?? "."
        let directory = Glibc.open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard directory >= 0 else { throw failure("open", folder) }
        defer { close(directory) }
        guard fsync(directory) == 0 else { throw failure("sync", folder) }
    }

    private static func read(
        _ descriptor: Int32, _ path: String
    ) throws(RecordFailure) -> (BridgeRecord?, UInt64) {
        var best: (record: BridgeRecord, sequence: UInt64)?
        var isBlank = true
        var isFirstWriteTorn = false
        for slot in 0..<2 {
            var bytes = [UInt8](repeating: 0, count: slotByteCount)
            let count = pread(descriptor, &bytes, bytes.count, off_t(slot * slotByteCount))
            guard count >= 0 else { throw failure("read", path) }
            bytes.removeLast(bytes.count - count)
            // The first write goes to the second slot. If it is incomplete, the first slot is still
            // blank, and nothing has been sent that depends on it.
            if slot == 1, isBlank, bytes.count == slotByteCount {
                isFirstWriteTorn = zip(bytes, BridgeRecord.magic).allSatisfy { $0 == $1 || $0 == 0 }
            }
            isBlank = isBlank && bytes.allSatisfy { $0 == 0 }
            if let found = BridgeRecord.decode(bytes), found.sequence > best?.sequence ?? 0 {
                best = found
            }
        }
        guard best != nil || isBlank || isFirstWriteTorn else {
            throw RecordFailure(description: "\(path): no record of a bridge, or a damaged one")
        }
        return (best?.record, best?.sequence ?? 0)
    }

    /// Returns when the record is on disk. After an error the state of the disk is unknown.
    mutating func save(_ record: BridgeRecord) throws(RecordFailure) {
        let bytes = record.encoded(sequence: sequence + 1)
        guard bytes.count <= Self.slotByteCount else {
            throw RecordFailure(description: "\(path): the record is too large: too many filters")
        }
        sequence += 1
        let offset = off_t(Int(sequence % 2) * Self.slotByteCount)
        var written = 0
        while written < bytes.count {
            let count = bytes.withUnsafeBytes {
                pwrite(
                    descriptor, $0.baseAddress! + written, bytes.count - written,
                    offset + off_t(written))
            }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw Self.failure("write", path) }
            written += count
        }
        guard fdatasync(descriptor) == 0 else { throw Self.failure("sync", path) }
    }

    private static func failure(_ call: String, _ path: String) -> RecordFailure {
        RecordFailure(description: "cannot \(call) \(path): \(String(cString: strerror(errno)))")
    }
}

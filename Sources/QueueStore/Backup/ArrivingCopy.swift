// A copy of another node's store, as it arrives in parts. It replaces the store of the directory
// when it is complete and was checked; until then that one is what it was.

import BrokerCore
import Glibc

/// A data file that arrives, until it goes out of scope. The directory is locked meanwhile.
public struct ArrivingCopy: ~Copyable {
    private let directory: String
    // Released after the file was removed: fields outlive `deinit`.
    private let lock: DirectoryLock
    private let stagingFile: StagingFile
    private let descriptor: Int32
    private let byteCountMaximum: UInt64
    public private(set) var byteCount = 0
    private var isPublished = false

    /// Begins in a directory, which is created (0700) if it is missing. It may have a store that no
    /// process has open.
    ///
    /// - Parameter byteCount: the length of the copy, for which the disk must have room.
    public init(directory: String, byteCount: UInt64) throws(StoreError) {
        let lock = try DirectoryLock(directory: directory, createsDirectory: true)
        try FreeSpace.check(directory, for: byteCount)
        let stagingFile = try StagingFile(directory: directory)
        let descriptor = open(
            stagingFile.path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else {
            throw .system(call: "open", path: stagingFile.path, errno: errno)
        }
        self.directory = directory
        byteCountMaximum = byteCount
        self.lock = lock
        self.stagingFile = stagingFile
        self.descriptor = descriptor
    }

    deinit {
        close(descriptor)
        if !isPublished { try? StagingFile.removeLeftover(in: directory) }
    }

    /// Writes the next part. What is longer than the copy is not taken.
    public mutating func append(_ bytes: [UInt8]) throws(StoreError) {
        guard UInt64(byteCount + bytes.count) <= byteCountMaximum else {
            throw .system(call: "pwrite", path: stagingFile.path, errno: EFBIG)
        }
        var done = 0
        while done < bytes.count {
            let count = bytes.withUnsafeBytes {
                pwrite(
                    descriptor, $0.baseAddress! + done, bytes.count - done, off_t(byteCount + done))
            }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else {
                throw .system(call: "pwrite", path: stagingFile.path, errno: errno)
            }
            done += count
        }
        byteCount += bytes.count
    }

    /// Checks each page and each row of the complete file, and makes it the store of the directory.
    public mutating func publish() throws(StoreError) {
        guard fsync(descriptor) == 0 else {
            throw .system(call: "fsync", path: stagingFile.path, errno: errno)
        }
        // LMDB maps the file, and follows its pages unchecked.
        try PageCheck.run(path: stagingFile.path)
        let formats = StoreFormats.known
        let found: UInt32
        do {
            let environment = try Environment(
                reading: stagingFile, mapByteCount: StoreOptions().mapByteCount)
            guard let format = try storedFormat(environment, directory: stagingFile.folder) else {
                throw .notAStore(directory: stagingFile.folder)
            }
            try formats.check(format)
            found = format
        }
        var report = VerificationReport()
        try LMDBQueueStore.verifyRows(of: stagingFile, format: found, into: &report)
        if report.preventsStart {
            throw .unusableCopy(finding: report.fatalFinding ?? "", count: report.findingCount)
        }
        try stagingFile.publish()
        isPublished = true
    }
}

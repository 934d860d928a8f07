// A store's data file, read with pread(2). LMDB reads through a map of the file, where a page that
// is cut off or unreadable ends the process with a signal; here it is an error. This code knows the
// two meta pages and nothing of the trees.

import Glibc

/// An open data file, which is only read.
final class PageFile: Sendable {
    let path: String
    private let descriptor: Int32

    static let headerByteCount = 16
    static let treeByteCount = 48
    private static let metaByteCount = headerByteCount + 136
    private static let metaFlag: UInt16 = 0x08

    init(path: String) throws(StoreError) {
        descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw .system(call: "open", path: path, errno: errno) }
        self.path = path
    }

    /// The file of an open store; `path` is for messages.
    init(duplicating other: Int32, path: String) throws(StoreError) {
        descriptor = fcntl(other, F_DUPFD_CLOEXEC, 0)
        guard descriptor >= 0 else { throw .system(call: "fcntl", path: path, errno: errno) }
        self.path = path
    }

    deinit {
        close(descriptor)
    }

    /// Drops the kernel's cache of the file, so that the next read comes from the disk. It is
    /// advice: a file system may ignore it.
    func forgetCachedPages() {
        _ = posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED)
    }

    /// Reads and checks the length of the file and both meta pages.
    func meta() throws(StoreError) -> StoreMeta {
        var status = stat()
        guard fstat(descriptor, &status) == 0 else {
            throw .system(call: "fstat", path: path, errno: errno)
        }
        guard status.st_mode & S_IFMT == S_IFREG else {
            throw .damagedPage(number: 0, finding: "not a regular file")
        }
        let byteCount = Int(status.st_size)
        try require(byteCount > 0, page: 0, "the file is empty")
        try require(byteCount >= PageFile.metaByteCount, page: 0, "the file is too short")
        let bytes = UnsafeMutableRawBufferPointer.allocate(
            byteCount: PageFile.metaByteCount, alignment: 8)
        defer { bytes.deallocate() }
        try read(into: bytes, at: 0, page: 0)
        // The page size is the first field of the tree of free pages.
        let pageByteCount = Int(
            UnsafeRawBufferPointer(bytes).littleEndian(at: PageFile.headerByteCount + 24) as UInt32)
        try require(
            pageByteCount >= 512 && pageByteCount <= 65_536
                && pageByteCount & (pageByteCount - 1) == 0, page: 0, "not a page size")
        try require(
            byteCount >= pageByteCount + PageFile.metaByteCount, page: 1, "the file is too short")
        let first = try PageFile.commit(
            UnsafeRawBufferPointer(bytes), page: 0, pageByteCount: pageByteCount)
        try read(into: bytes, at: pageByteCount, page: 1)
        let second = try PageFile.commit(
            UnsafeRawBufferPointer(bytes), page: 1, pageByteCount: pageByteCount)
        // Commits write the two meta pages alternately, odd ones the second; both start with the
        // commit 0.
        let isSecondNewer = first.number < second.number
        let (newer, older) = isSecondNewer ? (second, first) : (first, second)
        try require(
            newer.number - older.number <= 1, page: 0,
            "the meta pages are not of successive commits")
        try require(
            first.number == 0 && second.number == 0
                || first.number.isMultiple(of: 2) && !second.number.isMultiple(of: 2), page: 0,
            "a meta page has the number of the other one's commit")
        // LMDB counts commits and uses the largest number for "no reader".
        try require(
            newer.number < PageFile.commitMaximum, page: isSecondNewer ? 1 : 0,
            "the commit's number is impossible")
        // The last page may be free and never written: only reachable pages must exist. More pages
        // than LMDB can address are damage, and would be taken for a size of memory.
        try require(
            newer.lastPage >= 1 && newer.lastPage < PageFile.pageMaximum,
            page: isSecondNewer ? 1 : 0,
            "the last page is impossible")
        return StoreMeta(
            byteCount: byteCount, pageByteCount: pageByteCount,
            commit: newer.number, lastPage: Int(newer.lastPage), page: isSecondNewer ? 1 : 0,
            freePages: newer.freePages, trees: newer.trees)
    }

    /// 16 TiB of pages of 4 KiB, and beyond every map that an operator can set.
    private static let pageMaximum: UInt64 = 1 << 32

    /// No store reaches it: a thousand commits a second for 140,000 years.
    private static let commitMaximum: UInt64 = 1 << 62

    /// Reads whole pages.
    func read(
        into bytes: UnsafeMutableRawBufferPointer, page: Int, _ meta: StoreMeta
    ) throws(StoreError) {
        let offset = page * meta.pageByteCount
        try require(offset + bytes.count <= meta.byteCount, page: page, "it is cut off")
        try read(into: bytes, at: offset, page: page)
    }

    private func read(
        into bytes: UnsafeMutableRawBufferPointer, at offset: Int, page: Int
    ) throws(StoreError) {
        var done = 0
        while done < bytes.count {
            let count = pread(
                descriptor, bytes.baseAddress! + done, bytes.count - done, off_t(offset + done))
            if count < 0, errno == EINTR { continue }
            if count < 0 { throw .system(call: "pread", path: path, errno: errno) }
            try require(count > 0, page: page, "it is cut off")
            done += count
        }
    }

    private struct Commit {
        var number: UInt64
        var lastPage: UInt64
        var freePages: TreeRecord
        var trees: TreeRecord
    }

    /// Checks a meta page and returns its commit.
    private static func commit(
        _ bytes: UnsafeRawBufferPointer, page: Int, pageByteCount: Int
    ) throws(StoreError) -> Commit {
        let fields = headerByteCount
        let number: UInt64 = bytes.littleEndian(at: 0)
        let flags: UInt16 = bytes.littleEndian(at: 10)
        let magic: UInt32 = bytes.littleEndian(at: fields)
        let version: UInt32 = bytes.littleEndian(at: fields + 4)
        let pageSize: UInt32 = bytes.littleEndian(at: fields + 24)
        try require(number == page && flags == metaFlag, page: page, "not a meta page")
        try require(magic == 0xBEEF_C0DE && version == 1, page: page, "not LMDB's data format 1")
        try require(pageSize == pageByteCount, page: page, "the meta pages differ in page size")
        let free = fields + 24
        let trees = free + treeByteCount
        return Commit(
            number: bytes.littleEndian(at: trees + treeByteCount + 8),
            lastPage: bytes.littleEndian(at: trees + treeByteCount),
            freePages: TreeRecord(bytes, at: free), trees: TreeRecord(bytes, at: trees))
    }
}

/// The newest commit according to the meta pages, and the length of the file.
struct StoreMeta: Sendable {
    let byteCount: Int
    let pageByteCount: Int
    /// LMDB's number of the commit, which is also the number of a transaction that reads it.
    let commit: UInt64
    let lastPage: Int
    /// The meta page of the commit.
    let page: Int
    let freePages: TreeRecord
    let trees: TreeRecord
}

/// LMDB's record of a tree, in a meta page or in a leaf of the unnamed tree.
struct TreeRecord: Sendable {
    let flags: UInt16
    let depth: Int
    let branchPages: UInt64
    let leafPages: UInt64
    let overflowPages: UInt64
    let entries: UInt64
    /// All ones if the tree is empty.
    var root: UInt64

    /// The offset of the root in a record.
    static let rootOffset = 40
    static let noRoot = UInt64.max

    init(_ bytes: UnsafeRawBufferPointer, at offset: Int) {
        flags = bytes.littleEndian(at: offset + 4)
        depth = Int(bytes.littleEndian(at: offset + 6) as UInt16)
        branchPages = bytes.littleEndian(at: offset + 8)
        leafPages = bytes.littleEndian(at: offset + 16)
        overflowPages = bytes.littleEndian(at: offset + 24)
        entries = bytes.littleEndian(at: offset + 32)
        root = bytes.littleEndian(at: offset + TreeRecord.rootOffset)
    }

    /// The record of a tree without pages.
    init(emptyWithFlags flags: UInt16) {
        self.flags = flags
        depth = 0
        branchPages = 0
        leafPages = 0
        overflowPages = 0
        entries = 0
        root = TreeRecord.noRoot
    }

    func write(to bytes: UnsafeMutableRawBufferPointer, at offset: Int, pad: UInt32) {
        bytes.storeBytes(of: pad.littleEndian, toByteOffset: offset, as: UInt32.self)
        bytes.storeBytes(of: flags.littleEndian, toByteOffset: offset + 4, as: UInt16.self)
        bytes.storeBytes(
            of: UInt16(depth).littleEndian, toByteOffset: offset + 6, as: UInt16.self)
        let numbers = [branchPages, leafPages, overflowPages, entries, root]
        for (index, number) in numbers.enumerated() {
            bytes.storeBytes(
                of: number.littleEndian, toByteOffset: offset + 8 + 8 * index, as: UInt64.self)
        }
    }
}

/// Throws the fault of a page unless the condition holds.
func require(
    _ condition: Bool, page: Int, _ finding: @autoclosure () -> String
) throws(StoreError) {
    guard !condition else { return }
    throw .damagedPage(number: UInt64(page), finding: finding())
}

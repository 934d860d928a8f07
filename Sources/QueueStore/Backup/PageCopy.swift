// The pages of a copy, written in sequence as the check of the original reaches them. A copy
// contains only reachable pages, so it has no holes and no free pages. This code knows the numbers
// of pages and not their contents.
//
// LMDB's own copy (mdb_env_copy) reads the original through its map and follows unchecked pages.

import Glibc

/// A data file that is being written.
struct PageCopy {
    private let descriptor: Int32
    private let path: String
    private let pageByteCount: Int
    /// The meta pages come last.
    private(set) var nextPage: UInt64 = 2
    private var writtenByteCount: Int
    private var pending: [UInt8] = []

    /// Bytes per write: large enough that the system call costs little, and small in memory.
    private static let pendingByteCountMaximum = 1 << 20

    /// Writes into an empty file, which the caller closes.
    init(descriptor: Int32, path: String, pageByteCount: Int) {
        self.descriptor = descriptor
        self.path = path
        self.pageByteCount = pageByteCount
        writtenByteCount = 2 * pageByteCount
        pending.reserveCapacity(PageCopy.pendingByteCountMaximum + (64 << 10))
    }

    /// Appends a page under its new number, which is written into the page and returned.
    mutating func append(_ page: UnsafeMutableRawBufferPointer) throws(StoreError) -> UInt64 {
        let number = nextPage
        page.storeBytes(of: number.littleEndian, as: UInt64.self)
        try appendRest(UnsafeRawBufferPointer(page))
        return number
    }

    /// Appends further pages of a large value; they contain no page number.
    mutating func appendRest(_ pages: UnsafeRawBufferPointer) throws(StoreError) {
        nextPage += UInt64(pages.count / pageByteCount)
        pending.append(contentsOf: pages)
        if pending.count >= PageCopy.pendingByteCountMaximum { try flush() }
    }

    /// Writes the meta pages as LMDB's own compact copy does: the commits 0 and 1.
    mutating func finish(_ meta: StoreMeta, trees: TreeRecord) throws(StoreError) {
        try flush()
        let bytes = UnsafeMutableRawBufferPointer.allocate(
            byteCount: 2 * pageByteCount, alignment: 8)
        defer { bytes.deallocate() }
        bytes.initializeMemory(as: UInt8.self, repeating: 0)
        for commit in 0..<2 {
            let page = UnsafeMutableRawBufferPointer(
                rebasing: bytes[commit * pageByteCount..<(commit + 1) * pageByteCount])
            let fields = PageFile.headerByteCount
            page.storeBytes(of: UInt64(commit).littleEndian, as: UInt64.self)
            page.storeBytes(of: UInt16(0x08).littleEndian, toByteOffset: 10, as: UInt16.self)
            page.storeBytes(
                of: UInt32(0xBEEF_C0DE).littleEndian, toByteOffset: fields, as: UInt32.self)
            page.storeBytes(of: UInt32(1).littleEndian, toByteOffset: fields + 4, as: UInt32.self)
            page.storeBytes(
                of: (nextPage * UInt64(pageByteCount)).littleEndian, toByteOffset: fields + 16,
                as: UInt64.self)
            let free = fields + 24
            TreeRecord(emptyWithFlags: meta.freePages.flags).write(
                to: page, at: free, pad: UInt32(pageByteCount))
            trees.write(to: page, at: free + PageFile.treeByteCount, pad: 0)
            let last = free + 2 * PageFile.treeByteCount
            page.storeBytes(of: (nextPage - 1).littleEndian, toByteOffset: last, as: UInt64.self)
            page.storeBytes(
                of: UInt64(commit).littleEndian, toByteOffset: last + 8, as: UInt64.self)
        }
        try write(UnsafeRawBufferPointer(bytes), at: 0)
    }

    private mutating func flush() throws(StoreError) {
        let offset = writtenByteCount
        try pending.withBytes { (bytes) throws(StoreError) in try write(bytes, at: offset) }
        writtenByteCount += pending.count
        pending.removeAll(keepingCapacity: true)
    }

    private func write(_ bytes: UnsafeRawBufferPointer, at offset: Int) throws(StoreError) {
        var done = 0
        while done < bytes.count {
            let count = pwrite(
                descriptor, bytes.baseAddress! + done, bytes.count - done, off_t(offset + done))
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw .system(call: "pwrite", path: path, errno: errno) }
            done += count
        }
    }
}

// Checks the form of every page of a data file before LMDB follows them: LMDB trusts its pages, and
// a damaged pointer or length takes it out of the file or over the page of somebody else. It knows
// the layout of LMDB 0.9 on 64-bit machines (data format 1) and nothing of what the values mean.
//
//   page      number u64 | pad u16 | flags u16 | lower u16 | upper u16 | offsets of nodes, u16 each
//   node      low u16 | high u16 | flags u16 | key length u16 | key | data
//             leaf: low and high are the data's length; branch: with flags, the child's page number
//   overflow  number u64 | pad u16 | flags u16 | count of pages u32 | data
//   meta      page header | magic u32 | version u32 | address u64 | map size u64
//             | tree of free pages (48) | unnamed tree (48 bytes) | last page u64 | commit u64
//   tree      pad u32 | flags u16 | depth u16 | branch, leaf and overflow pages u64 each
//             | entries u64 | root u64

import Glibc

/// One pass over the pages that the newest commit reaches.
struct PageCheck {
    private let file: UnsafeRawBufferPointer
    private var pageByteCount = 4096
    private var lastPage = 0
    /// One byte per page: whether something points at it, or it is free.
    private var isTaken: [Bool] = []

    private static let headerByteCount = 16
    private static let nodeHeaderByteCount = 8
    private static let treeByteCount = 48
    /// LMDB's own bound on the height of a tree (CURSOR_STACK).
    private static let depthMaximum = 32
    /// The flags that tell kinds of pages apart: branch, leaf, overflow, meta, and two kinds of
    /// tables with duplicates, which this store has none of.
    private static let kindMask: UInt16 = 0x6F
    private static let branch: UInt16 = 0x01
    private static let leaf: UInt16 = 0x02
    private static let overflow: UInt16 = 0x04
    private static let meta: UInt16 = 0x08

    /// Checks the data file at a path; one that is missing or empty has nothing wrong with it.
    static func run(path: String) throws(StoreError) {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else {
            if errno == ENOENT { return }
            throw .system(call: "open", path: path, errno: errno)
        }
        defer { Glibc.close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else {
            throw .system(call: "fstat", path: path, errno: errno)
        }
        let byteCount = Int(status.st_size)
        guard byteCount > 0 else { return }
        let mapped = mmap(nil, byteCount, PROT_READ, MAP_SHARED, descriptor, 0)
        guard let mapped, mapped != MAP_FAILED else {
            throw .system(call: "mmap", path: path, errno: errno)
        }
        defer { munmap(mapped, byteCount) }
        var check = PageCheck(file: UnsafeRawBufferPointer(start: mapped, count: byteCount))
        try check.checkAll()
    }

    private init(file: UnsafeRawBufferPointer) {
        self.file = file
    }

    private mutating func checkAll() throws(StoreError) {
        let metaEnd = PageCheck.headerByteCount + 136
        try require(file.count >= metaEnd, 0, "the file is too short")
        // The page size is the first field of the tree of free pages.
        pageByteCount = Int(file.littleEndian(at: PageCheck.headerByteCount + 24) as UInt32)
        try require(
            pageByteCount >= 512 && pageByteCount <= 65_536
                && pageByteCount & (pageByteCount - 1) == 0, 0, "not a page size")
        try require(file.count >= pageByteCount + metaEnd, 1, "the file is too short")
        let commits = (try checkMeta(0), try checkMeta(1))
        // Each commit writes the meta page whose turn it is; both start with the commit 0.
        let (newer, older) = commits.0 < commits.1 ? (commits.1, commits.0) : commits
        try require(newer - older <= 1, 0, "the meta pages are not of successive commits")
        let base = commits.0 < commits.1 ? pageByteCount : 0
        let fields = base + PageCheck.headerByteCount
        lastPage = file.littleEndian(at: fields + 24 + 2 * PageCheck.treeByteCount)
        try require(
            lastPage >= 1 && lastPage < file.count / pageByteCount + 1, base / pageByteCount,
            "the last page is outside the file")
        isTaken = [Bool](repeating: false, count: lastPage + 1)
        isTaken[0] = true
        isTaken[1] = true
        let free = fields + 24
        try checkTree(at: free + PageCheck.treeByteCount, content: .trees)
        try checkTree(at: free, content: .freePages)
    }

    /// Checks a meta page and gives the commit it is of.
    private func checkMeta(_ page: Int) throws(StoreError) -> UInt64 {
        let base = page * pageByteCount
        let fields = base + PageCheck.headerByteCount
        let number: UInt64 = file.littleEndian(at: base)
        let flags: UInt16 = file.littleEndian(at: base + 10)
        let magic: UInt32 = file.littleEndian(at: fields)
        let version: UInt32 = file.littleEndian(at: fields + 4)
        let pageSize: UInt32 = file.littleEndian(at: fields + 24)
        try require(number == page && flags == PageCheck.meta, page, "not a meta page")
        try require(magic == 0xBEEF_C0DE && version == 1, page, "not LMDB's data format 1")
        try require(pageSize == pageByteCount, page, "the meta pages differ in page size")
        return file.littleEndian(at: fields + 24 + 2 * PageCheck.treeByteCount + 8)
    }

    // MARK: Trees

    private enum Content {
        /// The unnamed tree: values, and the roots of the named trees.
        case trees
        case values
        /// LMDB's list of free pages, whose keys are native numbers.
        case freePages
    }

    /// What a walk counted, to be compared with what the tree says of itself.
    private struct Counts: Equatable {
        var branchPages: UInt64 = 0
        var leafPages: UInt64 = 0
        var overflowPages: UInt64 = 0
        var entries: UInt64 = 0
    }

    private struct Walk {
        var content: Content
        var depth: Int
        var counts = Counts()
        /// Keys come in ascending order over the whole tree.
        var previousKey: UnsafeRawBufferPointer?
    }

    private mutating func checkTree(at offset: Int, content: Content) throws(StoreError) {
        let page = offset / pageByteCount
        let depth = Int(file.littleEndian(at: offset + 6) as UInt16)
        let root: UInt64 = file.littleEndian(at: offset + 40)
        let stated = Counts(
            branchPages: file.littleEndian(at: offset + 8),
            leafPages: file.littleEndian(at: offset + 16),
            overflowPages: file.littleEndian(at: offset + 24),
            entries: file.littleEndian(at: offset + 32))
        let flags: UInt16 = file.littleEndian(at: offset + 4)
        try require(
            flags & 0x7FFF == (content == .freePages ? 0x08 : 0), page, "a tree of another kind")
        var walk = Walk(content: content, depth: depth)
        if root == UInt64.max {
            try require(depth == 0, page, "an empty tree with a depth")
        } else {
            try require(
                depth >= 1 && depth <= PageCheck.depthMaximum, page, "a tree of impossible depth")
            try checkPage(root, level: 1, notBefore: nil, &walk)
        }
        try require(walk.counts == stated, page, "a tree does not have what it says it has")
    }

    private mutating func checkPage(
        _ number: UInt64, level: Int, notBefore: UnsafeRawBufferPointer?, _ walk: inout Walk
    ) throws(StoreError) {
        let isLeaf = level == walk.depth
        let page = try take(number, kind: isLeaf ? PageCheck.leaf : PageCheck.branch)
        let bytes = self.page(page)
        let lower = Int(bytes.littleEndian(at: 12) as UInt16)
        let upper = Int(bytes.littleEndian(at: 14) as UInt16)
        try require(
            lower > PageCheck.headerByteCount && lower & 1 == 0 && lower <= upper
                && upper <= pageByteCount, page, "its bounds are impossible")
        let nodeCount = (lower - PageCheck.headerByteCount) / 2
        if isLeaf { walk.counts.leafPages += 1 } else { walk.counts.branchPages += 1 }
        // Nodes lie back to back from `upper` to the end: one of another length would overlap its
        // neighbour, and LMDB would tear that apart when it moves them.
        var filledByteCount = 0
        for index in 0..<nodeCount {
            let slot = PageCheck.headerByteCount + 2 * index
            let offset = Int(bytes.littleEndian(at: slot) as UInt16)
            try require(
                offset >= upper && offset + PageCheck.nodeHeaderByteCount <= pageByteCount, page,
                "a node is outside it")
            let keyByteCount = Int(bytes.littleEndian(at: offset + 6) as UInt16)
            let dataOffset = offset + PageCheck.nodeHeaderByteCount + keyByteCount
            try require(dataOffset <= pageByteCount, page, "a key is outside it")
            let keyOffset = offset + PageCheck.nodeHeaderByteCount
            let key = UnsafeRawBufferPointer(rebasing: bytes[keyOffset..<dataOffset])
            if isLeaf {
                if let notBefore, index == 0 {
                    try require(
                        !isBefore(key, notBefore, walk.content), page, "it is in the wrong place")
                }
                try checkOrder(key, page, &walk)
                let end = try checkLeafNode(page, offset: offset, dataOffset: dataOffset, &walk)
                filledByteCount += (end - offset + 1) & ~1
            } else {
                filledByteCount += (dataOffset - offset + 1) & ~1
                // The first key of a branch is not compared, and may be empty.
                let bound = index == 0 ? notBefore : key
                if let bound, let previous = walk.previousKey {
                    try require(
                        isBefore(previous, bound, walk.content), page, "its keys are out of order")
                }
                let child =
                    UInt64(bytes.littleEndian(at: offset) as UInt32)
                    | UInt64(bytes.littleEndian(at: offset + 4) as UInt16) << 32
                try checkPage(child, level: level + 1, notBefore: bound, &walk)
            }
        }
        try require(
            filledByteCount == pageByteCount - upper, page,
            "its nodes do not fill it as they should")
    }

    private func checkOrder(
        _ key: UnsafeRawBufferPointer, _ page: Int, _ walk: inout Walk
    ) throws(StoreError) {
        if walk.content == .freePages {
            try require(key.count == 8, page, "a key is not a number")
        }
        if let previous = walk.previousKey {
            try require(isBefore(previous, key, walk.content), page, "its keys are out of order")
        }
        walk.previousKey = key
    }

    /// Checks a node of a leaf and what it leads to; gives where it ends within the page.
    private mutating func checkLeafNode(
        _ page: Int, offset: Int, dataOffset: Int, _ walk: inout Walk
    ) throws(StoreError) -> Int {
        let base = page * pageByteCount
        let dataByteCount = Int(file.littleEndian(at: base + offset) as UInt32)
        let flags: UInt16 = file.littleEndian(at: base + offset + 4)
        let (isBig, isTree): (Bool, Bool) = (flags == 0x01, flags == 0x02)
        try require(flags == 0 || isBig || isTree, page, "a node of another kind")
        walk.counts.entries += 1
        var data = base + dataOffset
        let inlineByteCount = isBig ? 8 : dataByteCount
        try require(dataOffset + inlineByteCount <= pageByteCount, page, "a value is outside it")
        if isBig {
            let first: UInt64 = file.littleEndian(at: data)
            let count = try takeOverflow(first, byteCount: dataByteCount)
            walk.counts.overflowPages += UInt64(count)
            data = Int(first) * pageByteCount + PageCheck.headerByteCount
        }
        try require(isTree == false || walk.content == .trees, page, "a tree within a tree")
        if isTree {
            try require(dataByteCount == PageCheck.treeByteCount, page, "a tree of wrong size")
            try checkTree(at: data, content: .values)
        } else if walk.content == .freePages {
            try takeFree(at: data, byteCount: dataByteCount, page)
        }
        return dataOffset + inlineByteCount
    }

    // MARK: Pages

    /// Takes a page for the tree that points at it: it is there, says its own number and the kind
    /// that is expected, and nothing else has it.
    private mutating func take(_ number: UInt64, kind: UInt16) throws(StoreError) -> Int {
        try require(number <= UInt64(lastPage), nil, "a pointer leads to page \(number), outside")
        let page = Int(number)
        try require((page + 1) * pageByteCount <= file.count, page, "it is cut off")
        let bytes = self.page(page)
        try require(!isTaken[page], page, "two pointers lead to it")
        try require(bytes.littleEndian(at: 0) == number, page, "it has the number of another page")
        let flags: UInt16 = bytes.littleEndian(at: 10)
        try require(flags & PageCheck.kindMask == kind, page, "it is of another kind")
        isTaken[page] = true
        return page
    }

    /// Takes the pages of a large value; gives how many they are.
    private mutating func takeOverflow(
        _ number: UInt64, byteCount: Int
    ) throws(StoreError) -> Int {
        let first = try take(number, kind: PageCheck.overflow)
        let count =
            (PageCheck.headerByteCount + byteCount + pageByteCount - 1) / pageByteCount
        let stated = Int(page(first).littleEndian(at: 12) as UInt32)
        try require(stated == count, first, "a large value does not have its size")
        try require(
            first + count - 1 <= lastPage && (first + count) * pageByteCount <= file.count, first,
            "a large value is cut off")
        for page in first + 1..<first + count {
            try require(!isTaken[page], page, "two pointers lead to it")
            isTaken[page] = true
        }
        return count
    }

    /// Takes the pages of one record of the free list: a count, then page numbers, descending.
    private mutating func takeFree(
        at offset: Int, byteCount: Int, _ page: Int
    ) throws(StoreError) {
        try require(byteCount >= 8, page, "a free list without its length")
        let count = Int(truncatingIfNeeded: file.littleEndian(at: offset) as UInt64)
        try require(count >= 0 && count <= byteCount / 8 - 1, page, "a free list is too long")
        var previous = UInt64.max
        for index in 0..<count {
            let free: UInt64 = file.littleEndian(at: offset + 8 + 8 * index)
            try require(free < previous, page, "a free list is out of order")
            try require(
                free <= UInt64(lastPage) && !isTaken[Int(free)], page, "a free page is in use")
            isTaken[Int(free)] = true
            previous = free
        }
    }

    private func page(_ number: Int) -> UnsafeRawBufferPointer {
        let start = number * pageByteCount
        return UnsafeRawBufferPointer(rebasing: file[start..<start + pageByteCount])
    }

    private func isBefore(
        _ left: UnsafeRawBufferPointer, _ right: UnsafeRawBufferPointer, _ content: Content
    ) -> Bool {
        if content == .freePages {
            return (left.littleEndian(at: 0) as UInt64) < right.littleEndian(at: 0)
        }
        let common = min(left.count, right.count)
        let order = common == 0 ? 0 : memcmp(left.baseAddress!, right.baseAddress!, common)
        return order != 0 ? order < 0 : left.count < right.count
    }

    private func require(
        _ condition: Bool, _ page: Int?, _ finding: @autoclosure () -> String
    ) throws(StoreError) {
        guard !condition else { return }
        throw .damagedPage(number: UInt64(page ?? 0), finding: finding())
    }
}

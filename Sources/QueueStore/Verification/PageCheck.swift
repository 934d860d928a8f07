// Checks the form of every page of a data file before LMDB follows them. LMDB trusts its pages, and
// a damaged pointer or length makes it read outside of the file or write over another page. The
// same walk makes copies: it passes on only what it has checked. It knows the layout of LMDB 0.9 on
// 64-bit machines (data format 1) and not the meaning of the values.
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

/// One pass over the pages that a commit reaches.
struct PageCheck: ~Copyable {
    private let file: PageFile
    private let meta: StoreMeta
    private let progress: CopyProgress?
    private var copy: PageCopy?
    /// One byte per page of the file: whether a page refers to it, or it is free.
    private var isTaken: [Bool]
    /// Free pages after the end of the file, which were never written. They are those that a list
    /// in the file names: a damaged meta page could claim any number of them.
    private var freeBehindEnd: Set<Int> = []
    /// A page of memory for each level of the walk. The tables' levels follow those of the unnamed
    /// tree, which contains their roots.
    private var levels: [UnsafeMutableRawBufferPointer] = []

    private var pageByteCount: Int { meta.pageByteCount }

    private static let headerByteCount = PageFile.headerByteCount
    private static let nodeHeaderByteCount = 8
    /// LMDB's own limit of the height of a tree (CURSOR_STACK).
    private static let depthMaximum = 32
    /// Pages of a large value that are read at once while it is copied.
    private static let chunkPageCount = 16
    /// The flags of the three kinds of pages. A page in a file has no other flags: this store has
    /// no tables with duplicates, and the flag of pages in memory makes LMDB write to the file's
    /// mapping, which is read-only.
    private static let branch: UInt16 = 0x01
    private static let leaf: UInt16 = 0x02
    private static let overflow: UInt16 = 0x04

    /// Checks the newest commit of the data file at a path.
    ///
    /// - Returns: the number of pages after the end of the file that are in no list of free pages.
    ///   LMDB creates none. They lose nothing, but new pages begin after them.
    @discardableResult
    static func run(path: String, progress: CopyProgress? = nil) throws(StoreError) -> Int {
        let file = try PageFile(path: path)
        let meta = try file.meta()
        var check = PageCheck(file, meta, copy: nil, progress: progress)
        _ = try check.checkAll()
        return meta.lastPage + 1 - check.isTaken.count - check.freeBehindEnd.count
    }

    /// Checks the pages that a commit reaches and writes them, without its free pages, into an
    /// empty file. The commit's pages must not be reused meanwhile.
    static func copy(
        _ file: PageFile, _ meta: StoreMeta, to descriptor: Int32, path: String,
        progress: CopyProgress?
    ) throws(StoreError) {
        let copy = PageCopy(
            descriptor: descriptor, path: path, pageByteCount: meta.pageByteCount)
        var check = PageCheck(file, meta, copy: copy, progress: progress)
        let trees = try check.checkAll()
        try check.copy!.finish(meta, trees: trees)
    }

    private init(
        _ file: PageFile, _ meta: StoreMeta, copy: PageCopy?, progress: CopyProgress?
    ) {
        self.file = file
        self.meta = meta
        self.copy = copy
        self.progress = progress
        let pageCount = (meta.byteCount + meta.pageByteCount - 1) / meta.pageByteCount
        isTaken = [Bool](repeating: false, count: min(meta.lastPage + 1, pageCount))
        isTaken[0] = true
        isTaken[1] = true
    }

    deinit {
        for level in levels { level.deallocate() }
    }

    /// The unnamed tree, with its root in the copy.
    private mutating func checkAll() throws(StoreError) -> TreeRecord {
        var trees = meta.trees
        trees.root = try checkTree(trees, foundOn: meta.page, content: .trees, base: 0)
        let copy = self.copy
        self.copy = nil
        _ = try checkTree(meta.freePages, foundOn: meta.page, content: .freePages, base: 0)
        self.copy = copy
        return trees
    }

    // MARK: Trees

    private enum Content {
        /// The unnamed tree: values, and the roots of the named trees.
        case trees
        case values
        /// LMDB's list of free pages, whose keys are native numbers.
        case freePages
    }

    /// The counts of a walk, to be compared with those in the tree's record.
    private struct Counts: Equatable {
        var branchPages: UInt64 = 0
        var leafPages: UInt64 = 0
        var overflowPages: UInt64 = 0
        var entries: UInt64 = 0
    }

    private struct Walk {
        var content: Content
        var depth: Int
        /// The first of its levels among those of the check.
        var base: Int
        var counts = Counts()
        /// Keys come in ascending order over the whole tree.
        var previousKey: [UInt8] = []
        var hasPrevious = false
    }

    /// Checks a tree; returns its root in the copy, or its own.
    private mutating func checkTree(
        _ tree: TreeRecord, foundOn page: Int, content: Content, base: Int
    ) throws(StoreError) -> UInt64 {
        let stated = Counts(
            branchPages: tree.branchPages, leafPages: tree.leafPages,
            overflowPages: tree.overflowPages, entries: tree.entries)
        try require(
            tree.flags & 0x7FFF == (content == .freePages ? 0x08 : 0), page: page,
            "a tree of another kind")
        var walk = Walk(content: content, depth: tree.depth, base: base)
        var root = tree.root
        if root == TreeRecord.noRoot {
            try require(tree.depth == 0, page: page, "an empty tree with a depth")
        } else {
            try require(
                tree.depth >= 1 && tree.depth <= PageCheck.depthMaximum, page: page,
                "a tree of impossible depth")
            root = try checkPage(root, level: 1, notBefore: nil, &walk)
        }
        try require(walk.counts == stated, page: page, "a tree does not have what it says it has")
        return root
    }

    /// Checks a page and everything it leads to; returns its number in the copy, or its own.
    private mutating func checkPage(
        _ number: UInt64, level: Int, notBefore: UnsafeRawBufferPointer?, _ walk: inout Walk
    ) throws(StoreError) -> UInt64 {
        let isLeaf = level == walk.depth
        let page = try take(number)
        let room = memory(level: walk.base + level - 1)
        try load(page, into: room, kind: isLeaf ? PageCheck.leaf : PageCheck.branch)
        let bytes = UnsafeRawBufferPointer(room)
        let lower = Int(bytes.littleEndian(at: 12) as UInt16)
        let upper = Int(bytes.littleEndian(at: 14) as UInt16)
        try require(
            lower > PageCheck.headerByteCount && lower & 1 == 0 && lower <= upper
                && upper <= pageByteCount, page: page, "its bounds are impossible")
        let nodeCount = (lower - PageCheck.headerByteCount) / 2
        if isLeaf { walk.counts.leafPages += 1 } else { walk.counts.branchPages += 1 }
        // Nodes are contiguous from `upper` to the end: one of another length would overlap the
        // next node, and LMDB would corrupt that when it moves them.
        var filledByteCount = 0
        for index in 0..<nodeCount {
            let slot = PageCheck.headerByteCount + 2 * index
            let offset = Int(bytes.littleEndian(at: slot) as UInt16)
            try require(
                offset >= upper && offset + PageCheck.nodeHeaderByteCount <= pageByteCount,
                page: page,
                "a node is outside it")
            let keyByteCount = Int(bytes.littleEndian(at: offset + 6) as UInt16)
            let keyOffset = offset + PageCheck.nodeHeaderByteCount
            let dataOffset = keyOffset + keyByteCount
            try require(dataOffset <= pageByteCount, page: page, "a key is outside it")
            let key = UnsafeRawBufferPointer(rebasing: bytes[keyOffset..<dataOffset])
            let bound = index == 0 ? notBefore : key
            if isLeaf {
                if let notBefore, index == 0 {
                    try require(
                        !isBefore(key, notBefore, in: walk.content), page: page,
                        "it is in the wrong place")
                }
                try checkOrder(of: key, on: page, walk: &walk)
                let end = try checkLeafNode(
                    of: page, in: room, offset: offset, dataOffset: dataOffset, below: level,
                    walk: &walk)
                filledByteCount += (end - offset + 1) & ~1
            } else {
                filledByteCount += (dataOffset - offset + 1) & ~1
                try require(
                    index == 0 || walk.content != .freePages || key.count == 8, page: page,
                    "a key is not a number")
                // The first key of a branch is not compared, and may be empty.
                try checkChild(
                    of: page, in: room, offset: offset, notBefore: bound, level: level, walk: &walk)
            }
        }
        try require(
            filledByteCount == pageByteCount - upper, page: page,
            "its nodes do not fill it as they should")
        return try copy?.append(room) ?? number
    }

    /// Checks the page that a node of a branch refers to, and changes the reference to the copy's
    /// page.
    private mutating func checkChild(
        of page: Int, in room: UnsafeMutableRawBufferPointer, offset: Int,
        notBefore bound: UnsafeRawBufferPointer?, level: Int, walk: inout Walk
    ) throws(StoreError) {
        if let bound, walk.hasPrevious {
            try require(
                isPreviousKey(of: walk, before: bound), page: page, "its keys are out of order")
        }
        let bytes = UnsafeRawBufferPointer(room)
        let child =
            UInt64(bytes.littleEndian(at: offset) as UInt32)
            | UInt64(bytes.littleEndian(at: offset + 4) as UInt16) << 32
        let moved = try checkPage(child, level: level + 1, notBefore: bound, &walk)
        room.storeBytes(
            of: UInt32(truncatingIfNeeded: moved).littleEndian, toByteOffset: offset,
            as: UInt32.self)
        room.storeBytes(
            of: UInt16(truncatingIfNeeded: moved >> 32).littleEndian, toByteOffset: offset + 4,
            as: UInt16.self)
    }

    private func checkOrder(
        of key: UnsafeRawBufferPointer, on page: Int, walk: inout Walk
    ) throws(StoreError) {
        if walk.content == .freePages {
            try require(key.count == 8, page: page, "a key is not a number")
        }
        if walk.hasPrevious {
            try require(
                isPreviousKey(of: walk, before: key), page: page, "its keys are out of order")
        }
        walk.previousKey.removeAll(keepingCapacity: true)
        walk.previousKey.append(contentsOf: key)
        walk.hasPrevious = true
    }

    /// Checks a node of a leaf and what it refers to; returns where it ends within the page.
    private mutating func checkLeafNode(
        of page: Int, in room: UnsafeMutableRawBufferPointer, offset: Int, dataOffset: Int,
        below level: Int, walk: inout Walk
    ) throws(StoreError) -> Int {
        let bytes = UnsafeRawBufferPointer(room)
        let dataByteCount = Int(bytes.littleEndian(at: offset) as UInt32)
        let flags: UInt16 = bytes.littleEndian(at: offset + 4)
        let (isBig, isTree): (Bool, Bool) = (flags == 0x01, flags == 0x02)
        try require(flags == 0 || isBig || isTree, page: page, "a node of another kind")
        walk.counts.entries += 1
        let inlineByteCount = isBig ? 8 : dataByteCount
        try require(
            dataOffset + inlineByteCount <= pageByteCount, page: page, "a value is outside it")
        try require(isTree == false || walk.content == .trees, page: page, "a tree within a tree")
        if isBig {
            let first: UInt64 = bytes.littleEndian(at: dataOffset)
            let (count, moved) = try takeOverflow(
                first, byteCount: dataByteCount, isFreeList: walk.content == .freePages)
            walk.counts.overflowPages += UInt64(count)
            room.storeBytes(of: moved.littleEndian, toByteOffset: dataOffset, as: UInt64.self)
        } else if isTree {
            try require(
                dataByteCount == PageFile.treeByteCount, page: page, "a tree of wrong size")
            let root = try checkTree(
                TreeRecord(bytes, at: dataOffset), foundOn: page, content: .values,
                base: walk.base + level)
            room.storeBytes(
                of: root.littleEndian, toByteOffset: dataOffset + TreeRecord.rootOffset,
                as: UInt64.self)
        } else if walk.content == .freePages {
            let list = bytes[dataOffset..<dataOffset + dataByteCount]
            try takeFree(UnsafeRawBufferPointer(rebasing: list), page)
        }
        return dataOffset + inlineByteCount
    }

    // MARK: Pages

    /// The memory of a level; the walk holds one page of each.
    private mutating func memory(level: Int) -> UnsafeMutableRawBufferPointer {
        while levels.count <= level {
            levels.append(.allocate(byteCount: pageByteCount, alignment: 16))
        }
        return levels[level]
    }

    /// Marks a page as referred to; fails if another page refers to it.
    private mutating func take(_ number: UInt64) throws(StoreError) -> Int {
        try require(
            number <= UInt64(meta.lastPage), page: 0, "a pointer leads to page \(number), outside")
        let page = Int(number)
        try require(page < isTaken.count, page: page, "it is cut off")
        try require(!isTaken[page], page: page, "two pointers lead to it")
        isTaken[page] = true
        try progress?.advance(byByteCount: pageByteCount)
        return page
    }

    /// Reads a page that must contain its own number and have the expected kind.
    private func load(
        _ page: Int, into room: UnsafeMutableRawBufferPointer, kind: UInt16
    ) throws(StoreError) {
        try file.read(into: room, page: page, meta)
        let bytes = UnsafeRawBufferPointer(room)
        try require(
            bytes.littleEndian(at: 0) == UInt64(page), page: page,
            "it has the number of another page")
        let flags: UInt16 = bytes.littleEndian(at: 10)
        try require(flags == kind, page: page, "it is of another kind")
    }

    /// Marks the pages of a large value; returns their count, and the first one's number in the
    /// copy, or its own.
    private mutating func takeOverflow(
        _ number: UInt64, byteCount: Int, isFreeList: Bool
    ) throws(StoreError) -> (count: Int, moved: UInt64) {
        let first = try take(number)
        let count =
            (PageCheck.headerByteCount + byteCount + pageByteCount - 1) / pageByteCount
        try require(
            first + count - 1 <= meta.lastPage && (first + count) * pageByteCount <= meta.byteCount,
            page: first, "a large value is cut off")
        let chunk = UnsafeMutableRawBufferPointer.allocate(
            byteCount: (isFreeList ? count : min(count, PageCheck.chunkPageCount)) * pageByteCount,
            alignment: 16)
        defer { chunk.deallocate() }
        let head = UnsafeMutableRawBufferPointer(rebasing: chunk[..<pageByteCount])
        try load(first, into: head, kind: PageCheck.overflow)
        let stated = Int(UnsafeRawBufferPointer(head).littleEndian(at: 12) as UInt32)
        try require(stated == count, page: first, "a large value does not have its size")
        for page in first + 1..<first + count { _ = try take(UInt64(page)) }
        if isFreeList {
            try file.read(into: chunk, page: first, meta)
            let start = PageCheck.headerByteCount
            let list = UnsafeRawBufferPointer(chunk)[start..<start + byteCount]
            try takeFree(UnsafeRawBufferPointer(rebasing: list), first)
        }
        guard let moved = try copy?.append(head) else { return (count, number) }
        var next = first + 1
        while next < first + count {
            let pages = min(first + count - next, PageCheck.chunkPageCount)
            let part = UnsafeMutableRawBufferPointer(rebasing: chunk[..<(pages * pageByteCount)])
            try file.read(into: part, page: next, meta)
            try copy?.appendRest(UnsafeRawBufferPointer(part))
            next += pages
        }
        return (count, moved)
    }

    /// Marks the pages of one record of the free list: a count, then page numbers, descending.
    private mutating func takeFree(
        _ list: UnsafeRawBufferPointer, _ page: Int
    ) throws(StoreError) {
        try require(list.count >= 8, page: page, "a free list without its length")
        let count = Int(truncatingIfNeeded: list.littleEndian(at: 0) as UInt64)
        try require(
            count >= 0 && count <= list.count / 8 - 1, page: page, "a free list is too long")
        var previous = UInt64.max
        for index in 0..<count {
            let free: UInt64 = list.littleEndian(at: 8 + 8 * index)
            try require(free < previous, page: page, "a free list is out of order")
            try require(
                free <= UInt64(meta.lastPage) && takeFree(Int(free)), page: page,
                "a free page is in use")
            previous = free
        }
    }

    /// Marks a free page; false if it is marked already.
    private mutating func takeFree(_ page: Int) -> Bool {
        guard page < isTaken.count else { return freeBehindEnd.insert(page).inserted }
        guard !isTaken[page] else { return false }
        isTaken[page] = true
        return true
    }

    private func isPreviousKey(of walk: Walk, before key: UnsafeRawBufferPointer) -> Bool {
        walk.previousKey.withUnsafeBytes { isBefore($0, key, in: walk.content) }
    }

    private func isBefore(
        _ left: UnsafeRawBufferPointer, _ right: UnsafeRawBufferPointer, in content: Content
    ) -> Bool {
        if content == .freePages {
            return (left.littleEndian(at: 0) as UInt64) < right.littleEndian(at: 0)
        }
        let common = min(left.count, right.count)
        let order = common == 0 ? 0 : memcmp(left.baseAddress!, right.baseAddress!, common)
        return order != 0 ? order < 0 : left.count < right.count
    }
}

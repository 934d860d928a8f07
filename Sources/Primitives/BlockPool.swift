// Memory for data that is needed for a little longer than one event. Blocks are used again without
// the allocator.

/// Free blocks of 64 to 4,096 bytes, by powers of two; larger ones come from the allocator
/// directly.
public struct BlockPool: ~Copyable {
    private static let smallestBits = 6
    private static let largestBits = 12
    private static let sizes = largestBits - smallestBits + 1

    /// The free blocks of one size; the one that was used last is on top, since it is still in the
    /// cache.
    private var free: [[UnsafeMutableRawPointer]]
    private let byteCountMaximum: Int
    /// Bytes that lie free.
    public private(set) var byteCount = 0

    /// - Parameter byteCountMaximum: what may lie free; more goes back to the allocator.
    public init(byteCountMaximum: Int) {
        self.byteCountMaximum = byteCountMaximum
        free = (0..<BlockPool.sizes).map { _ in [] }
    }

    deinit {
        for blocks in free {
            for block in blocks { block.deallocate() }
        }
    }

    /// A block of exactly so many bytes with undefined contents.
    public mutating func take(_ byteCount: Int) -> UnsafeMutableRawBufferPointer {
        let size = BlockPool.sizeIndex(byteCount)
        guard size < BlockPool.sizes else {
            return .allocate(byteCount: byteCount, alignment: 8)
        }
        let wholeByteCount = 1 << (BlockPool.smallestBits + size)
        guard let block = free[size].popLast() else {
            let block = UnsafeMutableRawPointer.allocate(
                byteCount: wholeByteCount, alignment: 8)
            return UnsafeMutableRawBufferPointer(start: block, count: byteCount)
        }
        self.byteCount -= wholeByteCount
        return UnsafeMutableRawBufferPointer(start: block, count: byteCount)
    }

    /// Takes back what ``take(_:)`` gave, with its count.
    public mutating func giveBack(_ bytes: UnsafeMutableRawBufferPointer) {
        let size = BlockPool.sizeIndex(bytes.count)
        let wholeByteCount = 1 << (BlockPool.smallestBits + size)
        guard size < BlockPool.sizes, let block = bytes.baseAddress,
            byteCount + wholeByteCount <= byteCountMaximum
        else {
            bytes.deallocate()
            return
        }
        free[size].append(block)
        byteCount += wholeByteCount
    }

    private static func sizeIndex(_ byteCount: Int) -> Int {
        guard byteCount > 1 << smallestBits else { return 0 }
        return Int.bitWidth - (byteCount - 1).leadingZeroBitCount - smallestBits
    }
}

// The pool owns its memory alone.
extension BlockPool: @unchecked Sendable {}

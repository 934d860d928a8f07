// Free memory blocks for waiting bytes, in sizes of powers of two. Each loop has one; it knows no
// connections.
import CLinuxShims
import Glibc

/// Blocks of 512 bytes to 1 MiB that are reused instead of going through the allocator; larger ones
/// come from the allocator directly.
struct BufferPool: ~Copyable {
    private static let smallestBits = 9
    private static let largestBits = 20
    private static let sizes = largestBits - smallestBits + 1

    /// The free blocks of one size: a stack, the block that was used last on top because its lines
    /// are still in the cache.
    private struct FreeBlocks {
        var stack: UnsafeMutablePointer<UnsafeMutableRawPointer>
        let capacity: Int
        var count = 0
        /// The smallest number of free blocks since the last trim: these were not needed.
        var idle = 0
    }

    private let free: UnsafeMutablePointer<FreeBlocks>

    init(byteCountPerSizeMaximum: Int) {
        free = .allocate(capacity: BufferPool.sizes)
        for index in 0..<BufferPool.sizes {
            let bytes = 1 << (BufferPool.smallestBits + index)
            let capacity = max(byteCountPerSizeMaximum / bytes, 1)
            (free + index).initialize(
                to: FreeBlocks(stack: .allocate(capacity: capacity), capacity: capacity))
        }
    }

    deinit {
        for index in 0..<BufferPool.sizes {
            for block in 0..<free[index].count { Glibc.free(free[index].stack[block]) }
            free[index].stack.deallocate()
        }
        free.deallocate()
    }

    /// A block of at least `byteCount` bytes and its real size. Its contents are undefined.
    mutating func take(_ byteCount: Int) -> (block: UnsafeMutableRawPointer, capacity: Int) {
        let index = BufferPool.sizeIndex(byteCount)
        guard index < BufferPool.sizes else { return (allocate(byteCount), byteCount) }
        let capacity = 1 << (BufferPool.smallestBits + index)
        let blocks = free + index
        guard blocks.pointee.count > 0 else { return (allocate(capacity), capacity) }
        blocks.pointee.count -= 1
        blocks.pointee.idle = min(blocks.pointee.idle, blocks.pointee.count)
        return (blocks.pointee.stack[blocks.pointee.count], capacity)
    }

    /// Returns a block with the size that ``take(_:)`` returned.
    mutating func giveBack(_ block: UnsafeMutableRawPointer, capacity: Int) {
        let index = BufferPool.sizeIndex(capacity)
        guard index < BufferPool.sizes, free[index].count < free[index].capacity else {
            Glibc.free(block)
            return
        }
        free[index].stack[free[index].count] = block
        free[index].count += 1
    }

    /// Returns blocks to the allocator that were unused since the last trim.
    mutating func trim() {
        var freedBytes = 0
        for index in 0..<BufferPool.sizes {
            let blocks = free + index
            freedBytes += blocks.pointee.idle << (BufferPool.smallestBits + index)
            for _ in 0..<blocks.pointee.idle {
                blocks.pointee.count -= 1
                Glibc.free(blocks.pointee.stack[blocks.pointee.count])
            }
            blocks.pointee.idle = blocks.pointee.count
        }
        // It walks the whole heap, so it is worth its milliseconds only after a real burst.
        if freedBytes >= TransportLimits.heapTrimMinimum { malloc_trim(0) }
    }

    /// True if the pool is empty: there is nothing to trim.
    var isEmpty: Bool {
        for index in 0..<BufferPool.sizes where free[index].count > 0 { return false }
        return true
    }

    private func allocate(_ byteCount: Int) -> UnsafeMutableRawPointer {
        guard let block = malloc(byteCount) else {
            fatalError("no memory for a buffer of \(byteCount) bytes")
        }
        return block
    }

    private static func sizeIndex(_ byteCount: Int) -> Int {
        guard byteCount > 1 << smallestBits else { return 0 }
        return Int.bitWidth - (byteCount - 1).leadingZeroBitCount - smallestBits
    }
}

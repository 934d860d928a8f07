// The reuse of returned blocks, and the limit of free ones.
import Testing

@testable import Primitives

@Suite struct BlockPoolTests {
    @Test func `a returned block is reused`() {
        var pool = BlockPool(byteCountMaximum: 1024)
        let first = pool.take(100)
        let address = first.baseAddress
        #expect(first.count == 100)
        pool.giveBack(first)
        let free = pool.byteCount
        #expect(free == 128)
        // Whoever comes needs another number of bytes of the same size.
        let second = pool.take(65)
        #expect(second.baseAddress == address && second.count == 65)
        pool.giveBack(second)
    }

    @Test func `every byte of a block can be written`() {
        var pool = BlockPool(byteCountMaximum: 1 << 16)
        for byteCount in [0, 1, 63, 64, 65, 1_000, 4_095, 4_096, 4_097, 100_000] {
            for _ in 0..<3 {
                let block = pool.take(byteCount)
                #expect(block.count == byteCount)
                for index in 0..<byteCount { block[index] = UInt8(truncatingIfNeeded: index) }
                pool.giveBack(block)
            }
        }
    }

    @Test func `free blocks are limited`() {
        var pool = BlockPool(byteCountMaximum: 1024)
        let blocks = (0..<100).map { _ in pool.take(256) }
        for block in blocks { pool.giveBack(block) }
        let free = pool.byteCount
        #expect(free == 1024)
        pool.giveBack(pool.take(64))
        pool.giveBack(pool.take(1 << 20))
        let unchanged = pool.byteCount
        #expect(unchanged == 1024, "whatever its size")
    }
}

// The guarantee of the checksum: damage within one word is always detected.

import Primitives
import Testing

@testable import QueueStore

@Suite struct `A checksum` {
    func sum(_ bytes: [UInt8], _ seed: ChecksumSeed = .message) -> UInt64 {
        var checksum = Checksum(seed)
        bytes.withUnsafeBytes { checksum.mix($0) }
        return checksum.value
    }

    @Test func `changes with every bit, in every length`() {
        for count in 1...40 {
            let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 37) }
            var seen: Set = [sum(bytes)]
            for bit in 0..<8 * count {
                var changed = bytes
                changed[bit / 8] ^= 1 << UInt8(bit % 8)
                #expect(seen.insert(sum(changed)).inserted)
            }
        }
    }

    @Test func `differs by length, position and table`() {
        #expect(sum([]) != sum([0]))
        #expect(sum([0]) != sum([0, 0]))
        let (left, right) = ([UInt8](repeating: 1, count: 8), [UInt8](repeating: 2, count: 8))
        #expect(sum(left + right) != sum(right + left))
        #expect(sum(left, .message) != sum(left, .record))
    }

    @Test func `is the one on disk`() {
        // Changing it would make every store unreadable.
        #expect(sum(Array("martlet store".utf8)) == 0xF780_FCFB_EFB9_D060)
    }
}

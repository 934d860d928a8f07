// Bytes are compared eight at a time: every length and every position of a difference.
import Primitives
import Testing

@Suite struct ByteComparisonTests {
    @Test func `buffers are equal exactly when all their bytes are`() {
        for count in 0...40 {
            let bytes = (0..<count).map { UInt8($0) }
            #expect(isEqual(bytes, bytes))
            #expect(!isEqual(bytes, bytes + [0]))
            for place in 0..<count {
                var other = bytes
                other[place] ^= 0x80
                #expect(!isEqual(bytes, other))
            }
        }
    }

    private func isEqual(_ left: [UInt8], _ right: [UInt8]) -> Bool {
        left.withUnsafeBytes { left in right.withUnsafeBytes { left.isEqual(to: $0) } }
    }
}

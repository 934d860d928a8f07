// The stamp in every payload survives encoding and decoding, and is text.
import Testing

@testable import martlet_bench

@Suite struct StampTests {
    static let stamps: [(publisher: UInt32, sequence: UInt64, nanoseconds: UInt64)] = [
        (0, 0, 0), (1, 2, 3), (0xFF_FFFF, 0xFFFF_FFFF_FFFF, 0xFFFF_FFFF_FFFF),
        (0x12_3456, 0x9ABC_DEF0_1234, 0x5678_9ABC_DEF0),
    ]

    @Test(arguments: stamps)
    func `what is written is read`(publisher: UInt32, sequence: UInt64, nanoseconds: UInt64) {
        var bytes = [UInt8](repeating: 0, count: Stamp.byteCount)
        bytes.withUnsafeMutableBytes {
            Stamp(publisher: publisher, sequence: sequence, nanoseconds: nanoseconds).write(to: $0)
        }
        // Printable, so that it may stand in a message of MRT.
        #expect(bytes.allSatisfy { (0x30...0x6F).contains($0) })
        let read = bytes.withUnsafeBytes { Stamp($0) }
        #expect(read?.publisher == publisher)
        #expect(read?.sequence == sequence)
        #expect(read?.nanoseconds == nanoseconds)
    }

    @Test func `arbitrary bytes are decoded as some stamp`() {
        for byte in UInt8(0)...255 {
            for place in 0..<Stamp.byteCount {
                for rest in [UInt8(0), 0x20, 0x30, 0xFF] {
                    var bytes = [UInt8](repeating: rest, count: Stamp.byteCount)
                    bytes[place] = byte
                    #expect(bytes.withUnsafeBytes { Stamp($0) } != nil)
                }
            }
        }
    }

    @Test func `a payload that is too short has no stamp`() {
        let bytes = [UInt8](repeating: 0x30, count: Stamp.byteCount - 1)
        #expect(bytes.withUnsafeBytes { Stamp($0) } == nil)
    }
}

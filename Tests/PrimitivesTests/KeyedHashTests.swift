// SipHash-1-3 against values of the reference implementation, for the key 00 01 … 0F and the
// messages 00 01 … of each length.
import Testing

@testable import Primitives

@Suite struct KeyedHashTests {
    @Test(arguments: [
        (0, UInt64(0xABAC_0158_050F_C4DC)), (1, 0xC9F4_9BF3_7D57_CA93),
        (7, 0xD392_7D98_9BB1_1140), (8, 0x3690_9511_8D29_9A8E), (15, 0xD320_D86D_2A51_9956),
        (16, 0xCC4F_DD1A_7D90_8B66), (63, 0x9D19_9062_B7BB_B3A8),
    ])
    func `it is SipHash with one and three rounds`(byteCount: Int, expected: UInt64) {
        let hash = KeyedHash(key0: 0x0706_0504_0302_0100, key1: 0x0F0E_0D0C_0B0A_0908)
        let message = (0..<UInt8(byteCount)).map { $0 }
        #expect(message.withUnsafeBytes { hash($0) } == expected)
    }

    @Test func `hash keys are equal within one process and differ between processes`() {
        let bytes: [UInt8] = [1, 2, 3]
        bytes.withUnsafeBytes { bytes in
            #expect(KeyedHash()(bytes) == KeyedHash()(bytes))
            #expect(KeyedHash()(bytes) != KeyedHash(key0: 0, key1: 0)(bytes))
        }
        #expect(KeyedHash()(1) != KeyedHash()(2))
    }
}

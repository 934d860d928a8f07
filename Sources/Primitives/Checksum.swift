// The checksum of everything that is stored or logged. Damaged data must be refused and never
// delivered. It detects accidents; it does not protect against someone who can write the file.

/// A running 64-bit checksum of 8-byte words.
///
/// Each step is a bijection of the state for a given word, and of the word for a given state, so
/// damage within one word of a record is always detected; any other damage goes undetected once in
/// 2⁶⁴. One multiplication for 8 bytes is several times as fast as a table-driven CRC-32C, and
/// needs no instruction that a processor may lack.
public struct Checksum: Sendable {
    /// The sum of the words so far.
    @inlinable
    public var value: UInt64 { sum }
    @usableFromInline
    var sum: UInt64

    /// 2⁶⁴ divided by the golden ratio, made odd: multiplication by an odd number is a bijection.
    @usableFromInline
    static var multiplier: UInt64 { 0x9E37_79B9_7F4A_7C15 }

    /// Starts a sum. Tables and logs have different seeds, so that a record that appears in another
    /// one fails there.
    @inlinable @inline(__always)
    public init(seed: UInt64) {
        sum = seed
    }

    @inlinable @inline(__always)
    public mutating func mix(_ word: UInt64) {
        sum = (sum ^ word) &* Checksum.multiplier
        // The product's low bits depend on low bits only; mixing in its high half corrects that.
        sum ^= sum >> 32
    }

    /// Mixes the length, then the bytes, the last word padded with zeros.
    @inlinable @inline(__always)
    public mutating func mix(_ bytes: UnsafeRawBufferPointer) {
        mix(UInt64(bytes.count))
        var offset = 0
        while offset + 8 <= bytes.count {
            mix(UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self)))
            offset += 8
        }
        guard offset < bytes.count else { return }
        var tail: UInt64 = 0
        for index in offset..<bytes.count {
            tail |= UInt64(bytes[index]) << UInt64(8 * (index - offset))
        }
        mix(tail)
    }
}

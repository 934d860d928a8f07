// SipHash-1-3, the function behind the standard library's Hasher, in a form that the compiler can
// inline into a look-up: Hasher makes seven calls into another library, and a broker hashes several
// times per message.

/// A hash of byte strings that nobody can make collide who does not know its key (Aumasson and
/// Bernstein, "SipHash: a fast short-input PRF", with one round per word and three at the end).
///
/// The key is the process's: it comes from the standard library's own random seed, so
/// `SWIFT_DETERMINISTIC_HASHING` fixes this one too.
public struct KeyedHash: Sendable {
    @usableFromInline let key0: UInt64
    @usableFromInline let key1: UInt64

    /// With a key of this process.
    public init() {
        self.init(key0: KeyedHash.seed(0), key1: KeyedHash.seed(1))
    }

    /// With a given key, for the test vectors.
    init(key0: UInt64, key1: UInt64) {
        self.key0 = key0
        self.key1 = key1
    }

    private static func seed(_ number: UInt8) -> UInt64 {
        var hasher = Hasher()
        hasher.combine(number)
        return UInt64(truncatingIfNeeded: hasher.finalize())
    }

    /// The hash of `bytes`.
    @inlinable
    public func callAsFunction(_ bytes: UnsafeRawBufferPointer) -> UInt64 {
        var state = State(key0, key1)
        let count = bytes.count
        var offset = 0
        while offset &+ 8 <= count {
            state.compress(
                UInt64(
                    littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self)))
            offset &+= 8
        }
        var last = UInt64(truncatingIfNeeded: count) << 56
        if count >= 8 {
            // The bytes that are left, at the top of the last eight.
            let rest = UInt64(
                littleEndian: bytes.loadUnaligned(fromByteOffset: count &- 8, as: UInt64.self))
            last |= rest >> UInt64(truncatingIfNeeded: 64 &- 8 &* (count &- offset))
        } else {
            for place in 0..<count { last |= UInt64(bytes[place]) << (8 &* UInt64(place)) }
        }
        state.compress(last)
        return state.finish()
    }

    /// The hash of one number: of its eight bytes alone, without their count.
    @inlinable
    public func callAsFunction(_ number: UInt64) -> UInt64 {
        var state = State(key0, key1)
        state.compress(number)
        return state.finish()
    }

    @usableFromInline
    struct State {
        @usableFromInline var v0: UInt64
        @usableFromInline var v1: UInt64
        @usableFromInline var v2: UInt64
        @usableFromInline var v3: UInt64

        @inlinable
        init(_ key0: UInt64, _ key1: UInt64) {
            v0 = key0 ^ 0x736F_6D65_7073_6575
            v1 = key1 ^ 0x646F_7261_6E64_6F6D
            v2 = key0 ^ 0x6C79_6765_6E65_7261
            v3 = key1 ^ 0x7465_6462_7974_6573
        }

        @inlinable @inline(__always)
        mutating func round() {
            v0 = v0 &+ v1
            v1 = rotate(v1, 13) ^ v0
            v0 = rotate(v0, 32)
            v2 = v2 &+ v3
            v3 = rotate(v3, 16) ^ v2
            v0 = v0 &+ v3
            v3 = rotate(v3, 21) ^ v0
            v2 = v2 &+ v1
            v1 = rotate(v1, 17) ^ v2
            v2 = rotate(v2, 32)
        }

        @inlinable @inline(__always)
        func rotate(_ value: UInt64, _ count: UInt64) -> UInt64 {
            value &<< count | value &>> (64 &- count)
        }

        @inlinable @inline(__always)
        mutating func compress(_ word: UInt64) {
            v3 ^= word
            round()
            v0 ^= word
        }

        @inlinable @inline(__always)
        mutating func finish() -> UInt64 {
            v2 ^= 0xFF
            round()
            round()
            round()
            return v0 ^ v1 ^ v2 ^ v3
        }
    }
}

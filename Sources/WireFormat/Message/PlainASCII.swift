// Checks text eight bytes at a time. Nearly all text that devices send is printable ASCII, which
// meets every rule about characters, so only other text is checked byte by byte.

import Primitives

enum PlainASCII {
    @inline(__always)
    private static var ones: UInt64 { 0x0101_0101_0101_0101 }
    @inline(__always)
    static var topBits: UInt64 { 0x8080_8080_8080_8080 }

    /// Not 0 exactly if one of eight bytes is not printable ASCII (0x20 to 0x7E), or is one of
    /// `excluded`.
    @inline(__always)
    static func suspects(_ eight: UInt64, excluded: (UInt8, UInt8, UInt8)) -> UInt64 {
        // Each term has the top bit of a byte set if that byte is below 0x20, above 0x7E, or 0
        // after the exclusive or. A borrow or a carry begins in a byte that is itself found.
        @inline(__always)
        func isZero(_ byte: UInt8) -> UInt64 { (eight ^ ones &* UInt64(byte)) &- ones }
        let isOutside = (eight &- ones &* 0x20) | (eight &+ ones) | eight
        return (isOutside | isZero(excluded.0) | isZero(excluded.1) | isZero(excluded.2))
            & topBits
    }

    /// Whether all bytes are printable ASCII and none is one of `excluded`.
    @inline(__always)
    static func isAll(
        _ bytes: RawSpan, excluding excluded: (UInt8, UInt8, UInt8)
    ) -> Bool {
        let count = bytes.byteCount
        guard count >= 8 else { return suspects(padded(bytes), excluded: excluded) == 0 }
        var found: UInt64 = 0
        var offset = 0
        while offset < count &- 8 {
            found |= suspects(
                bytes.loadInteger(at: offset, as: UInt64.self), excluded: excluded)
            offset &+= 8
        }
        // The last eight, some of them for the second time.
        return found
            | suspects(
                bytes.loadInteger(at: count &- 8, as: UInt64.self), excluded: excluded
            )
            == 0
    }

    /// Fewer than eight bytes as eight: some twice, and spaces where there are not enough.
    @inline(__always)
    private static func padded(_ bytes: RawSpan) -> UInt64 {
        let count = bytes.byteCount
        if count >= 4 {
            let first = bytes.loadInteger(at: 0, as: UInt32.self)
            let last = bytes.loadInteger(at: count &- 4, as: UInt32.self)
            return UInt64(first) | UInt64(last) << 32
        }
        let spaces = ones &* 0x20
        if count == 0 { return spaces }
        return spaces << 24 | UInt64(bytes[0]) | UInt64(bytes[count / 2]) << 8
            | UInt64(bytes[count &- 1]) << 16
    }
}

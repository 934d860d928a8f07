// The first bytes of every payload, which the receiver reads back: the publisher, the message, and
// its scheduled time. Printable ASCII, because a message of MRT is text.

/// The first 20 bytes of a payload: numbers in digits of six bits, least significant first, each a
/// byte from `0` (0x30) to `o` (0x6F).
///
///     | publisher, 4 digits | sequence, 8 digits | intended time in ns, 8 digits |
struct Stamp {
    static let byteCount = 20

    var publisher: UInt32
    /// Counts a publisher's messages from 0.
    var sequence: UInt64
    /// Nanoseconds since the beginning of the run; 48 bits are three days.
    var nanoseconds: UInt64

    init(publisher: UInt32, sequence: UInt64, nanoseconds: UInt64) {
        self.publisher = publisher
        self.sequence = sequence
        self.nanoseconds = nanoseconds
    }

    /// Nil if the bytes are not a stamp.
    init?(_ bytes: UnsafeRawBufferPointer) {
        guard bytes.count >= Stamp.byteCount else { return nil }
        let digits = bytes.loadUnaligned(fromByteOffset: 0, as: UInt32.self)
        // Bytes that are no digits may exceed four digits.
        publisher = UInt32(
            clamping: Stamp.decode(UInt64(UInt32(littleEndian: digits)) | 0x3030_3030 << 32))
        sequence = Stamp.decode(
            UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: 4, as: UInt64.self)))
        nanoseconds = Stamp.decode(
            UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: 12, as: UInt64.self)))
    }

    /// Writes the stamp over the first bytes of a payload.
    func write(to bytes: UnsafeMutableRawBufferPointer) {
        bytes.storeBytes(
            of: UInt32(truncatingIfNeeded: Stamp.encode(UInt64(publisher))).littleEndian,
            toByteOffset: 0, as: UInt32.self)
        bytes.storeBytes(
            of: Stamp.encode(sequence).littleEndian, toByteOffset: 4, as: UInt64.self)
        bytes.storeBytes(
            of: Stamp.encode(nanoseconds).littleEndian, toByteOffset: 12, as: UInt64.self)
    }

    private static let zeros: UInt64 = 0x3030_3030_3030_3030

    /// Spreads 48 bits over eight bytes of six: halves, quarters, eighths.
    private static func encode(_ value: UInt64) -> UInt64 {
        var bits = value & 0xFF_FFFF | (value >> 24 & 0xFF_FFFF) << 32
        bits = bits & 0x0000_0FFF_0000_0FFF | (bits >> 12 & 0x0000_0FFF_0000_0FFF) << 16
        bits = bits & 0x003F_003F_003F_003F | (bits >> 6 & 0x003F_003F_003F_003F) << 8
        return bits &+ zeros
    }

    /// The reverse. Bytes that are no digits give some number; the reader checks its plausibility.
    private static func decode(_ digits: UInt64) -> UInt64 {
        var bits = digits &- zeros
        bits = bits & 0x003F_003F_003F_003F | (bits >> 8 & 0x003F_003F_003F_003F) << 6
        bits = bits & 0x0000_0FFF_0000_0FFF | (bits >> 16 & 0x0000_0FFF_0000_0FFF) << 12
        return bits & 0xFF_FFFF | (bits >> 32 & 0xFF_FFFF) << 24
    }
}

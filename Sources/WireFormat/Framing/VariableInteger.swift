// The variable byte integer: seven bits a byte, least significant first, the top bit says that more
// follow. MQTT uses up to four bytes; MRT uses the same encoding with up to nine.

public enum VariableInteger {
    /// Bytes that encode `value`, which is 0...``WireLimits/varIntMaximum``: 1...9.
    @inlinable
    public static func byteCount(_ value: some FixedWidthInteger) -> Int {
        // Significant bits, at least one, divided by seven and rounded up.
        (64 - (UInt64(truncatingIfNeeded: value) | 1).leadingZeroBitCount + 6) / 7
    }
}

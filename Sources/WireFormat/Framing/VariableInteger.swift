// The variable byte integer: seven bits a byte, least significant first, the top bit says that more
// follow. MQTT uses up to four bytes; MRT uses the same encoding with up to nine.

public enum VariableInteger {
    /// Bytes that encode `value`, which is at most ``WireLimits/varIntMaximum``: 1...9.
    @inlinable
    public static func byteCount(_ value: UInt64) -> Int {
        // Significant bits, at least one, divided by seven and rounded up.
        (64 - (value | 1).leadingZeroBitCount + 6) / 7
    }
}

// A count that is part of many records: computed in 64 bits, stored in 32.

/// Keeps a count in four bytes. One that does not fit traps: counts are bounded by limits, and a
/// larger one is a bug of this program.
@propertyWrapper
public struct NarrowCount: BitwiseCopyable, Sendable {
    @usableFromInline var stored: UInt32

    @inlinable
    public init(wrappedValue: Int) { stored = UInt32(wrappedValue) }

    @inlinable
    public var wrappedValue: Int {
        get { Int(stored) }
        set { stored = UInt32(newValue) }
    }
}

// A number of which there is one in each of many records: computed with as any other, kept in half
// of its size.

/// Keeps a count in four bytes. One that does not fit traps: counts are bounded by limits, and a
/// larger one is a fault of ours.
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

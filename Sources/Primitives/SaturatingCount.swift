// A count of what peers cause, in four bytes. A flood of hours could take it past its end, which
// must not stop anybody: it stays at its maximum then.

/// A count that only rises, up to `UInt32.max`.
public struct SaturatingCount: Hashable, Sendable {
    public private(set) var value: UInt32 = 0

    public init() {}

    public init(_ value: UInt32) { self.value = value }

    public static func += (left: inout SaturatingCount, right: UInt32) {
        let (sum, isOver) = left.value.addingReportingOverflow(right)
        left.value = isOver ? .max : sum
    }

    public static func += (left: inout SaturatingCount, right: SaturatingCount) {
        left += right.value
    }
}

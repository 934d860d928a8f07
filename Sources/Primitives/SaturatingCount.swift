// A count of events that peers cause, in four bytes. A flood of hours could exceed its range; it
// then stays at its maximum, because no peer may stop the broker.

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

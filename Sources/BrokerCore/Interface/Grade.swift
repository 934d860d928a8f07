// The three grades of a send, the same in both dialects.

/// The delivery guarantee of a message. A receiver gets the lower of the send's grade and its
/// subscription's. Raw values are MQTT's QoS and the grade bits of MRT.
public enum Grade: UInt8, Hashable, Comparable, Sendable, BitwiseCopyable {
    /// At most once, to connected receivers; never stored, without a number. MQTT QoS 0.
    case transient = 0
    /// Never lost once acknowledged; delivered at once. MQTT QoS 1.
    case durable = 1
    /// Delivered exactly once, even if a client or the broker fails; delivered after the commit,
    /// also to lower subscriptions. MQTT QoS 2.
    case once = 2

    @inlinable
    public static func < (left: Grade, right: Grade) -> Bool { left.rawValue < right.rawValue }
}

// The three grades of a send, the same in both dialects.

/// What is promised of a message. A receiver gets the lower of the send's grade and its
/// subscription's. Raw values are MQTT's QoS and the grade bits of MRT.
public enum Grade: UInt8, Hashable, Comparable, Sendable, BitwiseCopyable {
    /// At most once, to who is online; never stored, no number. MQTT QoS 0.
    case transient = 0
    /// Never lost once acknowledged; delivered at once. MQTT QoS 1.
    case durable = 1
    /// Delivered exactly once, whatever dies; delivered after the commit, to lower subscriptions
    /// too. MQTT QoS 2.
    case once = 2

    @inlinable
    public static func < (left: Grade, right: Grade) -> Bool { left.rawValue < right.rawValue }
}

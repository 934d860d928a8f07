// The kinds of wake targets that a content can be made for.

/// How a target is woken. The raw value is the broker's name of it.
package enum WakeKind: String, CaseIterable, Sendable {
    case webhook
    case apns
    case fcm
    case sms = "sms-webhook"
    case mqtt
    case udp

    /// Whether a content is sent; a datagram has none.
    package var hasContent: Bool { self != .udp }
}

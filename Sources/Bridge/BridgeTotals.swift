// The counters of a bridge since its start.

struct BridgeTotals: Hashable {
    /// Accepted by Martlet, and by the MQTT broker.
    var toMartlet: UInt64 = 0
    var toMQTT: UInt64 = 0
    /// Refused permanently, in each direction.
    var refusedToMartlet: UInt64 = 0
    var refusedToMQTT: UInt64 = 0
    /// Refused temporarily, and sent again.
    var retried: UInt64 = 0
    /// No rule matched.
    var unmatched: UInt64 = 0
    /// QoS 0 and transient, while the other side was unreachable.
    var dropped: UInt64 = 0
    /// Repeated by the sender, or copies by other subscriptions, and passed on once.
    var repeated: UInt64 = 0
    /// Sent by this bridge's own user, and not returned.
    var own: UInt64 = 0
    /// Writes of the record.
    var recordWrites: UInt64 = 0
    /// Subscriptions that the brokers confirm at present, on both sides.
    var filters: UInt64 = 0
    /// Subscriptions and groups of the rules that no broker confirms at present.
    var missing: UInt64 = 0

    var line: String {
        "to_martlet=\(toMartlet) to_mqtt=\(toMQTT) refused_to_martlet=\(refusedToMartlet) "
            + "refused_to_mqtt=\(refusedToMQTT) retried=\(retried) unmatched=\(unmatched) "
            + "dropped=\(dropped) repeated=\(repeated) own=\(own) record_writes=\(recordWrites) "
            + "filters=\(filters) missing=\(missing)"
    }
}

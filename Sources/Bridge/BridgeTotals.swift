// What a bridge has done since it was started, in numbers.

struct BridgeTotals: Hashable {
    /// Taken by Martlet, and by the other broker.
    var toMartlet: UInt64 = 0
    var toMQTT: UInt64 = 0
    /// Refused for good, in each direction.
    var refusedToMartlet: UInt64 = 0
    var refusedToMQTT: UInt64 = 0
    /// Refused for now, and sent again.
    var retried: UInt64 = 0
    /// No rule was for it.
    var unmatched: UInt64 = 0
    /// QoS 0 and transient, without a receiver that is connected.
    var dropped: UInt64 = 0
    /// Came a second time, and was passed on once.
    var repeated: UInt64 = 0
    /// Sent by this bridge's own user, and not sent back.
    var own: UInt64 = 0
    /// Writes of the record.
    var recordWrites: UInt64 = 0
    /// Subscriptions that the brokers have confirmed at this moment, on both sides.
    var filters: UInt64 = 0
    /// Subscriptions and groups that the rules want and no broker has confirmed at this moment.
    var missing: UInt64 = 0

    var line: String {
        "to_martlet=\(toMartlet) to_mqtt=\(toMQTT) refused_to_martlet=\(refusedToMartlet) "
            + "refused_to_mqtt=\(refusedToMQTT) retried=\(retried) unmatched=\(unmatched) "
            + "dropped=\(dropped) repeated=\(repeated) own=\(own) record_writes=\(recordWrites) "
            + "filters=\(filters) missing=\(missing)"
    }
}

// Recognises copies of one message: an MQTT broker may send a message once for each subscription
// that matches it. Two of the bridge's subscriptions match a message only while a new filter
// overlaps one that ends. A broker sends the copies one after the other, each with the identifier
// of its subscription, and subscriptions of before a change have another identifier, or none.

/// The subscriptions by which the last publication of QoS 1 or 2 and its copies have arrived.
struct SubscriptionCopies {
    private var digest: UInt64?
    private var identifiers: Set<UInt32> = []

    /// Takes the next publication. True if it is a copy of the last one: it has the same topic and
    /// payload, and came by other subscriptions.
    ///
    /// - Parameters:
    ///   - digest: of topic and payload.
    ///   - subscriptions: the identifiers of its subscriptions; 0 for one without.
    mutating func take(_ digest: UInt64, by subscriptions: Set<UInt32>) -> Bool {
        if digest == self.digest, identifiers.isDisjoint(with: subscriptions) {
            identifiers.formUnion(subscriptions)
            return true
        }
        self.digest = digest
        identifiers = subscriptions
        return false
    }

    /// Copies of later publications are not copies of earlier ones.
    mutating func forget() { digest = nil }
}

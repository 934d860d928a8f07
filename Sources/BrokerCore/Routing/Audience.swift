// The receivers of one address: a contiguous list, so that a fan-out reads memory from front to
// back and reads a session only if it must.

import BrokerTerms
import Primitives

/// One receiver of an audience, with everything that a transient delivery needs.
struct Subscriber {
    /// The session's connection, or `.none`. A login and a disconnection update it.
    var connection: ConnectionID
    var session: Index<Session>
    var subscription: Index<Subscription>
    /// The maximum grade of the subscription.
    var grade: Grade
    var options: SubscriptionOptions
    /// The protocol that encodes the session's messages.
    var dialect: SessionDialect
    /// Whether it waits for retained messages until another subscription of its session has been
    /// served.
    var awaitsRetained = false
    /// The identifier that the subscription's messages carry; 0 for none.
    var subscriptionIdentifier: UInt32

    /// Takes over the options of a repeated subscription. Returns true if they differ.
    mutating func change(to request: FilterRequest, identifier: UInt32) -> Bool {
        // A replay that has begun continues.
        let new = request.options.stored.union(options.intersection(.awaitsReplay))
        let isChanged =
            grade != request.grade || options != new
            || subscriptionIdentifier != identifier
        grade = request.grade
        options = new
        subscriptionIdentifier = identifier
        return isChanged
    }
}

/// A session's membership in an audience, from the session's side.
struct Subscription {
    let session: Index<Session>
    let audience: Index<Audience>
    /// Position in the audience's list.
    var position: UInt32
    /// The next in the session's chain of subscriptions; nil for the last.
    @Packed var next: Index<Subscription>? = nil
    /// Durable identifier within the session; 0 if the subscription is not stored.
    let identifier: UInt64
}

/// The receivers of one address.
struct Audience {
    var subscribers: ContiguousArray<Subscriber> = []
    /// For a shared subscription: the position of the next receiver.
    var rotationPosition: UInt32 = 0
    /// For a shared subscription: the number of connected subscribers.
    var presentCount: UInt32 = 0
    /// The filter that leads here, as clients wrote it; empty for an address.
    let filter: [UInt8]
    /// For a shared subscription: the number that its entries carry. No other share of the app has
    /// it while this one has members. It is in the rows of the subscriptions. Otherwise 0.
    var share: UInt16 = 0
    /// Whether its filter matches the topic of ``Routing/markedTopic``.
    var isMarked = false
    /// For a shared subscription: the shares of its filter, and its position among them.
    @Packed var shareSet: Index<ShareSet>? = nil
    var sharePosition: UInt32 = 0

    init(filter: [UInt8] = []) {
        self.filter = filter
    }
}

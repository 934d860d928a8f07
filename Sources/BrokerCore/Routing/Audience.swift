// Who receives what is sent to one address: a contiguous list, so that a fan-out reads memory from
// front to back and touches a session only where it must.

import BrokerTerms
import Primitives

/// One receiver of an audience, with what a transient delivery needs beside it.
struct Subscriber {
    /// The session's live connection, or `.none`; kept up to date by attach and detach.
    var connection: ConnectionID
    var session: Index<Session>
    var subscription: Index<Subscription>
    /// The highest grade it wants.
    var grade: Grade
    var options: SubscriptionOptions
    /// How the session's messages are put on the wire.
    var dialect: SessionDialect
    /// Whether it waits for retained messages behind another subscription of its session.
    var awaitsRetained = false
    /// Comes back in what this subscription brings; 0 for none.
    var subscriptionIdentifier: UInt32

    /// Takes over what a repeated subscription wants. True where that is something else.
    mutating func change(to request: FilterRequest, identifier: UInt32) -> Bool {
        // What has begun for it goes on.
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

/// A session's place in an audience, from the session's side.
struct Subscription {
    let session: Index<Session>
    let audience: Index<Audience>
    /// Place in the audience's list.
    var position: UInt32
    /// The next in the session's chain of subscriptions.
    @Packed var next: Index<Subscription>? = nil
    /// Durable name within the session; 0 where nothing of it is stored.
    let identifier: UInt64
}

/// The receivers of one address.
struct Audience {
    var subscribers: ContiguousArray<Subscriber> = []
    /// Of a shared subscription: whose turn it is.
    var turn: UInt32 = 0
    /// Of a shared subscription: subscribers that have a connection.
    var presentCount: UInt32 = 0
    /// The filter, as clients wrote it, that leads here; empty for an address.
    let filter: [UInt8]
    /// Of a shared subscription: the number that its entries carry, which no other share of the
    /// app has while this one has members; otherwise 0. It is in the rows of the subscriptions.
    var share: UInt16 = 0
    /// Whether its filter matches the topic of ``Broker/markedTopic``.
    var isMarked = false
    /// Of a shared subscription: the shares of its filter, and its place among them.
    @Packed var shareSet: Index<ShareSet>? = nil
    var sharePosition: UInt32 = 0

    init(filter: [UInt8] = []) {
        self.filter = filter
    }
}

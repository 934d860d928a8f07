// Membership of audiences: who is where, kept consistent from both sides.

import Primitives

extension Broker {
    /// Adds a session to an audience and notes it in the session's chain.
    @discardableResult
    mutating func join(
        session: Index<Session>, audience: Index<Audience>, grade: Grade, identifier: UInt64 = 0,
        options: SubscriptionOptions = [], subscriptionIdentifier: UInt32 = 0
    ) -> Index<Subscription> {
        var subscription = Subscription(
            session: session, audience: audience,
            position: UInt32(audiences[audience].subscribers.count), identifier: identifier)
        subscription.next = sessions[session].firstSubscription
        let index = subscriptions.insert(subscription).index
        sessions[session].firstSubscription = index
        let connection = liveConnection(of: session)
        audiences[audience].subscribers.append(
            Subscriber(
                connection: connection, session: session, subscription: index,
                grade: grade, options: options, dialect: sessions[session].dialect,
                subscriptionIdentifier: subscriptionIdentifier))
        if connection != .none { countPresent(audience, isPresent: true) }
        return index
    }

    /// Takes a session out of an audience; the last subscriber moves into its place.
    mutating func leave(subscription index: Index<Subscription>) {
        let subscription = subscriptions.remove(index)
        unchain(index, subscription)
        let position = Int(subscription.position)
        if audiences[subscription.audience].subscribers[position].connection != .none {
            countPresent(subscription.audience, isPresent: false)
        }
        let last = audiences[subscription.audience].subscribers.removeLast()
        if last.subscription != index {
            audiences[subscription.audience].subscribers[position] = last
            subscriptions[last.subscription].position = subscription.position
        }
    }

    /// Walks the chain, as whoever looks for a filter does: a way back would cost every session
    /// that sleeps.
    private mutating func unchain(_ index: Index<Subscription>, _ subscription: Subscription) {
        var previous = sessions[subscription.session].firstSubscription
        if previous == index {
            sessions[subscription.session].firstSubscription = subscription.next
            return
        }
        while let earlier = previous {
            previous = subscriptions[earlier].next
            guard previous == index else { continue }
            subscriptions[earlier].next = subscription.next
            return
        }
    }

    /// A share counts those of its subscribers who have a connection.
    @inline(__always)
    private mutating func countPresent(_ audience: Index<Audience>, isPresent: Bool) {
        guard audiences[audience].share != 0 else { return }
        if isPresent {
            audiences[audience].presentCount += 1
            if audiences[audience].presentCount == 1 { moveShare(audience, isPresent: true) }
        } else {
            audiences[audience].presentCount -= 1
            if audiences[audience].presentCount == 0 { moveShare(audience, isPresent: false) }
        }
    }

    @inline(__always)
    func forEachSubscription(of session: Index<Session>, _ body: (Index<Subscription>) -> Void) {
        var next = sessions[session].firstSubscription
        while let subscription = next {
            body(subscription)
            next = subscriptions[subscription].next
        }
    }

    /// What audiences should know of a session's connection: nothing until it has been told that it
    /// is accepted, so that no delivery overtakes its CONNACK.
    func liveConnection(of session: Index<Session>) -> ConnectionID {
        guard let connected = sessions[session].connected, connectedSessions[connected].isConfirmed
        else {
            return .none
        }
        return connectedSessions[connected].connection
    }

    /// Tells all audiences of a session which connection it has now.
    mutating func announceConnection(of session: Index<Session>) {
        let connection = liveConnection(of: session)
        var index = sessions[session].firstSubscription
        while let current = index {
            let subscription = subscriptions[current]
            let position = Int(subscription.position)
            let old = audiences[subscription.audience].subscribers[position].connection
            if (old != .none) != (connection != .none) {
                countPresent(subscription.audience, isPresent: old == .none)
            }
            audiences[subscription.audience].subscribers[position].connection = connection
            audiences[subscription.audience].subscribers[position].dialect =
                sessions[session].dialect
            index = subscription.next
        }
    }
}

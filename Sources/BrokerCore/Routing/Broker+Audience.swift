// Membership of audiences: who is where, kept consistent from both sides.

import BrokerTerms
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
            position: UInt32(routing.audiences[audience].subscribers.count), identifier: identifier)
        subscription.next = sessions[session].firstSubscription
        let index = routing.subscriptions.insert(subscription).index
        sessions[session].firstSubscription = index
        let connection = liveConnection(of: session)
        routing.audiences[audience].subscribers.append(
            Subscriber(
                connection: connection, session: session, subscription: index,
                grade: grade, options: options, dialect: sessions[session].dialect,
                subscriptionIdentifier: subscriptionIdentifier))
        if connection != .none { countPresent(audience, isPresent: true) }
        return index
    }

    /// Takes a session out of an audience; the last subscriber moves into its place.
    mutating func leave(subscription index: Index<Subscription>) {
        let subscription = routing.subscriptions.remove(index)
        unchain(index, subscription)
        let position = Int(subscription.position)
        if routing.audiences[subscription.audience].subscribers[position].connection != .none {
            countPresent(subscription.audience, isPresent: false)
        }
        let last = routing.audiences[subscription.audience].subscribers.removeLast()
        if last.subscription != index {
            routing.audiences[subscription.audience].subscribers[position] = last
            routing.subscriptions[last.subscription].position = subscription.position
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
            previous = routing.subscriptions[earlier].next
            guard previous == index else { continue }
            routing.subscriptions[earlier].next = subscription.next
            return
        }
    }

    /// A share counts those of its subscribers who have a connection.
    @inline(__always)
    private mutating func countPresent(_ audience: Index<Audience>, isPresent: Bool) {
        guard routing.audiences[audience].share != 0 else { return }
        if isPresent {
            routing.audiences[audience].presentCount += 1
            if routing.audiences[audience].presentCount == 1 {
                moveShare(audience, isPresent: true)
            }
        } else {
            routing.audiences[audience].presentCount -= 1
            if routing.audiences[audience].presentCount == 0 {
                moveShare(audience, isPresent: false)
            }
        }
    }

    @inline(__always)
    func forEachSubscription(of session: Index<Session>, _ body: (Index<Subscription>) -> Void) {
        var next = sessions[session].firstSubscription
        while let subscription = next {
            body(subscription)
            next = routing.subscriptions[subscription].next
        }
    }

    /// What audiences should know of a session's connection: nothing until it has been told that it
    /// is accepted, so that no delivery overtakes its CONNACK.
    func liveConnection(of session: Index<Session>) -> ConnectionID {
        guard let connected = sessions[session].connected,
            live.connectedSessions[connected].isConfirmed
        else {
            return .none
        }
        return live.connectedSessions[connected].connection
    }

    /// Tells all audiences of a session which connection it has now.
    mutating func announceConnection(of session: Index<Session>) {
        let connection = liveConnection(of: session)
        var index = sessions[session].firstSubscription
        while let current = index {
            let subscription = routing.subscriptions[current]
            let position = Int(subscription.position)
            let old = routing.audiences[subscription.audience].subscribers[position].connection
            if (old != .none) != (connection != .none) {
                countPresent(subscription.audience, isPresent: old == .none)
            }
            routing.audiences[subscription.audience].subscribers[position].connection = connection
            routing.audiences[subscription.audience].subscribers[position].dialect =
                sessions[session].dialect
            index = subscription.next
        }
    }
}

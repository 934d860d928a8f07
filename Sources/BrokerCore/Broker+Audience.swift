// Membership of audiences: who is where, kept consistent from both sides.

import Primitives

extension Broker {
    mutating func makeAudience() -> UInt32 {
        audiences.insert(Audience()).index
    }

    /// Adds a session to an audience and notes it in the session.
    @discardableResult
    mutating func join(
        session: UInt32, audience: UInt32, grade: Grade, identifier: UInt64 = 0,
        filter: [UInt8] = []
    ) -> UInt32 {
        let position = UInt32(audiences[audience].subscribers.count)
        let subscription = subscriptions.insert(
            Subscription(
                session: session, audience: audience, position: position, identifier: identifier,
                filter: filter, grade: grade)
        ).index
        audiences[audience].subscribers.append(
            Subscriber(
                connection: liveConnection(of: session), session: session,
                subscription: subscription, grade: grade))
        sessions[session].subscriptions.append(subscription)
        return subscription
    }

    /// Takes a session out of an audience; the last subscriber moves into its place.
    mutating func leave(subscription index: UInt32) {
        let subscription = subscriptions.remove(index)
        let position = Int(subscription.position)
        let last = audiences[subscription.audience].subscribers.removeLast()
        if last.subscription != index {
            audiences[subscription.audience].subscribers[position] = last
            subscriptions[last.subscription].position = subscription.position
        }
        let place = sessions[subscription.session].subscriptions.firstIndex(of: index)!
        sessions[subscription.session].subscriptions.remove(at: place)
        if subscription.identifier != 0 && audiences[subscription.audience].subscribers.isEmpty {
            let app = users[sessions[subscription.session].user].app
            subscription.filter.withUnsafeBytes { apps[app].topics.remove($0) }
            audiences.remove(subscription.audience)
        }
    }

    /// What audiences should know of a session's connection: nothing until it has been told that it
    /// is accepted, so that no delivery overtakes its CONNACK.
    func liveConnection(of session: UInt32) -> ConnectionID {
        sessions[session].isConfirmed ? sessions[session].connection : .none
    }

    /// Tells all audiences of a session which connection it has now.
    mutating func announceConnection(of session: UInt32) {
        let connection = liveConnection(of: session)
        for position in 0..<sessions[session].subscriptions.count {
            let index = sessions[session].subscriptions[position]
            let subscription = subscriptions[index]
            audiences[subscription.audience].subscribers[Int(subscription.position)].connection =
                connection
        }
    }
}

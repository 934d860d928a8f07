// Joining and leaving audiences, consistent on both sides.

import BrokerTerms
import Primitives

extension Broker {
    /// Adds a session to an audience and to the session's chain.
    @discardableResult
    mutating func join(
        session: Index<Session>, audience: Index<Audience>, grade: Grade, identifier: UInt64 = 0,
        options: SubscriptionOptions = [], subscriptionIdentifier: UInt32 = 0
    ) -> Index<Subscription> {
        let index = routing.add(
            session: session, connection: liveConnection(of: session),
            dialect: sessions[session].dialect, to: audience, grade: grade, options: options,
            identifier: identifier, subscriptionIdentifier: subscriptionIdentifier,
            before: sessions[session].firstSubscription)
        sessions[session].firstSubscription = index
        return index
    }

    /// Removes a session from an audience.
    mutating func leave(subscription index: Index<Subscription>) {
        let session = routing.subscriptions[index].session
        sessions[session].firstSubscription = routing.remove(
            index, from: sessions[session].firstSubscription)
    }

    @inline(__always)
    func forEachSubscription(of session: Index<Session>, _ body: (Index<Subscription>) -> Void) {
        var next = sessions[session].firstSubscription
        while let subscription = next {
            body(subscription)
            next = routing.subscriptions[subscription].next
        }
    }

    /// The connection that audiences use for a session. It is `.none` until the client has been
    /// accepted, so that no delivery overtakes its CONNACK.
    func liveConnection(of session: Index<Session>) -> ConnectionID {
        guard let connected = sessions[session].connected,
            live.connectedSessions[connected].isConfirmed
        else {
            return .none
        }
        return live.connectedSessions[connected].connection
    }

    /// Sets the current connection of a session in all its audiences.
    mutating func announceConnection(of session: Index<Session>) {
        let connection = liveConnection(of: session)
        var index = sessions[session].firstSubscription
        while let current = index {
            routing.update(current, connection: connection, dialect: sessions[session].dialect)
            index = routing.subscriptions[current].next
        }
    }
}

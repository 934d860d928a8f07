// Several filters that match one topic: their audiences become one, in which each session stands
// once, in as many steps as they have subscribers.

import Primitives

extension Subscriber {
    /// Takes in another subscription of the same session: the message comes once, in the highest
    /// grade that any of them wants [MQTT-3.3.4-2], with the identifiers of all [MQTT-3.3.4-4].
    /// True where it has several now.
    @inline(__always)
    mutating func take(in other: Subscriber) -> Bool {
        grade = max(grade, other.grade)
        options.formUnion(other.options.intersection(.retainsAsPublished))
        guard other.subscriptionIdentifier != 0 else { return false }
        if subscriptionIdentifier == 0 {
            subscriptionIdentifier = other.subscriptionIdentifier
        } else if subscriptionIdentifier != other.subscriptionIdentifier {
            subscriptionIdentifier = EntryState.severalIdentifiers
            return true
        }
        return false
    }
}

extension Broker {
    /// Puts the subscribers of several audiences that take a sender's messages into the merged one.
    /// True where one of them has several identifiers.
    mutating func merge(_ matched: ContiguousArray<Index<Audience>>, from sender: Index<Session>?)
        -> Bool
    {
        let (subscriberCount, identifierCount) = routing.merge(
            matched, from: sender, sessionPlaceCount: sessions.places.count)
        workload.charge((matched.count + subscriberCount) / CoreLimits.mergedPerWork)
        if identifierCount > 0 {
            // What lists them walks over all subscriptions of those sessions.
            var walkedCount = 0
            for subscriber in routing.audiences[routing.mergedAudience].subscribers
            where subscriber.subscriptionIdentifier == EntryState.severalIdentifiers {
                walkedCount += Int(sessions[subscriber.session].filterCount)
            }
            workload.charge(
                identifierCount / CoreLimits.identifiersPerWork
                    + walkedCount / CoreLimits.looksPerWork)
        }
        return identifierCount > 0
    }
}

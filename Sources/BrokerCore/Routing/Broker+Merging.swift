// Merges the audiences of several filters that match one topic. Each session is in the result once.
// The number of steps is the number of subscribers.

import Primitives

extension Subscriber {
    /// Merges another subscription of the same session. The message is sent once, in the highest
    /// grade of its subscriptions [MQTT-3.3.4-2], with the identifiers of all [MQTT-3.3.4-4].
    /// Returns true if it has several identifiers now.
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
    /// Adds to the merged audience the subscribers of several audiences that accept a sender's
    /// messages. Returns true if one of them has several identifiers.
    mutating func merge(_ matched: ContiguousArray<Index<Audience>>, from sender: Index<Session>?)
        -> Bool
    {
        let (subscriberCount, identifierCount) = routing.merge(
            matched, from: sender, sessionPlaceCount: sessions.places.count)
        workload.charge((matched.count + subscriberCount) / CoreLimits.mergedPerWork)
        if identifierCount > 0 {
            // Listing the identifiers walks over all subscriptions of those sessions.
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

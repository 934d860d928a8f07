// Invariants of subscriptions, audiences and shares, which hold between any two events.

import Primitives

extension Routing {
    /// Traps if a subscription, a share or a mark is inconsistent.
    func checkInvariants() {
        checkSubscribers()
        checkShares()
        checkMarks()
        expect(mergePlaces.count { $0 != 0 }, equals: 0, "sessions in a merge that has ended")
    }

    private func checkSubscribers() {
        var count = 0
        for audience in audiences.places
        where audiences.contains(audience) && audience != mergedAudience
            && audience != chosenAudience
        {
            for (position, subscriber) in audiences[audience].subscribers.enumerated() {
                let subscription = subscriptions[subscriber.subscription]
                expect(
                    subscription.audience.place, equals: audience.place,
                    "the audience of subscription \(subscriber.subscription.place)")
                expect(
                    Int(subscription.position), equals: position,
                    "the position of subscription \(subscriber.subscription.place)")
                expect(
                    subscription.session.place, equals: subscriber.session.place,
                    "the session of subscription \(subscriber.subscription.place)")
                count += 1
            }
        }
        expect(count, equals: subscriptions.count, "subscribers of all audiences")
    }

    private func checkShares() {
        var count = 0
        for set in shareSets.places where shareSets.contains(set) {
            for (position, audience) in shareSets[set].audiences.enumerated() {
                expect(
                    audiences[audience].shareSet?.place, equals: set.place,
                    "the set of share \(audience.place)")
                expect(
                    Int(audiences[audience].sharePosition), equals: position,
                    "the position of share \(audience.place)")
                let presentCount = audiences[audience].subscribers.count { $0.connection != .none }
                expect(
                    Int(audiences[audience].presentCount), equals: presentCount,
                    "connected subscribers of share \(audience.place)")
                // Shares with a connected subscriber come first.
                expect(
                    position < shareSets[set].presentCount, equals: presentCount > 0,
                    "share \(audience.place) at \(position) of \(shareSets[set].presentCount)")
                count += 1
            }
        }
        let shareCount = audiences.places.count {
            audiences.contains($0) && audiences[$0].share != 0
        }
        expect(count, equals: shareCount, "shares in the sets of their filters")
    }
}

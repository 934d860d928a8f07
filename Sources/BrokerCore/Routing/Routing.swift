// The receivers of messages: subscriptions, and the audiences (subscriber lists) of filters, groups
// and shares. The trees of filters belong to their apps. Routing decides the receivers; it neither
// stores nor delivers messages.
//
// It refers to sessions by index. A subscriber contains what a delivery needs of its session: the
// connection, the dialect, the grade. The session has the head of its chain of subscriptions.
//
// Invariants: a subscription has one position in one audience, and the subscriber there refers to
// it; a share is in the set of its filter, and shares with a connected subscriber come first; the
// merged and the chosen audience are used within one event only; exactly the audiences of the
// marked topic are marked.

import BrokerTerms
import Primitives

/// Subscriptions and audiences.
struct Routing: ~Copyable {
    private(set) var subscriptions = Slab<Subscription>()
    private(set) var audiences = Slab<Audience>()
    private(set) var shareSets = Slab<ShareSet>()
    /// Filters of all sessions; each session counts its own.
    private(set) var filterCount = 0
    /// The union of several audiences, while one message is routed to it.
    let mergedAudience: Index<Audience>
    /// The members that shared subscriptions choose, while one message is routed to them.
    let chosenAudience: Index<Audience>

    // Memory of one match, reused.
    var matchedAudiences: ContiguousArray<Index<Audience>> = []
    var matchedShareSets: ContiguousArray<Index<ShareSet>> = []
    /// During a merge: the position of a session in the union plus 1; 0 for sessions that are not
    /// in it.
    private(set) var mergePlaces: ContiguousArray<UInt32> = []
    /// The topic whose audiences are marked, its app, and the audiences.
    private var markedTopic: [UInt8] = []
    @Packed private var markedApp: Index<App>? = nil
    private var markedAudiences: ContiguousArray<Index<Audience>> = []

    init() {
        mergedAudience = audiences.insert(Audience()).index
        chosenAudience = audiences.insert(Audience()).index
    }

    // MARK: - Audiences

    /// Creates an audience without subscribers.
    mutating func makeAudience(filter: [UInt8] = []) -> Index<Audience> {
        if !filter.isEmpty { unmark() }
        return audiences.insert(Audience(filter: filter)).index
    }

    /// Removes an audience without subscribers.
    @discardableResult
    mutating func remove(_ audience: Index<Audience>) -> Audience {
        if !audiences[audience].filter.isEmpty { unmark() }
        return audiences.remove(audience)
    }

    // MARK: - Subscriptions

    /// Counts a filter that a session has added or removed.
    mutating func countFilter(isNew: Bool) { filterCount += isNew ? 1 : -1 }

    /// The subscriber of a subscription.
    func subscriber(of subscription: Index<Subscription>) -> Subscriber {
        let row = subscriptions[subscription]
        return audiences[row.audience].subscribers[Int(row.position)]
    }

    /// Adds a session to an audience, and the subscription to the front of the session's chain.
    mutating func add(
        session: Index<Session>, connection: ConnectionID, dialect: SessionDialect,
        to audience: Index<Audience>, grade: Grade, options: SubscriptionOptions,
        identifier: UInt64, subscriptionIdentifier: UInt32, before first: Index<Subscription>?
    ) -> Index<Subscription> {
        var subscription = Subscription(
            session: session, audience: audience,
            position: UInt32(audiences[audience].subscribers.count), identifier: identifier)
        subscription.next = first
        let index = subscriptions.insert(subscription).index
        audiences[audience].subscribers.append(
            Subscriber(
                connection: connection, session: session, subscription: index, grade: grade,
                options: options, dialect: dialect,
                subscriptionIdentifier: subscriptionIdentifier))
        if connection != .none { countPresent(audience, isPresent: true) }
        return index
    }

    /// Removes a subscription from its audience and from the chain of its session. The last
    /// subscriber takes its position in the audience. Returns the new head of the chain.
    mutating func remove(
        _ index: Index<Subscription>, from first: Index<Subscription>?
    ) -> Index<Subscription>? {
        let subscription = subscriptions.remove(index)
        let head = unchain(index, subscription, from: first)
        let position = Int(subscription.position)
        if audiences[subscription.audience].subscribers[position].connection != .none {
            countPresent(subscription.audience, isPresent: false)
        }
        let last = audiences[subscription.audience].subscribers.removeLast()
        if last.subscription != index {
            audiences[subscription.audience].subscribers[position] = last
            subscriptions[last.subscription].position = subscription.position
        }
        return head
    }

    /// Walks the chain, as a search for a filter does: back links would cost memory in every
    /// session.
    private mutating func unchain(
        _ index: Index<Subscription>, _ subscription: Subscription,
        from first: Index<Subscription>?
    ) -> Index<Subscription>? {
        if first == index { return subscription.next }
        var previous = first
        while let earlier = previous {
            previous = subscriptions[earlier].next
            guard previous == index else { continue }
            subscriptions[earlier].next = subscription.next
            break
        }
        return first
    }

    /// Updates the connection and the dialect of a subscriber from its session.
    mutating func update(
        _ subscription: Index<Subscription>, connection: ConnectionID, dialect: SessionDialect
    ) {
        let row = subscriptions[subscription]
        let position = Int(row.position)
        let old = audiences[row.audience].subscribers[position].connection
        if (old != .none) != (connection != .none) {
            countPresent(row.audience, isPresent: old == .none)
        }
        audiences[row.audience].subscribers[position].connection = connection
        audiences[row.audience].subscribers[position].dialect = dialect
    }

    /// Replaces the options of a subscription. Returns whether they differ.
    mutating func change(
        _ subscription: Index<Subscription>, to request: FilterRequest, identifier: UInt32
    ) -> Bool {
        let row = subscriptions[subscription]
        return audiences[row.audience].subscribers[Int(row.position)].change(
            to: request, identifier: identifier)
    }

    /// Stores whether a subscription waits for retained messages until another of its session has
    /// been served.
    mutating func note(awaitsRetained awaits: Bool, _ subscription: Index<Subscription>) {
        let row = subscriptions[subscription]
        audiences[row.audience].subscribers[Int(row.position)].awaitsRetained = awaits
    }

    /// Stores whether a stored subscription waits for retained messages.
    mutating func note(awaitsReplay awaits: Bool, _ subscription: Index<Subscription>) {
        let row = subscriptions[subscription]
        if awaits {
            audiences[row.audience].subscribers[Int(row.position)].options.insert(.awaitsReplay)
        } else {
            audiences[row.audience].subscribers[Int(row.position)].options.remove(.awaitsReplay)
        }
    }

    // MARK: - Shares

    /// Creates a set without shares.
    mutating func makeShareSet() -> Index<ShareSet> { shareSets.insert(ShareSet()).index }

    /// Makes an audience a share, the last one of a set.
    mutating func add(share audience: Index<Audience>, number: UInt16, to set: Index<ShareSet>) {
        audiences[audience].share = number
        audiences[audience].shareSet = set
        audiences[audience].sharePosition = UInt32(shareSets[set].audiences.count)
        shareSets[set].audiences.append(audience)
    }

    /// Removes a removed audience from the set of its filter. Returns true if the set was removed
    /// too.
    mutating func remove(share removed: Audience) -> Bool {
        guard let set = removed.shareSet else {
            preconditionFailure("\(String(decoding: removed.filter, as: UTF8.self)) is no share")
        }
        exchangeShares(
            of: set, Int(removed.sharePosition), with: shareSets[set].audiences.count - 1)
        shareSets[set].audiences.removeLast()
        guard shareSets[set].audiences.isEmpty else { return false }
        shareSets.remove(set)
        return true
    }

    /// Counts a subscriber of a share that has connected or disconnected.
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

    /// Moves a share within its set, because its first subscriber has connected or its last one has
    /// disconnected.
    private mutating func moveShare(_ audience: Index<Audience>, isPresent: Bool) {
        guard let set = audiences[audience].shareSet else {
            preconditionFailure("audience \(audience.place) is no share")
        }
        let position = Int(audiences[audience].sharePosition)
        if isPresent {
            exchangeShares(of: set, position, with: shareSets[set].presentCount)
            shareSets[set].presentCount += 1
        } else {
            shareSets[set].presentCount -= 1
            exchangeShares(of: set, position, with: shareSets[set].presentCount)
        }
    }

    private mutating func exchangeShares(of set: Index<ShareSet>, _ first: Int, with second: Int) {
        guard first != second else { return }
        shareSets[set].audiences.swapAt(first, second)
        for position in [first, second] {
            let audience = shareSets[set].audiences[position]
            // A share that is being removed is not in the slab any more.
            if audiences.contains(audience) {
                audiences[audience].sharePosition = UInt32(position)
            }
        }
    }

    /// Advances the turn of a share past a position. Returns the subscriber there.
    mutating func advanceRotation(of audience: Index<Audience>, at position: Int) -> Subscriber {
        audiences[audience].rotationPosition = UInt32(position + 1)
        return audiences[audience].subscribers[position]
    }

    /// Empties the chosen audience.
    mutating func beginChoice() {
        audiences[chosenAudience].subscribers.removeAllKeepingCapacity()
    }

    /// Adds a member of a share to the chosen audience.
    mutating func choose(_ member: Subscriber) {
        var chosen = member
        chosen.options.insert(.chosen)
        audiences[chosenAudience].subscribers.append(chosen)
    }

    // MARK: - Merging

    /// Adds the subscribers of several audiences that accept a sender's messages to the merged one.
    ///
    /// - Parameter sessionPlaceCount: greater than the indices of all sessions.
    /// - Returns: the number of subscribers, and how many times one has several identifiers.
    mutating func merge(
        _ matched: ContiguousArray<Index<Audience>>, from sender: Index<Session>?,
        sessionPlaceCount: Int
    ) -> (subscriberCount: Int, identifierCount: Int) {
        var merged = ContiguousArray<Subscriber>()
        swap(&merged, &audiences[mergedAudience].subscribers)
        merged.removeAllKeepingCapacity()
        let missingCount = sessionPlaceCount - mergePlaces.count
        if missingCount > 0 {
            mergePlaces.append(contentsOf: repeatElement(0, count: missingCount))
        }
        var (subscriberCount, identifierCount) = (0, 0)
        for audience in matched {
            subscriberCount += audiences[audience].subscribers.count
            for subscriber in audiences[audience].subscribers where subscriber.takes(from: sender) {
                let place = Int(mergePlaces[Int(subscriber.session.place)])
                if place == 0 {
                    merged.append(subscriber)
                    mergePlaces[Int(subscriber.session.place)] = UInt32(merged.count)
                } else if merged[place - 1].take(in: subscriber) {
                    identifierCount += 1
                }
            }
        }
        for subscriber in merged { mergePlaces[Int(subscriber.session.place)] = 0 }
        swap(&merged, &audiences[mergedAudience].subscribers)
        return (subscriberCount, identifierCount)
    }

    /// Makes a part of an audience the merged one.
    mutating func replaceMerged(with subscribers: ContiguousArray<Subscriber>) {
        audiences[mergedAudience].subscribers = subscribers
    }

    // MARK: - Marks

    /// Whether the audiences of a topic are marked.
    func isMarked(_ topic: UnsafeRawBufferPointer, _ app: Index<App>) -> Bool {
        app == markedApp
            && markedTopic.withUnsafeBytes { $0.count == topic.count && $0.elementsEqual(topic) }
    }

    /// Marks the audiences that a topic matches, and no others.
    mutating func mark(
        _ matched: ContiguousArray<Index<Audience>>, topic: UnsafeRawBufferPointer, app: Index<App>
    ) {
        unmark()
        for audience in matched { audiences[audience].isMarked = true }
        markedAudiences.append(contentsOf: matched)
        markedTopic.append(contentsOf: topic)
        markedApp = app
    }

    /// Removes the marks. They are invalid when a filter is added or removed.
    private mutating func unmark() {
        guard markedApp != nil else { return }
        for audience in markedAudiences { audiences[audience].isMarked = false }
        markedAudiences.removeAll(keepingCapacity: true)
        markedTopic.removeAll(keepingCapacity: true)
        markedApp = nil
    }

    /// Traps unless exactly the listed audiences are marked.
    func checkMarks() {
        let markedCount = audiences.places.count {
            audiences.contains($0) && audiences[$0].isMarked
        }
        expect(markedCount, equals: markedAudiences.count, "marked audiences")
    }
}

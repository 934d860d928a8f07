// Who receives a message: subscriptions, and the audiences (subscriber lists) that filters, groups
// and shares lead to. The trees of filters belong to their apps. It decides receivers, and neither
// stores nor delivers.
//
// It knows sessions by their index, and of a session what its subscriber contains: the connection,
// the dialect, the grade. The head of a session's chain of subscriptions is in the session.
//
// Invariants: a subscription has one place in one audience, and that place names it; a share is in
// the set of its filter, those with somebody connected first; the merged and the chosen audience
// are in use within one event only; marked are the audiences of the marked topic, and no others.

import Primitives

/// Subscriptions and audiences.
struct Routing: ~Copyable {
    var subscriptions = Slab<Subscription>()
    var audiences = Slab<Audience>()
    var shareSets = Slab<ShareSet>()
    /// The union of several audiences, while one message is routed to it.
    let mergedAudience: Index<Audience>
    /// The members that shared subscriptions choose, while one message is routed to them.
    let chosenAudience: Index<Audience>

    // Memory of one match, reused.
    var matchedAudiences: ContiguousArray<Index<Audience>> = []
    var matchedShareSets: ContiguousArray<Index<ShareSet>> = []
    /// While audiences are merged: 1 + the position of a session in the union, 0 for sessions that
    /// are not in it.
    var mergePlaces: ContiguousArray<UInt32> = []
    /// The topic whose audiences are marked, its app, and the audiences.
    var markedTopic: [UInt8] = []
    @Packed var markedApp: Index<App>? = nil
    var markedAudiences: ContiguousArray<Index<Audience>> = []

    init() {
        mergedAudience = audiences.insert(Audience()).index
        chosenAudience = audiences.insert(Audience()).index
    }
}

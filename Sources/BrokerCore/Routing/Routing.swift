// Who receives a message: subscriptions, and the audiences (subscriber lists) that filters, groups
// and shares lead to. The trees of filters belong to their apps. It decides receivers, and neither
// stores nor delivers.

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

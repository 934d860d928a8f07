// The requests under way of each user to hosts that users choose, and the targets that wait for the
// end of one. Without a bound, a few users with slow hosts would hold all requests.

import Relay

struct UserRequests {
    private struct Share {
        var count = 0
        /// By the ids of the targets.
        var held: [UInt64: QueuePlace] = [:]
    }

    private var shares: [ExactText: Share] = [:]

    /// Begins a request.
    ///
    /// - Returns: false if the user has all that it may have: ``end(of:)`` gives the place back.
    mutating func begin(_ place: QueuePlace) -> Bool {
        var share = shares[place.key.owner] ?? Share()
        defer { shares[place.key.owner] = share }
        guard share.count < PushLimits.userRequestsMaximum else {
            share.held[place.key.id] = place
            return false
        }
        share.count += 1
        return true
    }

    /// A request of a user has ended.
    ///
    /// - Returns: the places that waited for that, the oldest first.
    mutating func end(of owner: ExactText) -> [QueuePlace] {
        let count = shares[owner]?.count ?? 0
        precondition(count > 0, "\(count) requests of \(owner.text), and one has ended")
        let held = shares[owner]!.held.values.sorted { $0.ticket < $1.ticket }
        shares[owner] = count > 1 ? Share(count: count - 1) : nil
        return held
    }
}

// Wills: messages that the broker sends when a device is lost. A will belongs to a session, or
// after a restart to a device whose session has not returned.
//
// It knows users and sessions by their index, and of the store only that a will that is sent stays
// until its message is committed.
//
// Invariants: a will belongs to one session or is an orphan; the delay of a will does not run while
// its device is connected.

import Primitives

/// The wills of all devices.
struct WillTable: ~Copyable {
    private(set) var wills = Slab<Will>()
    /// Wills of devices without a session since the broker started.
    private var orphanWills: [WillOwner: Index<Will>] = [:]

    mutating func insert(_ will: Will) -> Index<Will> { wills.insert(will).index }

    @discardableResult
    mutating func remove(_ will: Index<Will>) -> Will { wills.remove(will) }

    /// Binds a will to another credential.
    mutating func setAuthority(_ authority: WillAuthority, of will: Index<Will>) {
        wills[will].authority = authority
    }

    /// Notes the timer of a will's delay; `.none` where the delay does not run any more.
    mutating func setTimer(_ token: TimerWheel.Token, of will: Index<Will>) {
        wills[will].token = token
    }

    // MARK: - Orphans

    /// A will that was read back belongs to a device without a session.
    mutating func insertOrphan(_ will: Index<Will>) {
        orphanWills[WillOwner(user: wills[will].user, device: wills[will].device)] = will
    }

    /// The will that a device left in an earlier process; it belongs to the caller from now on.
    mutating func takeOrphan(of owner: WillOwner) -> Index<Will>? {
        orphanWills.isEmpty ? nil : orphanWills.removeValue(forKey: owner)
    }

    /// Whether a will was an orphan, which it is not any more.
    mutating func takeOrphan(_ will: Index<Will>, of owner: WillOwner) -> Bool {
        guard orphanWills[owner] == will else { return false }
        orphanWills[owner] = nil
        return true
    }
}

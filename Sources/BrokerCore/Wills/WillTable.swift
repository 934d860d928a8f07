// Wills: messages that the broker sends when it loses a device. A will belongs to a session, or
// after a restart to a device whose session has not returned.
//
// The table refers to users and sessions by index. A will that is being sent remains in the table
// until its message is committed.
//
// Invariants: a will belongs to one session or is detached; the delay of a will does not run while
// its device is connected.

import Primitives

/// The wills of all devices.
struct WillTable: ~Copyable {
    private(set) var wills = Slab<Will>()
    /// Wills of devices without a session since the broker started.
    private var detachedWills: [WillOwner: Index<Will>] = [:]

    mutating func insert(_ will: Will) -> Index<Will> { wills.insert(will).index }

    @discardableResult
    mutating func remove(_ will: Index<Will>) -> Will { wills.remove(will) }

    /// Binds a will to another credential.
    mutating func setAuthority(_ authority: WillAuthority, of will: Index<Will>) {
        wills[will].authority = authority
    }

    /// Sets the timer of a will's delay; `.none` if the delay is not running.
    mutating func setTimer(_ token: TimerWheel.Token, of will: Index<Will>) {
        wills[will].token = token
    }

    // MARK: - Detached wills

    /// Registers a restored will of a device that has no session.
    mutating func insertDetached(_ will: Index<Will>) {
        detachedWills[WillOwner(user: wills[will].user, device: wills[will].device)] = will
    }

    func hasDetached(of owner: WillOwner) -> Bool {
        !detachedWills.isEmpty && detachedWills[owner] != nil
    }

    /// Removes and returns the detached will of a device. The caller owns it from then on.
    mutating func takeDetached(of owner: WillOwner) -> Index<Will>? {
        detachedWills.isEmpty ? nil : detachedWills.removeValue(forKey: owner)
    }

    /// Removes a will from the detached wills. Returns whether it was one.
    mutating func takeDetached(_ will: Index<Will>, of owner: WillOwner) -> Bool {
        guard detachedWills[owner] == will else { return false }
        detachedWills[owner] = nil
        return true
    }
}

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
    var wills = Slab<Will>()
    /// Wills of devices without a session since the broker started.
    var orphanWills: [WillOwner: Index<Will>] = [:]
}

// Wills: messages that the broker sends when a device is lost. A will belongs to a session, or
// after a restart to a device whose session has not returned.

import Primitives

/// The wills of all devices.
struct WillTable: ~Copyable {
    var wills = Slab<Will>()
    /// Wills of devices without a session since the broker started.
    var orphanWills: [WillOwner: Index<Will>] = [:]
}

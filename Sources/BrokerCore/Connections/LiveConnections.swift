// Who is connected: which session a connection belongs to, the half of a session that exists while
// it is connected, the access it was granted, and logins that wait. All of it ends with the
// process; none of it is stored.

import Primitives

/// The connections of all event loops, and the state that ends with them.
struct LiveConnections: ~Copyable {
    var connections: ConnectionTable
    var connectedSessions = Slab<ConnectedSession>(minimumCapacity: 64)
    /// The rights of connected sessions, and what granted them.
    var accesses = Slab<Access>()
    /// MQTT logins that wait for their turn.
    var heldLogins = Slab<HeldLogin>()

    init(loopCount: Int) {
        connections = ConnectionTable(loopCount: loopCount)
    }
}

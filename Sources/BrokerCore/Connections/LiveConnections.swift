// Who is connected: which session a connection belongs to, the half of a session that exists while
// it is connected, the access it was granted, and logins that wait. All of it ends with the
// process; none of it is stored.
//
// It knows sessions by their index, and of credentials what an access says. `ConnectedSession`
// guards its own state.
//
// Invariants: a connection belongs to at most one session; a connected session has one access, and
// an access one session.

import BrokerTerms
import Primitives

/// The table of connected sessions. An entry guards its own state and is changed in place; only
/// ``LiveConnections`` adds and removes entries.
struct ConnectedSessions: ~Copyable {
    fileprivate var slab = Slab<ConnectedSession>(minimumCapacity: 64)

    var count: Int { @inline(__always) get { slab.count } }
    var places: SlabPlaces<ConnectedSession> { @inline(__always) get { slab.places } }

    @inline(__always)
    func contains(_ index: Index<ConnectedSession>) -> Bool { slab.contains(index) }

    @inline(__always)
    func contains(_ handle: Handle<ConnectedSession>) -> Bool { slab.contains(handle) }

    @inline(__always)
    func handle(_ index: Index<ConnectedSession>) -> Handle<ConnectedSession> {
        slab.handle(index)
    }

    subscript(index: Index<ConnectedSession>) -> ConnectedSession {
        @inline(__always) unsafeAddress { slab.address(of: index) }
        @inline(__always) unsafeMutableAddress { slab.mutableAddress(of: index) }
    }
}

/// The connections of all event loops, and the state that ends with them.
struct LiveConnections: ~Copyable {
    private(set) var connections: ConnectionTable
    var connectedSessions = ConnectedSessions()
    /// The rights of connected sessions, and what granted them.
    private(set) var accesses = Slab<Access>()
    /// MQTT logins that wait before they take a session over.
    private(set) var delayedLogins = Slab<DelayedLogin>()

    init(loopCount: Int) {
        connections = ConnectionTable(loopCount: loopCount)
    }

    // MARK: - Connections

    /// Adds the state of a session that connects. Its connection belongs to it from now on.
    mutating func add(_ connected: consuming ConnectedSession) -> Index<ConnectedSession> {
        connections.insert(connected.connection, session: connected.session)
        return connectedSessions.slab.insert(connected).index
    }

    /// Removes the state of a session that has disconnected and has no access any more.
    mutating func remove(_ connected: Index<ConnectedSession>) {
        precondition(
            connectedSessions[connected].access == nil,
            "connected session \(connected.place) still has an access")
        connectedSessions.slab.remove(connected)
    }

    /// Removes the assignment of a connection to its session.
    mutating func unbind(_ connected: Index<ConnectedSession>) {
        connections.remove(connectedSessions[connected].connection)
    }

    // MARK: - Accesses

    /// Gives a connected session its access.
    mutating func grant(
        _ access: consuming Access, to connected: Index<ConnectedSession>
    ) -> Index<Access> {
        access.session = connectedSessions[connected].session
        let index = accesses.insert(access).index
        connectedSessions[connected].grant(index)
        return index
    }

    /// The deadline that ends an access.
    mutating func note(timer: TimerWheel.Token, of access: Index<Access>) {
        accesses[access].timer = timer
    }

    /// Ends the access of a connected session, which has one.
    mutating func withdrawAccess(of connected: Index<ConnectedSession>) -> Access {
        guard let access = connectedSessions[connected].access else {
            preconditionFailure("connected session \(connected.place) has no access")
        }
        connectedSessions[connected].withdrawAccess()
        return accesses.remove(access)
    }

    /// Gives an access other rights. Returns false where it has these.
    mutating func change(_ rights: Rights, of access: Index<Access>) -> Bool {
        if rights == accesses[access].rights { return false }
        accesses[access].rights = rights
        return true
    }

    // MARK: - Logins that wait

    mutating func delay(_ login: DelayedLogin) -> Index<DelayedLogin> {
        delayedLogins.insert(login).index
    }

    /// The deadline that ends the wait of a login.
    mutating func note(timer: TimerWheel.Token, of login: Index<DelayedLogin>) {
        delayedLogins[login].token = timer
    }

    mutating func remove(_ login: Index<DelayedLogin>) -> DelayedLogin {
        delayedLogins.remove(login)
    }
}

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

/// The connections of all event loops, and the state that ends with them.
struct LiveConnections: ~Copyable {
    private(set) var connections: ConnectionTable
    var connectedSessions = Slab<ConnectedSession>(minimumCapacity: 64)
    /// The rights of connected sessions, and what granted them.
    private(set) var accesses = Slab<Access>()
    /// MQTT logins that wait for their turn.
    private(set) var heldLogins = Slab<HeldLogin>()

    init(loopCount: Int) {
        connections = ConnectionTable(loopCount: loopCount)
    }

    // MARK: - Connections

    /// A connection belongs to a session from now on.
    mutating func bind(_ connection: ConnectionID, to session: Index<Session>) {
        connections.insert(connection, session: session)
    }

    /// The connection of a session belongs to it no more.
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

    mutating func hold(_ login: HeldLogin) -> Index<HeldLogin> {
        heldLogins.insert(login).index
    }

    /// The deadline that ends the wait of a login.
    mutating func note(timer: TimerWheel.Token, of login: Index<HeldLogin>) {
        heldLogins[login].token = timer
    }

    mutating func remove(_ login: Index<HeldLogin>) -> HeldLogin { heldLogins.remove(login) }
}

// Logins whose passwords wait to be hashed, in a fair order: each address has a turn after every
// other one, and a share of the room. An attacker who fills the queue delays others by one login
// for each address, and needs 512 networks to keep anybody out.

import BrokerTerms

/// Logins that wait for a thread, by the address from which they come.
struct PasswordQueue<Login> {
    /// What became of a login.
    enum Admission {
        case waits
        /// It waits. The newest login of the address that had most has lost its place.
        case displaced(ConnectionID)
        /// Its address has ``shareMaximum`` waiting.
        case overShare
        /// The queue is full, and no address has two more waiting than this one.
        case full
    }

    private typealias Waiting = (connection: ConnectionID, login: Login)

    /// The oldest login of an address is the first. No list is empty.
    private var waiting: [IPAddress: [Waiting]] = [:]
    /// The addresses that have logins, in the order of their turns.
    private var turns: [IPAddress] = []
    /// The address of each login.
    private var addresses: [ConnectionID: IPAddress] = [:]

    var count: Int { addresses.count }

    /// Logins that wait: at 15 ms for each, as many as are verified before the client gives up, or
    /// the broker does (`limits.authenticationSeconds`).
    static var waitingMaximum: Int { 512 }
    /// Logins of one address that wait: half of the room, for a site whose devices have one
    /// address and come back at once. The other half needs no displacing.
    static var shareMaximum: Int { 256 }

    /// Adds a login.
    ///
    /// - Parameter address: of the client; those of one IPv6 network of 64 bits are one.
    mutating func add(
        _ login: Login, of connection: ConnectionID, from address: IPAddress
    ) -> Admission {
        precondition(addresses[connection] == nil, "\(connection) has a login that waits")
        let address = address.network
        let own = waiting[address]?.count ?? 0
        guard own < Self.shareMaximum else { return .overShare }
        var admission = Admission.waits
        if count == Self.waitingMaximum {
            // At most as many addresses as logins.
            guard let most = waiting.max(by: { $0.value.count < $1.value.count }),
                most.value.count > own + 1, let newest = most.value.last
            else { return .full }
            remove(newest.connection)
            admission = .displaced(newest.connection)
        }
        if own == 0 { turns.append(address) }
        waiting[address, default: []].append((connection, login))
        addresses[connection] = address
        return admission
    }

    /// Takes the oldest login of the address whose turn it is.
    mutating func takeNext() -> (connection: ConnectionID, login: Login)? {
        guard let address = turns.first, let next = waiting[address]?.first else { return nil }
        turns.removeFirst()
        turns.append(address)
        remove(next.connection)
        return next
    }

    /// Removes the login of a connection, if one waits.
    mutating func remove(_ connection: ConnectionID) {
        guard let address = addresses.removeValue(forKey: connection) else { return }
        waiting[address]?.removeAll { $0.connection == connection }
        guard waiting[address]?.isEmpty == true else { return }
        waiting[address] = nil
        turns.removeAll { $0 == address }
    }
}

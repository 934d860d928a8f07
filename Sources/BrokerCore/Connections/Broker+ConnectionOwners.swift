// Says who logged in on a connection, for traces: the loop that owns a connection knows its bytes,
// and the core the names.

import BrokerTerms
import Primitives

/// The names of the session that a connection belongs to.
public struct ConnectionOwner: Hashable, Sendable {
    public var connection: ConnectionID
    public var app: [UInt8]
    public var user: [UInt8]
    public var device: [UInt8]
}

extension Broker {
    /// Who logged in on a connection; nil if nobody has, or if it has ended.
    public func owner(of connection: ConnectionID) -> ConnectionOwner? {
        guard let session = live.connections[connection] else { return nil }
        return owner(of: session, on: connection)
    }

    /// The connections of a user that an event loop owns. The time is proportional to the number of
    /// the user's sessions.
    ///
    /// - Parameters:
    ///   - device: nil for every device.
    ///   - countMaximum: the maximum number of connections.
    public func connections(
        ofUser name: [UInt8], device: [UInt8]?, app: [UInt8], loop: UInt8, countMaximum: Int
    ) -> [ConnectionOwner] {
        guard let app = self.app(named: app), let user = user(named: name, app: app) else {
            return []
        }
        var found: [ConnectionOwner] = []
        forEachSession(of: user) { session in
            guard found.count < countMaximum, let connected = sessions[session].connected else {
                return
            }
            if let device, !(sessions[session].device == device) { return }
            let connection = live.connectedSessions[connected].connection
            if connection.loop == loop { found.append(owner(of: session, on: connection)) }
        }
        return found
    }

    private func owner(
        of session: Index<Session>, on connection: ConnectionID
    ) -> ConnectionOwner {
        let user = sessions[session].user
        return ConnectionOwner(
            connection: connection, app: registry.apps[registry.users[user].app].name,
            user: Array(registry.users[user].name), device: Array(sessions[session].device))
    }
}

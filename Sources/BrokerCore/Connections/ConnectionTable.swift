// The session of each connection. It is found without a hash, because the event loop and the slot
// are the address.

import BrokerTerms
import Primitives

/// The sessions of all live connections, by event loop and slot.
struct ConnectionTable: ~Copyable {
    private struct Entry {
        var generation: UInt32
        @Packed var session: Index<Session>?
    }

    /// Two tables for each event loop: for its sockets, and for the channels on them.
    private var tables: [ContiguousArray<Entry>]
    /// Connections whose slot another connection has taken. Their end has not been handled yet,
    /// because their earlier events still wait.
    private var stragglers: [ConnectionID: Index<Session>] = [:]
    private(set) var count = 0

    init(loopCount: Int) {
        tables = Array(repeating: [], count: 2 * loopCount)
    }

    private static func table(of connection: ConnectionID) -> Int {
        Int(connection.loop) << 1 | (connection.isChannel ? 1 : 0)
    }

    /// The session of a connection; nil if it has none, or if its slot belongs to another one.
    subscript(connection: ConnectionID) -> Index<Session>? {
        let table = Self.table(of: connection)
        guard connection.place < tables[table].count else { return nil }
        let entry = tables[table][connection.place]
        if entry.generation == connection.generation { return entry.session }
        return stragglers.isEmpty ? nil : stragglers[connection]
    }

    mutating func insert(_ connection: ConnectionID, session: Index<Session>) {
        let table = Self.table(of: connection)
        while tables[table].count <= connection.place {
            tables[table].append(Entry(generation: 0, session: nil))
        }
        let last = tables[table][connection.place]
        if let lost = last.session {
            precondition(last.generation != connection.generation, "\(connection) logs in twice")
            let name = ConnectionID(
                loop: connection.loop, slot: connection.slot, generation: last.generation)
            stragglers[name] = lost
        }
        tables[table][connection.place] = Entry(
            generation: connection.generation, session: session)
        count += 1
    }

    mutating func remove(_ connection: ConnectionID) {
        precondition(self[connection] != nil, "\(connection) has no session to remove")
        count -= 1
        let table = Self.table(of: connection)
        if tables[table][connection.place].generation == connection.generation {
            tables[table][connection.place].session = nil
        } else {
            stragglers[connection] = nil
        }
    }
}

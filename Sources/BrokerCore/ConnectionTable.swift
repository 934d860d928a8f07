// Which session a connection belongs to, found without hashing: lane and slot are the address.

import Primitives

/// The sessions of all live connections, by lane and slot.
struct ConnectionTable: ~Copyable {
    private struct Entry {
        var generation: UInt32
        var session: UInt32
    }

    /// Two tables for each lane: of its sockets, and of the channels that these carry.
    private var tables: [ContiguousArray<Entry>]
    /// Connections whose slot is another's by now. Their end has not been told yet: it waits behind
    /// what they asked for.
    private var stragglers: [ConnectionID: UInt32] = [:]
    private(set) var count = 0

    init(laneCount: Int) {
        tables = Array(repeating: [], count: 2 * laneCount)
    }

    private static func table(of connection: ConnectionID) -> Int {
        Int(connection.lane) << 1 | (connection.isChannel ? 1 : 0)
    }

    /// The session of a connection; `Slab.none` when it has none or its slot belongs to another
    /// one.
    subscript(connection: ConnectionID) -> UInt32 {
        let table = Self.table(of: connection)
        guard connection.place < tables[table].count else { return .max }
        let entry = tables[table][connection.place]
        if entry.generation == connection.generation { return entry.session }
        return stragglers.isEmpty ? .max : stragglers[connection] ?? .max
    }

    mutating func insert(_ connection: ConnectionID, session: UInt32) {
        let table = Self.table(of: connection)
        while tables[table].count <= connection.place {
            tables[table].append(Entry(generation: 0, session: .max))
        }
        let last = tables[table][connection.place]
        if last.session != .max {
            precondition(last.generation != connection.generation, "a connection logs in twice")
            let name = ConnectionID(
                lane: connection.lane, slot: connection.slot, generation: last.generation)
            stragglers[name] = last.session
        }
        tables[table][connection.place] = Entry(
            generation: connection.generation, session: session)
        count += 1
    }

    mutating func remove(_ connection: ConnectionID) {
        precondition(self[connection] != .max, "removal of an unknown connection")
        count -= 1
        let table = Self.table(of: connection)
        if tables[table][connection.place].generation == connection.generation {
            tables[table][connection.place].session = .max
        } else {
            stragglers[connection] = nil
        }
    }
}

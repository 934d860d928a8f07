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
        return entry.generation == connection.generation ? entry.session : .max
    }

    mutating func insert(_ connection: ConnectionID, session: UInt32) {
        let table = Self.table(of: connection)
        while tables[table].count <= connection.place {
            tables[table].append(Entry(generation: 0, session: .max))
        }
        precondition(
            tables[table][connection.place].session == .max,
            "a slot is used again before its connection was reported closed")
        tables[table][connection.place] = Entry(
            generation: connection.generation, session: session)
        count += 1
    }

    mutating func remove(_ connection: ConnectionID) {
        precondition(self[connection] != .max, "removal of an unknown connection")
        tables[Self.table(of: connection)][connection.place].session = .max
        count -= 1
    }
}

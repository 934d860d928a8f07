// Which session a connection belongs to, found without hashing: lane and slot are the address.

import Primitives

/// The sessions of all live connections, by lane and slot.
struct ConnectionTable: ~Copyable {
    private struct Entry {
        var generation: UInt32
        var session: UInt32
    }

    private var lanes: [ContiguousArray<Entry>]
    private(set) var count = 0

    init(laneCount: Int) {
        lanes = Array(repeating: [], count: laneCount)
    }

    /// The session of a connection; `Slab.none` when it has none or its slot belongs to another
    /// one.
    subscript(connection: ConnectionID) -> UInt32 {
        let lane = Int(connection.lane)
        guard connection.slot < lanes[lane].count else { return .max }
        let entry = lanes[lane][connection.slot]
        return entry.generation == connection.generation ? entry.session : .max
    }

    mutating func insert(_ connection: ConnectionID, session: UInt32) {
        let lane = Int(connection.lane)
        while lanes[lane].count <= connection.slot {
            lanes[lane].append(Entry(generation: 0, session: .max))
        }
        precondition(
            lanes[lane][connection.slot].session == .max,
            "a slot is used again before its connection was reported closed")
        lanes[lane][connection.slot] = Entry(
            generation: connection.generation, session: session)
        count += 1
    }

    mutating func remove(_ connection: ConnectionID) {
        precondition(self[connection] != .max, "removal of an unknown connection")
        lanes[Int(connection.lane)][connection.slot].session = .max
        count -= 1
    }
}

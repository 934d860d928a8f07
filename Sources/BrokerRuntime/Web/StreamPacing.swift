// How many event streams a turn opens, and how many filters it subscribes to for them. A request
// for one has up to 64 filters, and hundreds may arrive at once: a turn that opened all would
// delay every other client.

import BrokerTerms
import Primitives
import WireFormat

/// The requests for event streams of one event loop that wait for their turn.
struct StreamPacing: ~Copyable {
    private var waiting = Ring<ConnectionID>()
    /// Event streams that the turn opened.
    private var openedCount = 0
    private var turn: UInt64 = 0

    /// Whether no request waits.
    var isEmpty: Bool { waiting.isEmpty }

    /// Whether a turn opens another event stream.
    mutating func admits(in turn: UInt64) -> Bool {
        if turn != self.turn { (openedCount, self.turn) = (0, turn) }
        guard openedCount < WebLimits.streamsPerTurnMaximum else { return false }
        openedCount += 1
        return true
    }

    /// Notes a request that a turn did not open.
    mutating func wait(_ connection: ConnectionID) { waiting.append(connection) }

    /// Takes the requests that the next turn opens, those that have waited longest first. The loop
    /// reads connections that it resumes before others, so later requests do not overtake them.
    ///
    /// - Parameter isOpen: whether the connection has not closed meanwhile.
    mutating func takeNext(where isOpen: (ConnectionID) -> Bool) -> [ConnectionID] {
        var next: [ConnectionID] = []
        while next.count < WebLimits.streamsPerTurnMaximum, !waiting.isEmpty {
            let connection = waiting.removeFirst()
            if isOpen(connection) { next.append(connection) }
        }
        return next
    }
}

/// The filters of an event stream.
struct StreamSubscriptions {
    var filterCount = 0
    /// A REQUEST of MRT for each.
    var packets: [UInt8] = []

    /// Those that one turn makes, of streams whose login is accepted: as many as it has room and
    /// time for, and at least one stream's.
    ///
    /// - Parameter room: bytes of packets that the turn can take.
    static func next(
        of streams: some Sequence<(key: ConnectionID, value: StreamSubscriptions)>, room: Int,
        isAccepted: (ConnectionID) -> Bool
    ) -> [(connection: ConnectionID, packets: [UInt8])] {
        var taken: [(connection: ConnectionID, packets: [UInt8])] = []
        var room = room
        var filterCount = 0
        for (connection, wanted) in streams where isAccepted(connection) {
            filterCount += wanted.filterCount
            guard wanted.packets.count <= room,
                taken.isEmpty || filterCount <= WebLimits.streamFiltersPerTurnMaximum
            else { break }
            room -= wanted.packets.count
            taken.append((connection, wanted.packets))
        }
        return taken
    }
}

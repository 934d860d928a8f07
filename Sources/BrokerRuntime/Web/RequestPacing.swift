// How many costly requests of a kind a turn serves: hundreds may arrive at once, and a turn that
// served all would delay every other client.

import BrokerTerms
import Primitives

/// The requests of one kind to an event loop that wait for their turn.
struct RequestPacing: ~Copyable {
    /// Requests that a turn serves.
    private let perTurnMaximum: Int
    private var waiting = Ring<ConnectionID>()
    /// Requests that the turn has served.
    private var servedCount = 0
    private var turn: UInt64 = 0

    init(perTurnMaximum: Int) { self.perTurnMaximum = perTurnMaximum }

    /// Whether no request waits.
    var isEmpty: Bool { waiting.isEmpty }

    /// Whether a turn serves another request.
    mutating func admits(in turn: UInt64) -> Bool {
        if turn != self.turn { (servedCount, self.turn) = (0, turn) }
        guard servedCount < perTurnMaximum else { return false }
        servedCount += 1
        return true
    }

    /// Notes a request that a turn did not serve.
    mutating func wait(_ connection: ConnectionID) { waiting.append(connection) }

    /// Takes the requests that the next turn serves, those that have waited longest first. The loop
    /// reads connections that it resumes before others, so later requests do not overtake them.
    ///
    /// - Parameter isOpen: whether the connection has not closed meanwhile.
    mutating func takeNext(where isOpen: (ConnectionID) -> Bool) -> [ConnectionID] {
        var next: [ConnectionID] = []
        while next.count < perTurnMaximum, !waiting.isEmpty {
            let connection = waiting.removeFirst()
            if isOpen(connection) { next.append(connection) }
        }
        return next
    }
}

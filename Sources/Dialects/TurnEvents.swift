// The events of a turn by the cores that they enter, for a broker with several cores: a loop
// decodes all of its connections together, and each connection belongs to one core.

import BrokerCore
import BrokerTerms
import Primitives

/// Events that enter one core, in their order, with the bursts that they came from.
public struct TurnEvents {
    var events: ContiguousArray<Event> = []
    var runs: ContiguousArray<EventRun> = []

    public init() {}

    public var isEmpty: Bool { events.isEmpty }

    /// Keeps the memory.
    mutating func removeAll() {
        events.removeAll(keepingCapacity: true)
        runs.removeAll(keepingCapacity: true)
    }

    /// - Parameter bytes: those of the burst; nil for an event that the loop added.
    mutating func append(
        _ new: ArraySlice<Event>, of owner: ConnectionID, bytes: ByteRange?
    ) {
        let first = events.count
        events.append(contentsOf: new)
        guard let bytes else { return }
        runs.append(EventRun(owner: owner, events: first..<events.count, bytes: bytes))
    }
}

extension PacketDecoder {
    /// Moves the events of connections of other cores into their lists. Those of the first core
    /// stay.
    ///
    /// - Parameters:
    ///   - others: the lists of the cores behind the first one. They are empty.
    ///   - own: memory for those that stay, which is kept for the next turn; empty before and
    ///     afterwards.
    ///   - place: the core of a connection that has a socket, 0 for the first one; called with the
    ///     events of one burst of the connection, in order.
    public mutating func distribute(
        into others: inout [TurnEvents], own: inout TurnEvents,
        place: (_ owner: ConnectionID, _ events: ArraySlice<Event>) -> Int
    ) {
        guard !events.isEmpty else { return }
        var index = 0
        var runIndex = 0
        while index < events.count {
            while runIndex < runs.count, runs[runIndex].events.upperBound <= index { runIndex += 1 }
            let isInRun = runIndex < runs.count && runs[runIndex].events.contains(index)
            let end = isInRun ? runs[runIndex].events.upperBound : index + 1
            let owner =
                isInRun
                ? runs[runIndex].owner
                : conversations.transportConnection(of: events[index].connection)
            let bytes = isInRun ? runs[runIndex].bytes : nil
            let core = place(owner, events[index..<end])
            if core == 0 {
                own.append(events[index..<end], of: owner, bytes: bytes)
            } else {
                others[core - 1].append(events[index..<end], of: owner, bytes: bytes)
            }
            index = end
        }
        exchange(with: &own)
        own.removeAll()
    }

    /// Exchanges the events with those of another core.
    public mutating func exchange(with other: inout TurnEvents) {
        swap(&events, &other.events)
        swap(&runs, &other.runs)
    }
}

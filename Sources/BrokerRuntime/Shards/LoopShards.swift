// The cores of one event loop beside the first one: which connection belongs to which, and the
// events that wait for each. A loop decodes and writes for all cores together, so that listeners,
// sockets, HTTP and traces know no shards; only events and effects are apart.

import BrokerCore
import BrokerTerms
import Dialects
import NetTransport
import Primitives

/// The part of one loop in the core of one shard.
final class LoopShard {
    let shared: SharedBroker
    fileprivate(set) var schedule = EventSchedule()
    /// The events of the turn, until the core is entered.
    fileprivate var events = TurnEvents()
    /// When the core has to be entered again.
    fileprivate var nextWake = Instant(milliseconds: 0)
    /// In a cluster, the effects that may not leave yet.
    let gated: GatedLoop

    fileprivate init(_ shared: SharedBroker) {
        self.shared = shared
        gated = GatedLoop(shared.gate, isOfStandby: !shared.takesEvents)
    }

    /// Calls `body` with each connection that began or ended to wait since the last call.
    func takeChanges(_ body: (ConnectionID, _ waits: Bool) -> Void) { schedule.takeChanges(body) }
}

/// The cores of one loop beside the first one.
final class LoopShards {
    let all: [LoopShard]
    private let shards: Shards
    private var connections = ConnectionShards()
    /// Another thread may have added effects: every core is entered.
    var isWoken = true
    /// The lists that a turn's events are moved into, by place.
    private var lists: [TurnEvents]
    /// For the events that stay.
    private var own = TurnEvents()

    /// Nil if there is one core.
    init?(_ shards: Shards) {
        guard shards.cores.count > 1 else { return nil }
        self.shards = shards
        all = shards.cores.dropFirst().map(LoopShard.init)
        lists = all.map { _ in TurnEvents() }
    }

    /// Whether no event of a connection waits for its core.
    var isEmpty: Bool { all.allSatisfy { $0.schedule.isEmpty } }

    func holds(_ connection: ConnectionID) -> Bool {
        all.contains { $0.schedule.holds(connection) }
    }

    var packetCountMaximum: Int { all.map { $0.schedule.packetCountMaximum }.min() ?? .max }

    /// What the effects for a connection wait in.
    ///
    /// - Parameters:
    ///   - transport: the connection that has a socket: a gateway's for its sensors.
    ///   - first: that of the first core.
    func gate(of transport: ConnectionID, first: GatedLoop) -> GatedLoop {
        guard let place = connections[transport] else {
            // Nobody has said whose it is, as with the log over HTTP.
            return first.mayEmit ? first : all.first { $0.gated.mayEmit }?.gated ?? first
        }
        return place == 0 ? first : all[place - 1].gated
    }

    /// Moves the decoder's events of other cores into their lists.
    ///
    /// - Parameters:
    ///   - identities: the verified claims of the events.
    ///   - loop: has the bytes that the events refer to.
    func distribute(
        from decoder: inout PacketDecoder, identities: TurnIdentities,
        in loop: borrowing some BrokerLoop & ~Copyable
    ) {
        let bytes = loop.arena
        decoder.distribute(into: &lists, own: &own) { owner, events in
            if let place = connections[owner] { return place }
            guard let claim = Self.claim(of: owner, in: events) else { return 0 }
            let place = shards.place(of: claim, in: bytes.bytes, identities)
            connections[owner] = place
            return place
        }
        for (index, shard) in all.enumerated() where !lists[index].isEmpty {
            precondition(shard.events.isEmpty, "events of \(shards.map.names[index + 1]) are left")
            swap(&shard.events, &lists[index])
        }
    }

    /// The claim of a connection's login.
    private static func claim(of owner: ConnectionID, in events: ArraySlice<Event>) -> Claim? {
        for event in events {
            if case .connectReceived(owner, let request) = event { return request.claim }
        }
        return nil
    }

    /// Enters a core with its events, unless it has nothing to do in this turn.
    ///
    /// - Parameters:
    ///   - effects: receives those of the loop; empty before.
    ///   - identities: the verified claims of the events.
    ///   - isForced: whether it is entered though nothing is due: a loop that stops takes the last
    ///     results.
    /// - Returns: whether the broker is stopping.
    func enter(
        _ shard: LoopShard, _ decoder: inout PacketDecoder, effects: inout LoopEffects,
        identities: TurnIdentities, at moment: Moment, isForced: Bool = false,
        in loop: borrowing some BrokerLoop & ~Copyable
    ) -> Bool {
        let isDue = shard.nextWake <= loop.now
        guard isForced || isWoken || isDue || !shard.events.isEmpty || !shard.schedule.isEmpty
        else { return false }
        // What was added meanwhile belongs to the next pass.
        decoder.exchange(with: &shard.events)
        defer { decoder.exchange(with: &shard.events) }
        let (bytes, turn, beginsRound) = (loop.arena, loop.turn, loop.beginsRound)
        var isDraining = false
        var hasMore = false
        let shared = shard.shared
        let next = shared.enter(from: loop.index) { state in
            isDraining = state.isDraining
            guard state.takesEvents else {
                shard.gated.isOfStandby = !state.leads
                shard.gated.isClosing = state.isClosing
                if !shard.schedule.isEmpty { shard.schedule = EventSchedule() }
                state.refuseLogins(&decoder, loop: loop.index, of: shared)
                state.effects.exchange(loop.index, with: &effects)
                return Instant.never
            }
            shard.gated.isOfStandby = false
            shard.gated.isClosing = false
            let moment = shared.local(moment)
            hasMore = shard.schedule.enter(
                &decoder, turn: turn, beginsRound: beginsRound, bytes: bytes,
                identities: identities, at: moment, broker: &state.broker,
                effects: &state.effects
            ) { connection in
                isDraining
                    || loop.outgoingByteCount(of: connection) < ScheduleLimits.unsentBytesMaximum
            }
            state.broker.advance(to: moment, effects: &state.effects)
            state.effects.exchange(loop.index, with: &effects)
            return shared.loopTime(
                of: min(
                    state.broker.nextDeadline ?? .never, shard.schedule.nextDeadline ?? .never))
        }
        shard.nextWake = hasMore ? loop.now : next
        return isDraining
    }

    /// When a core has to be entered again.
    var nextWake: Instant { all.map { $0.nextWake }.min() ?? .never }

    /// The connections of a shard that have sent a login, and may have closed since.
    func connections(at place: Int, of loop: UInt8) -> [ConnectionID] {
        connections.all(at: place, of: loop)
    }

    /// Tells every core that the loop has entered it with its last input.
    func loopDrained() {
        for shard in all { shard.shared.loopDrained() }
    }
}

/// The shards of the connections of one loop that have sent a login: eight bytes for each slot up
/// to the highest that has been used; there are at most `limits.connections`.
struct ConnectionShards {
    private struct Entry {
        var generation: UInt32 = 0
        var place: UInt8 = 0
    }

    /// By slot.
    private var entries: ContiguousArray<Entry> = []

    init() {}

    /// Those of a shard that were the last in their slots to send a login.
    func all(at place: Int, of loop: UInt8) -> [ConnectionID] {
        entries.enumerated().compactMap { slot, entry in
            entry.generation != 0 && Int(entry.place) == place
                ? ConnectionID(loop: loop, slot: slot, generation: entry.generation) : nil
        }
    }

    /// The place of a connection's shard; nil if it has sent no login. It is known until another
    /// connection in the same slot sends one.
    subscript(connection: ConnectionID) -> Int? {
        get {
            let slot = connection.slot
            guard !connection.isChannel, slot < entries.count,
                entries[slot].generation == connection.generation
            else { return nil }
            return Int(entries[slot].place)
        }
        set {
            precondition(
                !connection.isChannel,
                "\(connection) is a channel, whose shard is that of its gateway")
            guard let newValue else { return }
            while entries.count <= connection.slot { entries.append(Entry()) }
            entries[connection.slot] = Entry(
                generation: connection.generation, place: UInt8(newValue))
        }
    }
}

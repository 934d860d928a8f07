// Which events of a loop enter the core now, and which wait. What one connection asks for may cost
// a thousand times what it took to send; so each has a share of a turn, and what is beyond it waits
// in a copy of its own, in order, while others have theirs. Knows nothing of sockets: whoever
// drives it stops reading from those who wait.

import BrokerCore
import BrokerTerms
import Primitives

/// Events that came from one burst of a connection.
struct EventRun {
    let owner: ConnectionID
    /// Where they stand among those of the turn.
    let events: Range<Int>
    /// All bytes that they point at; empty where they point at none.
    let bytes: ByteRange
}

/// Bounds of what is read and kept of those who ask for much.
public enum ScheduleLimits {
    /// Packets read from one connection in one turn: a burst of 64 KB with messages of 32 bytes.
    /// An event takes some 200 bytes, so that a burst is at most 400 KB of them.
    public static let packetsPerTurnMaximum = 2_048
    /// The same while more than ``waitingBytesMaximum`` waits.
    public static let packetsPerCrowdedTurnMaximum = 32
    /// Memory of events that wait, beyond which little more is taken from anybody.
    public static let waitingBytesMaximum = 8 << 20
    /// Events gathered before the core is entered although the turn is not over: 3 MB of them.
    public static let gatheredEventsMaximum = 16_384
    /// What a login or a new credential counts for among packets: to verify a signature takes
    /// 30 to 100 microseconds.
    static let packetsPerCredential = 255
    /// Unsent bytes of a connection beyond which what it asked for waits until it reads. With the
    /// answers of one share it is a block of 256 KB for each connection that does not.
    public static let unsentBytesMaximum = 128 << 10
    /// Parts of a share that each has at a time while somebody waits: a hundred connections that
    /// ask for much hold up a newcomer by two turns.
    static let crowdedShareParts = 4
    /// Milliseconds for which a login waits for the end of its device's previous connection. That
    /// end waits for a batch at most, which takes below 250 ms. Two gateways that each carry a
    /// login of the other's device would otherwise wait for each other for ever.
    static let predecessorMilliseconds: UInt64 = 2_000
    /// Turns for which a connection that has had more than its share comes behind those who have
    /// not: a second or two of a busy loop.
    static let heavyTurns: UInt64 = 256
}

/// The events that wait, by who sent them, and whose turn it is.
public struct EventSchedule: ~Copyable {
    /// A part of one burst.
    private struct Piece {
        var events: ContiguousArray<Event>
        var next = 0
        /// A copy of the burst's bytes, which began at `offset` of the buffer they came in.
        let bytes: UnsafeMutableRawBufferPointer
        let offset: Int
        /// What verified claims among the events refer to.
        let identities: TurnIdentities

        /// Copies the bytes at `range` of `buffer`, which the events point at.
        init(
            _ events: ContiguousArray<Event>, range: ByteRange, of buffer: UnsafeRawBufferPointer,
            identities: TurnIdentities
        ) {
            let source = range.bytes(in: buffer)
            bytes = .allocate(byteCount: source.count, alignment: 8)
            bytes.copyMemory(from: source)
            self.events = events
            offset = Int(range.offset)
            self.identities = identities
        }

        /// The bytes where the events' ranges expect them; only what was copied may be touched.
        var buffer: UnsafeRawBufferPointer {
            guard let base = bytes.baseAddress else { return UnsafeRawBufferPointer(bytes) }
            return UnsafeRawBufferPointer(
                start: UnsafeRawPointer(base) - offset, count: offset + bytes.count)
        }

        var byteCount: Int { bytes.count + events.count * MemoryLayout<Event>.stride }
    }

    /// Events among those of an owner that end one connection.
    private struct WaitingEnds {
        let owner: ConnectionID
        var count = 0
    }

    /// What one turn may cost, and one connection's share of it before others have theirs.
    private let turnMaximum: Int
    private let shareMaximum: Int
    private var turn: UInt64 = 0
    private var spent = 0
    /// Whether what waits has had its quarter of this turn.
    private var hasServedWaiting = false
    private var pieces: [ConnectionID: [Piece]] = [:]
    /// Those who have had more than a share by one packet, and the turn of the last time.
    private var heavy: [ConnectionID: UInt64] = [:]
    /// Those who wait and have had no share of late, each once, in the order in which they came.
    private var newcomers = Ring<ConnectionID>()
    /// Those who wait and have had one, each once, in the order of their next.
    private var others = Ring<ConnectionID>()
    /// Whether some waited at the end of the last entry because the batch was full.
    private var isHeldUp = false
    /// The most that one packet has cost in the last call of
    /// ``enter(_:turn:bytes:at:_:_:isReading:)``: by so much a turn may pass its budget.
    public private(set) var largestStep = 0
    /// Memory of what waits.
    public private(set) var waitingByteCount = 0
    /// Connections that have begun or ended to wait since the last ``takeChanges(_:)``.
    private var changed: [ConnectionID] = []
    /// Connections whose end waits, and where: a channel's end waits with its gateway's events.
    private var waitingEnds: [ConnectionID: WaitingEnds] = [:]
    /// Since when a connection's next event, a login, has waited for its device's previous
    /// connection.
    private var loginsSince: [ConnectionID: Instant] = [:]

    public init(limits: CoreLimits = CoreLimits()) {
        turnMaximum = limits.turnWorkMaximum
        shareMaximum = limits.shareWorkMaximum
    }

    deinit {
        for list in pieces.values { for piece in list { piece.bytes.deallocate() } }
    }

    public var isEmpty: Bool { pieces.isEmpty }

    /// Whether something of a connection's waits.
    public func holds(_ connection: ConnectionID) -> Bool { pieces[connection] != nil }

    /// When a login goes on that waits for its device's previous connection; nil where none waits.
    public var nextDeadline: Instant? {
        loginsSince.values.min()?.advanced(
            byMilliseconds: ScheduleLimits.predecessorMilliseconds)
    }

    /// How many packets to read from a connection.
    public var packetCountMaximum: Int {
        waitingByteCount > ScheduleLimits.waitingBytesMaximum
            ? ScheduleLimits.packetsPerCrowdedTurnMaximum : ScheduleLimits.packetsPerTurnMaximum
    }

    /// Calls `body` with each connection that has begun or ended to wait since the last call, and
    /// whether it waits now. One that did both several times comes several times.
    public mutating func takeChanges(_ body: (ConnectionID, _ waits: Bool) -> Void) {
        for connection in changed { body(connection, holds(connection)) }
        changed.removeAll(keepingCapacity: true)
    }

    // MARK: - Entering the core

    /// Takes the decoder's events and steps the core through as many as the turn and the batch have
    /// room for, and through what has waited. True where something is left that could go on at
    /// once; what waits for the next batch goes on after ``Broker/takeResumption()``.
    ///
    /// - Parameters:
    ///   - turn: tells turns apart: a turn may enter the core several times.
    ///   - beginsRound: whether everybody has been read and sent to since those were served last
    ///     who have had a share and wait for more. A turn reads from a thousand connections and
    ///     sends to a thousand; where ten thousand have something to say, some of them would else
    ///     wait for ten turns that are all spent on what waits.
    ///   - bytes: what the events' ranges point into.
    ///   - identities: what verified claims among the events refer to.
    ///   - isReading: whether a connection takes what it is sent; what it asks for waits otherwise.
    public mutating func enter(
        _ decoder: inout PacketDecoder, turn: UInt64, beginsRound: Bool = true,
        bytes: UnsafeRawBufferPointer,
        identities: TurnIdentities = TurnIdentities(), at moment: Moment,
        broker: inout Broker, effects: inout Effects,
        isReading: (ConnectionID) -> Bool
    ) -> Bool {
        if turn != self.turn {
            self.turn = turn
            spent = 0
            hasServedWaiting = false
            if turn % ScheduleLimits.heavyTurns == 0, !heavy.isEmpty {
                heavy = heavy.filter { turn - $0.value < ScheduleLimits.heavyTurns }
            }
        }
        largestStep = 0
        spent += broker.takeResultWork()
        // What other loops have not fetched counts too, or a quick loop would drown a slow one.
        let backlog = effects.work
        if backlog > turnMaximum { spent = max(spent, backlog) }
        enterNew(
            &decoder, bytes: bytes, identities: identities, at: moment, broker: &broker,
            effects: &effects, isReading: isReading)
        return enterWaiting(
            beginsRound: beginsRound, at: moment, broker: &broker, effects: &effects,
            isReading: isReading)
    }

    private mutating func enterNew(
        _ decoder: inout PacketDecoder, bytes: UnsafeRawBufferPointer,
        identities: TurnIdentities, at moment: Moment, broker: inout Broker,
        effects: inout Effects, isReading: (ConnectionID) -> Bool
    ) {
        var index = 0
        var runIndex = 0
        // Connections that have waited for this batch are served before new events.
        let comesBehind = isHeldUp
        while index < decoder.events.count {
            // What belongs to no run was added by the loop: it has no bytes.
            let owner: ConnectionID
            var range = ByteRange.empty
            var end = index + 1
            while runIndex < decoder.runs.count, decoder.runs[runIndex].events.upperBound <= index {
                runIndex += 1
            }
            if runIndex < decoder.runs.count, decoder.runs[runIndex].events.contains(index) {
                owner = decoder.runs[runIndex].owner
                range = decoder.runs[runIndex].bytes
                end = decoder.runs[runIndex].events.upperBound
            } else {
                owner = decoder.conversations.transportConnection(
                    of: decoder.events[index].connection)
            }
            let first = index
            var isHeavy = !heavy.isEmpty && heavy[owner] != nil
            if !isHeavy, !(comesBehind && decoder.events[index].batchEffect == .adds),
                pieces.isEmpty || pieces[owner] == nil
            {
                index = step(
                    index..<end, of: decoder.events, from: owner, isNew: true, bytes: bytes,
                    identities: identities, at: moment, broker: &broker, effects: &effects,
                    isReading: isReading)
            }
            if index < end {
                if !isHeavy, !heavy.isEmpty { isHeavy = heavy[owner] != nil }
                let piece = Piece(
                    ContiguousArray(decoder.events[index..<end]), range: range, of: bytes,
                    identities: identities)
                wait(piece, of: owner, hasHadShare: isHeavy || index > first)
            }
            index = end
        }
        decoder.removeEvents()
    }

    /// Steps the core through events until a share is spent; the index of the first that is left.
    /// Where `isNew`, the owner has not waited behind others for more than a share. While some ask
    /// for much, it has to for a packet that costs as much, and is one of them.
    @inline(__always)
    private mutating func step(
        _ range: Range<Int>, of events: borrowing ContiguousArray<Event>,
        from owner: ConnectionID, isNew: Bool, bytes: UnsafeRawBufferPointer,
        identities: TurnIdentities, at moment: Moment, broker: inout Broker,
        effects: inout Effects, isReading: (ConnectionID) -> Bool
    ) -> Int {
        let start = broker.work + effects.work
        let own =
            pieces.isEmpty
            ? shareMaximum : max(1, shareMaximum / ScheduleLimits.crowdedShareParts)
        let share = min(own, turnMaximum - spent)
        var index = range.lowerBound
        var cost = 0
        while index < range.upperBound, cost < share {
            if broker.mustWait(events[index], bytes: bytes, isNewcomer: isNew) { break }
            if comesAfterPredecessor(
                events[index], from: owner, bytes: bytes, identities: identities, at: moment,
                broker: &broker, isReading: isReading)
            {
                break
            }
            if isNew, !heavy.isEmpty,
                broker.expectedWork(of: events[index], bytes: bytes) > 2 * shareMaximum
            {
                heavy[owner] = turn
                break
            }
            let costBefore = cost
            broker.step(
                events[index], bytes: bytes, identities: identities, at: moment,
                effects: &effects)
            index += 1
            cost = broker.work + effects.work - start
            largestStep = max(largestStep, cost - costBefore)
        }
        spent += cost
        if cost > 2 * shareMaximum { heavy[owner] = turn }
        return index
    }

    private mutating func wait(
        _ piece: Piece, of owner: ConnectionID, hasHadShare: Bool
    ) {
        waitingByteCount += piece.byteCount
        if pieces[owner] == nil {
            if hasHadShare { others.append(owner) } else { newcomers.append(owner) }
            changed.append(owner)
        }
        for event in piece.events where event.endsConnection {
            waitingEnds[event.connection, default: WaitingEnds(owner: owner)].count += 1
        }
        pieces[owner, default: []].append(piece)
    }

    /// Gives each that waits a share in turn, until the turn's budget is spent. What waits gets a
    /// quarter of it in any case, once: a turn may enter the core a dozen times.
    private mutating func enterWaiting(
        beginsRound: Bool, at moment: Moment, broker: inout Broker, effects: inout Effects,
        isReading: (ConnectionID) -> Bool
    ) -> Bool {
        guard !pieces.isEmpty else { return false }
        if effects.work <= turnMaximum, !hasServedWaiting {
            spent = min(spent, turnMaximum * 3 / 4)
            hasServedWaiting = true
        }
        // Connections that wait for the next batch, which the broker reports.
        var held: (newcomers: [ConnectionID], others: [ConnectionID]) = ([], [])
        isHeldUp = false
        defer {
            // In front of those that have begun to wait since.
            newcomers.prepend(contentsOf: held.newcomers)
            others.prepend(contentsOf: held.others)
            isHeldUp = !held.newcomers.isEmpty
        }
        var skippedCount = 0
        while skippedCount < newcomers.count + others.count {
            if newcomers.isEmpty, !beginsRound { return true }
            if spent >= turnMaximum { return true }
            let isNew = !newcomers.isEmpty
            let owner = isNew ? newcomers.removeFirst() : others.removeFirst()
            guard isReading(owner) else {
                others.append(owner)
                skippedCount += 1
                continue
            }
            guard let first = pieces[owner]?.first else {
                preconditionFailure("nothing of \(owner) waits")
            }
            if broker.mustWait(
                first.events[first.next], bytes: first.buffer, isNewcomer: isNew)
            {
                if isNew { held.newcomers.append(owner) } else { held.others.append(owner) }
                continue
            }
            if comesAfterPredecessor(
                first.events[first.next], from: owner, bytes: first.buffer,
                identities: first.identities, at: moment, broker: &broker, isReading: isReading)
            {
                others.append(owner)
                skippedCount += 1
                continue
            }
            skippedCount = 0
            if stepWaiting(
                owner, isNew: isNew, at: moment, broker: &broker, effects: &effects,
                isReading: isReading)
            {
                others.append(owner)
            } else {
                pieces[owner] = nil
                changed.append(owner)
            }
        }
        return false
    }

    /// Whether an event is a login of a device whose previous connection has ended, and that end
    /// still waits: a login before it would take the session over, and the will would be sent. A
    /// previous connection of another loop is not known here.
    @inline(__always)
    private mutating func comesAfterPredecessor(
        _ event: Event, from owner: ConnectionID, bytes: UnsafeRawBufferPointer,
        identities: TurnIdentities, at moment: Moment, broker: inout Broker,
        isReading: (ConnectionID) -> Bool
    ) -> Bool {
        guard !waitingEnds.isEmpty, case .connectReceived = event else { return false }
        return awaitsPredecessor(
            event, from: owner, bytes: bytes, identities: identities, at: moment, broker: &broker,
            isReading: isReading)
    }

    @inline(never)
    private mutating func awaitsPredecessor(
        _ event: Event, from owner: ConnectionID, bytes: UnsafeRawBufferPointer,
        identities: TurnIdentities, at moment: Moment, broker: inout Broker,
        isReading: (ConnectionID) -> Bool
    ) -> Bool {
        let predecessor = broker.predecessor(
            of: event, bytes: bytes, identities: identities, at: moment)
        // An end among the owner's own events comes behind the login, in the order of the client.
        guard let predecessor, let end = waitingEnds[predecessor]?.owner, end != owner,
            isReading(end)
        else {
            loginsSince[owner] = nil
            return false
        }
        let since = loginsSince[owner] ?? moment.instant
        loginsSince[owner] = since
        return moment.instant
            < since.advanced(byMilliseconds: ScheduleLimits.predecessorMilliseconds)
    }

    /// Events of an owner are not waiting any more.
    private mutating func forgetEnds(_ events: ArraySlice<Event>) {
        for event in events where event.endsConnection {
            guard let ends = waitingEnds[event.connection] else {
                preconditionFailure("no end of \(event.connection) waits")
            }
            waitingEnds[event.connection]!.count -= 1
            if ends.count == 1 { waitingEnds[event.connection] = nil }
        }
    }

    /// One share for one that waits. True where it still waits.
    private mutating func stepWaiting(
        _ owner: ConnectionID, isNew: Bool, at moment: Moment, broker: inout Broker,
        effects: inout Effects, isReading: (ConnectionID) -> Bool
    ) -> Bool {
        guard var list = pieces.updateValue([], forKey: owner), let piece = list.first else {
            preconditionFailure("nothing of \(owner) waits")
        }
        let next = step(
            piece.next..<piece.events.count, of: piece.events, from: owner, isNew: isNew,
            bytes: piece.buffer, identities: piece.identities, at: moment, broker: &broker,
            effects: &effects, isReading: isReading)
        list[0].next = next
        if next > piece.next { loginsSince[owner] = nil }
        forgetEnds(piece.events[piece.next..<next])
        if next == piece.events.count {
            waitingByteCount -= piece.byteCount
            piece.bytes.deallocate()
            list.removeFirst()
        }
        let waits = !list.isEmpty
        pieces[owner] = list
        return waits
    }
}

extension PacketDecoder {
    /// For a driver that has changed the events: each may point at any of so many bytes.
    package mutating func spreadRuns(over byteCount: Int) {
        runs.removeAllKeepingCapacity()
        for index in events.indices {
            let owner = conversations.transportConnection(of: events[index].connection)
            if let last = runs.last, last.owner == owner {
                runs[runs.count - 1] = EventRun(
                    owner: owner, events: last.events.lowerBound..<index + 1, bytes: last.bytes)
            } else {
                runs.append(
                    EventRun(
                        owner: owner, events: index..<index + 1,
                        bytes: ByteRange(offset: 0, count: byteCount)))
            }
        }
    }

    /// The events of the turn are done with.
    public mutating func removeEvents() {
        events.removeAllKeepingCapacity()
        runs.removeAllKeepingCapacity()
    }
}

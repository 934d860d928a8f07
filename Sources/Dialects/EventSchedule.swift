// Decides which events of a loop enter the core now, and which wait. A request can cost a thousand
// times the cost of sending it. Each connection therefore has a share of a turn; events beyond it
// wait in a copy, in order, while other connections have their shares. The schedule knows no
// sockets: the loop stops reading from connections whose events wait.

import BrokerCore
import BrokerTerms
import Primitives

/// Events that came from one burst of a connection.
struct EventRun {
    let owner: ConnectionID
    /// Their range among the events of the turn.
    let events: Range<Int>
    /// All bytes that the events refer to; empty if they refer to none.
    let bytes: ByteRange
}

/// Limits of the events that are read and kept.
public enum ScheduleLimits {
    /// Packets read from one connection in one turn: a burst of 64 KB with messages of 32 bytes. An
    /// event takes about 200 bytes, so a burst is at most 400 KB of events.
    public static let packetsPerTurnMaximum = 2_048
    /// The same while more than ``waitingBytesMaximum`` waits.
    public static let packetsPerCrowdedTurnMaximum = 32
    /// Memory of waiting events; above it, only one small burst is read from each connection.
    public static let waitingBytesMaximum = 8 << 20
    /// Events collected before the core is entered although the turn is not over: 3 MB.
    public static let gatheredEventsMaximum = 16_384
    /// A login or a new credential counts for this many packets: verifying a signature takes 30 to
    /// 100 microseconds.
    static let packetsPerCredential = 255
    /// Unsent bytes of a connection above which its events wait until the client reads. With the
    /// answers of one share, that is a block of 256 KB for each connection that does not read.
    public static let unsentBytesMaximum = 128 << 10
    /// While connections wait, each share is divided by this: a hundred expensive connections delay
    /// a new one by two turns.
    static let crowdedShareParts = 4
    /// Milliseconds for which a login waits for the end of its device's previous connection. That
    /// end waits for a batch, which takes less than 250 ms. Two gateways that each carry a login of
    /// the other's device would otherwise wait for each other for ever.
    static let predecessorMilliseconds: UInt64 = 2_000
    /// The same for a login on a gateway's channel, because the other channels wait with it.
    static let channelPredecessorMilliseconds: UInt64 = 100
    /// For this many turns, a connection that used more than its share is served after the others:
    /// a second or two of a busy loop.
    static let heavyTurns: UInt64 = 256
}

/// The waiting events of each connection, and the order in which connections are served.
public struct EventSchedule: ~Copyable {
    /// A part of one burst.
    private struct Piece {
        var events: ContiguousArray<Event>
        var next = 0
        /// A copy of the burst's bytes, which began at `offset` of the incoming buffer.
        let bytes: UnsafeMutableRawBufferPointer
        let offset: Int
        /// The verified claims of the events.
        let identities: TurnIdentities

        /// Copies the bytes at `range` of `buffer`, which the events refer to.
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

        /// The bytes, based so that the events' ranges are valid; only the copied range may be
        /// accessed.
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

    /// The cost limit of one turn, and one connection's share of it while others wait.
    private let turnMaximum: Int
    private let shareMaximum: Int
    private var turn: UInt64 = 0
    private var spent = 0
    /// Whether the waiting connections have had their quarter of this turn.
    private var hasServedWaiting = false
    private var pieces: [ConnectionID: [Piece]] = [:]
    /// Connections that used more than a share with one packet, and the turn in which they last
    /// did.
    private var heavy: [ConnectionID: UInt64] = [:]
    /// Waiting connections that have had no share recently, each once, in the order of arrival.
    private var newcomers = Ring<ConnectionID>()
    /// Waiting connections that have had one, each once, in the order in which they are served.
    private var others = Ring<ConnectionID>()
    /// Whether connections waited at the end of the last entry because the batch was full.
    private var isHeldUp = false
    /// The largest cost of one packet in the last call of
    /// ``enter(_:turn:beginsRound:bytes:identities:at:broker:effects:isReading:)``: a turn may
    /// exceed its limit by this much.
    public private(set) var largestStep = 0
    /// Memory of waiting events.
    public private(set) var waitingByteCount = 0
    /// Connections that have begun or ended to wait since the last ``takeChanges(_:)``.
    private var changed: [ConnectionID] = []
    /// Connections whose end waits, and where: a channel's end waits with its gateway's events.
    private var waitingEnds: [ConnectionID: WaitingEnds] = [:]
    /// Connections whose next event is a login that waits for its device's previous connection, and
    /// when it stops waiting.
    private var loginDeadlines: [ConnectionID: Instant] = [:]
    /// The time of the last entry.
    private var lastEntry = Instant(milliseconds: 0)

    public init(limits: CoreLimits = CoreLimits()) {
        turnMaximum = limits.turnWorkMaximum
        shareMaximum = limits.shareWorkMaximum
    }

    deinit {
        for list in pieces.values { for piece in list { piece.bytes.deallocate() } }
    }

    public var isEmpty: Bool { pieces.isEmpty }

    /// Whether events of a connection wait.
    public func holds(_ connection: ConnectionID) -> Bool { pieces[connection] != nil }

    /// When the next login stops waiting for its device's previous connection; nil if none waits.
    /// A deadline that the last entry has seen is over: its login waits for something else, for the
    /// next batch or for a client that does not read.
    public var nextDeadline: Instant? {
        loginDeadlines.values.lazy.filter { [lastEntry] in $0 > lastEntry }.min()
    }

    /// The number of packets to read from a connection.
    public var packetCountMaximum: Int {
        waitingByteCount > ScheduleLimits.waitingBytesMaximum
            ? ScheduleLimits.packetsPerCrowdedTurnMaximum : ScheduleLimits.packetsPerTurnMaximum
    }

    /// Calls `body` with each connection that began or ended waiting since the last call.
    public mutating func takeChanges(_ body: (ConnectionID, _ waits: Bool) -> Void) {
        for connection in changed { body(connection, holds(connection)) }
        changed.removeAll(keepingCapacity: true)
    }

    // MARK: - Entering the core

    /// Takes the decoder's events and steps the core through as many as the turn and the batch have
    /// room for, then through waiting ones. True if more events could continue at once; events that
    /// wait for the next batch continue after ``Broker/takeResumption()``.
    ///
    /// - Parameters:
    ///   - turn: the number of the turn: a turn may enter the core several times.
    ///   - beginsRound: whether every connection was read and sent to since the waiting connections
    ///     that had a share were last served. A turn reads from a thousand connections and sends to
    ///     a thousand. Without this, some of ten thousand active connections would wait for ten
    ///     turns that serve only waiting events.
    ///   - bytes: the bytes that the events' ranges refer to.
    ///   - identities: the verified claims of the events.
    ///   - isReading: whether the client of a connection reads; otherwise its events wait.
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
        lastEntry = moment.instant
        largestStep = 0
        spent += broker.takeResultWork()
        // Effects that other loops have not fetched count too; otherwise a fast loop would flood a
        // slow one.
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
            // Events outside of every run were added by the loop; they refer to no bytes.
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

    /// Steps the core through events until a share is spent; returns the index of the first
    /// remaining event. `isNew` means that the owner has not waited for more than a share. While
    /// expensive connections wait, a packet that costs as much makes the owner wait too.
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
            if isLoginWhileEndsWait(events[index]),
                awaitsPredecessor(
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

    /// Gives each waiting connection a share in turn, until the turn's limit is reached. Waiting
    /// connections get a quarter of it in any case, once per turn: a turn may enter the core a
    /// dozen times.
    private mutating func enterWaiting(
        beginsRound: Bool, at moment: Moment, broker: inout Broker, effects: inout Effects,
        isReading: (ConnectionID) -> Bool
    ) -> Bool {
        guard !pieces.isEmpty else { return false }
        if effects.work <= turnMaximum, !hasServedWaiting {
            spent = min(spent, turnMaximum * 3 / 4)
            hasServedWaiting = true
        }
        // Connections that wait for the next batch; the core reports when it begins.
        var held: (newcomers: [ConnectionID], others: [ConnectionID]) = ([], [])
        isHeldUp = false
        defer {
            // They precede the connections that began to wait since.
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
            if isLoginWhileEndsWait(first.events[first.next]),
                awaitsPredecessor(
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

    /// Whether an event is a login, and the end of some connection still waits. Only then a login
    /// can have to wait for an end.
    @inline(__always)
    private func isLoginWhileEndsWait(_ event: Event) -> Bool {
        guard !waitingEnds.isEmpty, case .connectReceived = event else { return false }
        return true
    }

    /// Whether the device of a login has a previous connection whose end still waits: a login
    /// before that end would take the session over, and the will would be sent. A previous
    /// connection of another loop is not known here.
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
            loginDeadlines[owner] = nil
            return false
        }
        // The other channels of a gateway wait behind a login on one of them.
        let limit =
            event.connection == owner
            ? ScheduleLimits.predecessorMilliseconds
            : ScheduleLimits.channelPredecessorMilliseconds
        let deadline = loginDeadlines[owner] ?? moment.instant.advanced(byMilliseconds: limit)
        loginDeadlines[owner] = deadline
        return moment.instant < deadline
    }

    /// Events of an owner are not waiting any more.
    private mutating func forgetEnds(_ events: ArraySlice<Event>) {
        for event in events where event.endsConnection {
            guard let ends = waitingEnds[event.connection] else {
                preconditionFailure("no end of \(event.connection) waits")
            }
            waitingEnds[event.connection] =
                ends.count == 1 ? nil : WaitingEnds(owner: ends.owner, count: ends.count - 1)
        }
    }

    /// Gives one share to a waiting connection. True if it still waits.
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
        if next > piece.next { loginDeadlines[owner] = nil }
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
    /// For a caller that has changed the events: each may refer to any of the first `byteCount`
    /// bytes.
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

    /// Removes the events of the turn.
    public mutating func removeEvents() {
        events.removeAllKeepingCapacity()
        runs.removeAllKeepingCapacity()
    }
}

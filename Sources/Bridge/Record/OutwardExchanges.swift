// Messages from Martlet that are not acknowledged there, because the MQTT broker has not answered
// yet, in the order of their numbers.

import Primitives
import WireFormat

struct OutwardEntry {
    /// The phase, with its exits.
    enum Phase: Equatable {
        /// To be published, or published again. → published, completed.
        case waiting(until: Instant)
        /// PUBACK → completed, PUBREC → released; refused → waiting, completed.
        case published
        /// PUBCOMP → completed.
        case released
        /// Complete; acknowledged as soon as all before it are.
        case completed
    }

    /// Position in the inbox; 0 if Martlet has forgotten it.
    var number: UInt64
    /// Nil while only its number is known, from an earlier run.
    var publish: PreparedPublish?
    /// The message that it was made from, for the dead letter.
    var message: ReceivedMessage?
    var qos: MQTT.QoS
    /// 0 before it has one.
    var packetIdentifier: UInt16 = 0
    var phase: Phase
    /// Known from an earlier run, and not delivered again in this one.
    var isGhost = false
    var isDeadLetter = false
    var attemptCount: UInt64 = 0

    /// Its entry for the record.
    var note: OutwardNote? {
        let step: OutwardNote.Step
        switch phase {
        case .waiting, .published:
            guard qos == .exactlyOnce, packetIdentifier != 0 else { return nil }
            step = .published
        case .released: step = .released
        case .completed:
            guard qos == .exactlyOnce else { return nil }
            step = .completed
        }
        return OutwardNote(number: number, packetIdentifier: packetIdentifier, step: step)
    }
}

struct OutwardExchanges {
    /// Entries without a number first, then by number.
    private(set) var entries: [OutwardEntry] = []
    private var lastIdentifier: UInt16 = 0

    /// Begins with the entries of an earlier run.
    init(_ notes: [OutwardNote]) {
        entries = notes.map { note in
            // A message without a number is never delivered again.
            let isOurs = note.number != 0
            let phase: OutwardEntry.Phase =
                switch note.step {
                case .published: isOurs ? .published : .released
                case .released: .released
                case .completed: .completed
                }
            return OutwardEntry(
                number: note.number, publish: nil, message: nil, qos: .exactlyOnce,
                packetIdentifier: note.packetIdentifier, phase: phase, isGhost: isOurs)
        }
        entries.sort { $0.number < $1.number }
    }

    var notes: [OutwardNote] { entries.compactMap(\.note) }

    /// Publications whose exchange is not complete.
    var inFlightCount: Int {
        entries.count { $0.phase == .released || ($0.phase == .published && !$0.isGhost) }
    }

    func index(number: UInt64) -> Int? { entries.firstIndex { $0.number == number } }

    /// The entry whose exchange uses this identifier.
    func index(identifier: UInt16) -> Int? {
        entries.firstIndex { entry in
            guard entry.packetIdentifier == identifier else { return false }
            return entry.phase == .published || entry.phase == .released
        }
    }

    subscript(index: Int) -> OutwardEntry {
        get { entries[index] }
        set { entries[index] = newValue }
    }

    mutating func insert(_ entry: OutwardEntry) -> Int {
        let next = entries.firstIndex { $0.number > entry.number } ?? entries.endIndex
        entries.insert(entry, at: next)
        return next
    }

    /// An unused identifier.
    mutating func makeIdentifier() -> UInt16 {
        let used = Set(entries.lazy.map(\.packetIdentifier))
        repeat {
            lastIdentifier += 1
            if lastIdentifier == ForeignLink.requestIdentifier { lastIdentifier = 1 }
        } while used.contains(lastIdentifier)
        return lastIdentifier
    }

    /// Entries of an earlier run below a number that has been delivered are not delivered any more:
    /// those that may have been published are released. Returns their packet identifiers.
    mutating func passGhosts(below number: UInt64) -> [UInt16] {
        var released: [UInt16] = []
        for index in entries.indices
        where entries[index].isGhost && entries[index].number < number {
            entries[index].isGhost = false
            guard entries[index].phase == .published else { continue }
            guard entries[index].packetIdentifier != 0 else {
                entries[index].phase = .completed
                continue
            }
            entries[index].phase = .released
            released.append(entries[index].packetIdentifier)
        }
        return released
    }

    /// Martlet's session is a new one: the old numbers are void. Open exchanges continue.
    mutating func detach() -> [UInt16] {
        let released = passGhosts(below: .max)
        for index in entries.indices { entries[index].number = 0 }
        return released
    }

    /// Removes entries that are complete and precede every incomplete one.
    ///
    /// - Returns: the number up to which everything is complete; nil if nothing was removed.
    mutating func takeCompleted() -> UInt64? {
        entries.removeAll { $0.number == 0 && $0.phase == .completed }
        let first = entries.firstIndex { $0.number != 0 } ?? entries.endIndex
        let end =
            entries[first...].firstIndex { $0.phase != .completed || $0.isGhost }
            ?? entries.endIndex
        guard end > first else { return nil }
        let through = entries[end - 1].number
        entries.removeSubrange(first..<end)
        return through
    }

    // MARK: - Connections

    /// The MQTT broker has kept its session: unanswered entries are published again. Entries with
    /// PUBREC are released again; returns those, in order.
    mutating func resume() -> [UInt16] {
        for index in entries.indices
        where entries[index].phase == .published && entries[index].publish != nil {
            entries[index].phase = .waiting(until: Instant(milliseconds: 0))
        }
        return entries.filter { $0.phase == .released }.map(\.packetIdentifier)
    }

    /// The MQTT broker has lost its session: unanswered entries are new to it, and it has lost
    /// those that it had accepted.
    mutating func restart() {
        for index in entries.indices {
            switch entries[index].phase {
            case .published, .waiting:
                entries[index].packetIdentifier = 0
                if entries[index].publish != nil {
                    entries[index].phase = .waiting(until: Instant(milliseconds: 0))
                }
            case .released: entries[index].phase = .completed
            case .completed: break
            }
        }
    }
}

// Messages of Martlet's that are not acknowledged there, because the other broker has not answered
// yet, in the order of their numbers.

import Primitives
import WireFormat

struct OutwardEntry {
    /// How far it is, with its exits.
    enum Phase: Equatable {
        /// It is to be published, or published again. → published, completed.
        case waiting(until: Instant)
        /// PUBACK → completed, PUBREC → released; refused → waiting, completed.
        case published
        /// PUBCOMP → completed.
        case released
        /// Over; acknowledged as soon as all before it are.
        case completed
    }

    /// Place in the inbox; 0 once Martlet has forgotten it.
    var number: UInt64
    /// Nil while only its number is known, from an earlier life.
    var publish: PreparedPublish?
    /// What it was made of; kept for the dead letter.
    var message: ReceivedMessage?
    var qos: MQTT.QoS
    /// 0 before it has one.
    var packetIdentifier: UInt16 = 0
    var phase: Phase
    /// Known from an earlier life, and not delivered again in this one.
    var isGhost = false
    var isDeadLetter = false
    var attemptCount: UInt64 = 0

    /// What the record has to hold of it.
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
    /// Those without a number first, then by number.
    private(set) var entries: [OutwardEntry] = []
    private var lastIdentifier: UInt16 = 0

    /// Begins with what an earlier life has left.
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

    /// Publications without a last answer.
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

    /// An identifier that nothing uses.
    mutating func makeIdentifier() -> UInt16 {
        let used = Set(entries.lazy.map(\.packetIdentifier))
        repeat {
            lastIdentifier += 1
            if lastIdentifier == ForeignLink.requestIdentifier { lastIdentifier = 1 }
        } while used.contains(lastIdentifier)
        return lastIdentifier
    }

    /// Ghosts below a number that has been delivered do not come any more: what may have been
    /// published of them is released. Returns the packet identifiers of those.
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

    /// Martlet's session is another: its numbers mean nothing any more. What is under way goes on.
    mutating func detach() -> [UInt16] {
        let released = passGhosts(below: .max)
        for index in entries.indices { entries[index].number = 0 }
        return released
    }

    /// Takes out what is over, as far as nothing before it is not.
    ///
    /// - Returns: the number up to which everything is; nil where nothing was taken out.
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

    /// The other broker is back and remembers: what it has not answered is to be published again.
    /// What it has answered once is released again: those are returned, in order.
    mutating func resume() -> [UInt16] {
        for index in entries.indices
        where entries[index].phase == .published && entries[index].publish != nil {
            entries[index].phase = .waiting(until: Instant(milliseconds: 0))
        }
        return entries.filter { $0.phase == .released }.map(\.packetIdentifier)
    }

    /// The other broker has forgotten everything: what it has not answered is new to it, and what
    /// it had taken over is its own matter.
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

// Publications of the other broker that have no last answer yet. Each is known by its packet
// identifier; the order in which they came is the order in which they are sent on and answered.

import Primitives
import WireFormat

struct InwardEntry {
    /// How far it is, with its exits.
    enum Phase: Equatable {
        /// An earlier life has sent it to Martlet and does not know the answer; the message itself
        /// is not here. It comes again → found; it does not → forgotten.
        case missing(number: UInt64)
        /// It has come again, and is sent again under its number. → sent.
        case found(number: UInt64)
        /// Waits for room, or until a time. → sent, settled.
        case waiting(until: Instant)
        /// Martlet has it. Result → settled or waiting.
        case sent(number: UInt64)
        /// It is Martlet's, or was refused for good. The answer ends QoS 1, PUBREL ends QoS 2.
        case settled
    }

    var packetIdentifier: UInt16
    var qos: MQTT.QoS
    var digest: UInt64
    var topic: [UInt8] = []
    var payload: [UInt8] = []
    var send: PreparedSend?
    var phase: Phase
    /// Place in the order of arrival.
    var place: UInt64 = 0
    var attemptCount: UInt64 = 0
    var isDeadLetter = false
    /// Of an earlier connection, and not repeated on this one.
    var isStale = false

    var number: UInt64? {
        switch phase {
        case .missing(let number), .found(let number), .sent(let number): number
        case .waiting, .settled: nil
        }
    }
}

struct InwardExchanges {
    private(set) var entries: [UInt16: InwardEntry] = [:]
    /// Identifiers by number of the outbox.
    private var identifiers: [UInt64: UInt16] = [:]
    /// Those that wait to be sent, in the order of arrival.
    private(set) var waiting: [UInt16] = []
    /// Those that came on this connection and have no answer, by QoS: answers keep the order of
    /// what they answer [MQTT-4.6.0-2], [MQTT-4.6.0-3].
    private var unanswered: [MQTT.QoS: [UInt16]] = [:]
    private var lastPlace: UInt64 = 0

    /// Begins with what an earlier life has left.
    init(_ notes: [InwardNote]) {
        for note in notes {
            entries[note.packetIdentifier] = InwardEntry(
                packetIdentifier: note.packetIdentifier, qos: .exactlyOnce, digest: note.digest,
                phase: note.isSettled ? .settled : .missing(number: note.number),
                isStale: true)
        }
    }

    /// What the record has to hold.
    var notes: [InwardNote] {
        entries.values.filter { $0.qos == .exactlyOnce }.compactMap { entry in
            switch entry.phase {
            case .waiting: nil
            case .settled:
                InwardNote(
                    packetIdentifier: entry.packetIdentifier, digest: entry.digest, number: 0,
                    isSettled: true)
            case .missing(let number), .found(let number), .sent(let number):
                InwardNote(
                    packetIdentifier: entry.packetIdentifier, digest: entry.digest,
                    number: number, isSettled: false)
            }
        }.sorted { $0.packetIdentifier < $1.packetIdentifier }
    }

    var sentCount: Int { identifiers.count }
    /// Those that Martlet has not answered for good.
    var openCount: Int { waiting.count + identifiers.count }
    /// Those that came on this connection and have no answer.
    var unansweredCount: Int { unanswered.values.reduce(0) { $0 + $1.count } }
    /// Those that are not to be answered on this connection: of QoS 2, they wait for PUBREL.
    var unreleasedCount: Int { entries.count - unansweredCount }
    var isMissingAny: Bool {
        entries.values.contains { if case .missing = $0.phase { true } else { false } }
    }
    var found: [InwardEntry] {
        entries.values.filter { if case .found = $0.phase { true } else { false } }
            .sorted { $0.number! < $1.number! }
    }

    // MARK: - Arrival

    /// The entry that this publication is a repetition of; nil for a new one.
    func known(_ message: ForeignMessage, digest: UInt64) -> InwardEntry? {
        guard let entry = entries[message.packetIdentifier], entry.qos == message.qos,
            entry.digest == digest,
            // Only in QoS 2 the identifier alone says that it is the same (4.3.3 of MQTT 5.0).
            entry.qos == .exactlyOnce || message.isDuplicate
        else { return nil }
        return entry
    }

    /// Adds an entry as the last one; whatever had its identifier is over.
    mutating func add(_ entry: InwardEntry) {
        forget(entry.packetIdentifier)
        lastPlace += 1
        var entry = entry
        entry.place = lastPlace
        entries[entry.packetIdentifier] = entry
        if case .waiting = entry.phase { waiting.append(entry.packetIdentifier) }
        expectAnswer(entry.packetIdentifier, entry.qos)
    }

    /// It came on this connection, and has to be answered there.
    mutating func expectAnswer(_ identifier: UInt16, _ qos: MQTT.QoS) {
        guard unanswered[qos]?.contains(identifier) != true else { return }
        unanswered[qos, default: []].append(identifier)
    }

    // MARK: - Changes

    mutating func forget(_ identifier: UInt16) {
        guard let entry = entries.removeValue(forKey: identifier) else { return }
        if let number = entry.number { identifiers[number] = nil }
        if case .waiting = entry.phase { waiting.removeAll { $0 == identifier } }
        unanswered[entry.qos]?.removeAll { $0 == identifier }
    }

    /// Takes an entry to its next phase.
    mutating func change(_ identifier: UInt16, to phase: InwardEntry.Phase) {
        guard var entry = entries[identifier] else {
            preconditionFailure("no entry has packet identifier \(identifier)")
        }
        if let number = entry.number { identifiers[number] = nil }
        if case .waiting = entry.phase { waiting.removeAll { $0 == identifier } }
        entry.phase = phase
        if phase == .settled {
            // Only who it is still matters.
            entry.topic = []
            entry.payload = []
            entry.send = nil
        }
        entries[identifier] = entry
        switch phase {
        case .sent(let number): identifiers[number] = identifier
        case .waiting:
            let next = waiting.firstIndex { entries[$0]!.place > entry.place }
            waiting.insert(identifier, at: next ?? waiting.endIndex)
        case .missing, .found, .settled: break
        }
    }

    mutating func update(_ identifier: UInt16, _ body: (inout InwardEntry) -> Void) {
        body(&entries[identifier]!)
    }

    func entry(number: UInt64) -> InwardEntry? { identifiers[number].flatMap { entries[$0] } }

    /// The next one that is to be answered and can be, which then counts as answered.
    mutating func nextAnswer(_ qos: MQTT.QoS) -> UInt16? {
        guard let identifier = unanswered[qos]?.first, entries[identifier]?.phase == .settled else {
            return nil
        }
        unanswered[qos]!.removeFirst()
        return identifier
    }

    // MARK: - Connections

    /// The connection is over: what was not handed to Martlet comes again.
    mutating func connectionLost() {
        unanswered = [:]
        for identifier in waiting { entries[identifier] = nil }
        waiting = []
        for identifier in entries.keys { entries[identifier]!.isStale = true }
    }

    /// What was over for the other broker before it said so: it would have been repeated by now.
    /// True where there was some.
    mutating func forgetStale() -> Bool {
        let stale = entries.values.filter { $0.isStale && $0.phase == .settled }
        for entry in stale { forget(entry.packetIdentifier) }
        return !stale.isEmpty
    }

    /// The other broker has forgotten everything.
    mutating func sessionLost() {
        entries = [:]
        identifiers = [:]
        waiting = []
        unanswered = [:]
    }

    /// What has not come again is not there any more.
    mutating func forgetMissing() -> Int {
        let missing = entries.values.filter {
            if case .missing = $0.phase { true } else { false }
        }
        for entry in missing { forget(entry.packetIdentifier) }
        return missing.count
    }
}

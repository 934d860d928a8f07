// Publications of the MQTT broker whose exchange is not complete. Each is identified by its packet
// identifier. They are passed on and answered in the order of arrival.

import Primitives
import WireFormat

struct InwardEntry {
    /// The phase, with its exits.
    enum Phase: Equatable {
        /// An earlier run has sent it to Martlet and does not know the result; the message itself
        /// is not here. Repeated → found; not repeated → forgotten.
        case missing(number: UInt64)
        /// Repeated, and sent again under its number. → sent.
        case found(number: UInt64)
        /// Waits for room, or until a time. → sent, settled.
        case waiting(until: Instant)
        /// Sent to Martlet. Result → settled or waiting.
        case sent(number: UInt64)
        /// Martlet has acknowledged it, or refused it permanently. The answer ends QoS 1, PUBREL
        /// ends QoS 2.
        case settled
    }

    var packetIdentifier: UInt16
    var qos: MQTT.QoS
    var digest: UInt64
    var topic: [UInt8] = []
    var payload: [UInt8] = []
    var send: PreparedSend?
    var phase: Phase
    /// Position in the order of arrival.
    var place: UInt64 = 0
    var attemptCount: UInt64 = 0
    var isDeadLetter = false
    /// From an earlier connection, and not repeated on this one.
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
    /// Packet identifiers by outbox number.
    private var identifiers: [UInt64: UInt16] = [:]
    /// Entries that wait to be sent, in the order of arrival.
    private(set) var waiting: [UInt16] = []
    /// Entries of this connection that are not answered, by QoS: answers keep the order of the
    /// publications [MQTT-4.6.0-2], [MQTT-4.6.0-3].
    private var unanswered: [MQTT.QoS: [UInt16]] = [:]
    private var lastPlace: UInt64 = 0

    /// Begins with the entries of an earlier run.
    init(_ notes: [InwardNote]) {
        for note in notes {
            entries[note.packetIdentifier] = InwardEntry(
                packetIdentifier: note.packetIdentifier, qos: .exactlyOnce, digest: note.digest,
                phase: note.isSettled ? .settled : .missing(number: note.number),
                isStale: true)
        }
    }

    /// The entries for the record.
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
    /// Entries without a final result from Martlet.
    var openCount: Int { waiting.count + identifiers.count }
    /// Entries of this connection that are not answered.
    var unansweredCount: Int { unanswered.values.reduce(0) { $0 + $1.count } }
    /// Entries that need no answer on this connection: with QoS 2, they wait for PUBREL.
    var unreleasedCount: Int { entries.count - unansweredCount }
    var isMissingAny: Bool {
        entries.values.contains { if case .missing = $0.phase { true } else { false } }
    }
    var found: [InwardEntry] {
        entries.values.filter { if case .found = $0.phase { true } else { false } }
            .sorted { $0.number! < $1.number! }
    }

    // MARK: - Arrival

    /// The entry that this publication repeats; nil for a new one.
    func known(_ message: ForeignMessage, digest: UInt64) -> InwardEntry? {
        guard let entry = entries[message.packetIdentifier], entry.qos == message.qos,
            entry.digest == digest,
            // Only in QoS 2 does the identifier alone identify the message (4.3.3 of MQTT 5.0).
            entry.qos == .exactlyOnce || message.isDuplicate
        else { return nil }
        return entry
    }

    /// Adds an entry at the end; the previous entry of its identifier is complete.
    mutating func add(_ entry: InwardEntry) {
        forget(entry.packetIdentifier)
        lastPlace += 1
        var entry = entry
        entry.place = lastPlace
        entries[entry.packetIdentifier] = entry
        if case .waiting = entry.phase { waiting.append(entry.packetIdentifier) }
        expectAnswer(entry.packetIdentifier, entry.qos)
    }

    /// It arrived on this connection, and must be answered on it.
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

    /// Moves an entry to its next phase.
    mutating func change(_ identifier: UInt16, to phase: InwardEntry.Phase) {
        guard var entry = entries[identifier] else {
            preconditionFailure("no entry has packet identifier \(identifier)")
        }
        if let number = entry.number { identifiers[number] = nil }
        if case .waiting = entry.phase { waiting.removeAll { $0 == identifier } }
        entry.phase = phase
        if phase == .settled {
            // Only its identity is still needed.
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

    /// The next entry that must be answered and can be; it then counts as answered.
    mutating func nextAnswer(_ qos: MQTT.QoS) -> UInt16? {
        guard let identifier = unanswered[qos]?.first, entries[identifier]?.phase == .settled else {
            return nil
        }
        unanswered[qos]!.removeFirst()
        return identifier
    }

    // MARK: - Connections

    /// The connection has ended: messages that were not passed to Martlet are repeated.
    mutating func connectionLost() {
        unanswered = [:]
        for identifier in waiting { entries[identifier] = nil }
        waiting = []
        for identifier in entries.keys { entries[identifier]!.isStale = true }
    }

    /// Removes entries that Martlet had answered before the connection ended: they would have been
    /// repeated by now. True if there were any.
    mutating func forgetStale() -> Bool {
        let stale = entries.values.filter { $0.isStale && $0.phase == .settled }
        for entry in stale { forget(entry.packetIdentifier) }
        return !stale.isEmpty
    }

    /// The MQTT broker has lost its session.
    mutating func sessionLost() {
        entries = [:]
        identifiers = [:]
        waiting = []
        unanswered = [:]
    }

    /// Entries that were not repeated no longer exist at the broker.
    mutating func forgetMissing() -> Int {
        let missing = entries.values.filter {
            if case .missing = $0.phase { true } else { false }
        }
        for entry in missing { forget(entry.packetIdentifier) }
        return missing.count
    }
}

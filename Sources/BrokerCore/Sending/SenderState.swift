// The state of a sender that few sessions need: QoS 2 identifiers that are not released, sends
// whose connection ended before their result, named refusals, and application ids.

import BrokerTerms
import Primitives

/// The part of a sender's state that few senders need.
struct SenderState: ~Copyable, EmptyInitializable {
    /// Identifiers of QoS 2 publications that have no answer or are not released (MQTT).
    private(set) var identifiers = PacketIdentifiers()
    /// QoS 2 publications whose connection ended before their answer.
    var interrupted = InterruptedPublications()
    /// Recent sends with application ids (MQTT).
    var recentSends = RecentSends()
    /// Refused receivers of a list, by the numbers of sends that have no answer or, in MRT, are not
    /// seen.
    private var refusals: [UInt64: [Refusal]] = [:]
    /// The names of refused receivers of answered QoS 2 publications, by identifier, for repeats.
    /// ``identifiers`` has their number.
    private var answeredNames: [UInt16: [Refusal]] = [:]
    private var answeredNameCount = 0
    /// The application ids of sends without an answer, in the order of their numbers.
    private var applicationIdentifiers: [(number: UInt64, identifier: [UInt8])] = []
    /// What the answers to sends tell of verdicts, by the numbers of the sends.
    private var verdicts: [UInt64: VerdictNote] = [:]

    /// Maximum number of names that are kept for repeats. Without it, a client that never releases
    /// could keep 2 KB of names for each of its publications. Beyond it, a repeat is told only the
    /// number of refused receivers.
    private static let answeredNamesMaximum = 4_096

    var isEmpty: Bool {
        identifiers.count == 0 && refusals.isEmpty && answeredNames.isEmpty && recentSends.isEmpty
            && applicationIdentifiers.isEmpty && verdicts.isEmpty
    }

    // MARK: - Identifiers of QoS 2

    /// Marks the identifier of a publication that waits for its answer.
    mutating func begin(_ identifier: UInt16) { identifiers[identifier] = .underWay }

    /// Stores the answer of a publication. Its identifier remains in use until it is released.
    mutating func answer(
        _ identifier: UInt16, _ reason: ReasonCode, refusedCount: UInt32, named: [Refusal]
    ) {
        identifiers[identifier] = .answered(reason)
        identifiers.setRefused(max(refusedCount, UInt32(named.count)), of: identifier)
        guard !named.isEmpty, answeredNameCount + named.count <= Self.answeredNamesMaximum
        else { return }
        answeredNameCount += named.count
        answeredNames[identifier] = named
    }

    /// The names of refused receivers that are kept for the repeats of an answered publication.
    func names(ofAnswered identifier: UInt16) -> [Refusal] { answeredNames[identifier] ?? [] }

    /// Frees an identifier, which may name another publication from then on.
    mutating func free(_ identifier: UInt16) {
        identifiers[identifier] = nil
        guard !answeredNames.isEmpty else { return }
        answeredNameCount -= answeredNames.removeValue(forKey: identifier)?.count ?? 0
    }

    // MARK: - Refused receivers

    /// Stores the refused receivers of a send by name.
    mutating func storeRefusals(_ refused: [Refusal], in entry: inout OutboxEntry) {
        guard !refused.isEmpty else { return }
        entry.namesRefusals = true
        refusals[entry.number] = refused
    }

    /// The names of the refused receivers of an entry.
    func names(of entry: OutboxEntry) -> [Refusal] {
        entry.namesRefusals ? refusals[entry.number] ?? [] : []
    }

    /// Removes and returns the names of an entry that leaves the outbox.
    @discardableResult
    mutating func takeNames(of entry: OutboxEntry) -> [Refusal] {
        entry.namesRefusals ? refusals.removeValue(forKey: entry.number) ?? [] : []
    }

    // MARK: - Application ids

    /// Stores the application id of a send, which is higher than all before it.
    mutating func setApplicationIdentifier(_ identifier: [UInt8], of number: UInt64) {
        applicationIdentifiers.append((number, identifier))
    }

    /// The application id of a send without an answer.
    func applicationIdentifier(of number: UInt64) -> [UInt8]? {
        applicationIdentifiers.last { $0.number == number }?.identifier
    }

    /// Removes and returns the application id of a send that is answered.
    mutating func takeApplicationIdentifier(of number: UInt64) -> [UInt8]? {
        guard let index = applicationIdentifiers.firstIndex(where: { $0.number == number })
        else { return nil }
        return applicationIdentifiers.remove(at: index).identifier
    }

    /// Removes the application ids of sends that are not answered on this connection.
    mutating func removeApplicationIdentifiers() { applicationIdentifiers = [] }

    // MARK: - Verdicts

    /// Stores what the answer to a send tells of the verdict on it.
    mutating func setVerdict(_ note: VerdictNote, of number: UInt64) { verdicts[number] = note }

    /// Removes and returns it.
    mutating func takeVerdict(of number: UInt64) -> VerdictNote? {
        verdicts.isEmpty ? nil : verdicts.removeValue(forKey: number)
    }

    /// Removes those of sends that are not answered on this connection.
    mutating func removeVerdicts() { verdicts = [:] }
}

/// QoS 2 publications whose connection ended before their answer. They are answered when their
/// client repeats them.
struct InterruptedPublications: ~Copyable {
    private var entries = Outbox()
    /// Their numbers, by their identifiers.
    private var numbers: [UInt16: UInt64] = [:]

    var count: Int { entries.count }

    mutating func insert(_ entry: OutboxEntry) {
        entries.insert(entry)
        numbers[entry.packetIdentifier] = entry.number
    }

    /// The publication with a number.
    func entry(_ number: UInt64) -> OutboxEntry? {
        entries.position(of: number).map { entries[$0] }
    }

    /// The number of the publication with an identifier.
    func number(of identifier: UInt16) -> UInt64? { numbers[identifier] }

    /// Stores the progress of a publication, and removes it if it is complete. Returns false if
    /// there is none of its number.
    mutating func update(_ entry: OutboxEntry) -> Bool {
        guard let position = entries.position(of: entry.number) else { return false }
        if entry.isComplete {
            remove(at: position)
        } else {
            entries[position] = entry
        }
        return true
    }

    /// Removes and returns the publication with an identifier.
    mutating func take(_ identifier: UInt16) -> OutboxEntry? {
        guard let number = numbers[identifier], let position = entries.position(of: number)
        else { return nil }
        return remove(at: position)
    }

    /// Those that repeat a send.
    func repeats(of number: UInt64) -> [OutboxEntry] { entries.repeats(of: number) }

    /// All of them, in the order of their numbers.
    var all: [OutboxEntry] { (0..<entries.count).map { entries[$0] } }

    @discardableResult
    private mutating func remove(at position: Int) -> OutboxEntry {
        let entry = entries.remove(at: position)
        numbers[entry.packetIdentifier] = nil
        return entry
    }
}

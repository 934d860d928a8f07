// What one broker's session should have (the subscriptions and groups that the rules want, and not
// the filters of earlier rules), and how far that is. An entry is confirmed by the broker's answer
// and by nothing else; what was refused, lost or not even asked for stays here and is tried again.
// It knows no packets.

import BrokerTerms
import Primitives

struct DesiredSubscriptions {
    enum Want: Hashable {
        case filter(String, qos: UInt8)
        case group(String)
        /// A filter of earlier rules, which the session may still have.
        case obsolete(String)

        /// How a line of the log names it.
        var name: String {
            switch self {
            case .filter(let filter, _): "filter=\(quoted(filter.utf8))"
            case .group(let group): "group=\(quoted(group.utf8))"
            case .obsolete(let filter): "obsolete=\(quoted(filter.utf8))"
            }
        }
    }

    /// How far an entry is, with its exits.
    enum State: Equatable {
        /// It is to be asked for as soon as there is room, from this time on. → asked
        case due(Instant)
        /// The broker has been asked under this id. Answer → confirmed or due; a session that ends
        /// → due.
        case asked(UInt64)
        /// The broker has said that the session has it. A session that ends → due.
        case confirmed
        /// The broker has taken it away, and is not asked again in this session.
        case withdrawn
    }

    struct Entry {
        let want: Want
        var state = State.due(Instant(milliseconds: 0))
        /// Refusals in a row.
        var refusalCount: UInt64 = 0
        /// Why it was refused last, or taken away; nil where it was not.
        var reason: ReasonCode?
    }

    private(set) var entries: [Entry]
    /// Something was answered since ``takeReport()`` last gave a report.
    private var hasNews = false

    /// - Parameter earlier: filters that the session may have from an earlier life.
    init(_ wants: [Want], earlier: some Sequence<String>) {
        var filters: Set<String> = []
        for case .filter(let filter, _) in wants { filters.insert(filter) }
        let obsolete = Set(earlier).subtracting(filters).sorted()
        entries = (wants + obsolete.map { .obsolete($0) }).map { Entry(want: $0) }
    }

    // MARK: - Numbers

    /// Filters that the broker has confirmed.
    var filterCount: Int {
        entries.count {
            if case .filter = $0.want { $0.state == .confirmed } else { false }
        }
    }

    /// What the rules want and the broker has not confirmed: rules that are dead.
    var missing: [Entry] {
        entries.filter {
            if case .obsolete = $0.want { false } else { $0.state != .confirmed }
        }
    }

    var isAnythingAsked: Bool {
        entries.contains { if case .asked = $0.state { true } else { false } }
    }

    /// When the next entry that was refused is due; `never` where none is.
    func nextDeadline(after now: Instant) -> Instant {
        entries.reduce(.never) { earliest, entry in
            guard case .due(let time) = entry.state, time > now else { return earliest }
            return min(earliest, time)
        }
    }

    /// The entries that are to be asked for now, by their index.
    func due(_ now: Instant) -> [Int] {
        entries.indices.filter { index in
            if case .due(let time) = entries[index].state { time <= now } else { false }
        }
    }

    /// True once after answers, when nothing is without one and nothing waits to be asked: time for
    /// a line in the log.
    mutating func takeReport(_ now: Instant) -> Bool {
        guard hasNews, !isAnythingAsked, due(now).isEmpty else { return false }
        hasNews = false
        return true
    }

    // MARK: - Changes

    mutating func markAsked(_ index: Int, _ identifier: UInt64) {
        entries[index].state = .asked(identifier)
    }

    /// The session has it already, as an earlier answer said.
    mutating func markKept(_ index: Int) { entries[index].state = .confirmed }

    /// The indices of what was asked for under an id, in the order of asking.
    func asked(_ identifier: UInt64) -> [Int] {
        entries.indices.filter { entries[$0].state == .asked(identifier) }
    }

    mutating func confirm(_ index: Int) {
        hasNews = true
        entries[index].state = .confirmed
        entries[index].refusalCount = 0
        entries[index].reason = nil
    }

    /// It was refused: it is tried again.
    ///
    /// - Returns: in how many milliseconds.
    mutating func refuse(_ index: Int, reason: ReasonCode, now: Instant) -> UInt64 {
        hasNews = true
        let doublings = min(entries[index].refusalCount, 16)
        let wait = min(
            BridgeLimits.subscriptionRetryMillisecondsMinimum << doublings,
            BridgeLimits.subscriptionRetryMillisecondsMaximum)
        entries[index].refusalCount += 1
        entries[index].reason = reason
        entries[index].state = .due(now.advanced(byMilliseconds: wait))
        return wait
    }

    /// The broker has taken a group away.
    mutating func withdraw(group name: some Collection<UInt8>, _ reason: ReasonCode) {
        for index in entries.indices {
            guard case .group(let group) = entries[index].want, group.utf8.elementsEqual(name)
            else { continue }
            entries[index].state = .withdrawn
            entries[index].reason = reason
        }
    }

    /// What was asked on a connection that has ended has no answer any more.
    mutating func forgetQuestions() {
        for index in entries.indices {
            guard case .asked = entries[index].state else { continue }
            entries[index].state = .due(Instant(milliseconds: 0))
        }
    }

    /// The session is new: it has nothing.
    ///
    /// - Parameter keepsQuestions: what has no answer is asked again on the new session by itself.
    mutating func sessionLost(keepsQuestions: Bool) {
        entries.removeAll { entry in
            guard case .obsolete = entry.want else { return false }
            // Its answer still finds its entry.
            if keepsQuestions, case .asked = entry.state { return false }
            return true
        }
        for index in entries.indices {
            if keepsQuestions, case .asked = entries[index].state { continue }
            entries[index].state = .due(Instant(milliseconds: 0))
        }
    }
}

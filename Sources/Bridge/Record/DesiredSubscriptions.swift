// The subscriptions and groups that one broker's session should have (those of the present rules,
// and not those of earlier rules), and the state of each. Only the broker's answer confirms an
// entry. Entries that were refused, lost or not requested yet stay here and are tried again. It
// knows no packets.

import BrokerTerms
import ClientProgram
import Primitives

struct DesiredSubscriptions {
    enum Want: Hashable {
        case filter(String, qos: UInt8)
        case group(String)
        /// A filter of earlier rules, which the session may still have.
        case obsolete(String)

        /// Its name in a line of the log.
        var name: String {
            switch self {
            case .filter(let filter, _): "filter=\(quoted(filter.utf8))"
            case .group(let group): "group=\(quoted(group.utf8))"
            case .obsolete(let filter): "obsolete=\(quoted(filter.utf8))"
            }
        }
    }

    /// The state of an entry, with its exits.
    enum State: Equatable {
        /// To be requested as soon as there is room, from this time on. → asked
        case due(Instant)
        /// Requested under this id. Answer → confirmed or due; end of the session → due.
        case asked(UInt64)
        /// Confirmed by the broker. End of the session → due.
        case confirmed
        /// Removed by the broker, and not requested again in this session.
        case withdrawn
    }

    struct Entry {
        let want: Want
        var state = State.due(Instant(milliseconds: 0))
        /// Refusals in succession.
        var refusalCount: UInt64 = 0
        /// The reason of the last refusal or removal; nil if there was none.
        var reason: ReasonCode?
    }

    private(set) var entries: [Entry]
    /// An answer arrived since the last report of ``takeReport(_:)``.
    private var hasNews = false

    /// - Parameter earlier: filters that the session may have from an earlier run.
    init(_ wants: [Want], earlier: some Sequence<String>) {
        var filters: Set<String> = []
        for case .filter(let filter, _) in wants { filters.insert(filter) }
        let obsolete = Set(earlier).subtracting(filters).sorted()
        entries = (wants + obsolete.map { .obsolete($0) }).map { Entry(want: $0) }
    }

    /// Changes to those of other rules. Entries that stay keep their state. An answer to a request
    /// for one that does not stay finds no entry, and the next request for its filter follows it.
    ///
    /// - Parameter earlier: filters that the session has, or may have.
    mutating func replace(_ wants: [Want], earlier: some Sequence<String>) {
        var known: [Want: Entry] = [:]
        for entry in entries { known[entry.want] = entry }
        self = DesiredSubscriptions(wants, earlier: earlier)
        for index in entries.indices {
            if let entry = known[entries[index].want] { entries[index] = entry }
        }
    }

    // MARK: - Numbers

    /// Filters that the broker has confirmed.
    var filterCount: Int {
        entries.count {
            if case .filter = $0.want { $0.state == .confirmed } else { false }
        }
    }

    /// The number that the rules need and the broker has not confirmed.
    var missing: [Entry] {
        entries.filter {
            if case .obsolete = $0.want { false } else { $0.state != .confirmed }
        }
    }

    /// Whether the session may have filters of earlier rules.
    var isAnythingObsolete: Bool {
        entries.contains {
            if case .obsolete = $0.want { $0.state != .confirmed } else { false }
        }
    }

    var isAnythingAsked: Bool {
        entries.contains { if case .asked = $0.state { true } else { false } }
    }

    /// When the next refused entry is due; `never` if there is none.
    func nextDeadline(after now: Instant) -> Instant {
        entries.reduce(.never) { earliest, entry in
            guard case .due(let time) = entry.state, time > now else { return earliest }
            return min(earliest, time)
        }
    }

    /// The indices of the entries to request now.
    func due(_ now: Instant) -> [Int] {
        entries.indices.filter { index in
            if case .due(let time) = entries[index].state { time <= now } else { false }
        }
    }

    /// True once after answers, when no request is open or due: the time to write a line of the
    /// log.
    mutating func takeReport(_ now: Instant) -> Bool {
        guard hasNews, !isAnythingAsked, due(now).isEmpty else { return false }
        hasNews = false
        return true
    }

    // MARK: - Changes

    mutating func markAsked(_ index: Int, _ identifier: UInt64) {
        entries[index].state = .asked(identifier)
    }

    /// The session has it already, by an earlier answer.
    mutating func markKept(_ index: Int) { entries[index].state = .confirmed }

    /// The indices of the entries that were requested under an id, in order.
    func asked(_ identifier: UInt64) -> [Int] {
        entries.indices.filter { entries[$0].state == .asked(identifier) }
    }

    mutating func confirm(_ index: Int) {
        hasNews = true
        entries[index].state = .confirmed
        entries[index].refusalCount = 0
        entries[index].reason = nil
    }

    /// It was refused, and is requested again.
    ///
    /// - Returns: the milliseconds until then.
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

    /// The broker has removed the user from a group.
    mutating func withdraw(group name: some Collection<UInt8>, _ reason: ReasonCode) {
        for index in entries.indices {
            guard case .group(let group) = entries[index].want, group.utf8.elementsEqual(name)
            else { continue }
            entries[index].state = .withdrawn
            entries[index].reason = reason
        }
    }

    /// Requests on a connection that has ended get no answer.
    mutating func forgetQuestions() {
        for index in entries.indices {
            guard case .asked = entries[index].state else { continue }
            entries[index].state = .due(Instant(milliseconds: 0))
        }
    }

    /// The session is new and has no subscriptions.
    ///
    /// - Parameter keepsQuestions: whether open requests are repeated on the new session by the
    ///   client.
    mutating func sessionLost(keepsQuestions: Bool) {
        entries.removeAll { entry in
            guard case .obsolete = entry.want else { return false }
            // A request for this filter may be among those that are repeated.
            return !keepsQuestions || entry.state == .confirmed
        }
        for index in entries.indices {
            if keepsQuestions, case .asked = entries[index].state { continue }
            entries[index].state = .due(Instant(milliseconds: 0))
        }
    }
}

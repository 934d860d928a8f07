// The log of wake-ups: for each target, what was asked, sent, refused and dropped. It has no
// contents, no addresses and no secrets. It is bounded, and the oldest entries make room.

import WakeTemplates

/// What happened to a wake-up.
package enum LogStep: UInt8, CaseIterable, Sendable {
    /// The broker asked for it.
    case asked = 0
    /// The destination took it.
    case sent = 1
    /// An attempt failed; another follows.
    case failed = 2
    /// The destination does not take it.
    case refused = 3
    /// The destination says that the target does not exist any more.
    case gone = 4
    // 5 was the removal at the broker, which the program's log has.
    /// A device came by itself.
    case withdrawn = 6
    /// A newer one replaced it.
    case coalesced = 7
    /// It was not sent: the detail is the cause.
    case dropped = 8
    /// A person asked for a dead letter again.
    case resent = 9

    package var name: String { "\(self)" }
}

package struct LogEntry: Hashable, Sendable {
    /// Unix milliseconds.
    package var time: UInt64
    package var key: WakeKey
    package var kind: WakeKind
    package var step: LogStep
    /// The number of the wake-up.
    package var sequence: UInt64
    /// Messages that waited for the user.
    package var count: UInt64
    /// A status, a reason or a cause; empty for none.
    package var detail: String
}

package struct WakeLog: Sendable {
    private struct TargetLog {
        var entries: [(place: UInt64, entry: LogEntry)] = []
    }

    private var targets: [WakeKey: TargetLog] = [:]
    /// The targets of all entries, oldest first. Those that were removed since are skipped.
    private var order: [WakeKey] = []
    private var orderHead = 0
    private var nextPlace: UInt64 = 0
    package private(set) var count = 0
    private let perTargetMaximum: Int
    private let countMaximum: Int

    package init(perTargetMaximum: Int, countMaximum: Int) {
        self.perTargetMaximum = perTargetMaximum
        self.countMaximum = countMaximum
    }

    package mutating func add(_ entry: LogEntry) {
        guard perTargetMaximum > 0, countMaximum > 0 else { return }
        targets[entry.key, default: TargetLog()].entries.append((nextPlace, entry))
        nextPlace += 1
        order.append(entry.key)
        count += 1
        if targets[entry.key]!.entries.count > perTargetMaximum {
            targets[entry.key]!.entries.removeFirst()
            count -= 1
        }
        while count > countMaximum { removeOldest() }
        compactOrder()
    }

    private mutating func removeOldest() {
        while orderHead < order.count {
            let key = order[orderHead]
            orderHead += 1
            guard targets[key] != nil else { continue }
            targets[key]!.entries.removeFirst()
            if targets[key]!.entries.isEmpty { targets[key] = nil }
            count -= 1
            return
        }
        preconditionFailure("\(count) entries of the log, and none in order")
    }

    /// Keys without an entry of their own, because the bound of the target took it, are left out.
    private mutating func compactOrder() {
        guard order.count > 2 * count + PushLimits.logSlackCount else { return }
        order = all.map(\.key)
        orderHead = 0
    }

    /// How many of the newest entries, of so many that were added last, are left.
    func leftCount(ofLast count: Int) -> Int {
        let first = nextPlace - min(UInt64(count), nextPlace)
        return targets.values.reduce(0) { $0 + $1.entries.count { $0.place >= first } }
    }

    /// All entries, oldest first.
    package var all: [LogEntry] {
        targets.values.flatMap(\.entries).sorted { $0.place < $1.place }.map(\.entry)
    }
}

// Watches from the main thread whether the event loops turn and the writer commits, for the answers
// of web listeners.

import NetTransport
import Primitives

/// What the main thread has seen of the broker's progress.
struct HealthMonitor {
    private let health: BrokerHealth
    /// Without a web listener nobody asks, and idle loops are left asleep.
    let wakesLoops: Bool
    private var loops: [Progress] = []
    private var commits = Progress(value: 0, since: Instant(milliseconds: 0))

    /// A number that grows, and when it last did.
    private struct Progress {
        var value: UInt64
        var since: Instant
    }

    /// Longer than a turn or a commit takes on a machine that is only slow: a slow disk takes a
    /// second for a commit.
    static let patienceMilliseconds: UInt64 = 10_000

    init(_ settings: WebSettings) {
        health = settings.health
        wakesLoops = settings.isUsed
    }

    /// - Parameters:
    ///   - turns: the turns of each event loop; all are woken each time.
    ///   - committed: the last batch that was committed.
    ///   - isIdle: whether no other batch waits for its commit.
    mutating func note(
        turns: [UInt64], committed: UInt64, isIdle: Bool, isFull: Bool, at now: Instant
    ) {
        health.set(.storeFull, isFull)
        guard wakesLoops else { return }
        if loops.isEmpty { loops = turns.map { Progress(value: $0, since: now) } }
        var isStuck = false
        for (index, turn) in turns.enumerated() {
            if loops[index].value != turn { loops[index] = Progress(value: turn, since: now) }
            isStuck = isStuck || isLate(loops[index], at: now)
        }
        health.set(.loopStuck, isStuck)
        if isIdle || commits.value != committed {
            commits = Progress(value: committed, since: now)
        }
        health.set(.commitStuck, isLate(commits, at: now))
    }

    private func isLate(_ progress: Progress, at now: Instant) -> Bool {
        now.milliseconds(since: progress.since) >= Self.patienceMilliseconds
    }
}

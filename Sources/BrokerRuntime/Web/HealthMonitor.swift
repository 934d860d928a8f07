// Measures on the main thread whether the event loops turn and the writer commits, for the health
// page of web listeners.

import NetTransport
import Primitives

/// The progress of the broker, as the main thread has seen it.
struct HealthMonitor {
    private let health: BrokerHealth
    /// False without a web listener, so that idle loops are not woken.
    let wakesLoops: Bool
    private var loops: [Progress] = []
    private var commits = Progress(value: 0, since: Instant(milliseconds: 0))

    /// A counter, and the time at which it increased last.
    private struct Progress {
        var value: UInt64
        var since: Instant
    }

    /// Longer than a turn or a commit takes on a slow machine: a slow disk takes a second for a
    /// commit.
    static let patienceMilliseconds: UInt64 = 10_000

    init(_ health: BrokerHealth, of listeners: WebListeners) {
        self.health = health
        wakesLoops = listeners.isUsed
    }

    /// - Parameters:
    ///   - turns: the turns of each event loop. All loops are woken each time.
    ///   - committed: the number of the last committed batch.
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

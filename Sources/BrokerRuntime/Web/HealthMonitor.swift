// Measures on the main thread whether the event loops turn and the writers of the shards commit,
// for the health page of web listeners.

import NetTransport
import Primitives

/// The progress of the broker, as the main thread has seen it.
struct HealthMonitor {
    private let health: BrokerHealth
    /// False without a web listener, so that idle loops are not woken.
    let wakesLoops: Bool
    private var loops: [Progress] = []
    /// By the places of the shards.
    private var commits: [Progress] = []

    /// A counter, and the time at which it increased last.
    private struct Progress {
        var value: UInt64
        var since: Instant
    }

    /// The state of one shard's store.
    struct Store {
        /// The number of the last committed batch.
        var committed: UInt64
        /// Whether no other batch waits for its commit.
        var isIdle: Bool
        var isFull: Bool
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
    ///   - stores: those of all shards.
    mutating func note(turns: [UInt64], stores: [Store], at now: Instant) {
        // While one has room, the broker takes messages of its apps.
        health.set(.storeFull, stores.allSatisfy(\.isFull))
        guard wakesLoops else { return }
        if loops.isEmpty { loops = turns.map { Progress(value: $0, since: now) } }
        var isStuck = false
        for (index, turn) in turns.enumerated() {
            if loops[index].value != turn { loops[index] = Progress(value: turn, since: now) }
            isStuck = isStuck || isLate(loops[index], at: now)
        }
        health.set(.loopStuck, isStuck)
        if commits.isEmpty { commits = stores.map { Progress(value: $0.committed, since: now) } }
        for (place, store) in stores.enumerated()
        where store.isIdle || commits[place].value != store.committed {
            commits[place] = Progress(value: store.committed, since: now)
        }
        // As for full stores: the apps of the others are served.
        health.set(.commitStuck, commits.allSatisfy { isLate($0, at: now) })
    }

    private func isLate(_ progress: Progress, at now: Instant) -> Bool {
        now.milliseconds(since: progress.since) >= Self.patienceMilliseconds
    }
}

// Checks that the event loops still run, for the service manager's watchdog: a broker whose loops
// are stuck serves no client even while its main thread runs.

import NetTransport

/// Wakes all event loops and checks whether each has completed a turn since.
struct LoopWatchdog {
    private let loops: [LoopHandle]
    /// The turns that each loop had completed when it was last woken.
    private var turns: [UInt64]

    init(_ loops: [LoopHandle]) {
        self.loops = loops
        turns = loops.map { _ in 0 }
        wake()
    }

    /// Whether every loop has turned since the last call. Wakes all loops for the next call.
    mutating func haveTurned() -> Bool {
        let isWell = zip(loops, turns).allSatisfy { $0.counters.turns > $1 }
        // A loop that has not turned yet has a wake-up pending.
        if isWell { wake() }
        return isWell
    }

    private mutating func wake() {
        turns = loops.map { $0.counters.turns }
        for loop in loops { loop.wake() }
    }
}

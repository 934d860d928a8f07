// Whether the event loops still turn. Asked by the service manager's watchdog: a broker whose main
// thread is well and whose loops are stuck serves nobody.

import NetTransport

/// Wakes all lanes and sees whether each has turned since.
struct LaneWatch {
    private let lanes: [LoopHandle]
    /// How often each lane had turned when it was woken last.
    private var turns: [UInt64]

    init(_ lanes: [LoopHandle]) {
        self.lanes = lanes
        turns = lanes.map { _ in 0 }
        wake()
    }

    /// Whether every lane has turned since the last call; wakes them for the next one.
    mutating func haveTurned() -> Bool {
        let isWell = zip(lanes, turns).allSatisfy { $0.counters.turns > $1 }
        // Who has not turned is waited for, and not asked anew.
        if isWell { wake() }
        return isWell
    }

    private mutating func wake() {
        turns = lanes.map { $0.counters.turns }
        for lane in lanes { lane.wake() }
    }
}

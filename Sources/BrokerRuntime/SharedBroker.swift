// The core behind its lock: the lanes enter it once per turn, the store's writer once per batch,
// the operator's door now and then. Everything that crosses threads is queued before the lock is
// left; I/O happens after it.

import BrokerCore
import NetTransport
import Primitives
import Threads

/// One broker, shared by lanes, writer and administration.
package final class SharedBroker: Sendable {
    /// What the lock protects.
    package struct State: ~Copyable {
        package var broker: Broker
        package var effects: Effects
        /// The last batch whose result the core has.
        var committedSequence: UInt64 = 0
        /// The broker is about to stop: lanes take nothing in any more.
        package var isDraining = false
        /// Lanes that have entered the core with the last of what they took in.
        var drainedLaneCount = 0
    }

    private let state: Locked<State>
    /// One for each lane, to be woken when there are effects for it.
    let laneHandles: [LoopHandle]
    /// Tells the writer that there is a batch to take.
    let writerSignal: WakeSignal
    /// Tells whoever waits for a commit that there was one.
    private let commitSignal = WakeSignal()

    package init(_ broker: consuming Broker, laneHandles: [LoopHandle], writerSignal: WakeSignal) {
        state = Locked(
            State(broker: broker, effects: Effects(laneCount: laneHandles.count)))
        self.laneHandles = laneHandles
        self.writerSignal = writerSignal
    }

    /// Sleeps until the core has the result of a batch. One thread at a time, never a lane.
    func waitForCommit(of sequence: UInt64) {
        // The batch may have nothing in it, and then there is nothing to wait for.
        while enter({ $0.committedSequence < sequence && !$0.broker.isIdle(sequence) }) {
            _ = commitSignal.wait()
        }
    }

    /// Makes the lanes take nothing in any more, and sleeps until everything they have taken in is
    /// on disk and its results are with the lanes. One thread at a time with
    /// ``waitForCommit(of:)``.
    func drain() {
        enter { $0.isDraining = true }
        for handle in laneHandles { handle.wake() }
        while enter({ $0.drainedLaneCount < laneHandles.count }) { _ = commitSignal.wait() }
        // A batch may be under way while the gathering one has nothing in it.
        let sequence = enter { $0.broker.gatheringSequence }
        waitForCommit(of: sequence - 1)
        waitForCommit(of: sequence)
        // All results are known by now.
        let last = enter { state in
            state.broker.prepareToStop()
            return state.broker.gatheringSequence
        }
        waitForCommit(of: last)
    }

    /// A lane has entered the core for the last time with something that it took in.
    func laneDrained() {
        enter { $0.drainedLaneCount += 1 }
        commitSignal.raise()
    }

    /// Brings the result of a batch to the core and wakes who waits for it.
    package func bring(_ result: StoreResult, at moment: Moment) {
        enter { state in
            state.committedSequence = result.sequence
            state.broker.stored(result, at: moment, effects: &state.effects)
        }
        commitSignal.raise()
    }

    /// Enters the core. Afterwards lanes with effects are woken, other than `lane` itself, and the
    /// writer if there is something to store.
    package func enter<Result: ~Copyable>(
        from lane: UInt8? = nil, _ body: (inout State) -> Result
    ) -> Result {
        var lanesToWake: UInt64 = 0
        var hasBatch = false
        let result = state.withLock { state in
            let result = body(&state)
            for index in 0..<laneHandles.count
            where UInt8(index) != lane && !state.effects[UInt8(index)].isEmpty {
                lanesToWake |= 1 << UInt64(index)
            }
            // A lane that enters comes again by itself.
            if lane == nil && state.broker.hasWaitingDeliveries { lanesToWake |= 1 }
            hasBatch = state.broker.hasBatch
            return result
        }
        while lanesToWake != 0 {
            laneHandles[lanesToWake.trailingZeroBitCount].wake()
            lanesToWake &= lanesToWake - 1
        }
        if hasBatch { writerSignal.raise() }
        return result
    }
}

// The core and its lock. The event loops enter the core in each turn with events, the writer of the
// store once per batch, and the administration service for each request. Data for other threads is
// queued while the lock is held; I/O happens after it is released.

import BrokerCore
import BrokerTerms
import NetTransport
import Primitives
import QueueStore
import Synchronization
import Threads

/// The rows of a standby's store, for threads that ask for credentials.
typealias StandbyRows = Locked<RowReader?>

/// One broker, shared by the event loops, the store's writer and the administration service.
package final class SharedBroker: Sendable {
    /// The state that the lock protects.
    package struct State: ~Copyable {
        package var broker: Broker
        package var effects: Effects
        /// The last batch whose result has reached the core.
        var committedSequence: UInt64 = 0
        /// The broker is stopping: event loops accept no more input.
        package var isDraining = false
        /// The number of event loops that have entered the core with their last input.
        var drainedLoopCount = 0
        /// Whether the core has the apps of its shard. That of a cluster's standby is empty, and
        /// refuses each login.
        package var leads = true
        /// Whether the core gives its shard to another node: it takes no more events.
        var isLeaving = false
        /// Whether the event loops close the connections of the shard, and how many have done so.
        var isClosing = false
        var closedLoopCount = 0

        /// Whether events of clients enter the core.
        var takesEvents: Bool { leads && !isLeaving }
    }

    private let state: Locked<State>
    /// One for each event loop, to wake it when it has effects.
    let loopHandles: [LoopHandle]
    /// A bit for each of them.
    private var everyLoop: UInt64 { .max >> UInt64(64 - loopHandles.count) }
    /// Wakes the writer when a batch is pending.
    let writerSignal: WakeSignal
    /// Whether anything may leave a cluster's node; nil for a single broker.
    let gate: ClusterGate?
    /// What the writer has measured.
    let commits = CommitMeasurements()
    /// Wakes the thread that waits for a commit.
    private let commitSignal = WakeSignal()
    /// A function on its own in a lock gets deeper with each use.
    private struct Meanwhile { var body: (@Sendable () -> Void)? }

    /// What the thread of the administration does while it waits for a commit.
    private let meanwhile = Locked(Meanwhile())
    /// What the thread of the administration asks the event loops, which all shards share.
    let inquiries: LoopInquiries
    var places: LoopInquiry<[ConnectionID], [ConnectionID: ConnectionPlace]> { inquiries.places }
    var activity: LoopInquiry<Void, LoopActivity> { inquiries.activity }
    /// Logins that loops have refused before the core heard of them.
    private let refusedLogins = Atomic<UInt64>(0)
    /// The rows of the store of a cluster's standby while it is open. Whoever reads them holds the
    /// lock, and whoever closes the store has taken them out before.
    let standbyRows: StandbyRows
    /// The core's time minus that of the event loops, in milliseconds: each store has a clock of
    /// its own, which continues from its last commit.
    private let offset: Atomic<Int64>

    package convenience init(
        _ broker: consuming Broker, loopHandles: [LoopHandle], writerSignal: WakeSignal
    ) {
        self.init(broker, loopHandles: loopHandles, writerSignal: writerSignal, gate: nil)
    }

    init(
        _ broker: consuming Broker, loopHandles: [LoopHandle], writerSignal: WakeSignal,
        gate: ClusterGate?, inquiries: LoopInquiries = LoopInquiries(),
        offsetMilliseconds: Int64 = 0, leads: Bool = true,
        standbyRows: StandbyRows = StandbyRows(nil)
    ) {
        self.gate = gate
        offset = Atomic(offsetMilliseconds)
        self.standbyRows = standbyRows
        self.inquiries = inquiries
        precondition(
            (1...LoopLimits.countMaximum).contains(loopHandles.count),
            "\(loopHandles.count) loops, of 1 to \(LoopLimits.countMaximum)")
        state = Locked(
            State(
                broker: broker, effects: Effects(loopCount: loopHandles.count), leads: leads))
        self.loopHandles = loopHandles
        self.writerSignal = writerSignal
    }

    // MARK: - Time

    /// The core's time minus that of the event loops, in milliseconds.
    var offsetMilliseconds: Int64 { offset.load(ordering: .relaxed) }

    /// A time of the event loops' clock in that of the core.
    func local(_ instant: Instant) -> Instant {
        let offset = offsetMilliseconds
        guard offset != 0, instant != .never else { return instant }
        return Instant(milliseconds: UInt64(max(Int64(instant.milliseconds) + offset, 0)))
    }

    func local(_ moment: Moment) -> Moment {
        Moment(instant: local(moment.instant), unixMilliseconds: moment.unixMilliseconds)
    }

    /// A time of the core's clock in that of the event loops.
    func loopTime(of instant: Instant) -> Instant {
        let offset = offsetMilliseconds
        guard offset != 0, instant != .never else { return instant }
        return Instant(milliseconds: UInt64(max(Int64(instant.milliseconds) - offset, 0)))
    }

    // MARK: - The part of a cluster's node

    /// Puts the core that was restored from the store of a new primary in the place of the empty
    /// one.
    ///
    /// - Parameters:
    ///   - offsetMilliseconds: the core's time minus that of the event loops.
    ///   - adapt: gives the core what has changed since its restoration began.
    func lead(
        with restored: Box<Broker>, offsetMilliseconds: Int64,
        _ adapt: (inout State) -> Void
    ) {
        enter { state in
            swap(&state.broker, &restored.value)
            offset.store(offsetMilliseconds, ordering: .relaxed)
            state.committedSequence = 0
            state.leads = true
            adapt(&state)
        }
        for handle in loopHandles { handle.wake() }
    }

    /// Whether the core has the apps of its shard and takes requests.
    var takesEvents: Bool { state.withLock { $0.takesEvents } }

    /// Takes no more events of clients and requests of operators.
    func beginLeaving() { enter { $0.isLeaving = true } }

    /// Whether the log and the store have everything that was accepted.
    var hasStoredAll: Bool {
        enter { state in
            let sequence = state.broker.pendingSequence
            return [sequence - 1, sequence].allSatisfy {
                state.committedSequence >= $0 || state.broker.isIdle($0)
            }
        }
    }

    /// Adds what is stored before a stop.
    func prepareToLeave() { enter { $0.broker.prepareToStop() } }

    /// Makes the event loops close the connections of the shard.
    func beginClosing() {
        enter { state in
            state.closedLoopCount = 0
            state.isClosing = true
        }
        for handle in loopHandles { handle.wake() }
    }

    /// Whether all of them have.
    var isClosed: Bool { enter { $0.closedLoopCount >= loopHandles.count } }

    /// Puts an empty core in the place of one whose shard another node serves.
    func leave(with empty: Box<Broker>) {
        enter { state in
            swap(&state.broker, &empty.value)
            // What the loops have not taken may not leave any more.
            state.effects = Effects(loopCount: loopHandles.count)
            state.committedSequence = 0
            state.leads = false
            state.isLeaving = false
            state.isClosing = false
        }
        for handle in loopHandles { handle.wake() }
    }

    /// Logins that were refused without the core, which counts all others.
    var refusedLoginCount: UInt64 { refusedLogins.load(ordering: .relaxed) }

    func countRefusedLogins(_ count: UInt64) {
        if count > 0 { refusedLogins.add(count, ordering: .relaxed) }
    }

    /// Says what the thread of the administration does several times a second while it waits for a
    /// commit in a cluster, whose log may not answer for hours. It must not wait for one itself.
    func setMeanwhile(_ body: (@Sendable () -> Void)?) { meanwhile.withLock { $0.body = body } }

    /// Waits until the core has the result of a batch. Only one thread at a time may call it, and
    /// no event loop.
    func waitForCommit(of sequence: UInt64) {
        // The append of the batch confirms what was decided before it began.
        let mark = gate?.mark
        // An empty batch is never committed.
        while enter({ $0.committedSequence < sequence && !$0.broker.isIdle(sequence) }) {
            guard gate != nil else {
                _ = commitSignal.wait()
                continue
            }
            _ = commitSignal.wait(milliseconds: ClusterLimits.meanwhileMilliseconds)
            meanwhile.withLock { $0.body }?()
        }
        // What no batch contains is decided too, such as a result that all receivers have
        // acknowledged.
        if let gate, let mark {
            gate.waitForConfirmation(of: mark) { meanwhile.withLock { $0.body }?() }
        }
    }

    /// Makes the event loops accept no more input. With several shards it comes before any waits:
    /// events of a client that does not read hold up the loop until its core is draining.
    func beginDraining() { enter { $0.isDraining = true } }

    /// Makes the event loops accept no more input, and waits until all input is on disk and its
    /// results have reached the loops. Must not run concurrently with ``waitForCommit(of:)``.
    func drain() {
        beginDraining()
        for handle in loopHandles { handle.wake() }
        while enter({ $0.drainedLoopCount < loopHandles.count }) { _ = commitSignal.wait() }
        // A batch may be in flight while the pending one is empty.
        let sequence = enter { $0.broker.pendingSequence }
        waitForCommit(of: sequence - 1)
        waitForCommit(of: sequence)
        // All results have arrived.
        let last = enter { state in
            state.broker.prepareToStop()
            return state.broker.pendingSequence
        }
        waitForCommit(of: last)
    }

    /// Counts an event loop that has entered the core with its last input.
    func loopDrained() {
        enter { $0.drainedLoopCount += 1 }
        commitSignal.notify()
    }

    /// Passes the result of a batch to the core and wakes the thread that waits for it.
    package func finish(_ result: StoreResult, at moment: Moment) {
        enter { state in
            state.committedSequence = result.sequence
            state.broker.stored(result, at: moment, effects: &state.effects)
        }
        commitSignal.notify()
    }

    /// Reads the core, and changes nothing.
    func look<Result>(_ body: (borrowing Broker) -> Result) -> Result {
        state.withLock { body($0.broker) }
    }

    /// Enters the core until `body` returns false. Lets the threads that wait for the lock enter
    /// between two slices: a lock that is released and taken again at once stays with its thread,
    /// because those that wait need time to wake.
    func enterInSlices(_ body: (inout State) -> Bool) {
        while enter(body) { state.yieldToWaiting() }
    }

    /// Enters the core. Afterwards wakes every event loop that has effects, except `loopIndex`, and
    /// the writer if a batch is pending.
    package func enter<Result: ~Copyable>(
        from loopIndex: UInt8? = nil, _ body: (inout State) -> Result
    ) -> Result {
        var loopsToWake: UInt64 = 0
        var hasBatch = false
        // Before the lock: a wait for it is a part of what is measured.
        let nanoseconds = EventLoop.readNanoseconds()
        let result = state.withLock { state in
            state.broker.noteTime(nanoseconds: nanoseconds)
            let result = body(&state)
            for index in 0..<loopHandles.count
            where UInt8(index) != loopIndex && !state.effects[UInt8(index)].isEmpty {
                loopsToWake |= 1 << UInt64(index)
            }
            // Connections of each loop may have waited for the batch.
            if state.broker.takeResumption() { loopsToWake = everyLoop }
            // A loop that enters the core continues by itself with the events that it left.
            if loopIndex == nil && state.broker.hasWaitingDeliveries { loopsToWake |= 1 }
            hasBatch = state.broker.hasBatch
            return result
        }
        while loopsToWake != 0 {
            loopHandles[loopsToWake.trailingZeroBitCount].wake()
            loopsToWake &= loopsToWake - 1
        }
        if hasBatch { writerSignal.notify() }
        return result
    }
}

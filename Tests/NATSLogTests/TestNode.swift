// A node of a cluster without a store: the machine of Replication on a log of real servers. One
// thread drives it, as a writer of a broker does. Its batches are numbers.

import BrokerCore
import Foundation
import NATSLog
import Primitives
import Replication
import class Threads.Locked
import class Threads.WakeSignal

/// What the clients of a test cluster know: each number is sent once, to whoever is the primary.
final class TestSends: Sendable {
    struct State {
        var last: UInt64 = 0
        /// Numbers whose result a node has told, in the order of the results.
        var acknowledged: [UInt64] = []
        /// Which node told how many.
        var counts: [String: Int] = [:]
    }

    let state = Locked(State())
    /// Wakes the test at each result.
    let signal = WakeSignal()

    func next() -> UInt64 {
        state.withLock { state in
            state.last += 1
            return state.last
        }
    }

    func acknowledge(_ number: UInt64, by node: String) {
        state.withLock { state in
            state.acknowledged.append(number)
            state.counts[node, default: 0] += 1
        }
        signal.notify()
    }
}

final class TestNode: @unchecked Sendable {
    struct View {
        var role = ReplicaRole.standby
        /// The sequences and numbers that its store has, in order; 0 for records without a batch.
        var applied: [(sequence: UInt64, number: UInt64)] = []
        var fence: FenceCause?
        var isStopped = false
        var isPaused = false
        /// Deadlines and events at which the machine asked for what a node without a store lacks.
        var faults: [String] = []
    }

    let name: String
    let view = Locked(View())
    private let client: LogClient
    private let sends: TestSends
    private var replica: Replica
    private var commands: [ReplicaCommand] = []
    /// The number that the machine decides on, and those that are committed and not told.
    private var deciding: UInt64 = 0
    private var untold: [UInt64] = []

    /// Longer than the usual 2 s: on a busy machine a thread is paused for seconds, and a node that
    /// loses its lease by that does not come back.
    static let leaseMilliseconds: UInt64 = 8_000

    init(_ name: String, on log: JetStreamSettings, sends: TestSends) throws {
        self.name = name
        self.sends = sends
        var log = log
        log.node = name
        client = try LogClient(log)
        let settings = ReplicaSettings(
            node: NodeLife(name: Array(name.utf8), life: UInt64.random(in: 1 ... .max)),
            leaseMilliseconds: Self.leaseMilliseconds)
        replica = Replica(
            settings, position: .founding(StoreIdentity(high: 7, low: 9)), at: Self.time(),
            commands: &commands)
        Thread { self.run() }.start()
    }

    /// Ends the node between two steps, as a kill does: what it has begun stays in the log.
    func stop() { view.withLock { $0.isStopped = true } }

    func pause(_ isPaused: Bool) { view.withLock { $0.isPaused = isPaused } }

    private static func time() -> ReplicaTime {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        let now = Instant(
            milliseconds: UInt64(time.tv_sec) * 1_000 + UInt64(time.tv_nsec) / 1_000_000)
        return ReplicaTime(now: now, moment: Moment(instant: now, unixMilliseconds: 0))
    }

    private func run() {
        carryOut()
        while true {
            let (isStopped, isPaused) = view.withLock { ($0.isStopped, $0.isPaused) }
            if isStopped || replica.role == .fenced { break }
            if isPaused {
                client.wait(milliseconds: 10)
                continue
            }
            while let event = client.log.takeEvent() { handle(.log(event)) }
            handle(.timePassed)
            if replica.role == .primary, !replica.isDeciding, untold.isEmpty { decide() }
            tell()
            let now = Self.time().now
            if replica.deadline > now {
                client.wait(
                    milliseconds: Int32(min(replica.deadline.milliseconds - now.milliseconds, 20)))
            }
        }
        client.log.stop()
    }

    private func decide() {
        deciding = sends.next()
        var batch = StoreBatch()
        batch.sequence = deciding
        guard let bytes = DecidedBatch(batch, BatchOutcome()).encoded else { return }
        handle(.decided(bytes, hasSends: true))
    }

    /// Tells results while the lease holds, and no later.
    private func tell() {
        for number in untold where replica.mayEmit(at: Self.time().now) {
            sends.acknowledge(number, by: name)
            untold.removeFirst()
        }
    }

    private func handle(_ event: ReplicaEvent) {
        replica.handle(event, at: Self.time(), commands: &commands)
        carryOut()
    }

    private func carryOut() {
        while !commands.isEmpty {
            let command = commands.removeFirst()
            switch command {
            case .append(let record, let last, let request):
                client.log.append(record, expecting: last, as: request)
            case .read(let sequence, let request): client.log.read(at: sequence, as: request)
            case .follow(let sequence): client.log.follow(from: sequence)
            case .trim(let sequence): client.log.trim(through: sequence)
            case .apply(let position, _, let batch):
                apply(position, batch?.batch.sequence ?? 0)
                replica.handle(
                    .applied(position.sequence), at: Self.time(), commands: &commands)
            case .commit(let position):
                apply(position, deciding)
                untold.append(deciding)
            case .lead: break
            case .fence(let cause): view.withLock { $0.fence = cause }
            case .refuseSends, .copyStore: view.withLock { $0.faults.append("\(command)") }
            }
        }
        let role = replica.role
        view.withLock { $0.role = role }
    }

    private func apply(_ position: ReplicaPosition, _ number: UInt64) {
        view.withLock { $0.applied.append((position.sequence.raw, number)) }
    }
}

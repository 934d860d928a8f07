// One node of a simulated cluster: a replica, a store that outlives its process, and the broker
// while the node is the primary. It carries out what the replica asks for.

import BrokerCore
import Primitives
import Replication

final class ClusterNode {
    let index: Int
    let context: SimulationContext
    private let log: ClusterLog
    unowned let cluster: Cluster

    /// On disk.
    var store: InMemoryStore
    var position: ReplicaPosition?
    /// The last record that has changed rows.
    var lastBatch = LogSequence.start

    // In memory.
    /// The position behind records without rows, which a later commit writes.
    var passed: ReplicaPosition?
    /// The life of the process; 0 while there is none.
    private(set) var life = 0
    var replica: Replica?
    var process: BrokerProcess?
    var pausedUntil: Instant?
    var isSlow = false
    private(set) var client: ClusterLogClient?
    /// Records that the store has not applied.
    var unapplied: [(position: ReplicaPosition, batch: DecidedBatch?)] = []
    /// A decided batch until it is in the store.
    var decision: Decision?
    private var dueEntered = Instant.never
    /// What the loops were woken for last.
    private var woken: (confirmedCount: UInt64, mayEmit: Bool) = (0, false)
    /// Time that this node has been paused, for a planted bug.
    private var pausedMilliseconds: UInt64 = 0
    private var lastTry = Instant(milliseconds: 0)
    /// For a planted bug: the store at the start of the process.
    private var oldStore: InMemoryStore?

    struct Decision {
        var batch: StoreBatch
        var store: InMemoryStore
        var result: StoreResult
        /// Its position, once the log has it.
        var position: ReplicaPosition?
    }

    init(_ index: Int, _ store: InMemoryStore, cluster: Cluster, log: ClusterLog) {
        self.index = index
        self.store = store
        self.cluster = cluster
        self.log = log
        context = cluster.context
        position = .founding(store.identity)
    }

    var isUp: Bool { replica != nil }
    var isPaused: Bool { pausedUntil != nil }

    // MARK: Life

    func start() {
        guard !isUp else { return }
        life = cluster.nextLife()
        client = ClusterLogClient(log, node: index, life: life)
        var lease = Cluster.leaseMilliseconds
        if context.has(.hastyTakeover) { lease /= 4 }
        var commands: [ReplicaCommand] = []
        oldStore = store
        let settings = ReplicaSettings(
            node: NodeLife(name: Array("node-\(index)".utf8), life: UInt64(life)),
            leaseMilliseconds: lease)
        replica = Replica(settings, position: position, at: time, commands: &commands)
        context.history.note(
            .broker, "node \(index) starts as \(life), at \(position?.sequence.raw ?? 0)")
        carryOut(commands)
    }

    /// The process dies at any point; the store keeps what it has committed.
    ///
    /// - Parameter committing: whether a commit under way ends up in the store.
    func die(committing: Bool) {
        guard isUp else { return }
        context.history.note(.broker, "node \(index) dies")
        if committing, decision?.position != nil { commit() }
        if let process { cluster.ended(process, of: self) }
        process = nil
        replica = nil
        client = nil
        unapplied = []
        passed = nil
        decision = nil
        pausedUntil = nil
        dueEntered = .never
        woken = (0, false)
        context.enter(
            .cluster(.nodeStarts(node: index)), after: cluster.random.milliseconds(in: 10...10_000))
    }

    /// The disk is replaced by an empty one.
    func loseDisk() {
        die(committing: false)
        store = InMemoryStore(identity: StoreIdentity(high: 9, low: UInt64(index)))
        position = nil
        lastBatch = .start
    }

    func resume() {
        guard let until = pausedUntil, until <= context.now else { return }
        pausedUntil = nil
        process?.wakeLoops()
    }

    func pause(_ milliseconds: UInt64) {
        guard isUp, !isPaused else { return }
        context.history.note(.broker, "node \(index) is paused for \(milliseconds) ms")
        pausedUntil = context.now.advanced(byMilliseconds: milliseconds)
        pausedMilliseconds += milliseconds
        context.enter(.cluster(.nodeResumes(node: index)), after: milliseconds)
    }

    // MARK: The replica

    private var now: Instant {
        guard context.has(.stoppedClock) else { return context.now }
        return Instant(milliseconds: context.now.milliseconds - min(pausedMilliseconds, 900_000))
    }

    private var time: ReplicaTime { ReplicaTime(now: now, moment: context.moment) }

    /// The log has events for this life.
    func takeLogEvents() {
        while let event = client?.takeEvent() { tell(.log(tampered(event))) }
    }

    func due(life: Int) {
        guard life == self.life else { return }
        dueEntered = .never
        tell(.timePassed)
    }

    func tell(_ event: ReplicaEvent) {
        guard replica != nil else { return }
        var commands: [ReplicaCommand] = []
        replica?.handle(event, at: time, commands: &commands)
        carryOut(commands)
    }

    private func carryOut(_ commands: [ReplicaCommand]) {
        for command in commands { carryOut(command) }
        guard let replica else { return }
        let emission = (replica.confirmedCount, mayEmit(nil))
        if emission != woken {
            woken = emission
            process?.wakeLoops()
        }
        let deadline = max(replica.deadline, context.now.advanced(byMilliseconds: 1))
        if replica.deadline != .never, deadline < dueEntered {
            dueEntered = deadline
            context.eventQueue.enter(.cluster(.nodeDue(node: index, life: life)), at: deadline)
        }
    }

    private func carryOut(_ command: ReplicaCommand) {
        switch command {
        case .append(let record, let last, let request):
            lastTry = context.now
            let isBlind = context.has(.blindTakeover) && replica?.role == .standby
            client?.append(record, expecting: isBlind ? log.last : last, as: request)
        case .read(let sequence, let request): client?.read(at: sequence, as: request)
        case .follow(let sequence): client?.follow(from: sequence)
        case .trim(let sequence): client?.trim(through: sequence)
        case .apply(let position, _, let batch): apply(position, batch)
        case .lead: lead()
        case .commit(let position): release(position)
        case .refuseSends: refuseSends()
        case .copyStore:
            context.enter(
                .cluster(.nodeCopies(node: index, life: life)),
                after: cluster.random.milliseconds(in: 10...2_000))
        case .fence(let cause):
            context.history.note(.broker, "node \(index) is fenced, \(cause)")
            if !context.has(.ignoredFence) { die(committing: false) }
        }
    }

    // MARK: What may leave

    /// The mark of effects: nil if they need no confirmation.
    func mark(of effects: borrowing LoopEffects) -> UInt64? {
        guard effects.tellsUnstored, !context.has(.earlyRelease), let replica else { return nil }
        let mark = replica.confirmationMark
        context.enter(.cluster(.nodeConfirms(node: index, life: life)), after: 0)
        return mark
    }

    func mayEmit(_ mark: UInt64?) -> Bool {
        guard let replica, !isPaused else { return false }
        if context.has(.ignoredLease), replica.role == .primary { return true }
        if context.has(.ignoredFence), replica.role == .fenced { return true }
        let isHeld: Bool
        if replica.role == .primary, context.has(.lastTryLease) {
            isHeld = context.now < lastTry.advanced(byMilliseconds: Cluster.leaseMilliseconds)
        } else if replica.role == .primary, context.has(.hastyTakeover) {
            // Only standbys have the shorter lease.
            isHeld =
                now
                < replica.leaseEnd.advanced(
                    byMilliseconds: Cluster.leaseMilliseconds - replica.settings.leaseMilliseconds)
        } else {
            isHeld = replica.mayEmit(at: now)
        }
        return isHeld && (mark.map { replica.isConfirmed($0) } ?? true)
    }

    /// Bytes leave: only the node of the last takeover may send any.
    func noteEmission() {
        guard log.leader?.life != UInt64(life) else { return }
        context.oracle.fail(
            .deposedIsSilent,
            "node \(index) of life \(life) emits after the takeover of \(log.leader?.life ?? 0)")
    }

    // MARK: The broker

    /// The store that the core of a new primary is restored from.
    var restoredStore: InMemoryStore {
        context.has(.staleCore) ? oldStore ?? store : store
    }

    private func lead() {
        guard let replica else { return }
        context.history.note(.broker, "node \(index) leads in term \(replica.received.term.raw)")
        process = cluster.lead(self)
    }
}

/// Effects that wait until they may leave.
final class GatedEffects {
    let mark: UInt64?
    var effects = LoopEffects()

    init(mark: UInt64?) { self.mark = mark }
}

// The node of one shard in a process that has several: its attempts to open log and store, its time
// as a standby and as the primary, and its return to a standby after a hand-over. Each shard has a
// thread for this, so that one whose log does not answer delays no other.

import Administration
import BrokerCore
import BrokerTerms
import Configuration
import Glibc
import NetTransport
import Primitives
import QueueStore
import Replication
import Threads

/// The place of a shard in a cluster.
final class ShardNode: @unchecked Sendable {
    /// What the broker of the process gives its shards.
    struct Parts: Sendable {
        let core: SharedBroker
        /// All cores, of which that is one.
        let shards: Shards
        let trust: ClientTrust
        let backups: BackupRunner
        /// The clock of the event loops.
        let clock: BrokerClock
        /// The settings of the broker, which reloads change.
        let settings: Locked<BrokerSettings>
        /// Held while the thread of the administration executes requests.
        let operations: Locked<Void>
    }

    private struct State {
        var node: ClusterNode?
        var isStopped = false
        /// The broker stops, which hands over too: no other hand-over begins.
        var isStopping = false
        /// An operator has asked for a hand-over of this shard.
        var isLeaving = false
    }

    let place: Int
    /// The name of the shard.
    let name: String
    /// Those of the broker, with the directory and the stream of the shard.
    let settings: BrokerSettings
    let gate: ClusterGate
    let view: Locked<ClusterView>
    let standbyRows = StandbyRows(nil)
    private let map: ShardMap
    private let opener: ClusterLogOpener
    private let log: LogWriter
    private let fail: BrokerServer.Failure
    private let state = Locked(State())
    /// Told when ``State`` has changed.
    private let changed = WakeSignal()
    // Set before the thread starts.
    private(set) var parts: Parts?
    private var thread: Thread?

    init(
        _ place: Int, of map: ShardMap, _ settings: BrokerSettings, opener: ClusterLogOpener,
        log: LogWriter, fail: @escaping BrokerServer.Failure
    ) {
        self.place = place
        self.map = map
        name = map.names[place]
        self.settings = map.settings(of: place, settings)
        let view = Locked(ClusterView())
        self.view = view
        gate = ClusterGate(nodeSignal: WakeSignal(), view: view)
        self.opener = opener
        self.log = log
        self.fail = fail
    }

    /// The core of the shard, which is empty until the node leads.
    func makeCore(
        _ loopHandles: [LoopHandle], _ inquiries: LoopInquiries, trust: ClientTrust,
        at moment: Moment
    ) -> SharedBroker {
        SharedBroker(
            Broker(
                limits: CoreLimits(settings), loopCount: loopHandles.count,
                trust: trust.vouchers, at: moment),
            loopHandles: loopHandles, writerSignal: gate.nodeSignal, gate: gate,
            inquiries: inquiries, leads: false, standbyRows: standbyRows)
    }

    /// What an operator is told of the shard.
    var summary: ShowCluster.Shard {
        let now = ClusterGate.nowMilliseconds
        let view = view.withLock { $0 }
        let isOpen = state.withLock { $0.node != nil }
        let isPrimary = view.part == .primary
        let heard = view.primary(at: now).map { String(decoding: $0.address, as: UTF8.self) }
        let primary = isPrimary ? view.own.address : heard ?? ""
        return ShowCluster.Shard(
            name: name, part: isOpen ? "\(view.part)" : "opening", term: view.term.raw,
            // A new primary restores its core first.
            hasLease: gate.mayEmit && parts?.core.takesEvents == true, sequence: view.applied.raw,
            lagRecords: view.received.raw - min(view.applied.raw, view.received.raw),
            primary: primary, alarms: view.alarms(hasLease: gate.mayEmit, at: now))
    }

    /// Begins as a standby.
    func start(_ parts: Parts) {
        self.parts = parts
        thread = Thread(name: "shard-\(place)") { self.run(parts) }
    }

    /// The broker begins to stop. A primary without a lease then ends the process after a while.
    func beginStop() {
        let node = state.withLock { state in
            state.isStopping = true
            return state.node
        }
        if parts?.core.takesEvents == true { node?.beginStop() }
    }

    /// Tells the thread to end. Clients of the shard have had their last output.
    func requestStop() {
        state.withLock { $0.isStopped = true }
        changed.notify()
    }

    /// Waits until the node has given its place up.
    func join() {
        thread?.join()
        thread = nil
    }

    // MARK: The thread

    private var isStopped: Bool { state.withLock { $0.isStopped } }

    private func run(_ parts: Parts) {
        do throws(StartError) {
            while !isStopped { try live(parts) }
        } catch {
            log.write(
                .error, .clusterFenced,
                fields: [
                    "node": .text("\(settings.cluster.node ?? "")/\(name)"),
                    "detail": .text("\(error)"),
                ])
            fail(error.kind)
        }
    }

    /// One life of the node, as between two starts of a node without shards.
    private func live(_ parts: Parts) throws(StartError) {
        var opening = Opening(settings, opener: opener, log: log, shard: self)
        var opened: ClusterNode?
        while opened == nil, !isStopped {
            opened = try opening.attempt(fail: fail)
            if opened == nil {
                _ = changed.wait(milliseconds: ClusterLimits.openingMilliseconds)
            }
        }
        guard let node = opened else { return opening.end() }
        state.withLock { $0.node = node }
        try node.start()
        defer {
            // A primary tells the others that they need not wait for its lease.
            node.stop()
            state.withLock { $0.node = nil }
            if !isStopped { forget(parts) }
        }
        while !isStopped {
            guard node.waitForLead(milliseconds: ClusterLimits.openingMilliseconds / 4) else {
                continue
            }
            try lead(node, parts)
            while !isStopped {
                if state.withLock({ $0.isLeaving }), leave(parts) { return }
                _ = changed.wait(milliseconds: ClusterLimits.openingMilliseconds)
            }
            return
        }
    }

    /// Refuses a store with an app that "shards" gives to another shard.
    func checkApps(of store: Box<LMDBQueueStore>) throws(StartError) {
        try ShardStores.checkApps(of: store, in: name, map)
    }

    /// Restores the core from the store, which the node has closed, as a restart does.
    private func lead(_ node: ClusterNode, _ parts: Parts) throws(StartError) {
        let own = map.settings(of: place, parts.settings.withLock { $0 })
        let store = try ShardStores.open(own, shard: map.label(of: place))
        try checkApps(of: store)
        let clock = ShardStores.clock(of: store, own)
        let broker = try ShardStores.restore(
            store, of: place, in: map, own, at: clock, trust: parts.trust.vouchers,
            loopCount: parts.core.loopHandles.count)
        let repaired = broker.counters.rowsRepaired
        if repaired > 0 {
            log.write(
                .warning, .storeRepaired,
                fields: ["rows": .number(repaired), "shard": .text(name)])
        }
        let sizes = store.value.tableByteCounts()
        parts.core.commits.tables.withLock { $0 = sizes }
        parts.core.lead(
            with: Box(broker),
            offsetMilliseconds: clock.offsetMilliseconds - parts.clock.offsetMilliseconds
        ) { state in
            // A reload may have changed both meanwhile.
            state.broker.limits = CoreLimits(parts.settings.withLock { $0 })
            _ = state.broker.replaceTrust(
                parts.trust.vouchers, at: clock.moment(), effects: &state.effects)
        }
        node.serve(
            store,
            ClusterNode.Serving(
                shared: parts.core, clock: clock, backups: parts.backups, place: place))
        SettingsWithoutEffect(
            settings: parts.settings.withLock { $0 }, shards: parts.shards, log: log
        ).report(of: place)
    }

    // MARK: A hand-over

    /// Asks the thread to make another node the primary of this shard.
    func stepDown() throws(AdministrationRefusal) -> StepDown.Reply {
        try view.checkStepDown()
        guard parts?.core.takesEvents == true else {
            throw AdministrationRefusal(
                .implementationSpecificError, "the shard \(name) is not served yet: try again")
        }
        let isStopping = state.withLock { state in
            state.isLeaving = !state.isStopping
            return state.isStopping
        }
        guard !isStopping else {
            throw AdministrationRefusal(.serverShuttingDown, "the broker is stopping")
        }
        changed.notify()
        return StepDown.Reply()
    }

    /// Stores what was accepted, tells the clients of the shard to use another node, and empties
    /// the core. No session ends and no will is sent: what is stored says that the devices are
    /// connected, as after the death of a primary.
    ///
    /// - Returns: whether it has; false if the broker stops, and drains the core.
    private func leave(_ parts: Parts) -> Bool {
        let core = parts.core
        // No request of an operator is in the core then, or waits for a commit.
        let hasBegun = parts.operations.withLock { _ in
            state.withLock { state in
                state.isLeaving = false
                guard !state.isStopping else { return false }
                core.beginLeaving()
                return true
            }
        }
        guard hasBegun else { return false }
        let end = ClusterGate.nowMilliseconds + ClusterLimits.leaveMilliseconds
        func isOver() -> Bool { ClusterGate.nowMilliseconds >= end || isStopped }
        while !isOver(), !core.hasStoredAll { _ = poll(nil, 0, 1) }
        core.prepareToLeave()
        while !isOver(), !core.hasStoredAll { _ = poll(nil, 0, 1) }
        let mark = gate.takeMark()
        while !isOver(), !gate.mayLeave(mark) { _ = poll(nil, 0, 1) }
        // Each loop sends what waits, and closes the connections of the shard.
        core.beginClosing()
        while !isOver(), !core.isClosed { _ = poll(nil, 0, 1) }
        return true
    }

    /// Empties the core when the node has ended.
    private func forget(_ parts: Parts) {
        let core = parts.core
        view.withLock { $0.part = .standby }
        let limits = CoreLimits(parts.settings.withLock { $0 })
        core.leave(
            with: Box(
                Broker(
                    limits: limits, loopCount: core.loopHandles.count, trust: parts.trust.vouchers,
                    at: core.local(parts.clock.moment()))))
        state.withLock { $0.isLeaving = false }
    }
}

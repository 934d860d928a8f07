// One node of a cluster: the thread that owns the machine (`Replica`), the log and the store. It
// applies records as a standby. As the primary it is the writer: it decides the core's batches, and
// a result reaches the core when the log has the batch.

import BrokerCore
import Configuration
import Credentials
import Glibc
import NetTransport
import Primitives
import QueueStore
import Replication
import Threads

/// Moves a noncopyable value between threads, of which one at a time uses it.
final class Box<Value: ~Copyable>: @unchecked Sendable {
    var value: Value
    init(_ value: consuming Value) {
        self.value = value
    }
}

/// A node that runs.
final class ClusterNode: @unchecked Sendable {
    /// The parts of the broker of a primary.
    struct Serving {
        let shared: SharedBroker
        let clock: BrokerClock
        let backups: BackupRunner
        var place = 0
    }

    let gate: ClusterGate
    let view: Locked<ClusterView>
    /// Nil in a process with one shard.
    private let shard: ShardNode?
    let settings: BrokerSettings
    let life: NodeLife
    let cluster: StoreIdentity
    let log: LogWriter
    let fail: BrokerServer.Failure
    /// Copies of the store for other nodes.
    let copies: CopyService
    /// Told when the node has become the primary.
    private let leadSignal = WakeSignal()
    private let watchSignal = WakeSignal()
    private let inbox = Locked(Inbox())
    /// For reports, from any thread: only its wall clock is used.
    private let wallClock = BrokerClock(after: nil, downtimeMaximumSeconds: 0)
    private var threads: [Thread] = []
    private var administration: ClusterAdministration?

    /// What other threads leave for the node's.
    private struct Inbox {
        var store: Box<LMDBQueueStore>?
        var serving: Serving?
        var trim: LogSequence?
        var isLeading = false
        /// Whether the broker is told to stop: it waits for its last results.
        var isStopping = false
        var isStopped = false
    }

    /// The log, for calls of any thread.
    private let sharedLog: any NodeLog

    // Only the node's thread uses the following, after the start.
    var nodeLog: any NodeLog
    var replica: Replica
    var commands: [ReplicaCommand] = []
    /// Nil while the core is restored from it.
    var store: Box<LMDBQueueStore>?
    var serving: Serving?
    var clock: BrokerClock
    /// Records that the store has not applied, and about the bytes of their batches.
    var unapplied: [ReplayedRecord] = []
    var unappliedByteCount = 0
    /// When a standby applies them at the latest.
    var applyDue = Instant.never
    /// When the store gets the position behind heartbeats.
    var positionDue = Instant(milliseconds: 0)
    var batch = StoreBatch()
    var result = StoreResult()
    var beganNanoseconds: UInt64 = 0
    /// When a broker that stops ends without its log; nil while the lease holds.
    private var cutOffEnd: Instant?
    private var warned: Set<PeerWarning> = []
    /// Since when the clock of a node differs. Reports that were late differ only once.
    private var skewedNodes: [ClusterView.PeerKey: UInt64] = [:]

    /// Begins as a standby.
    init(
        _ settings: BrokerSettings, store: Box<LMDBQueueStore>, log nodeLog: any NodeLog,
        signal: WakeSignal, writer: LogWriter, shard: ShardNode? = nil,
        fail: @escaping BrokerServer.Failure
    ) {
        guard let position = store.value.position else {
            preconditionFailure("a store of no cluster, \(store.value.identity)")
        }
        self.settings = settings
        self.fail = fail
        self.nodeLog = nodeLog
        sharedLog = nodeLog
        log = writer
        self.shard = shard
        let view = shard?.view ?? Locked(ClusterView())
        self.view = view
        gate = shard?.gate ?? ClusterGate(nodeSignal: signal, view: view)
        cluster = position.cluster
        life = NodeLife(
            name: Array((settings.cluster.node ?? "").utf8), life: SystemRandom.number(),
            beginsEmpty: store.value.openingStamp == nil)
        clock = BrokerClock(
            after: store.value.openingStamp,
            downtimeMaximumSeconds: settings.store.downtimeMaximumSeconds)
        let time = ReplicaTime(
            now: Instant(milliseconds: ClusterGate.nowMilliseconds), moment: clock.moment())
        replica = Replica(
            ReplicaSettings(
                node: life, leaseMilliseconds: UInt64(settings.cluster.leaseMilliseconds)),
            position: position, at: time, commands: &commands)
        self.store = store
        copies = CopyService(
            settings.dataDirectory, named: Self.logName(settings, shard: shard),
            of: position.cluster, log: writer,
            wakeNode: { signal.notify() },
            firstRecord: { view.withLock { $0.log?.first } })
        view.withLock { view in
            view.own = ClusterView.Own(
                name: settings.cluster.node ?? "", address: settings.cluster.address ?? "",
                webAddress: settings.cluster.webAddress ?? "",
                leaseMilliseconds: UInt64(settings.cluster.leaseMilliseconds),
                durability: settings.cluster.durability.rawValue,
                shards: ShardMap(settings.shards).checksum)
            view.applied = position.sequence
        }
        shard?.standbyRows.withLock { $0 = store.value.makeRowReader() }
    }

    /// The node in the log, with its shard if there are several.
    var logName: String { Self.logName(settings, shard: shard) }

    static func logName(_ settings: BrokerSettings, shard: ShardNode?) -> String {
        let name = settings.cluster.node ?? ""
        return shard.map { "\(name)/\($0.name)" } ?? name
    }

    func start() throws(StartError) {
        if shard == nil {
            administration = try ClusterAdministration(settings, log: log, fail: fail) {
                self.answer($0)
            }
        }
        let suffix = shard.map { $0.place == 0 ? "" : "-\($0.place)" } ?? ""
        threads = [
            Thread(name: "store\(suffix)") { self.run() },
            Thread(name: "cluster\(suffix)") { self.watch() },
        ]
        sharedLog.answerQuestions(to: life.life) { [copies] in copies.answer($0) }
    }

    // MARK: Other threads

    /// Waits until the node is the primary; false if the time is over first.
    func waitForLead(milliseconds: Int32) -> Bool {
        _ = leadSignal.wait(milliseconds: milliseconds)
        return inbox.withLock { $0.isLeading }
    }

    /// Gives a primary its store back, and the core that was restored from it.
    func serve(_ store: Box<LMDBQueueStore>, _ serving: Serving) {
        inbox.withLock {
            $0.store = store
            $0.serving = serving
        }
        gate.nodeSignal.notify()
    }

    /// Bounds the time that a broker which stops waits for its log.
    func beginStop() {
        inbox.withLock { $0.isStopping = true }
        gate.nodeSignal.notify()
    }

    /// Ends the node. A primary, whose clients have had their last output, tells the others that
    /// they need not wait for its lease.
    func stop() {
        inbox.withLock { $0.isStopped = true }
        gate.nodeSignal.notify()
        watchSignal.stop()
        for thread in threads { thread.join() }
        threads = []
        closeStore()
        administration?.stop()
        administration = nil
        sharedLog.stop()
    }

    /// Takes a snapshot for a backup of all shards of the process.
    func serveBackup(_ store: Box<LMDBQueueStore>) {
        if let shard { shard.parts?.backups.serve(store.value, of: shard.place) }
    }

    /// Closes the store, of which nobody reads any more.
    private func closeStore() {
        shard?.standbyRows.withLock { $0 = nil }
        copies.stopMaking()
        if let shard { shard.parts?.backups.end(of: shard.place) }
        store = nil
        serving = nil
    }

    // MARK: The node's thread

    private var isStopped: Bool { inbox.withLock { $0.isStopped } }

    var now: Instant { Instant(milliseconds: ClusterGate.nowMilliseconds) }

    var time: ReplicaTime {
        ReplicaTime(now: now, moment: (serving?.clock ?? clock).moment())
    }

    private func run() {
        do throws(StoreError) {
            try carryOut()
            while !isStopped {
                takeInbox()
                // A node that catches up has many.
                while !isStopped, let event = nodeLog.takeEvent() { try handle(.log(event)) }
                if replica.role != .standby || now >= applyDue { try applyWaiting() }
                try takeReports()
                if gate.takeWish() { try handle(.confirmationWanted) }
                try handle(.timePassed)
                try decideWaiting()
                if !replica.isDeciding { try maintain() }
                try writePosition()
                endIfCutOff()
                wait()
            }
            try resign()
            try applyWaiting()
            try writePosition(isDue: true)
        } catch {
            log.write(.error, .storeFailed, fields: ["detail": .text("\(error)")])
            fail(.store)
        }
    }

    private func endIfCutOff() {
        guard inbox.withLock({ $0.isStopping }), !gate.mayEmit else {
            cutOffEnd = nil
            return
        }
        let end = cutOffEnd ?? now.advanced(byMilliseconds: ClusterLimits.cutOffMilliseconds)
        cutOffEnd = end
        guard now >= end else { return }
        log.write(
            .error, .clusterFenced,
            fields: [
                "node": .text(logName),
                "detail": "it stops, and the log does not answer: what nobody was told of is lost",
            ])
        fail(.deposed)
    }

    private func wait() {
        let now = now
        let deadline = min(replica.deadline, applyDue)
        guard deadline > now else { return }
        let milliseconds = Int32(min(deadline.milliseconds - now.milliseconds, 500))
        if applyDue == .never {
            _ = gate.nodeSignal.wait(milliseconds: milliseconds)
        } else {
            // The records that a standby collects need not wake it one by one.
            _ = poll(nil, 0, milliseconds)
        }
    }

    private func takeInbox() {
        let trim = inbox.withLock { inbox in
            if let store = inbox.store {
                self.store = store
                serving = inbox.serving
                inbox.store = nil
            }
            defer { inbox.trim = nil }
            return inbox.trim
        }
        // Not by the lease: a log that is full has no room for one. Who was deposed without knowing
        // it removes only what two stores have.
        if let trim, view.withLock({ $0.trims }) { nodeLog.trim(through: trim) }
    }

    func handle(_ event: ReplicaEvent) throws(StoreError) {
        replica.handle(event, at: time, commands: &commands)
        try carryOut()
    }

    private func carryOut() throws(StoreError) {
        publish()
        while !commands.isEmpty {
            let command = commands.removeFirst()
            switch command {
            case .append(let record, let last, let request):
                noteAppended(record.count)
                nodeLog.append(record, expecting: last, as: request)
            case .read(let sequence, let request): nodeLog.read(at: sequence, as: request)
            case .follow(let sequence): nodeLog.follow(from: sequence)
            case .trim(let sequence): nodeLog.trim(through: sequence)
            case .apply(let position, let moment, let batch):
                try apply(batch, moment, at: position)
            case .commit(let position): try commit(at: position)
            case .refuseSends: try decideAgain()
            case .lead(let term): try lead(term)
            case .copyStore: needCopy()
            case .fence(let cause): fence(cause)
            }
        }
    }

    /// Tells the other threads, before the log gets a request, what may leave.
    private func publish() {
        let isPrimary = replica.role == .primary
        let mayEmitMore = gate.publish(
            begun: replica.confirmationMark, confirmed: replica.confirmedCount,
            leaseEnd: isPrimary ? replica.leaseEnd.milliseconds : 0)
        if mayEmitMore, let serving {
            for handle in serving.shared.loopHandles { handle.wake() }
        }
        let (term, received) = (replica.received.term, replica.received.sequence)
        let isRefused = replica.isTakeoverRefused
        let isNew = view.withLock { view in
            defer { view.isTakeoverRefused = isRefused }
            view.part = isPrimary ? .primary : .standby
            view.term = term
            view.received = received
            return isRefused && !view.isTakeoverRefused
        }
        guard isNew else { return }
        log.write(
            .warning, .clusterWarning,
            fields: [
                "node": .text(logName),
                "detail": .text(
                    "the log is full, so that this node cannot take over: it removes records that "
                        + "two stores have; start the other standby, or give the stream more room "
                        + "(nats stream edit \(settings.cluster.stream) --max-bytes=...)"),
            ])
        watchSignal.notify()
    }

    /// Counts what the log gets, so that its room is known between two looks at it.
    private func noteAppended(_ byteCount: Int) {
        let isNew = view.withLock { view in
            let before = view.isLogNearlyFull
            view.appendedByteCount += UInt64(byteCount + ClusterLimits.recordOverheadByteCount)
            return !before && view.isLogNearlyFull
        }
        // The watch looks at once, and trims.
        if isNew { watchSignal.notify() }
    }

    // MARK: Parts

    /// The store is closed, and the main thread starts a broker on it, as a restart does.
    private func lead(_ term: Term) throws(StoreError) {
        try applyWaiting()
        try writePosition(isDue: true)
        closeStore()
        log.write(
            .info, .clusterPrimary,
            fields: ["node": .text(logName), "term": .number(term.raw)])
        inbox.withLock { $0.isLeading = true }
        leadSignal.notify()
        watchSignal.notify()
    }

    /// Nothing leaves any more. The process ends, and starts again as a standby.
    private func fence(_ cause: FenceCause) {
        _ = gate.publish(begun: 0, confirmed: 0, leaseEnd: 0)
        log.write(
            .error, .clusterFenced,
            fields: ["node": .text(logName), "detail": .text(cause.explanation)])
        fail(cause.isRemediedByRestart ? .deposed : .store)
    }

    /// The next start gets a copy.
    private func needCopy() {
        log.write(
            .error, .clusterFenced,
            fields: [
                "node": .text(logName),
                "detail": .text(
                    "the log has forgotten records that this store lacks: the next start gets a "
                        + "copy of another node's store"),
            ])
        fail(.deposed)
    }

    private func resign() throws(StoreError) {
        guard replica.role == .primary else { return }
        let end = now.advanced(byMilliseconds: ClusterLimits.resignMilliseconds)
        while !replica.isSettled, now < end {
            while let event = nodeLog.takeEvent() { try handle(.log(event)) }
            try handle(.timePassed)
            _ = gate.nodeSignal.wait(milliseconds: 20)
        }
        _ = gate.publish(begun: 0, confirmed: 0, leaseEnd: 0)
        guard replica.isSettled else { return }
        announce(.resigned, through: replica.received.sequence)
        log.write(.info, .clusterResigned, fields: ["node": .text(logName)])
    }

    var name: String { settings.cluster.node ?? "" }

    // MARK: Reports

    private func takeReports() throws(StoreError) {
        while let bytes = nodeLog.takeAnnouncement() {
            guard let report = NodeReport(decoding: bytes), report.node.life != life.life else {
                continue
            }
            guard report.cluster == cluster else { continue }
            let peer = ClusterView.PeerKey(report)
            checkLease(of: report, peer)
            warn(of: report, peer)
            view.withLock { $0.note(report, at: ClusterGate.nowMilliseconds) }
            if report.part == .resigned {
                try handle(.resigned(report.term, through: report.sequence))
            }
        }
    }

    /// A standby with a shorter lease than the primary's could take over while that one still
    /// serves clients: it ends.
    private func checkLease(of report: NodeReport, _ peer: ClusterView.PeerKey) {
        let own = replica.settings.leaseMilliseconds
        guard report.leaseMilliseconds != own, report.part == .primary, replica.role != .primary
        else { return }
        log.write(
            .error, .clusterFenced,
            fields: [
                "node": .text(logName),
                "detail": .text(
                    "cluster.leaseMilliseconds is \(own), and \(report.leaseMilliseconds) on the "
                        + "node \(peer.name), which is the primary: it has to be the same"),
            ])
        fail(.configuration)
    }

    /// Tells operators once of a node that is not as it should be.
    private func warn(of report: NodeReport, _ peer: ClusterView.PeerKey) {
        note(
            .sameName, of: peer, holds: peer.name == name,
            "another node, \(peer.address), has the name of this one")
        note(
            .otherShards, of: peer, holds: report.shards != view.withLock { $0.own.shards },
            ClusterView.otherShards(of: peer.name))
        let wall = wallClock.moment().unixMilliseconds
        let difference = max(wall, report.unixMilliseconds) - min(wall, report.unixMilliseconds)
        note(
            .clock, of: peer, holds: isSkewed(peer, by: difference),
            "the clocks differ by \(difference) ms: a takeover adds that to the broker's time")
    }

    private func note(
        _ finding: PeerWarning.Finding, of peer: ClusterView.PeerKey, holds: Bool,
        _ detail: @autoclosure () -> String
    ) {
        let warning = PeerWarning(peer: peer, finding: finding)
        guard holds else {
            warned.remove(warning)
            return
        }
        guard warned.count < PeerWarning.Finding.allCases.count * ClusterLimits.nodesMaximum,
            warned.insert(warning).inserted
        else { return }
        log.write(
            .warning, .clusterWarning,
            fields: ["node": .text(peer.name), "detail": .text(detail())])
    }

    /// Whether the clock of a node has differed too much for as long as a report is of use.
    private func isSkewed(_ peer: ClusterView.PeerKey, by milliseconds: UInt64) -> Bool {
        guard milliseconds > ClusterLimits.clockDifferenceMilliseconds else {
            skewedNodes[peer] = nil
            return false
        }
        if skewedNodes.count >= ClusterLimits.nodesMaximum { skewedNodes.removeAll() }
        let now = ClusterGate.nowMilliseconds
        let since = skewedNodes[peer] ?? now
        skewedNodes[peer] = since
        return now - since >= ClusterLimits.reportAgeMilliseconds
    }

    func announce(_ part: NodeReport.Part, through sequence: LogSequence) {
        let term = view.withLock { $0.term }
        let report = NodeReport(
            cluster: cluster, node: life, part: part, term: term, sequence: sequence,
            address: Array((settings.cluster.address ?? "").utf8),
            webAddress: Array((settings.cluster.webAddress ?? "").utf8),
            leaseMilliseconds: UInt64(settings.cluster.leaseMilliseconds),
            unixMilliseconds: wallClock.moment().unixMilliseconds,
            shards: view.withLock { $0.own.shards })
        sharedLog.announce(report.encoded)
    }

    // MARK: The second thread

    /// Sends reports and looks at the log, which may block.
    private func watch() {
        var nextLook: UInt64 = 0
        while !isStopped {
            let view = view.withLock { $0 }
            announce(view.part, through: view.applied)
            let now = ClusterGate.nowMilliseconds
            if now >= nextLook || view.isLogNearlyFull || view.isTakeoverRefused {
                nextLook = now + ClusterLimits.logLookMilliseconds
                let appended = view.appendedByteCount
                let answer = sharedLog.readState()
                let target = self.view.withLock { view in
                    view.note(answer, appended: appended)
                    return view.trims ? view.trimTarget(at: now) : nil
                }
                if answer == .absent, view.logAnswer != .absent {
                    log.write(
                        .error, .clusterWarning,
                        fields: ["node": .text(logName), "detail": .text(ClusterView.absentLog)])
                }
                if let target {
                    inbox.withLock { $0.trim = target }
                    gate.nodeSignal.notify()
                }
            }
            _ = watchSignal.wait(milliseconds: Int32(ClusterLimits.reportMilliseconds))
        }
    }
}

extension FenceCause {
    /// Whether the node may begin again as a standby by itself.
    var isRemediedByRestart: Bool {
        switch self {
        case .deposed, .misplaced: true
        case .unreadable, .brokenHistory, .refused: false
        }
    }

    /// The cause for operators.
    var explanation: String {
        switch self {
        case .deposed(let sequence):
            "another node has taken over at record \(sequence.raw)"
        case .unreadable(let sequence, .otherCluster):
            "record \(sequence.raw) belongs to another cluster than the store: \"cluster.stream\" "
                + "names the stream of another cluster, or each of two nodes was founded; the node "
                + "gets a copy of another one's store if its data directory is empty"
        case .unreadable(let sequence, .newerVersion(let version)):
            "record \(sequence.raw) has version \(version): this program is too old for it"
        case .unreadable(let sequence, let error): "record \(sequence.raw) is \(error)"
        case .brokenHistory(let sequence):
            "record \(sequence.raw) does not continue those before it: the stream was replaced"
        case .misplaced(let sequence):
            "the log has put a record at \(sequence.raw), where it was not to be"
        case .refused(let refusal): "the log refuses records: \(refusal)"
        }
    }
}

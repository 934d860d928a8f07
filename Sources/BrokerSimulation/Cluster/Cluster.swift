// The nodes of a simulated cluster and their log, with the faults that happen to them. A run ends
// with all of them healed.

import BrokerCore
import Primitives
import Replication

/// One future step of a cluster. A step of one life of a node's process ends with it.
enum ClusterOccurrence: Hashable {
    /// A message to the log or back arrives.
    case logStep(Int)
    case nodeStarts(node: Int)
    case nodeResumes(node: Int)
    case nodeDue(node: Int, life: Int)
    /// Something waits for a confirmation of the lease.
    case nodeConfirms(node: Int, life: Int)
    /// The store ends a commit of the primary's own batch, or of a record of another.
    case nodeCommits(node: Int, life: Int)
    case nodeApplies(node: Int, life: Int)
    case nodeCopies(node: Int, life: Int)
    case faultDue
    case faultEnds(ClusterFault)

    /// The node whose process carries it out, if one does.
    var node: (index: Int, life: Int)? {
        switch self {
        case .nodeDue(let node, let life), .nodeConfirms(let node, let life),
            .nodeCommits(let node, let life), .nodeApplies(let node, let life),
            .nodeCopies(let node, let life):
            (node, life)
        default: nil
        }
    }
}

/// A fault of a cluster.
enum ClusterFault: Hashable {
    case death(node: Int)
    case pause(node: Int)
    case cutOff(node: Int)
    case slowness(node: Int)
    case lostDisk(node: Int)
    case leaderless
    case fullLog
    case lossyLog
    case trimming
    /// All servers of the log lose their power.
    case logDeath
}

final class Cluster {
    let context: SimulationContext
    let log: ClusterLog
    private let network: SimulatedNetwork
    private(set) var nodes: [ClusterNode] = []
    var random: SimulationRandom
    private var lives = 0
    /// The process that leads, and that the oracle takes for the broker.
    private(set) var leader: BrokerProcess?
    /// The sums of stores by the sequence of their last batch.
    private var fingerprints: [LogSequence: UInt64] = [:]

    static let leaseMilliseconds: UInt64 = 2_000

    init(_ context: SimulationContext, network: SimulatedNetwork, store: InMemoryStore) {
        self.context = context
        self.network = network
        random = SimulationRandom(seed: context.options.seed ^ 0x636C_7573_7465_72)
        log = ClusterLog(context)
        for index in 0..<context.options.nodeCount {
            nodes.append(ClusterNode(index, store, cluster: self, log: log))
        }
    }

    func begin() {
        for node in nodes.indices {
            context.enter(.cluster(.nodeStarts(node: node)), after: UInt64(300 * node))
        }
        enterFault()
    }

    func nextLife() -> Int {
        lives += 1
        return lives
    }

    /// The process of a life.
    func process(_ life: Int) -> BrokerProcess? {
        nodes.lazy.compactMap(\.process).first { $0.life == life }
    }

    func node(of life: Int) -> ClusterNode? { nodes.first { $0.process?.life == life } }

    // MARK: Steps

    func carryOut(_ occurrence: ClusterOccurrence) {
        if let (index, life) = occurrence.node {
            let node = nodes[index]
            guard node.life == life, node.isUp else { return }
            if let until = node.pausedUntil {
                return context.eventQueue.enter(.cluster(occurrence), at: until)
            }
        }
        switch occurrence {
        case .logStep(let step):
            guard let client = log.carryOut(step) else { return }
            takeLogEvents(nodes[client.node], life: client.life)
        case .nodeStarts(let node): nodes[node].start()
        case .nodeResumes(let node):
            nodes[node].resume()
            takeLogEvents(nodes[node], life: nodes[node].life)
        case .nodeDue(let node, let life): nodes[node].due(life: life)
        case .nodeConfirms(let node, _): nodes[node].tell(.confirmationWanted)
        case .nodeCommits(let node, _): nodes[node].commit()
        case .nodeApplies(let node, _): nodes[node].applyNext()
        case .nodeCopies(let node, _): copy(to: nodes[node])
        case .faultDue: injectFault()
        case .faultEnds(let fault): end(fault)
        }
    }

    private func takeLogEvents(_ node: ClusterNode, life: Int) {
        if node.life == life, !node.isPaused { node.takeLogEvents() }
    }

    private func copy(to node: ClusterNode) {
        let sources = nodes.filter { $0 !== node && $0.position != nil }
        let best = sources.max { $0.position!.sequence < $1.position!.sequence }
        if let best { node.copy(of: best) }
    }

    // MARK: Brokers

    /// A node has become the primary.
    func lead(_ node: ClusterNode) -> BrokerProcess {
        if leader != nil { context.oracle.brokerDied("is deposed") }
        context.oracle.tookOver()
        let process = BrokerProcess(context, network: network, node: node, life: node.life)
        leader = process
        network.leader = node.life
        context.oracle.brokerStarted()
        return process
    }

    /// A node's process has ended, with its broker.
    func ended(_ process: BrokerProcess, of node: ClusterNode) {
        network.brokerDied(life: process.life)
        guard process === leader else { return }
        leader = nil
        context.oracle.brokerDied("dies")
    }

    /// A process that accepts a connection: a deposed one may do so too.
    func acceptor() -> BrokerProcess? {
        let open = nodes.filter { $0.process != nil && !$0.isPaused }
        return open.isEmpty ? nil : random.pick(open).process
    }

    // MARK: Properties

    /// A store has applied the log up to its position.
    func check(_ node: ClusterNode) {
        guard let sequence = node.position?.sequence else { return }
        let sum = node.store.fingerprint
        if let other = fingerprints[sequence], other != sum {
            context.oracle.fail(
                .storesAreEqual, "node \(node.index) has other rows at \(sequence.raw)")
        }
        fingerprints[sequence] = sum
    }

    /// What has not come to rest; nil if all stores have the rows of the log's last batch.
    var unrest: String? {
        guard let leader, let leading = node(of: leader.life) else { return "no node leads" }
        if leading.decision != nil { return "a batch" }
        for node in nodes {
            guard node.isUp else { return "node \(node.index) is down" }
            if node.replica?.role == .joining { return "node \(node.index) joins" }
            let lags = node.lastBatch < leading.lastBatch
            if lags || !node.unapplied.isEmpty { return "node \(node.index) applies" }
        }
        return leading.store.isDrained ? nil : "messages in the store"
    }

    /// The stores at rest.
    func checkAtEnd() {
        guard let leading = leader.flatMap({ node(of: $0.life) }) else { return }
        let sum = leading.store.fingerprint
        for node in nodes where node.store.fingerprint != sum {
            context.oracle.fail(
                .storesAreEqual, "nodes \(node.index) and \(leading.index) differ at rest")
        }
    }

    // MARK: Faults

    private func enterFault() {
        let interval = context.profile.faultInterval
        context.enter(
            .cluster(.faultDue), after: random.milliseconds(in: interval / 2...2 * interval))
    }

    private func injectFault() {
        guard !context.isRecovering else { return }
        enterFault()
        let node = random.below(nodes.count)
        // The leader is the most interesting one.
        let leading = leader.flatMap { self.node(of: $0.life)?.index } ?? node
        let victim = random.happens(perTenThousand: 5_000) ? leading : node
        let faults: [(ClusterFault, weight: Int)] = [
            (.death(node: victim), 4), (.pause(node: victim), 4), (.cutOff(node: victim), 3),
            (.slowness(node: node), 2), (.lostDisk(node: node), 1), (.leaderless, 2),
            (.fullLog, 2), (.lossyLog, 4), (.trimming, 2), (.logDeath, 1),
        ]
        make(faults[random.index(weights: faults.map(\.weight))].0)
    }

    private func make(_ fault: ClusterFault) {
        var milliseconds = random.milliseconds(in: 100...8_000)
        switch fault {
        case .death(let node):
            nodes[node].die(committing: random.happens(perTenThousand: 5_000))
        case .pause(let node): nodes[node].pause(milliseconds)
        case .cutOff(let node): log.cutOff.insert(node)
        case .slowness(let node): nodes[node].isSlow = true
        case .lostDisk(let node):
            // Only one at a time: a majority has every record.
            guard nodes.allSatisfy({ $0.position != nil && $0.replica?.role != .joining }) else {
                return
            }
            nodes[node].loseDisk()
        case .leaderless: log.isLeaderless = true
        case .fullLog:
            guard !log.isFull else { return }
            log.isFull = true
            context.oracle.storeChanged(isFull: true)
            milliseconds /= 2
        case .lossyLog: log.isLossy = true
        case .trimming: trim()
        case .logDeath: dieLog()
        }
        context.history.note(.broker, "fault: \(fault)")
        context.enter(.cluster(.faultEnds(fault)), after: milliseconds)
    }

    private func dieLog() {
        if context.has(.unsyncedLog) { log.loseLast() }
        log.isLeaderless = true
    }

    /// The log forgets what all stores have, or what all but one have: that one needs a copy. What
    /// a single store has must stay, because that disk may be lost.
    private func trim() {
        let positions = nodes.compactMap { $0.position?.sequence }.sorted()
        guard positions.count > 1 else { return }
        let isShort = random.happens(perTenThousand: 5_000)
        log.trim(through: positions[isShort ? positions.count - 2 : 0])
    }

    private func end(_ fault: ClusterFault) {
        switch fault {
        case .cutOff(let node): log.cutOff.remove(node)
        case .slowness(let node): nodes[node].isSlow = false
        case .leaderless, .logDeath: log.isLeaderless = false
        case .fullLog:
            guard log.isFull else { return }
            log.isFull = false
            context.oracle.storeChanged(isFull: false)
        case .lossyLog: log.isLossy = false
        case .death, .pause, .lostDisk, .trimming: break
        }
    }

    /// Ends all faults.
    func heal() {
        log.cutOff = []
        for fault in [.leaderless, .fullLog, .lossyLog] as [ClusterFault] { end(fault) }
        for node in nodes.indices {
            nodes[node].isSlow = false
            context.enter(.cluster(.nodeStarts(node: node)), after: 10)
        }
    }
}

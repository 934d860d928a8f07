// The log of a simulated cluster: one order of records in memory, with a network to it that loses,
// delays and repeats, servers that lag behind, and operators who trim it. What it has committed
// stays, unless a planted bug loses it.

import Primitives
import Replication

final class ClusterLog {
    private let context: SimulationContext
    private var random: SimulationRandom
    private(set) var records: [[UInt8]] = []
    /// Records that are trimmed.
    private(set) var trimmedCount = 0

    /// Faults that last.
    var isFull = false
    var isLeaderless = false
    var isLossy = false
    /// Nodes that reach no server.
    var cutOff: Set<Int> = []

    /// The node and the life that the last takeover names.
    private(set) var leader: NodeLife?
    private var steps: [Int: LogStep] = [:]
    private var lastStep = 0
    private var answered: Set<Int> = []
    private var lastCall = 0
    private var subscriptions: [Int: Subscription] = [:]

    private struct Subscription {
        var client: ClusterLogClient
        var generation: Int
        var next: UInt64
        var isWaiting = false
    }

    /// A log's own time limit for a call.
    private static let callMilliseconds: UInt64 = 400

    init(_ context: SimulationContext) {
        self.context = context
        random = SimulationRandom(seed: context.options.seed ^ 0x6C_6F67)
    }

    var last: LogSequence { LogSequence(raw: UInt64(trimmedCount + records.count)) }

    /// A record that is not trimmed.
    func record(at sequence: LogSequence) -> [UInt8]? {
        let index = Int(sequence.raw) - trimmedCount - 1
        return records.indices.contains(index) ? records[index] : nil
    }

    func trim(through sequence: LogSequence) {
        let count = min(Int(sequence.raw) - trimmedCount, records.count - 1)
        guard count > 0 else { return }
        records.removeFirst(count)
        trimmedCount += count
    }

    /// For a planted bug: all servers lose their power before they have synced.
    func loseLast() {
        if records.count > 1 { records.removeLast() }
    }

    // MARK: Calls

    func append(
        _ record: [UInt8], expecting last: LogSequence, as request: LogRequest,
        by client: ClusterLogClient
    ) {
        let call = begin(by: client) { .appended(request, .unknown(.timeout)) }
        guard let delay = drawDelay(client) else { return }
        enter(.append(record, last, request, client, call: call), after: delay)
    }

    func read(at sequence: LogSequence, as request: LogRequest, by client: ClusterLogClient) {
        let call = begin(by: client) { .read(request, .unknown(.timeout)) }
        guard let delay = drawDelay(client) else { return }
        enter(.read(sequence, request, client, call: call), after: delay)
    }

    func follow(from sequence: LogSequence, by client: ClusterLogClient) {
        let generation = (subscriptions[client.node]?.generation ?? 0) + 1
        subscriptions[client.node] = Subscription(
            client: client, generation: generation, next: sequence.raw)
        enter(.delivery(node: client.node, generation: generation), after: drawLatency())
    }

    private func begin(by client: ClusterLogClient, timeout: () -> ReplicatedLogEvent) -> Int {
        lastCall += 1
        enter(.timeout(timeout(), client, call: lastCall), after: ClusterLog.callMilliseconds)
        return lastCall
    }

    private func drawLatency() -> UInt64 { random.milliseconds(in: 0...5) }

    /// Nil if the message is lost.
    private func drawDelay(_ client: ClusterLogClient) -> UInt64? {
        if cutOff.contains(client.node) { return nil }
        guard isLossy else { return drawLatency() }
        switch random.below(10) {
        case 0: return nil
        case 1: return random.milliseconds(in: 100...3_000)
        case 2: return random.milliseconds(in: 0...300)
        default: return drawLatency()
        }
    }

    private func enter(_ step: LogStep, after milliseconds: UInt64) {
        lastStep += 1
        steps[lastStep] = step
        context.enter(.cluster(.logStep(lastStep)), after: milliseconds)
    }

    // MARK: Steps

    /// Carries out a step. Returns the client that has an event, if one has.
    func carryOut(_ number: Int) -> ClusterLogClient? {
        guard let step = steps.removeValue(forKey: number) else { return nil }
        switch step {
        case .append(let record, let last, let request, let client, let call):
            let outcome = append(record, expecting: last)
            answer(.appended(request, outcome), to: client, call: call)
        case .read(let sequence, let request, let client, let call):
            answer(.read(request, read(at: sequence)), to: client, call: call)
        case .answer(let event, let client, let call):
            // A late answer follows the time-out.
            answered.insert(call)
            client.events.append(event)
            return client
        case .timeout(let event, let client, let call):
            guard answered.insert(call).inserted else { return nil }
            client.events.append(event)
            return client
        case .delivery(let node, let generation): return deliver(to: node, generation)
        }
        return nil
    }

    private func append(_ record: [UInt8], expecting expected: LogSequence) -> AppendOutcome {
        if isLeaderless { return .unknown(.leaderless) }
        // An isolated leader, or one that has just changed.
        if isLossy, random.happens(perTenThousand: 1_000) { return .wrongLast }
        guard expected == last || context.has(.uncheckedAppend) else { return .wrongLast }
        if isFull { return .full }
        records.append(record)
        if let decoded = try? LogRecord(decoding: record, cluster: nil),
            case .takeover(let node) = decoded.content
        {
            leader = node
            context.history.note(
                .broker, "the log has the takeover of \(node.life) at \(last.raw)")
        }
        for node in subscriptions.keys.sorted() where subscriptions[node]?.isWaiting == true {
            subscriptions[node]?.isWaiting = false
            enter(
                .delivery(node: node, generation: subscriptions[node]!.generation),
                after: drawLatency())
        }
        return .committed(last)
    }

    private func read(at sequence: LogSequence) -> ReadOutcome {
        if isLeaderless { return .unknown(.leaderless) }
        // A server that lags behind.
        if isLossy, random.happens(perTenThousand: 2_000) { return .nothing }
        return record(at: sequence).map { .record($0) } ?? .nothing
    }

    private func answer(_ event: ReplicatedLogEvent, to client: ClusterLogClient, call: Int) {
        guard let delay = drawDelay(client) else { return }
        enter(.answer(event, client, call: call), after: delay)
    }

    private func deliver(to node: Int, _ generation: Int) -> ClusterLogClient? {
        guard var subscription = subscriptions[node], subscription.generation == generation else {
            return nil
        }
        defer { subscriptions[node] = subscription }
        func again(after milliseconds: UInt64) {
            enter(.delivery(node: node, generation: generation), after: milliseconds)
        }
        if cutOff.contains(node) {
            again(after: 200)
            return nil
        }
        let first = LogSequence(raw: UInt64(trimmedCount) + 1)
        if first.raw > subscription.next {
            subscription.generation += 1
            subscription.client.events.append(.recordsMissing(before: first))
            return subscription.client
        }
        guard let record = record(at: LogSequence(raw: subscription.next)) else {
            subscription.isWaiting = true
            return nil
        }
        if isLossy, random.happens(perTenThousand: 200) {
            subscription.generation += 1
            subscription.client.events.append(.followingEnded(.unreachable))
            return subscription.client
        }
        let isLeftOut = isLossy && random.happens(perTenThousand: 300)
        let isRepeated = isLossy && random.happens(perTenThousand: 300)
        if !isLeftOut {
            subscription.client.events.append(
                .followed(LogSequence(raw: subscription.next), record: record))
        }
        if !isRepeated { subscription.next += 1 }
        again(after: random.milliseconds(in: 0...2))
        return isLeftOut ? nil : subscription.client
    }
}

/// A message on its way to the log or back.
private enum LogStep {
    case append([UInt8], LogSequence, LogRequest, ClusterLogClient, call: Int)
    case read(LogSequence, LogRequest, ClusterLogClient, call: Int)
    case answer(ReplicatedLogEvent, ClusterLogClient, call: Int)
    case timeout(ReplicatedLogEvent, ClusterLogClient, call: Int)
    case delivery(node: Int, generation: Int)
}

/// One life of a node, as a client of the log.
final class ClusterLogClient: ReplicatedLog {
    let node: Int
    let life: Int
    private let log: ClusterLog
    fileprivate var events: [ReplicatedLogEvent] = []

    init(_ log: ClusterLog, node: Int, life: Int) {
        self.log = log
        self.node = node
        self.life = life
    }

    func append(_ record: [UInt8], expecting last: LogSequence, as request: LogRequest) {
        log.append(record, expecting: last, as: request, by: self)
    }

    func read(at sequence: LogSequence, as request: LogRequest) {
        log.read(at: sequence, as: request, by: self)
    }

    func follow(from sequence: LogSequence) { log.follow(from: sequence, by: self) }

    func trim(through sequence: LogSequence) { log.trim(through: sequence) }

    func takeEvent() -> ReplicatedLogEvent? { events.isEmpty ? nil : events.removeFirst() }
}

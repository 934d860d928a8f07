// The stages of a run, and the measurements within them.

import NetTransport
import Primitives

extension LoadDriver {
    /// The run ends early, for this reason.
    mutating func fail(_ reason: String) { end(reason, with: .finished, at: stageStart) }

    mutating func end(_ reason: String, with next: Stage, at now: UInt64) {
        guard failure == nil else { return }
        failure = reason
        finishInterval()
        enter(next, at: now)
    }

    private mutating func enter(_ next: Stage, at now: UInt64, seconds: Double? = nil) {
        stage = next
        stageStart = now
        stageEnd = seconds.map { now + UInt64($0 * 1e9) } ?? .max
        lastProgress = now
    }

    /// Begins the next stage when this one is complete.
    mutating func advance(at now: UInt64, in loop: inout EventLoop) {
        switch stage {
        case .connecting:
            if toConnect.isEmpty, readyCount == readyGoal {
                allConnected(at: now, in: &loop)
            } else if isStalled(at: now) {
                fail(
                    "\(readyGoal - readyCount) clients wait for the broker to let them in"
                        + OwnLimits.explainWaiting(clients: readyGoal))
            }
        case .leaving:
            guard readyCount == 0 else { return }
            enter(.connecting, at: now)
            toConnect = plan.receiverCount..<plan.clientCount
            readyGoal = toConnect.count
        case .warmingUp where now >= stageEnd:
            enter(.measuring, at: now, seconds: plan.seconds)
            recentLatencies.removeAll()
            startInterval()
        case .measuring where now >= stageEnd:
            finishInterval()
            enter(.settling, at: now)
            letStalledRead(in: &loop)
        case .settling where isSettled(at: now) || isStalled(at: now):
            stage = .finished
        case .holding where now >= stageEnd:
            finishInterval()
            stage = .finished
        case .cutting where isAllDelivered || isStalled(at: now):
            finishInterval()
            stage = .finished
        case .enqueuing where tally.confirmed == plan.limit * UInt64(plan.publisherCount):
            finishInterval()
            enter(.returning, at: now)
            toConnect = 0..<plan.receiverCount
            startInterval()
        case .returning where isAllDelivered:
            finishInterval()
            stage = .finished
        case .warmingUp, .measuring, .enqueuing, .returning:
            if isStalled(at: now) {
                fail("nothing arrived for \(LoadDriver.stallNanoseconds / 1_000_000_000) s")
            }
        case .disconnecting:
            let isOver = now > stageStart + LoadDriver.goodbyeNanosecondsMaximum
            if isOver || readyCount + connectsUnderWay == 0 { stage = .finished }
        case .settling, .cutting, .holding, .finished:
            break
        }
    }

    /// An interrupted harness does not wait for a broker that does not read.
    private static let goodbyeNanosecondsMaximum: UInt64 = 2_000_000_000

    private mutating func allConnected(at now: UInt64, in loop: inout EventLoop) {
        switch plan.scenario {
        case .connect:
            finishInterval()
            enter(.holding, at: now, seconds: plan.seconds)
            startInterval()
        case .offline where toConnect.upperBound == plan.receiverCount:
            enter(.leaving, at: now)
            for receiver in 0..<plan.receiverCount {
                loop.close(clients[receiver].connection, afterFlush: true)
            }
        case .offline:
            enter(.enqueuing, at: now)
            paceStart = now
            startInterval()
            listAllPublishers()
        case .will:
            enter(.cutting, at: now)
            startInterval()
            cutSessions(in: &loop)
        case .fanOut, .fanIn, .unicast, .broadcast, .group, .churn, .sleepy, .slow, .floor:
            enter(.warmingUp, at: now, seconds: plan.warmUpSeconds)
            paceStart = now
            listAllPublishers()
            beginLives(at: now, in: &loop)
        }
    }

    /// Long enough for a broker that syncs its disk in between. Sleeping devices are silent.
    static let stallNanoseconds: UInt64 = 5_000_000_000

    private func isStalled(at now: UInt64) -> Bool {
        let sleep = plan.scenario == .sleepy ? UInt64(plan.sleepSeconds * 1e9) : 0
        return now > lastProgress + LoadDriver.stallNanoseconds + sleep
    }

    /// Deliveries that the messages sent so far require, except those to stalled readers.
    var expectedDeliveries: UInt64 {
        sendCount * UInt64(plan.receiversPerMessage)
    }

    var sendCount: UInt64 { publishers.reduce(0) { $0 + $1.nextSequence } }

    private var isAllDelivered: Bool { tally.delivered == expectedDeliveries }

    /// Messages that a broker kept for stalled readers arrive later.
    private func isSettled(at now: UInt64) -> Bool {
        isAllDelivered && (plan.stalledCount == 0 || now > lastProgress + 1_000_000_000)
    }

    // MARK: - Measuring

    private func mark() -> Mark {
        Mark(
            nanoseconds: monotonicNanoseconds(), tally: tally, broker: target.cost?.read(),
            allocations: plan.allocationCountFile.map(AllocationReading.read(_:)),
            ownCPUNanoseconds: ownThreadNanoseconds())
    }

    mutating func startInterval() {
        intervalStart = mark()
    }

    mutating func finishInterval() {
        latencies.merge(recentLatencies)
        recentLatencies.removeAll()
        guard let start = intervalStart else { return }
        intervalStart = nil
        let end = mark()
        let name: String
        let operation: Interval.Operation
        let count: UInt64
        switch stage {
        case .enqueuing:
            (name, operation) = ("enqueue", .enqueue)
            count =
                (end.tally.confirmed - start.tally.confirmed) * UInt64(plan.receiversPerMessage)
        case .connecting, .holding:
            (name, operation) = (stage == .holding ? "idle" : "connect", .connect)
            count = end.tally.connected
        case .measuring where plan.scenario == .churn:
            (name, operation) = ("churn", .cycle)
            count = end.tally.delivered - start.tally.delivered
        case .cutting:
            (name, operation) = ("wills", .will)
            count = end.tally.delivered - start.tally.delivered
        case .leaving, .warmingUp, .measuring, .returning, .settling, .disconnecting, .finished:
            (name, operation) = (stage == .returning ? "drain" : "load", .delivery)
            count = end.tally.delivered - start.tally.delivered
        }
        intervals.append(
            Interval(name: name, operation: operation, count: count, start: start, end: end))
    }

    /// The last second: for the line that is printed, and for the charts.
    mutating func sample(at now: UInt64) {
        var sample = Sample(nanoseconds: now)
        sample.stage = stage
        sample.tally = tally
        sample.sendCount = sendCount
        sample.broker = target.cost?.read()
        sample.ownCPUNanoseconds = ownThreadNanoseconds()
        sample.median = recentLatencies.quantile(0.5)
        sample.percentile99 = recentLatencies.quantile(0.99)
        latencies.merge(recentLatencies)
        recentLatencies.removeAll()
        if !plan.isQuiet {
            progress.clear()
            LiveLines.write(from: lastSample, to: sample, origin: origin)
        }
        samples.append(sample)
        lastSample = sample
    }

    /// The progress of this stage, from 0 to 1.
    func fraction(at now: UInt64) -> Double {
        func part(_ done: UInt64, of all: UInt64) -> Double {
            all == 0 ? 0 : min(1, Double(done) / Double(all))
        }
        switch stage {
        case .connecting, .leaving: return part(UInt64(readyCount), of: UInt64(max(1, readyGoal)))
        case .warmingUp, .measuring, .holding:
            return part(now - stageStart, of: max(1, stageEnd - stageStart))
        case .enqueuing: return part(tally.confirmed, of: plan.limit * UInt64(plan.publisherCount))
        case .returning, .cutting, .settling:
            return part(tally.delivered, of: expectedDeliveries)
        case .disconnecting, .finished: return 1
        }
    }
}

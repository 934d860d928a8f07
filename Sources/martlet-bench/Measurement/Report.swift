// The results of a run as values, and as text for people. JSON and the page with charts have files
// of their own.

import CommandLineOptions
import NetTransport

struct Report {
    let plan: Plan
    let intervals: [Interval]
    let samples: [Sample]
    let latencies: Histogram
    let tally: LoadTally
    /// The beginning of the run, on the samples' clock.
    let origin: UInt64
    /// Deliveries that the sent messages require, except those to stalled readers.
    let expected: UInt64
    let expectedByStalled: UInt64
    let duplicates: UInt64
    let disordered: UInt64
    let failure: String?
    let tls: TLSSummary?
    let loop: LoopCounters

    init(_ driver: borrowing LoadDriver, _ counters: LoopCounters) {
        plan = driver.plan
        intervals = driver.intervals
        samples = driver.samples
        latencies = driver.latencies
        tally = driver.tally
        origin = driver.origin
        expected = driver.expectedDeliveries
        expectedByStalled = driver.sendCount * UInt64(driver.plan.stalledCount)
        duplicates = driver.sequences.duplicateCount
        disordered = driver.sequences.lateCount
        failure = driver.failure
        tls = driver.tlsSummary
        loop = counters
    }

    /// The report of one phase without a load: the floor of a store.
    init(_ plan: Plan, _ interval: Interval) {
        self.plan = plan
        intervals = [interval]
        samples = []
        latencies = Histogram()
        tally = LoadTally()
        origin = interval.start.nanoseconds
        (expected, expectedByStalled, duplicates, disordered) = (0, 0, 0, 0)
        failure = nil
        tls = nil
        loop = LoopCounters()
    }

    /// Messages that never arrived; after a failure also those in flight.
    var lost: UInt64 { expected - min(expected, tally.delivered) }

    /// Whether everything succeeded.
    var isClean: Bool {
        failure == nil && lost == 0 && duplicates == 0 && disordered == 0
            && tally.connectionsLost == 0
    }

    /// What the latencies of this run measure.
    var latencyName: String {
        switch plan.scenario {
        case .connect: "from the due time of a connect to its answer"
        case .will: "from the cut to the will"
        case .churn: "a whole life, from its due time"
        case .sleepy: "from the due waking to the last message that waited"
        case .offline: "from the due time of a message to its acknowledgement"
        case .fanOut, .unicast, .fanIn, .broadcast, .group, .slow, .floor:
            "from the due time of a message to its receipt"
        }
    }

    /// The limits of the run besides the broker, in whole sentences.
    var advice: [String] {
        var advice: [String] = []
        if let busy = intervals.first(where: { $0.seconds > 0.5 && $0.ownShare > 0.9 }),
            busy.brokerShare ?? 0 < 0.9
        {
            let percent = Int(busy.ownShare * 100)
            advice.append(
                "The generator had \(percent) % of a processor during \(busy.name) and was itself "
                    + "the limit: rates and latencies are its own. Lower the load, or start "
                    + "several with different --prefix; CPU per operation still holds.")
        }
        if tally.wakesMissed > 0 {
            advice.append(
                "\(tally.wakesMissed) wakings were skipped because the device was still draining: "
                    + "raise --sleep or lower --rate.")
        }
        return advice
    }

    func write() {
        StandardStream.output.print(plan.writesJSON ? json : lines.joined(separator: "\n"))
    }

    // MARK: - Text

    var lines: [String] {
        var lines = [heading]
        if let tls {
            lines.append(
                "tls        \(tls.version) \(tls.cipher), \(loop.handshakesCompleted) handshakes,"
                    + " \(loop.handshakesResumed) resumed")
        }
        for interval in intervals { lines += text(of: interval) }
        if latencies.count > 0 {
            let times = Report.quantiles.map { name, fraction in
                "\(name) \(Decimal.milliseconds(latencies.quantile(fraction)))"
            }
            lines.append(
                "latency    \(times.joined(separator: ", ")),"
                    + " max \(Decimal.milliseconds(latencies.maximum)) ms, \(latencyName)")
        }
        if plan.publisherCount > 0 {
            lines.append(
                "accounts   expected \(expected), delivered \(tally.delivered), lost \(lost),"
                    + " duplicates \(duplicates), out of order \(disordered),"
                    + " of other runs \(tally.foreign)")
        }
        if plan.stalledCount > 0 {
            lines.append(
                "stalled    \(plan.stalledCount) readers: \(tally.deliveredToStalled) of"
                    + " \(expectedByStalled) came, \(tally.stalledLost) connections were ended")
        }
        lines.append(
            "trouble    sends refused \(tally.sendsRefused),"
                + " connections lost \(tally.connectionsLost)")
        if let failure { lines.append("FAILED     \(failure)") }
        return lines + advice.map { "note       \($0)" }
    }

    var heading: String {
        let pace: String
        switch plan.pace {
        case .window(let window): pace = "window \(window)"
        case .rate(let rate): pace = "\(Decimal.text(rate, 0))/s of each publisher"
        }
        return "\(plan.scenario.rawValue)  \(plan.dialect.rawValue), qos \(plan.qos), "
            + "\(plan.publisherCount) publishers, \(plan.receiverCount) receivers, "
            + "\(plan.payloadByteCount) bytes, \(pace), session expiry \(plan.expirySeconds) s"
    }

    private func text(of interval: Interval) -> [String] {
        let name = interval.name.padding(to: 10)
        let own = Decimal.text(interval.ownSecondsPerMillion, 3)
        var lines: [String] = []
        if interval.name == "idle" {
            if let bytes = idleBytesPerConnection {
                lines.append("\(name) broker \(bytes) bytes/connection")
            }
        } else {
            lines.append(
                "\(name) \(interval.count) in \(Decimal.text(interval.seconds, 2)) s,"
                    + " \(Decimal.text(interval.perSecond, 0))/s of \(interval.operation.rawValue)")
            let broker = interval.brokerSecondsPerMillion.map { Decimal.text($0, 3) }
            lines.append(
                "           CPU s per million: broker \(broker ?? "not measured"), load \(own)")
        }
        if let allocations = interval.allocationsPerOperation {
            let references = Decimal.text(interval.referencesPerOperation ?? 0, 3)
            lines.append(
                "           broker: \(Decimal.text(allocations, 4)) allocations,"
                    + " \(references) retains and releases per \(interval.operation.rawValue)")
        }
        if let written = interval.writtenPerOperation, written > 0 {
            lines.append(
                "           broker: \(Decimal.text(written, 0)) bytes to the disk per "
                    + interval.operation.rawValue)
        }
        if let reading = interval.end.broker, reading.residentBytes > 0 {
            lines.append(
                "           broker: \(reading.residentBytes >> 10) KiB resident,"
                    + " \(reading.descriptorCount) descriptors")
        }
        return lines
    }

    /// The growth of the broker per connection, from before the first connect to the end.
    var idleBytesPerConnection: Int64? {
        guard let first = intervals.first?.start.broker, let idle = intervals.last,
            idle.name == "idle", let last = idle.end.broker, idle.count > 0
        else { return nil }
        return (Int64(last.residentBytes) - Int64(first.residentBytes)) / Int64(idle.count)
    }

    static let quantiles = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)]
}

extension String {
    fileprivate func padding(to count: Int) -> String {
        self + String(repeating: " ", count: max(0, count - self.count))
    }
}

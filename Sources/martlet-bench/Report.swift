// The results of a run, as text for people and as one JSON object for programs.

import CommandLineOptions
import NetTransport

struct Report {
    private let plan: Plan
    private let intervals: [Interval]
    private let latencies: Histogram
    private let tally: LoadTally
    /// Deliveries that the sent messages ask for.
    let expected: UInt64
    private let duplicates: UInt64
    private let disordered: UInt64
    private let failure: String?
    private let tls: TLSSummary?
    private let loop: LoopCounters

    init(_ driver: borrowing LoadDriver, _ counters: LoopCounters) {
        plan = driver.plan
        intervals = driver.intervals
        latencies = driver.latencies
        tally = driver.tally
        expected = driver.expectedDeliveries
        duplicates = driver.ledger.duplicateCount
        disordered = driver.ledger.lateCount
        failure = driver.failure
        tls = driver.tlsSummary
        loop = counters
    }

    /// Messages that never came; after a failure also those that were still on their way.
    private var lost: UInt64 { expected - min(expected, tally.delivered) }

    /// Whether everything went as it should.
    var isClean: Bool {
        failure == nil && lost == 0 && duplicates == 0 && disordered == 0
            && tally.connectionsLost == 0
    }

    func write() {
        if plan.writesJSON {
            StandardStream.output.print(json)
        } else {
            StandardStream.output.print(lines.joined(separator: "\n"))
        }
    }

    /// emqtt_bench's form: `16s recv total=3953 rate=4.00/sec`.
    static func writeLine(
        seconds: UInt64, elapsed: Double, from before: LoadTally, to now: LoadTally
    ) {
        let counters = [
            ("connect_succ", before.connected, now.connected),
            ("recv", before.delivered, now.delivered), ("puback", before.confirmed, now.confirmed),
        ]
        for (name, first, last) in counters where last > first {
            let rate = decimal(Double(last - first) / elapsed, 2)
            StandardStream.output.print("\(seconds)s \(name) total=\(last) rate=\(rate)/sec")
        }
    }

    // MARK: - Text

    private var lines: [String] {
        var lines = [heading]
        if let tls {
            lines.append(
                "tls        \(tls.version) \(tls.cipher), \(loop.handshakesCompleted) handshakes,"
                    + " \(loop.handshakesResumed) resumed")
        }
        for interval in intervals { lines += text(of: interval) }
        if latencies.count > 0 {
            let times = Report.quantiles.map { name, fraction in
                "\(name) \(Report.milliseconds(latencies.quantile(fraction)))"
            }
            lines.append(
                "latency    \(times.joined(separator: ", ")),"
                    + " max \(Report.milliseconds(latencies.maximum)) ms")
        }
        if plan.publisherCount > 0 {
            lines.append(
                "accounts   expected \(expected), delivered \(tally.delivered), lost \(lost),"
                    + " duplicates \(duplicates), out of order \(disordered),"
                    + " of other runs \(tally.foreign)")
        }
        lines.append(
            "trouble    sends refused \(tally.sendsRefused),"
                + " connections lost \(tally.connectionsLost)")
        if let failure { lines.append("FAILED     \(failure)") }
        return lines
    }

    private var heading: String {
        let pace: String
        switch plan.pace {
        case .window(let window): pace = "window \(window)"
        case .rate(let rate): pace = "\(Int(rate))/s of each publisher"
        }
        return "\(plan.scenario.rawValue)  \(plan.dialect.rawValue), qos \(plan.qos), "
            + "\(plan.publisherCount) publishers, \(plan.receiverCount) receivers, "
            + "\(plan.payloadByteCount) bytes, \(pace), session expiry \(plan.expirySeconds) s"
    }

    private func text(of interval: Interval) -> [String] {
        let name = interval.name.padding(to: 10)
        let own = Report.decimal(interval.ownSecondsPerMillion, 3)
        var lines: [String] = []
        if interval.name == "idle" {
            if let first = intervals.first?.start.broker, let last = interval.end.broker,
                interval.count > 0
            {
                let bytes =
                    Int64(last.residentBytes) - Int64(first.residentBytes)
                lines.append("\(name) broker \(bytes / Int64(interval.count)) bytes/connection")
            }
        } else {
            let rate = Report.decimal(interval.perSecond, 0)
            lines.append(
                "\(name) \(interval.count) in \(Report.decimal(interval.seconds, 2)) s,"
                    + " \(rate)/s of \(interval.operation.rawValue)")
        }
        let broker = interval.brokerSecondsPerMillion.map { Report.decimal($0, 3) }
        if interval.name != "idle" {
            lines.append(
                "           CPU s per million: broker \(broker ?? "not measured"), load \(own)")
        }
        if let allocations = interval.allocationsPerOperation {
            lines.append(
                "           broker: \(Report.decimal(allocations, 4)) allocations per"
                    + " \(interval.operation.rawValue)")
        }
        if let reading = interval.end.broker, reading.residentBytes > 0 {
            lines.append(
                "           broker: \(reading.residentBytes >> 10) KiB resident,"
                    + " \(reading.descriptorCount) descriptors")
        }
        return lines
    }

    private static let quantiles = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)]

    private static func milliseconds(_ nanoseconds: UInt64) -> String {
        decimal(Double(nanoseconds) / 1e6, 3)
    }

    /// A number with so many decimals, without Foundation.
    private static func decimal(_ value: Double, _ places: Int) -> String {
        var scale: Double = 1
        for _ in 0..<places { scale *= 10 }
        let scaled = Int64((value * scale).rounded())
        guard places > 0 else { return "\(scaled)" }
        let digits = String(scaled.magnitude)
        let padded = String(repeating: "0", count: max(0, places + 1 - digits.count)) + digits
        return (scaled < 0 ? "-" : "") + padded.dropLast(places) + "." + padded.suffix(places)
    }

    // MARK: - JSON

    private var json: String {
        var members = [
            ("scenario", quoted(plan.scenario.rawValue)),
            ("dialect", quoted(plan.dialect.rawValue)), ("qos", "\(plan.qos)"),
            ("publishers", "\(plan.publisherCount)"), ("receivers", "\(plan.receiverCount)"),
            ("payload_bytes", "\(plan.payloadByteCount)"),
            ("session_expiry_seconds", "\(plan.expirySeconds)"),
        ]
        switch plan.pace {
        case .window(let window): members.append(("window", "\(window)"))
        case .rate(let rate): members.append(("rate", "\(Int(rate))"))
        }
        if let tls { members.append(("tls", quoted("\(tls.version) \(tls.cipher)"))) }
        for interval in intervals { members.append((interval.name, json(of: interval))) }
        let times =
            Report.quantiles.map { ("\($0.0)_ns", "\(latencies.quantile($0.1))") }
            + [("max_ns", "\(latencies.maximum)"), ("count", "\(latencies.count)")]
        members += [
            ("latency", object(times)), ("expected", "\(expected)"),
            ("delivered", "\(tally.delivered)"), ("lost", "\(lost)"),
            ("duplicates", "\(duplicates)"), ("out_of_order", "\(disordered)"),
            ("foreign", "\(tally.foreign)"), ("sends_refused", "\(tally.sendsRefused)"),
            ("connections_lost", "\(tally.connectionsLost)"),
            ("failure", failure.map(quoted) ?? "null"),
        ]
        return object(members)
    }

    private func json(of interval: Interval) -> String {
        var members = [
            ("operation", quoted(interval.operation.rawValue)), ("count", "\(interval.count)"),
            ("seconds", Report.decimal(interval.seconds, 3)),
            ("per_second", Report.decimal(interval.perSecond, 1)),
            ("load_cpu_seconds_per_million", Report.decimal(interval.ownSecondsPerMillion, 4)),
        ]
        if let cost = interval.brokerSecondsPerMillion {
            members.append(("broker_cpu_seconds_per_million", Report.decimal(cost, 4)))
        }
        if let allocations = interval.allocationsPerOperation {
            members.append(("broker_allocations_each", Report.decimal(allocations, 5)))
        }
        if let growth = interval.residentGrowth, let last = interval.end.broker {
            members += [
                ("broker_resident_bytes", "\(last.residentBytes)"),
                ("broker_resident_growth_bytes", "\(growth)"),
                ("broker_descriptors", "\(last.descriptorCount)"),
            ]
        }
        return object(members)
    }

    private func object(_ members: [(String, String)]) -> String {
        "{" + members.map { "\(quoted($0.0)): \($0.1)" }.joined(separator: ", ") + "}"
    }

    private func quoted(_ text: String) -> String {
        var quoted = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"", "\\": quoted += "\\\(scalar)"
            case _ where scalar.value < 0x20: quoted += " "
            default: quoted.unicodeScalars.append(scalar)
            }
        }
        return quoted + "\""
    }
}

extension String {
    fileprivate func padding(to count: Int) -> String {
        self + String(repeating: " ", count: max(0, count - self.count))
    }
}

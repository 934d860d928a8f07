// The results of a run as one JSON object, for programs.

import JSON5

extension Report {
    var json: String {
        var members = [
            ("scenario", JSONText.quoted(plan.scenario.rawValue)),
            ("dialect", JSONText.quoted(plan.dialect.rawValue)), ("qos", "\(plan.qos)"),
            ("publishers", "\(plan.publisherCount)"), ("receivers", "\(plan.receiverCount)"),
            ("payload_bytes", "\(plan.payloadByteCount)"),
            ("session_expiry_seconds", "\(plan.expirySeconds)"),
        ]
        switch plan.pace {
        case .window(let window): members.append(("window", "\(window)"))
        case .rate(let rate): members.append(("rate", Decimal.text(rate, 3)))
        }
        if let tls {
            members += [
                ("tls", JSONText.quoted("\(tls.version) \(tls.cipher)")),
                ("handshakes", "\(loop.handshakesCompleted)"),
                ("handshakes_resumed", "\(loop.handshakesResumed)"),
            ]
        }
        for interval in intervals { members.append((interval.name, json(of: interval))) }
        if let bytes = idleBytesPerConnection {
            members.append(("idle_bytes_per_connection", "\(bytes)"))
        }
        let times =
            Report.quantiles.map { ("\($0.0)_ns", "\(latencies.quantile($0.1))") }
            + [("max_ns", "\(latencies.maximum)"), ("count", "\(latencies.count)")]
        members += [
            ("latency", object(times)), ("expected", "\(expected)"),
            ("delivered", "\(tally.delivered)"), ("lost", "\(lost)"),
            ("duplicates", "\(duplicates)"), ("out_of_order", "\(disordered)"),
            ("foreign", "\(tally.foreign)"), ("sends_refused", "\(tally.sendsRefused)"),
            ("connections_lost", "\(tally.connectionsLost)"),
        ]
        if plan.stalledCount > 0 {
            members += [
                ("stalled_readers", "\(plan.stalledCount)"),
                ("delivered_to_stalled", "\(tally.deliveredToStalled)"),
                ("expected_by_stalled", "\(expectedByStalled)"),
                ("stalled_connections_ended", "\(tally.stalledLost)"),
            ]
        }
        if plan.scenario.reconnects {
            members += [("lives", "\(tally.lives)"), ("wakes_missed", "\(tally.wakesMissed)")]
        }
        members += [
            ("samples", "[" + seconds.joined(separator: ", ") + "]"),
            ("notes", "[" + advice.map(JSONText.quoted).joined(separator: ", ") + "]"),
            ("failure", failure.map(JSONText.quoted) ?? "null"),
        ]
        return object(members)
    }

    /// What the charts show, one object for each second.
    private var seconds: [String] {
        samples.map { sample in
            var members = [
                ("t", Decimal.text(Double(sample.nanoseconds - origin) / 1e9, 2)),
                ("stage", JSONText.quoted(sample.stage.rawValue)),
                ("connected", "\(sample.tally.connected)"), ("sent", "\(sample.sendCount)"),
                ("delivered", "\(sample.tally.delivered)"), ("median_ns", "\(sample.median)"),
                ("percentile99_ns", "\(sample.percentile99)"),
            ]
            if let broker = sample.broker {
                members += [
                    ("broker_resident_bytes", "\(broker.residentBytes)"),
                    ("broker_cpu_seconds", Decimal.text(Double(broker.cpuNanoseconds) / 1e9, 2)),
                ]
            }
            return object(members)
        }
    }

    private func json(of interval: Interval) -> String {
        var members = [
            ("operation", JSONText.quoted(interval.operation.rawValue)),
            ("count", "\(interval.count)"),
            ("seconds", Decimal.text(interval.seconds, 3)),
            ("per_second", Decimal.text(interval.perSecond, 1)),
            ("load_cpu_seconds_per_million", Decimal.text(interval.ownSecondsPerMillion, 4)),
            ("load_processor_share", Decimal.text(interval.ownShare, 3)),
        ]
        if let cost = interval.brokerSecondsPerMillion {
            members.append(("broker_cpu_seconds_per_million", Decimal.text(cost, 4)))
        }
        if let allocations = interval.allocationsPerOperation {
            let references = interval.referencesPerOperation ?? 0
            members += [
                ("broker_allocations_each", Decimal.text(allocations, 5)),
                ("broker_references_each", Decimal.text(references, 5)),
            ]
        }
        if let growth = interval.residentGrowth, let last = interval.end.broker {
            members += [
                ("broker_resident_bytes", "\(last.residentBytes)"),
                ("broker_resident_growth_bytes", "\(growth)"),
                ("broker_descriptors", "\(last.descriptorCount)"),
                ("broker_written_bytes_each", Decimal.text(interval.writtenPerOperation ?? 0, 1)),
            ]
        }
        return object(members)
    }

    private func object(_ members: [(String, String)]) -> String {
        "{" + members.map { "\(JSONText.quoted($0.0)): \($0.1)" }.joined(separator: ", ") + "}"
    }
}

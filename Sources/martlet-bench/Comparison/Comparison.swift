// One scenario file from its first measurement to its table.

import CommandLineOptions

/// The measurements, by scenario and subject.
struct Comparison {
    private var values: [String: [Double]] = [:]
    private var names: [String] = []
    private(set) var faultCount = 0

    /// Measures every scenario with every subject in turn, round after round.
    static func run(
        _ file: ScenarioFile, launcher: inout BrokerLauncher
    ) throws(BenchFailure) -> Comparison {
        var results = Comparison()
        launcher.add(file.brokers)
        for name in file.subjects {
            if name == "floor" {
                results.names.append(name)
            } else if let subject = launcher.subjects.first(where: { $0.name == name }) {
                if launcher.isInstalled(subject) {
                    results.names.append(name)
                } else {
                    StandardStream.error.print("\(name) is not installed and not measured")
                }
            } else {
                throw BenchFailure("there is no subject \(name)")
            }
        }
        for entry in file.scenarios {
            for round in 1...file.rounds {
                for name in results.names where entry.subjects?.contains(name) ?? true {
                    try results.measure(
                        entry, subject: name, round: round, file: file, launcher: &launcher)
                }
            }
        }
        return results
    }

    private mutating func measure(
        _ entry: ScenarioFile.Entry, subject name: String, round: Int, file: ScenarioFile,
        launcher: inout BrokerLauncher
    ) throws(BenchFailure) {
        guard var plan = try plan(entry, subject: name, file: file, launcher: &launcher) else {
            return
        }
        if let subject = launcher.subjects.first(where: { $0.name == name }) {
            if entry.isFresh { launcher.forget(subject) }
            guard try launcher.aim(&plan, at: subject) else { return }
        }
        let report: Report
        do {
            report =
                name == "floor" && plan.scenario == .offline
                ? try StoreFloor.measure(plan, directory: try launcher.makeDirectory("floor"))
                : try BenchProgram.measure(plan)
        } catch {
            let reason = (error as? BenchFailure)?.message ?? (error as? UsageError)?.message
            throw BenchFailure("\(entry.name), \(name): \(reason ?? "")")
        }
        if let reason = Interruption.reason { throw BenchFailure(reason) }
        if !report.isClean {
            faultCount += 1
            StandardStream.error.print(report.lines.joined(separator: "\n"))
        }
        guard let value = entry.measure.value(in: report) else { return }
        values["\(entry.name)|\(name)", default: []].append(value)
        StandardStream.error.print(
            "round \(round): \(entry.name): \(name) \(Comparison.text(value)) "
                + "\(entry.measure.unit)\(report.isClean ? "" : " WITH FAULTS")")
    }

    /// Nil if a subject has no such load: pairs and a fan-in have no floor, because each message is
    /// read as often as it is written. The floor of an offline load is LMDB.
    private func plan(
        _ entry: ScenarioFile.Entry, subject name: String, file: ScenarioFile,
        launcher: inout BrokerLauncher
    ) throws(BenchFailure) -> Plan? {
        var words = entry.load
        if name == "floor", words[0] != Scenario.offline.rawValue {
            guard words[0] == Scenario.fanOut.rawValue else { return nil }
            words[0] = Scenario.floor.rawValue
            if words.contains("--tls") || words.contains("-S") {
                let certificate = try launcher.certificate()
                words += ["--cert", certificate.chain, "--key", certificate.key]
            }
        } else if let subject = launcher.subjects.first(where: { $0.name == name }) {
            words += ["--dialect", subject.dialect.rawValue]
            if subject.isWebSocket { words.append("--websocket") }
        }
        if !words.contains("--seconds") { words += ["--seconds", "\(file.seconds)"] }
        do throws(UsageError) {
            guard case .run(var plan) = try BenchProgram.plan(for: words[...]) else { return nil }
            plan.isQuiet = true
            return plan
        } catch {
            throw BenchFailure("\(entry.name), \(name): \(error.message)")
        }
    }

    // MARK: - The table

    /// Medians; in parentheses the ratio to Martlet.
    func table(of file: ScenarioFile) -> String {
        var rows = [
            "| scenario | unit | "
                + names.map { $0 == "martlet" ? "**martlet**" : $0 }
                .joined(separator: " | ") + " | goal |",
            "|---|---|" + names.map { _ in "---|" }.joined() + "---|",
        ]
        for entry in file.scenarios {
            let own = median(entry, "martlet")
            let cells = names.map { name -> String in
                guard let value = median(entry, name) else { return "" }
                let text = Comparison.text(value)
                guard name != "martlet", let own else { return text }
                return name == "floor"
                    ? "\(text) (× \(ratio(advantage(value, over: own, entry.measure), to: 1)))"
                    : "\(text) (\(ratio(advantage(own, over: value, entry.measure), to: 1)))"
            }
            rows.append(
                "| \(entry.name) | \(entry.measure.unit) | \(cells.joined(separator: " | ")) | "
                    + "\(verdict(entry)) |")
        }
        return rows.joined(separator: "\n")
    }

    /// Each part of the goal, and whether it was reached.
    private func verdict(_ entry: ScenarioFile.Entry) -> String {
        guard let own = median(entry, "martlet") else { return "" }
        var parts: [String] = []
        if let goal = entry.goal.floor, let floor = median(entry, "floor"), floor > 0 {
            let times = entry.measure.isBetterWhenHigher ? floor / own : own / floor
            parts.append(
                "≤ \(Comparison.text(goal)) × floor: \(times <= goal ? "met" : "missed")")
        }
        if let goal = entry.goal.best {
            let others = names.filter { $0 != "floor" && !$0.hasPrefix("martlet") }
            let least = others.compactMap { median(entry, $0) }
                .map { advantage(own, over: $0, entry.measure) }.min()
            if let least {
                parts.append(
                    "≥ \(Comparison.text(goal)) × better than the best: "
                        + (least >= goal ? "met" : "missed"))
            }
        }
        return parts.joined(separator: "; ")
    }

    private func advantage(_ own: Double, over other: Double, _ measure: Measure) -> Double {
        let (better, worse) = measure.isBetterWhenHigher ? (own, other) : (other, own)
        return worse > 0 ? better / worse : 0
    }

    private func ratio(_ value: Double, to base: Double) -> String {
        base > 0 ? Comparison.text(value / base) : "–"
    }

    private func median(_ entry: ScenarioFile.Entry, _ name: String) -> Double? {
        guard let list = values["\(entry.name)|\(name)"]?.sorted(), !list.isEmpty else {
            return nil
        }
        let middle = list.count / 2
        return list.count % 2 == 1 ? list[middle] : (list[middle - 1] + list[middle]) / 2
    }

    /// Three digits: a shared machine is not more precise.
    static func text(_ value: Double) -> String {
        switch value.magnitude {
        case 100...: Decimal.text(value, 0)
        case 10...: Decimal.text(value, 1)
        case 1...: Decimal.text(value, 2)
        default: Decimal.text(value, 3)
        }
    }
}

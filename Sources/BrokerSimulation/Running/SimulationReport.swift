// What a run has shown.

import Primitives

/// The outcome of one run.
public struct SimulationReport: Sendable {
    public let options: SimulationOptions
    /// Nil when every promise was kept.
    public let violation: Violation?
    public let stepCount: Int
    public let sendCount: Int
    public let answeredCount: Int
    public let receivedCount: Int
    public let deathCount: Int
    /// Messages that were lost, or received although refused, as the promises allow.
    public let excusedCount: Int
    /// The same for the same run, and for no other: what makes a repetition one.
    public let fingerprint: UInt64
    private let history: [HistoryLine]

    init(_ simulation: Simulation) {
        let ledger = simulation.ledger
        options = simulation.surroundings.options
        violation = ledger.violation
        stepCount = simulation.stepCount
        sendCount = ledger.sends.count
        answeredCount = ledger.sends.count { $0.outcome != nil }
        receivedCount = ledger.receivedCount
        deathCount = ledger.deaths
        excusedCount = ledger.excusedCount
        history = ledger.history.lines
        var mix = SimulationRandom(seed: UInt64(simulation.stepCount))
        for send in ledger.sends {
            let outcome = send.outcome.map { $0.at.milliseconds << 8 | UInt64($0.reason.rawValue) }
            mix = SimulationRandom(
                seed: mix.next() ^ (outcome ?? 0) ^ UInt64(send.receivedCount) << 48)
        }
        fingerprint = mix.next()
    }

    /// What a person needs to find the bug: the promise, the line to paste, and what happened to
    /// the message. Nil when every promise was kept.
    ///
    /// - Parameter revision: of the sources, for the line.
    public func failureText(revision: String) -> String? {
        guard let violation else { return nil }
        var lines = [
            "broken promise: \(violation.promise.rawValue)",
            "    \(violation.text)",
            "repeat: \(options.command)    # at \(revision)",
        ]
        var subjects: Set<Subject> = [.broker]
        if let message = violation.message {
            lines.append("message \(message)")
            subjects.insert(.message(message))
        }
        if let client = violation.client {
            lines.append("client \(client)")
            subjects.insert(.client(client))
        }
        let told = history.filter { subjects.contains($0.subject) }
        if !told.isEmpty {
            lines.append("history:")
            lines += told.map { "    \($0.description)" }
        }
        return lines.joined(separator: "\n")
    }
}

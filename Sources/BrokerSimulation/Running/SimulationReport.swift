// The result of a run.

import Primitives

/// The outcome of one run.
public struct SimulationReport: Sendable {
    public let options: SimulationOptions
    /// Nil if no property was violated.
    public let violation: Violation?
    public let stepCount: Int
    public let sendCount: Int
    public let answeredCount: Int
    public let receivedCount: Int
    public let deathCount: Int
    /// Messages that were lost, or received although refused, as the properties permit.
    public let excusedCount: Int
    /// A digest of the run, which identifies a repetition of it.
    public let fingerprint: UInt64
    private let history: [HistoryLine]

    init(_ simulation: Simulation) {
        let oracle = simulation.oracle
        options = simulation.context.options
        violation = oracle.violation
        stepCount = simulation.stepCount
        sendCount = oracle.sends.count
        answeredCount = oracle.sends.count { $0.outcome != nil }
        receivedCount = oracle.receivedCount
        deathCount = oracle.deaths
        excusedCount = oracle.excusedCount
        history = oracle.history.lines
        var mix = SimulationRandom(seed: UInt64(simulation.stepCount))
        for send in oracle.sends {
            let outcome = send.outcome.map { $0.at.milliseconds << 8 | UInt64($0.reason.rawValue) }
            mix = SimulationRandom(
                seed: mix.next() ^ (outcome ?? 0) ^ UInt64(send.receivedCount) << 48)
        }
        fingerprint = mix.next()
    }

    /// The text that helps to find the bug: the property, the command that repeats the run, and the
    /// history of the message. Nil if no property was violated.
    ///
    /// - Parameter revision: the revision of the sources, for the text.
    public func failureText(revision: String) -> String? {
        guard let violation else { return nil }
        var lines = [
            "violated property: \(violation.property.rawValue)",
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

// What a verification of a whole store found, in lines for a person.

/// The outcome of ``LMDBQueueStore/verify(directory:)``.
public struct VerificationReport: Hashable, Sendable {
    /// What is wrong, one line each; empty for a sound store. Cut off after ``findingsMaximum``.
    public internal(set) var findings: [String] = []
    /// What there is: counts, and damage that was set aside before.
    public internal(set) var summary: [String] = []
    /// Findings, those that were cut off included.
    public internal(set) var findingCount = 0

    /// A damaged disk damages thousands of records in one way: the first ones tell the story.
    public static let findingsMaximum = 1_000

    /// The first finding that keeps a broker from starting. Damaged messages do not: they are set
    /// aside.
    public internal(set) var fatalFinding: String?

    public var preventsStart: Bool { fatalFinding != nil }
    public var isSound: Bool { findingCount == 0 }

    mutating func find(_ finding: @autoclosure () -> String, preventsStart: Bool = false) {
        findingCount += 1
        if preventsStart, fatalFinding == nil { fatalFinding = finding() }
        if findings.count < VerificationReport.findingsMaximum { findings.append(finding()) }
    }
}

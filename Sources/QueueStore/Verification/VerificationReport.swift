// The result of verifying a whole store, in lines of text.

/// The result of ``LMDBQueueStore/verify(directory:options:)``.
public struct VerificationReport: Hashable, Sendable {
    /// The findings, one line each; empty for a sound store. Truncated after ``findingsMaximum``.
    public internal(set) var findings: [String] = []
    /// The contents: counts, and damage that was set aside before.
    public internal(set) var summary: [String] = []
    /// The number of findings, including those beyond the maximum.
    public internal(set) var findingCount = 0

    /// A damaged disk damages thousands of records in one way: the first ones show it.
    public static let findingsMaximum = 1_000

    /// The first finding that prevents a start. Damaged messages do not: they are set aside.
    public internal(set) var fatalFinding: String?

    public var preventsStart: Bool { fatalFinding != nil }
    public var isSound: Bool { findingCount == 0 }

    mutating func find(_ finding: @autoclosure () -> String, preventsStart: Bool = false) {
        findingCount += 1
        if preventsStart, fatalFinding == nil { fatalFinding = finding() }
        if findings.count < VerificationReport.findingsMaximum { findings.append(finding()) }
    }
}

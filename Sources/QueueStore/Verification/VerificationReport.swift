// The result of verifying a whole store, in lines of text, with the repairs that would end the
// findings.

import BrokerCore

/// The result of ``LMDBQueueStore/verify(directory:options:)``.
public struct VerificationReport: Hashable, Sendable {
    /// What can be done about a finding.
    enum Remedy {
        /// Changes, and what they do and lose.
        case changes([StoreRepair.Change], String)
        /// The repair of another finding ends it.
        case included
        /// Why nothing can, and what to do.
        case none(String)
    }

    /// The findings, one line each; empty for a sound store. Truncated after ``findingsMaximum``.
    public internal(set) var findings: [String] = []
    /// The contents: counts, and damage that was set aside before.
    public internal(set) var summary: [String] = []
    /// The number of findings, including those beyond the maximum.
    public internal(set) var findingCount = 0
    /// The repairs of all findings that have one, in the order in which they are carried out.
    public internal(set) var repairs: [StoreRepair] = []
    /// The other findings; truncated as ``findings``.
    public internal(set) var unrepairable: [UnrepairableFinding] = []
    /// Whether the store is of a node of a cluster, whose rows change only with the log.
    public internal(set) var belongsToCluster = false
    /// The number of the commit that was verified; 0 if none could be.
    public internal(set) var commitNumber = 0

    /// A damaged disk damages thousands of records in one way: the first ones show it.
    public static let findingsMaximum = 1_000

    /// The first finding that prevents a start. Damaged messages do not: they are set aside.
    public internal(set) var fatalFinding: String?
    /// Whether a finding that prevents a start has no repair.
    public internal(set) var isBeyondRepair = false

    public var preventsStart: Bool { fatalFinding != nil }
    public var isSound: Bool { findingCount == 0 }

    mutating func find(
        _ finding: @autoclosure () -> String, preventsStart: Bool = false,
        _ remedy: @autoclosure () -> Remedy, queue: QueueID? = nil
    ) {
        findingCount += 1
        if preventsStart, fatalFinding == nil { fatalFinding = finding() }
        if findings.count < VerificationReport.findingsMaximum { findings.append(finding()) }
        switch remedy() {
        case .changes(let changes, let action):
            repairs.append(StoreRepair(finding(), action, changes: changes, queue: queue))
        case .included: break
        case .none(let reason):
            if preventsStart { isBeyondRepair = true }
            guard unrepairable.count < VerificationReport.findingsMaximum else { return }
            unrepairable.append(
                UnrepairableFinding(
                    finding: finding(), reason: reason, preventsStart: preventsStart))
        }
    }
}

// A store as its own check and a broker see it: the findings, the repairs that would end them, and
// the findings that no repair ends. It changes nothing.

import BrokerCore
import Configuration
import Primitives
import QueueStore

/// One reading of a store: by the store's own check, and by a broker as at a start.
struct StoreExamination {
    let report: VerificationReport
    /// What a broker does not start with, besides the report's findings.
    private(set) var refusals: [String] = []
    private(set) var repairs: [StoreRepair]
    /// Queues that no row names. A broker starts with them, and deletes them.
    private var ownerless: [String] = []
    /// Findings that no repair ends, with the reason.
    private var unrepairable: [String] = []
    /// What the next start does by itself.
    private var notes: [String] = []
    /// The owners of the queues that a repair takes entries from.
    private var owners: [QueueID: String] = [:]

    init(_ settings: BrokerSettings, progress: CopyProgress?) throws(StartError) {
        let beginning = Moment(instant: Instant(milliseconds: 0), unixMilliseconds: 0)
        var broker = Broker(limits: CoreLimits(settings), loopCount: 1, at: beginning)
        broker.beginExamination()
        do throws(StoreError) {
            report = try LMDBQueueStore.verify(
                directory: settings.dataDirectory, options: StoreOptions(settings),
                progress: progress, into: &broker)
        } catch {
            throw .store(error)
        }
        repairs = report.repairs
        for finding in report.unrepairable {
            unrepairable.append("\(finding.finding); not repairable: \(finding.reason)")
        }
        let examination = broker.examination
        for (table, key) in examination.dangling {
            let repair = StoreRepair.removing(dangling: table, key: key)
            refusals.append("\(repair.finding), so a broker would not start")
            repairs.append(repair)
        }
        for queue in Set(repairs.compactMap(\.queue)) {
            owners[queue] = broker.ownerName(of: queue)
        }
        do throws(RestoreError) {
            try broker.finishRestoring(
                RestoredState(
                    identity: StoreIdentity(high: 0, low: 0), nextMessage: StoredMessageID(raw: 1),
                    stamp: nil, damaged: []),
                newEpochSeed: 1, at: beginning)
            let count = broker.counters.rowsRepaired
            if count > 0 { notes.append("the next start removes \(count) rows of ended sessions") }
        } catch {
            refusals.append("a broker would not start: \(error)")
            unrepairable.append(
                "a broker would not start: \(error); not repairable: another version of the "
                    + "broker wrote it, start that one, or restore a backup")
            isReadable = false
        }
        for queue in examination.ownerless {
            let repair = StoreRepair.deleting(ownerless: queue)
            ownerless.append(repair.finding)
            repairs.append(repair)
        }
    }

    /// Whether a broker can read all records that are left.
    private var isReadable = true

    /// Whether nothing that prevents a start is without a repair.
    var isRepairable: Bool { isReadable && !report.isBeyondRepair && !report.belongsToCluster }

    var isSound: Bool { report.isSound && refusals.isEmpty && ownerless.isEmpty }

    var findings: [String] {
        report.findings + ownerless.prefix(VerificationReport.findingsMaximum)
    }

    /// The contents, what the next start does, and the result.
    var verdict: [String] {
        let count = report.findingCount + refusals.count + ownerless.count
        return report.summary + notes + [count == 0 ? "sound" : "damaged: \(count) findings"]
    }

    /// One line for each repair and for each finding without one, and a conclusion.
    func plan(isDryRun: Bool) -> [String] {
        var lines = repairs.map { repair in
            let owner = repair.queue.flatMap { owners[$0] }.map { " (\($0))" } ?? ""
            return "\(repair.finding)\(owner): \(repair.action)"
        }
        lines += unrepairable + notes
        if isSound { return lines + ["sound: nothing to repair"] }
        if report.belongsToCluster {
            lines.append(
                "nothing is repaired: the store is of a node of a cluster; copy the store of "
                    + "another node (--copy-node)")
        } else if !isRepairable {
            lines.append(
                "nothing is repaired: a finding that prevents a start has no repair; restore a "
                    + "backup")
        } else {
            let verb = isDryRun ? "would make" : "makes"
            lines.append("--repair \(verb) \(repairs.count) changes")
        }
        return lines
    }
}

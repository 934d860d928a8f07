// `martletd --verify-store`: what is wrong with the store of a broker that does not run, and its
// repair.

import Configuration
import QueueStore
import Threads

/// What `--verify-store` does about findings.
public enum RepairMode: Sendable {
    case none
    /// Names what a repair would change. Changes nothing.
    case dryRun
    case repair
}

/// The result of checking a store.
public struct StoreVerification: Sendable {
    public let text: String
    /// Whether the store has no finding; after a repair, whether it has none any more.
    public let isSound: Bool

    /// Checks the store of a configuration; no broker may have it open. To find everything that a
    /// start would refuse, the check reads the rows into a broker as a start does.
    ///
    /// - Parameters:
    ///   - mode: a repair changes nothing if a finding that prevents a start has none.
    ///   - show: called about twice in a second, on another thread, with the percentage that is
    ///     done.
    public static func run(
        _ settings: BrokerSettings, _ mode: RepairMode = .none,
        showing show: (@Sendable (Int) -> Void)? = nil
    ) throws(StartError) -> StoreVerification {
        try ShardLayout(settings, in: settings.dataDirectory).checkForExamination()
        guard let show else { return try run(settings, mode, progress: nil) }
        let (progress, end) = (CopyProgress(), WakeSignal())
        let display = Thread(name: "progress") {
            var isOver = false
            while !isOver {
                isOver = end.wait(milliseconds: 500)
                let total = max(progress.totalByteCount, 1)
                if !isOver { show(min(100 * progress.doneByteCount / total, 99)) }
            }
        }
        defer {
            end.notify()
            display.join()
        }
        return try run(settings, mode, progress: progress)
    }

    /// Examines the stores of all shards, one after the other, before it repairs the first one: a
    /// store that cannot be opened prevents the repair of all. The lines are in the order of the
    /// shards; the default one is first.
    private static func run(
        _ settings: BrokerSettings, _ mode: RepairMode, progress: CopyProgress?
    ) throws(StartError) -> StoreVerification {
        let map = ShardMap(settings.shards)
        let all = (0..<map.count).map { map.settings(of: $0, settings) }
        guard map.count > 1 else {
            let examination = try StoreExamination(settings, progress: progress)
            return try result(of: examination, mode, settings)
        }
        let examinations = all.map { own in
            Result { () throws(StartError) in try StoreExamination(own, progress: progress) }
        }
        let isReadable = examinations.allSatisfy { (try? $0.get()) != nil }
        // What is known of the other stores is told beside an error.
        let verified = zip(examinations, all).map { examination, own in
            do throws(StartError) {
                let mode = mode == .repair && !isReadable ? .dryRun : mode
                return try result(of: examination.get(), mode, own)
            } catch {
                return StoreVerification(text: "\(error)", isSound: false)
            }
        }
        let lines = zip(map.names, verified).flatMap { ["shard \($0):", $1.text] }
        return StoreVerification(
            text: lines.joined(separator: "\n"), isSound: verified.allSatisfy(\.isSound))
    }

    /// Repairs an examined store if the mode is that.
    private static func result(
        of examination: StoreExamination, _ mode: RepairMode, _ settings: BrokerSettings
    ) throws(StartError) -> StoreVerification {
        switch mode {
        case .none:
            let lines = examination.refusals + examination.findings + examination.verdict
            return StoreVerification(
                text: lines.joined(separator: "\n"), isSound: examination.isSound)
        case .dryRun:
            return StoreVerification(
                text: examination.plan(isDryRun: true).joined(separator: "\n"),
                isSound: examination.isSound)
        case .repair:
            var lines = examination.plan(isDryRun: false)
            guard examination.isRepairable, !examination.repairs.isEmpty else {
                return StoreVerification(
                    text: lines.joined(separator: "\n"), isSound: examination.isSound)
            }
            do throws(StoreError) {
                try LMDBQueueStore.repair(
                    directory: settings.dataDirectory, options: StoreOptions(settings),
                    examination.repairs, of: examination.report.commitNumber)
            } catch {
                throw .store(error)
            }
            let after = try StoreExamination(settings, progress: nil)
            lines += after.refusals + after.findings + after.verdict
            return StoreVerification(
                text: lines.joined(separator: "\n"), isSound: after.isSound)
        }
    }
}

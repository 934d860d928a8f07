// `martletd --verify-store`: what is wrong with the store of a broker that does not run.

import BrokerCore
import Configuration
import Primitives
import QueueStore
import Threads

/// The result of checking a store.
public struct StoreVerification: Sendable {
    public let text: String
    public let isSound: Bool

    /// Checks the store of a configuration; no broker may have it open. To find everything that a
    /// start would refuse, the check reads the rows into a broker as a start does.
    ///
    /// - Parameter show: called about twice in a second, on another thread, with the percentage
    ///   that is done.
    public static func run(
        _ settings: BrokerSettings, showing show: (@Sendable (Int) -> Void)? = nil
    ) throws(StartError) -> StoreVerification {
        guard let show else { return try run(settings, progress: nil) }
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
        return try run(settings, progress: progress)
    }

    private static func run(
        _ settings: BrokerSettings, progress: CopyProgress?
    ) throws(StartError) -> StoreVerification {
        let beginning = Moment(instant: Instant(milliseconds: 0), unixMilliseconds: 0)
        var broker = Broker(limits: CoreLimits(settings), loopCount: 1, at: beginning)
        let report: VerificationReport
        do throws(StoreError) {
            report = try LMDBQueueStore.verify(
                directory: settings.dataDirectory, options: StoreOptions(settings),
                progress: progress, into: &broker)
        } catch {
            throw .store(error)
        }
        var refusals: [String] = []
        var repairs: [String] = []
        do throws(RestoreError) {
            try broker.finishRestoring(
                RestoredState(
                    identity: StoreIdentity(high: 0, low: 0), nextMessage: StoredMessageID(raw: 1),
                    stamp: nil, damaged: []),
                newEpochSeed: 1, at: beginning)
            let count = broker.counters.rowsRepaired
            if count > 0 {
                repairs.append("the next start removes \(count) rows of ended sessions")
            }
        } catch {
            refusals.append("a broker would not start: \(error)")
        }
        let findingCount = report.findingCount + refusals.count
        let verdict = findingCount == 0 ? "sound" : "damaged: \(findingCount) findings"
        let lines = refusals + report.findings + report.summary + repairs + [verdict]
        return StoreVerification(
            text: lines.joined(separator: "\n"), isSound: findingCount == 0)
    }
}

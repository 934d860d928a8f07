// `martletd --verify-store`, `--restore` and `--check-config`: operations without a running broker.

import Administration
import BrokerCore
import Configuration
import Primitives
import QueueStore

/// The result of checking a store.
public struct StoreVerification: Sendable {
    public let text: String
    public let isSound: Bool

    /// Checks the store of a configuration; no broker may have it open. To find everything that a
    /// start would refuse, the check reads the rows into a broker as a start does.
    public static func run(_ settings: BrokerSettings) throws(StartError) -> StoreVerification {
        let beginning = Moment(instant: Instant(milliseconds: 0), unixMilliseconds: 0)
        var broker = Broker(limits: CoreLimits(settings), loopCount: 1, at: beginning)
        let report: VerificationReport
        do throws(StoreError) {
            report = try LMDBQueueStore.verify(
                directory: settings.dataDirectory, options: StoreOptions(settings), into: &broker)
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

/// `martletd --restore DIR`: makes a backup the store of a data directory that has none.
public enum StoreRestoration {
    /// Restores a backup. Devices get a new epoch at their next login and resume at 0, because the
    /// backup lacks the numbers that were assigned after it was made.
    ///
    /// - Returns: the damage in the backup that does not prevent a start.
    @discardableResult
    public static func run(
        _ settings: BrokerSettings, from backup: String
    ) throws(StartError) -> [String] {
        do throws(StoreError) {
            let report = try LMDBQueueStore.copy(
                directory: backup, to: settings.dataDirectory, besides: filesBesideStore,
                options: StoreOptions(settings))
            return report.verification.findings
        } catch {
            throw .store(error)
        }
    }

    /// The files of a broker in its data directory besides the store, which remain when the store
    /// is removed. LMDB recreates its lock file.
    private static let filesBesideStore: Set = [
        AdministrationLine.socketName, BrokerServer.ticketKeyFile, Operators.fileName,
        DevelopmentSetup.variablesFile,
        DevelopmentSetup.certificateFolder, "lock.mdb",
    ]
}

/// `martletd --check-config`: checks the files that the configuration names.
public enum ConfigurationCheck {
    /// Reads and checks certificates, keys and lists as a start does. Opens no listener and writes
    /// nothing.
    public static func run(_ settings: BrokerSettings) throws(StartError) {
        _ = try TrustMaterial(settings)
        try ListenerSet.checkFiles(settings)
    }
}

extension StoreOptions {
    init(_ settings: BrokerSettings) {
        self.init(
            mapByteCount: settings.store.mapBytes,
            softLimitByteCount: settings.store.softLimitBytes,
            checksPages: settings.store.checksPages)
    }
}

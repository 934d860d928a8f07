// `martletd --verify-store` and `--restore`: what is done with a store that no broker has open.

import Administration
import BrokerCore
import Configuration
import Primitives
import QueueStore

/// What a check of a store found.
public struct StoreVerification: Sendable {
    public let text: String
    public let isSound: Bool

    /// Checks the store of a configuration; no broker may have it open. What a start would refuse
    /// is found by the start's own code: the rows are read into a broker.
    public static func run(_ settings: BrokerSettings) throws(StartError) -> StoreVerification {
        let beginning = Moment(instant: Instant(milliseconds: 0), unixMilliseconds: 0)
        var broker = Broker(limits: CoreLimits(settings), laneCount: 1, at: beginning)
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
                    identity: StoreIdentity(high: 0, low: 0), nextMessage: MessageID(raw: 1),
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

/// `martletd --restore DIR`: a backup becomes the store of a data directory that has none.
public enum StoreRestoration {
    /// Puts a backup back. Devices find another epoch at their next login and resume at 0, because
    /// what was promised after the backup was made is not in it.
    ///
    /// - Returns: what is damaged in the backup and keeps no broker from starting.
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

    /// What a broker keeps in its data directory beside the store: a store that was taken away
    /// leaves it there. LMDB's lock file is made anew.
    private static let filesBesideStore: Set = [
        AdministrationLine.socketName, BrokerServer.ticketKeyFile, DevelopmentSetup.variablesFile,
        DevelopmentSetup.certificateFolder, "lock.mdb",
    ]
}

/// `martletd --check-config`: what the start reads beside the configuration.
public enum ConfigurationCheck {
    /// Reads and checks certificates, keys and lists as a start does. Nothing is opened to clients,
    /// and nothing is written.
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

// `martletd --verify-store` and `--restore`: what is done with a store that no broker has open.

import Configuration
import QueueStore

/// What a check of a store found.
public struct StoreVerification: Sendable {
    public let text: String
    public let isSound: Bool

    /// Checks the store of a configuration; no broker may have it open.
    public static func run(_ settings: BrokerSettings) throws(StartError) -> StoreVerification {
        do throws(StoreError) {
            let report = try LMDBQueueStore.verify(
                directory: settings.dataDirectory, options: StoreOptions(settings))
            let verdict = report.isSound ? "sound" : "damaged: \(report.findingCount) findings"
            return StoreVerification(
                text: (report.findings + report.summary + [verdict]).joined(separator: "\n"),
                isSound: report.isSound)
        } catch {
            throw .store(error)
        }
    }
}

/// `martletd --restore DIR`: a backup becomes the store of a data directory that has none.
public enum StoreRestoration {
    /// Puts a backup back. Devices find another epoch at their next login and resume at 0, because
    /// what was promised after the backup was made is not in it.
    public static func run(_ settings: BrokerSettings, from backup: String) throws(StartError) {
        do throws(StoreError) {
            try LMDBQueueStore.copy(
                directory: backup, to: settings.dataDirectory, options: StoreOptions(settings))
        } catch {
            throw .store(error)
        }
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

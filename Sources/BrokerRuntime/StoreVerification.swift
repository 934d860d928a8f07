// `martletd --verify-store`: the store's own check of everything, for people.

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

extension StoreOptions {
    init(_ settings: BrokerSettings) {
        self.init(
            mapByteCount: settings.store.mapBytes,
            softLimitByteCount: settings.store.softLimitBytes,
            checksPages: settings.store.checksPages)
    }
}

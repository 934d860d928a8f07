// The broker's health: the main thread notes it, and the event loops answer health checks with it.

import Synchronization

/// The broker's health as the main thread sees it twice a second.
final class BrokerHealth: Sendable {
    private let findings = Atomic<UInt8>(Finding.starting.rawValue)

    /// What is not as it should be.
    struct Finding: OptionSet {
        let rawValue: UInt8
        /// The listeners are not open yet.
        static let starting = Finding(rawValue: 1 << 0)
        /// The broker is stopping.
        static let draining = Finding(rawValue: 1 << 1)
        /// The store refuses what makes it grow.
        static let storeFull = Finding(rawValue: 1 << 2)
        /// An event loop has not turned for seconds.
        static let loopStuck = Finding(rawValue: 1 << 3)
        /// A batch has waited for its commit for seconds.
        static let commitStuck = Finding(rawValue: 1 << 4)
        /// Another node of the cluster is the primary, or none is known.
        static let standby = Finding(rawValue: 1 << 5)
        /// The primary has lost its lease: the log does not answer.
        static let noLease = Finding(rawValue: 1 << 6)

        /// Those that a restart may mend.
        static let fatal: Finding = [.loopStuck, .commitStuck]

        /// Names for the answers.
        static let names: [(Finding, String)] = [
            (.starting, "starting"), (.draining, "draining"), (.storeFull, "store-full"),
            (.loopStuck, "loop-stuck"), (.commitStuck, "commit-stuck"), (.standby, "standby"),
            (.noLease, "no-lease"),
        ]
    }

    var current: Finding { Finding(rawValue: findings.load(ordering: .acquiring)) }

    func set(_ finding: Finding, _ isSo: Bool) {
        if isSo {
            _ = findings.bitwiseOr(finding.rawValue, ordering: .acquiringAndReleasing)
        } else {
            _ = findings.bitwiseAnd(~finding.rawValue, ordering: .acquiringAndReleasing)
        }
    }
}

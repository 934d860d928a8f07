// A whole fleet reconnects at once: after a restart of the broker, or after a power cut.

import Glibc
import MartletClient
import TestSurroundings
import Testing

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(2 * Sanitizer.patience))) struct StormTests {
        private static let handshakesMaximum = 24
        private static let pendingMaximum = 200

        @Test func `a fleet that reconnects at once is admitted in order, without failures`()
            async throws
        {
            let broker = try await TestBroker(settings: [
                "limits.sessionsPerUser=5000", "limits.handshakes=\(Self.handshakesMaximum)",
                "limits.pendingLogins=\(Self.pendingMaximum)",
                // A client of this process may be slow.
                "limits.authenticationSeconds=60",
            ])
            let token = try broker.token("fleet")
            // Two thousand first logins, whose sessions the second storm resumes.
            _ = try storm(broker, token, resumes: false)
            try await broker.stop()
            try await broker.start()
            let seconds = try storm(broker, token, resumes: true)
            let told = broker.process.lines.count { $0.contains("event=client_connected") }
            // Fifty in each second of the broker's clock.
            #expect(told <= 50 * (Int(seconds) + 3), "\(told) lines for 2,300 logins")
            _ = try await broker.process.line(with: "event=lines_suppressed")
        }

        /// Everybody connects while the broker holds still, which then finds them all waiting.
        ///
        /// - Returns: the seconds until all were in.
        private func storm(
            _ broker: TestBroker, _ token: String, resumes: Bool
        ) throws -> Double {
            let fleet = try Fleet(broker, token: token, plainCount: 2_000, tlsCount: 300)
            broker.process.signal(SIGSTOP)
            let start: ContinuousClock.Instant
            do {
                defer { broker.process.signal(SIGCONT) }
                try fleet.connect(to: broker)
                start = ContinuousClock.now
            }
            var (handshakes, pending): (UInt64, UInt64) = (0, 0)
            try fleet.waitUntilIn(seconds: 60) {
                handshakes = max(handshakes, try broker.counter("tls/handshakes/pending"))
                pending = max(pending, try broker.counter("sockets/pending"))
            }
            let seconds = (ContinuousClock.now - start) / .seconds(1)
            let (plain, tls) = (0..<fleet.plainCount, fleet.plainCount..<2_300)
            print(
                "storm: 2,000 plain and 300 TLS logins in \(seconds) s; at most \(handshakes) "
                    + "handshakes and \(pending) logins under way; by at most "
                    + "\(fleet.longestDelay(of: plain)) and \(fleet.longestDelay(of: tls)) places "
                    + "late")
            #expect(fleet.letInCount == 2_300)
            #expect(fleet.refusals.isEmpty && fleet.lostCount == 0)
            #expect(fleet.resumedCount == (resumes ? 2_300 : 0))
            #expect(handshakes <= UInt64(Self.handshakesMaximum))
            #expect(pending <= UInt64(Self.pendingMaximum))
            // Those who are on their way in at the same time may overtake each other, and nobody
            // else: in a handshake, or waiting for the commit of their login.
            #expect(fleet.longestDelay(of: plain) <= Self.pendingMaximum)
            #expect(fleet.longestDelay(of: tls) <= Self.pendingMaximum)
            return seconds
        }
    }
}

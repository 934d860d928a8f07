// Unreachable targets delay no others: a tenth of all targets never answers. No other one waits for
// the time limit of such a target, and 99 of 100 wait for a fraction of it.
// MARTLET_PUSH_TARGETS=10000 measures with as many targets.

import Foundation
import TestSurroundings
import Testing

@testable import Push

@Suite(.enabled(if: TestDestination.isThere, TestDestination.reasonOfAbsence)) struct DelayTests {
    @Test func `a tenth of dead targets keeps no living one waiting`() throws {
        let far = try TestDestination("hook", ["--quiet", Fixture.secretText])
        // It accepts connections, in the queue of the system, and never answers.
        let dead = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(dead) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isListening = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(dead, $0, size) == 0 && listen(dead, 4_096) == 0
                    && getsockname(dead, $0, &size) == 0
            }
        }
        #expect(isListening)
        let deadPort = UInt16(bigEndian: address.sin_port)
        let pace = DispatchSemaphore(value: 0)
        let keys = TestKeys()
        let relay = TestRelay(
            try keys.settings(
                """
                webhook: { secretFiles: ["DIR/secret"], allowHttp: true, timeoutSeconds: 40 },
                concurrency: 2000, ratePerSecond: 0,
                """))
        let start = DispatchTime.now()
        // Eight targets each.
        let count = ProcessInfo.processInfo.environment["MARTLET_PUSH_TARGETS"].flatMap { Int($0) }
        let users = (count ?? 2_000) / 8
        for index in 0..<users {
            // 200 targets in a second.
            _ = pace.wait(timeout: start + .milliseconds(40 * index))
            relay.accept(
                Fixture.request(
                    "u\(index)", ids: Array(0..<8).map { UInt64(index * 8 + $0) },
                    address: { id in
                        // Each target has an address of its own on the loopback network.
                        let host = "127.\(1 + id / 62_500).\(id / 250 % 250).\(id % 250 + 1)"
                        return "http://\(host):\(id % 10 == 0 ? Int(deadPort) : far.port)/"
                    }, time: unixNow))
        }
        let line = try far.lines.line(
            "figures count=\(users * 8 / 10 * 9 / 1_000 * 1_000)", seconds: 120)
        let fields = line.split(separator: " ").reduce(
            into: [String: Int]()
        ) { fields, word in
            let parts = word.split(separator: "=")
            if parts.count == 2 { fields[String(parts[0])] = Int(parts[1]) }
        }
        let delay = try #require(fields["p99_ms"])
        print("\(users * 8) targets, a tenth dead: \(line)")
        #expect(delay < 10_000 * Sanitizer.patience, "\(line)")
        #expect(try #require(fields["max_ms"]) < 40_000 * Sanitizer.patience, "\(line)")
    }
}

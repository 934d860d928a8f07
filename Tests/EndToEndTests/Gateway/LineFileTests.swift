// A gateway that gets other lines while it runs, and that tells its counters.

import Foundation
import MartletClient
import TestSurroundings
import Testing

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(3 * Sanitizer.patience))) struct LineFileTests {
        @Test func `the file of lines is read again, and the other devices notice nothing`()
            async throws
        {
            let broker = try await TestBroker()
            try broker.addUsers("bob")
            let fleet = try LineFleet(
                ["plant7-a", "plant7-b", "plant7-c"], isTerminal: false, outboxByteCount: 4_096)
            defer { fleet.end() }
            let lines = fleet.options.map { String($0.dropFirst("--line=".count)) }
            let files = try TemporaryDirectory("lines")
            func write(_ lines: [String]) throws {
                let text = (["# plant 7"] + lines).joined(separator: "\n") + "\n"
                try Data(text.utf8).write(to: URL(filePath: files.file("lines")))
            }
            try write([lines[0], lines[1]])
            let gateway = try ChildProcess(
                "martlet-gateway", ["--lines=\(files.file("lines"))"],
                environment: [
                    "MARTLET_SERVER": "tls://localhost:\(broker.tlsPort)",
                    "MARTLET_CA": broker.authority,
                    "MARTLET_TOKEN": try broker.token(
                        "gate", rights: ["attach:plant7-*", "send:*"]),
                ])
            defer { gateway.signal(SIGKILL) }
            _ = try await gateway.line(with: "event=broker_connected")
            try await fleet.wait("two devices") { $0.connected == 2 }

            try write([lines[1], lines[2]])
            gateway.signal(SIGHUP)
            _ = try await gateway.line(with: "event=reloaded lines=2 added=1 removed=1")
            try await fleet.wait("the third device") { $0.connectionCount == 3 }
            try await fleet.wait("the end of the first") { $0.connected == 2 }
            fleet.send(5)
            try await fleet.wait("the results of two devices") { $0.resolved == 10 }

            try write([lines[1], "nonsense"])
            gateway.signal(SIGHUP)
            let fault = try await gateway.line(with: "event=reload_failed")
            #expect(fault.contains("\(files.file("lines")):3: "), "\(fault)")
            // Half written, and a FIFO, which would hold up the thread of signals.
            try Data("\(lines[1])".utf8).write(to: URL(filePath: files.file("lines")))
            gateway.signal(SIGHUP)
            _ = try await gateway.line(with: "event=reload_failed", "the last line has no end")
            try FileManager.default.removeItem(atPath: files.file("lines"))
            try #require(mkfifo(files.file("lines"), 0o600) == 0)
            gateway.signal(SIGHUP)
            _ = try await gateway.line(with: "event=reload_failed", "is no regular file")
            let report = await fleet.report()
            #expect(report.connected == 2 && report.connectionCount == 3, "\(report)")

            gateway.signal(SIGUSR1)
            let totals = try await gateway.line(with: "event=totals")
            for count in ["device_logins=3", "lines=2", "devices=2", "faulty=0"] {
                #expect(totals.contains(" \(count) ") || totals.hasSuffix(count), "\(totals)")
            }
            let count = gateway.lines.count
            gateway.signal(SIGTERM)
            #expect(try await gateway.exit() == .code(0))
            #expect(gateway.lines[count...].contains { $0.contains("event=totals") })
            #expect(gateway.lines.allSatisfy { $0.hasPrefix("time=20") })
        }

        @Test func `a fault of the file prevents a start`() async throws {
            let files = try TemporaryDirectory("lines")
            try Data("plant7-1=/dev/null\nplant7-2\n".utf8)
                .write(to: URL(filePath: files.file("lines")))
            let faults = [
                files.file("lines"): "lines:2: ", files.file("none"): "cannot be read",
            ]
            for (path, fault) in faults {
                let gateway = try ChildProcess(
                    "martlet-gateway",
                    ["--lines=\(path)", "--server=tcp://127.0.0.1:1", "--token=t"])
                #expect(try await gateway.exit() == .code(1))
                #expect(gateway.text.contains(fault), "\(gateway.text)")
            }
        }
    }
}

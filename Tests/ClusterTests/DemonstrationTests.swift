// The demonstration that `make cluster` starts, with the line that it prints.

import Foundation
import Glibc
import TestSurroundings
import Testing

extension ClusterTests {
    @Suite(
        .serialized, .timeLimit(.minutes(20)),
        .enabled(if: NATSServers.isInstalled, "nats-server cannot be installed from PyPI"),
        .enabled(if: ClusterClients.isInstalled, "python3-paho-mqtt is not installed"))
    struct DemonstrationTests {
        private static let script = SourceTree.root.appending(path: "Examples/cluster").path

        @Test func `the printed line kills the primary, and nothing is lost`() async throws {
            try await onThread {
                let directory = try TemporaryDirectory("demonstration")
                let port = try #require(Self.freePorts(12))
                let variables = ProcessInfo.processInfo.environment.merging([
                    "PORT": "\(port)", "DATA": directory.path,
                    "PROGRAMS": URL(filePath: TestCluster.program).deletingLastPathComponent().path,
                ]) { $1 }
                func run(_ command: String, log: String) throws -> ClusterProcess {
                    try ClusterProcess(
                        "/bin/bash", [Self.script, command], log: directory.file(log),
                        environment: variables, lastSignal: SIGTERM)
                }
                func text(_ log: String) -> String {
                    (try? String(contentsOfFile: directory.file(log), encoding: .utf8)) ?? ""
                }
                let cluster = try run("run", log: "run.log")
                defer {
                    // Its trap ends the servers and the nodes.
                    cluster.signal(SIGTERM)
                    _ = try? cluster.waitForEnd()
                    withExtendedLifetime(directory) {}
                }
                let line = "PORT=\(port) DATA=\(directory.path) Examples/cluster show"
                let end = Date(timeIntervalSinceNow: 120 * Double(Sanitizer.patience))
                while !text("run.log").contains("The nodes: "), Date() < end {
                    #expect(!cluster.hasEnded)
                    if cluster.hasEnded { break }
                    _ = poll(nil, 0, 100)
                }
                #expect(text("run.log").contains(line), "\(text("run.log"))")
                // Twice: the second time the group's owner is there.
                for round in 1...2 {
                    let log = "show-\(round).log"
                    let code = try run("show", log: log).waitForEnd(seconds: 150)
                    #expect(code == 0, "\(text(log))\n\(text("run.log"))")
                    #expect(text(log).contains(", the primary\n"), "\(text(log))")
                    #expect(text(log).contains(#""lost": 0"#), "\(text(log))")
                }
            }
        }

        /// The first of so many ports in a row that nobody uses, below those that the system gives.
        private static func freePorts(_ count: UInt16) -> UInt16? {
            (0..<100).lazy.map { _ in UInt16.random(in: 20_000...30_000) }.first { first in
                (first..<first + count).allSatisfy(isFree)
            }
        }

        private static func isFree(_ port: UInt16) -> Bool {
            let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
            defer { close(descriptor) }
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_port = port.bigEndian
            address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
            return withUnsafePointer(to: &address) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
                }
            }
        }
    }
}

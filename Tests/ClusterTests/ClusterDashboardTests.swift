// The dashboard's page of a cluster, and the operations behind it.

import Administration
import Foundation
import TestSurroundings
import Testing

extension ClusterTests {
    @Suite(
        .serialized, .timeLimit(.minutes(30)),
        .enabled(if: NATSServers.isInstalled, "nats-server cannot be installed from PyPI"))
    struct ClusterDashboardTests {
        @Test
        func `shows the nodes, the lease, the servers and alarms, and hands the primary over`()
            async throws
        {
            try await onThread {
                let cluster = try TestCluster()
                let primary = try cluster.primary(otherThan: nil)
                let token = try cluster.administer(
                    primary, AddOperator(operator: "anna", role: .own, expirySeconds: nil)
                ).token
                func words(_ processes: [pid_t]) -> String {
                    processes.map { "\($0)" }.joined(separator: ",")
                }
                let servers = (0..<3).compactMap { cluster.servers.process($0) }
                let standbys = cluster.nodes.filter { $0.name != primary.name }
                    .compactMap { $0.process?.identifier }
                let script =
                    SourceTree.root.appending(path: "Tests/ClusterTests/cluster_dashboard.py").path
                let output = cluster.directory.file("chromium")
                let chromium = try ClusterProcess(
                    "/usr/bin/python3",
                    [
                        "-B", script, "http://127.0.0.1:\(primary.webPort)/", token, "light",
                        "1200",
                        primary.name, words(servers), words(standbys),
                    ], log: output)
                // The script waits for two minutes at most for each of ten things.
                let code = try chromium.waitForEnd(seconds: 400)
                let text = try String(contentsOfFile: output, encoding: .utf8)
                #expect(code == 0 && text == "done 20\n", "\(text)\n\(cluster.logs)")
                #expect(try primary.process?.waitForEnd() == 8)
                _ = try cluster.primary(otherThan: primary)
            }
        }
    }
}

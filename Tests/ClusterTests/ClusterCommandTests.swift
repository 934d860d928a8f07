// `martlet cluster` on the nodes of a cluster: what it prints, and the hand-over.

import Administration
import Foundation
import TestSurroundings
import Testing

extension ClusterTests {
    @Suite(
        .serialized, .timeLimit(.minutes(20)),
        .enabled(if: NATSServers.isInstalled, "nats-server cannot be installed from PyPI"))
    struct ClusterCommandTests {
        /// The program beside martletd.
        private static let program = URL(filePath: TestCluster.program).deletingLastPathComponent()
            .appending(path: "martlet").path

        /// Runs `martlet cluster` and returns its exit code and what it printed.
        private func command(
            _ arguments: String..., of cluster: TestCluster
        ) throws -> (code: Int32, lines: [String]) {
            try run(["cluster"] + arguments, of: cluster)
        }

        private func run(
            _ arguments: String..., of cluster: TestCluster
        ) throws -> (code: Int32, lines: [String]) {
            try run(arguments, of: cluster)
        }

        private func run(
            _ arguments: [String], of cluster: TestCluster
        ) throws -> (code: Int32, lines: [String]) {
            let output = cluster.directory.file("command.out")
            try? FileManager.default.removeItem(atPath: output)
            let process = try ClusterProcess(Self.program, arguments, log: output)
            let code = try process.waitForEnd()
            let text = try String(contentsOfFile: output, encoding: .utf8)
            return (code, text.split(separator: "\n").map(String.init))
        }

        @Test func `each node shows all nodes, and the primary gives its place to another`()
            async throws
        {
            try await onThread {
                let cluster = try TestCluster()
                let primary = try cluster.primary(otherThan: nil)
                let standby = try #require(cluster.nodes.first { $0 !== primary })
                // Nodes report each second, and ask the servers each five seconds. The last report
                // of the primary may be one of its time as a standby.
                let shown = try cluster.wait("three nodes and three servers") {
                    let shown = try command("status", "--data", standby.data, of: cluster)
                    let nodeCount = shown.lines.count { $0.contains("  record ") }
                    let hasPrimary = shown.lines.contains {
                        $0.hasPrefix("\(primary.name)  primary  ")
                    }
                    let currentCount = shown.lines.count { $0.hasSuffix("  current") }
                    let hasLeader = shown.lines.contains { $0.hasSuffix("  leader") }
                    return nodeCount == 3 && hasPrimary && currentCount == 2 && hasLeader
                        ? shown : nil
                }
                #expect(shown.code == 0)
                for node in cluster.nodes {
                    let part = node === primary ? "primary" : "standby"
                    #expect(
                        shown.lines.contains {
                            $0.hasPrefix("\(node.name)  \(part)  127.0.0.1:\(node.port)  record ")
                        }, "\(shown.lines)")
                }
                #expect(shown.lines[0].hasSuffix("  this node"))
                #expect(
                    shown.lines.contains { $0.contains("without a lease here, durability strict") })
                #expect(shown.lines.contains { $0.contains("of 256 MiB") })
                #expect(shown.lines.count { $0.hasSuffix("  leader") } == 1)
                let json = try command("status", "--data", primary.data, "--json", of: cluster)
                #expect(json.lines.first?.contains(#""hasLease":true"#) == true, "\(json.lines)")

                // The HTTP API of the primary, found among the addresses of all nodes.
                let token = try cluster.administer(
                    primary, AddOperator(operator: "anna", role: .view, expirySeconds: nil)
                ).token
                let servers = (cluster.nodes.filter { $0 !== primary } + [primary]).map {
                    "http://127.0.0.1:\($0.webPort)"
                }
                let listed = try run(
                    "stats", "--server", servers.joined(separator: ","), "--token", token,
                    of: cluster)
                #expect(listed.code == 0, "\(listed.lines)")
                #expect(listed.lines.contains { $0.contains("cluster/term") }, "\(listed.lines)")
                let single = try run(
                    "stats", "--server", servers[0], "--token", token, of: cluster)
                #expect(single.code != 0)
                #expect(single.lines.first?.contains("is a standby") == true, "\(single.lines)")

                let refused = try command("step-down", "--data", standby.data, of: cluster)
                #expect(refused.code != 0, "\(refused.lines)")
                #expect(
                    refused.lines.first?.contains("not the primary: \(primary.name) is") == true,
                    "\(refused.lines)")
                // A paused standby may not have been heard for ten seconds.
                try cluster.wait("two standbys") {
                    let status = try command("status", "--data", primary.data, of: cluster)
                    let count = status.lines.count { $0.contains("of 2 standbys were heard") }
                    return status.code == 0 && count == 0 ? () : nil
                }
                let done = try command("step-down", "--data", primary.data, of: cluster)
                #expect(
                    done.code == 0 && done.lines == ["the primary gives its place to another node"])
                #expect(try primary.process?.waitForEnd() == 8)
                #expect(!cluster.logs.contains("refuse the connection"), "\(cluster.logs)")
                _ = try cluster.primary(otherThan: primary)

                let alone = cluster.directory.file("alone")
                let absent = try command("status", "--data", alone, of: cluster)
                #expect(absent.code != 0)
                #expect(
                    absent.lines.first?.contains("no node of a cluster runs on \(alone)") == true,
                    "\(absent.lines)")
            }
        }
    }
}

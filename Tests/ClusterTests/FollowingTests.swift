// Clients of MRT with the addresses of all nodes: the SDK, the commands and the gateway follow the
// primary.

import Administration
import Foundation
import TestSurroundings
import Testing

extension ClusterTests {
    @Suite(
        .serialized, .timeLimit(.minutes(20)),
        .enabled(if: NATSServers.isInstalled, "nats-server cannot be installed from PyPI"))
    struct FollowingTests {
        @Test func `the SDK, the commands and the gateway work on when the primary is killed`()
            async throws
        {
            try await onThread {
                let cluster = try TestCluster()
                let first = try cluster.primary(otherThan: nil)
                try cluster.createApp(on: first)
                let tokens = try cluster.mintTokens(
                    "alice", "bob", "listener", "gateway", on: first)
                // The standbys come first.
                let nodes = cluster.nodes.filter { $0 !== first } + [first]
                let servers = nodes.map { "tcp://127.0.0.1:\($0.port)" }.joined(separator: ",")
                let listened = cluster.directory.file("listened")
                let listener = try ClusterProcess(
                    Self.program("martlet"),
                    ["listen", "--server", servers, "--token", tokens[2]], log: listened)
                defer { listener.signal(SIGKILL) }
                let gatewayLog = cluster.directory.file("gateway")
                let gateway = try ClusterProcess(
                    Self.program("martlet-gateway"),
                    [
                        "--server", servers, "--token", tokens[3], "--line",
                        "plant7-1=tcp://127.0.0.1:1",
                    ], log: gatewayLog)
                defer { gateway.signal(SIGKILL) }
                try cluster.wait("listener") {
                    Self.text(listened).contains("connected as") ? () : nil
                }
                try cluster.wait("gateway") { Self.connections(gatewayLog) > 0 ? () : nil }

                let conversation = try Conversation(
                    servers, Array(tokens.prefix(2)), receivers: ["bob", "listener"])
                for _ in 0..<2 {
                    let former = try cluster.primary(otherThan: nil)
                    try conversation.waitForProgress(cluster)
                    let connections = Self.connections(gatewayLog)
                    former.process?.signal(SIGKILL)
                    _ = try cluster.primary(otherThan: former)
                    try conversation.waitForProgress(cluster)
                    try cluster.wait("gateway") {
                        Self.connections(gatewayLog) > connections ? () : nil
                    }
                    try cluster.startEnded()
                    try cluster.wait("three nodes") {
                        cluster.nodes.allSatisfy {
                            [200, 503].contains(TestCluster.get($0.webPort, "/readyz").status)
                        } ? () : nil
                    }
                }
                let sent = conversation.stop()
                try cluster.wait("delivery to the SDK") {
                    sent.isSubset(of: conversation.received) ? () : nil
                }
                try cluster.wait("delivery to the listener") {
                    sent.isSubset(of: Conversation.numbers(in: Self.text(listened))) ? () : nil
                }
                #expect(conversation.doubledCount == 0)
                #expect(sent.count > 100)
                let last = try ClusterProcess(
                    Self.program("martlet"),
                    [
                        "send", "--server", servers, "--token", tokens[0], "--to", "listener",
                        "last",
                    ],
                    log: cluster.directory.file("sent"))
                #expect(try last.waitForEnd() == 0, "\(Self.text(cluster.directory.file("sent")))")
            }
        }

        private static func program(_ name: String) -> String {
            URL(filePath: TestCluster.program).deletingLastPathComponent().appending(path: name)
                .path
        }

        private static func text(_ path: String) -> String {
            (try? String(contentsOfFile: path, encoding: .utf8)) ?? ""
        }

        private static func connections(_ log: String) -> Int {
            text(log).components(separatedBy: "event=broker_connected").count - 1
        }
    }
}

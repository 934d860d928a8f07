// What operators see when the stream of a cluster was deleted, and what they do then.

import Administration
import Foundation
import TestSurroundings
import Testing

extension ClusterTests {
    @Suite(
        .serialized, .timeLimit(.minutes(20)),
        .enabled(if: NATSServers.isInstalled, "nats-server cannot be installed from PyPI"))
    struct LostLogTests {
        @Test func `a deleted stream is named, and the primary's copy founds another cluster`()
            async throws
        {
            try await onThread {
                let cluster = try TestCluster()
                let primary = try cluster.primary(otherThan: nil)
                try cluster.createApp(on: primary)
                for user in ["alice", "bob"] {
                    try cluster.administer(primary, AddUser(app: "demo", user: user))
                }
                for text in ["one", "two"] {
                    try cluster.administer(
                        primary, SendMessage(app: "demo", from: "alice", users: ["bob"], b: text))
                }
                for node in cluster.nodes where node !== primary {
                    try cluster.wait("standby \(node.name)") {
                        let log = try String(contentsOfFile: node.log, encoding: .utf8)
                        return log.contains("event=cluster_standby") ? () : nil
                    }
                }
                // JSStreamNotFoundErr of the server.
                try cluster.administerStream("DELETE", done: "10059")
                for node in cluster.nodes {
                    let socket = "\(node.data)/\(ClusterLine.socketName)"
                    try cluster.wait("alarm of \(node.name)") {
                        // A node that has just been started has no socket yet.
                        let shown = try? AdministrationClient(socketPath: socket)
                            .send(ShowCluster())
                        let alarms = shown?.alarms ?? []
                        return alarms.contains { $0.contains(Self.sentence) } ? () : nil
                    }
                    try cluster.wait("line of \(node.name)") {
                        let log = try String(contentsOfFile: node.log, encoding: .utf8)
                        return log.contains(Self.sentence) ? () : nil
                    }
                    // The lease may last for another moment.
                    try cluster.wait("end of service of \(node.name)") {
                        TestCluster.get(node.webPort, "/readyz").status == 503 ? () : nil
                    }
                    #expect(node.process?.hasEnded == false, "\(cluster.logs)")
                }
                let refused = #expect(throws: (any Error).self) {
                    try AdministrationClient(dataDirectory: primary.data).send(StepDown())
                }
                #expect("\(String(describing: refused))".contains(Self.sentence))

                // As cluster.md says.
                let copy = cluster.directory.file("copy")
                let restored = cluster.directory.file("restored")
                func run(_ arguments: String...) throws -> Int32 {
                    try ClusterProcess(
                        TestCluster.program, arguments, log: cluster.directory.file("commands.log")
                    ).waitForEnd()
                }
                #expect(try run("--config", primary.configuration, "--copy-node", copy) == 0)
                for node in cluster.nodes { node.process?.signal(SIGTERM) }
                for node in cluster.nodes { _ = try node.process?.waitForEnd() }
                #expect(
                    try run(
                        "--config", primary.configuration, "--restore", copy, "--data", restored)
                        == 0)
                let settings = try String(contentsOfFile: primary.configuration, encoding: .utf8)
                    .replacing("\"\(primary.data)\"", with: "\"\(restored)\"")
                    .replacing("cluster: {", with: "cluster: { stream: \"second\",")
                try settings.write(
                    toFile: primary.configuration, atomically: true, encoding: .utf8)
                // As at the first founding, the servers may elect their leaders.
                try cluster.wait("second cluster") {
                    try run("--config", primary.configuration, "--found-cluster") == 0 ? () : nil
                }
                try cluster.start(primary)
                try cluster.wait("primary of the second cluster") {
                    TestCluster.get(primary.webPort, "/readyz").status == 200 ? () : nil
                }
                let waiting = try cluster.administer(
                    primary, in: restored, ShowOfflineQueue(app: "demo", user: "bob"))
                #expect(waiting.messageCount == 2)
            }
        }

        private static let sentence = "the stream of the log does not exist"
    }
}

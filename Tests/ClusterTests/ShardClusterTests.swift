// A cluster whose nodes have two shards: each shard has a primary of its own, is handed over alone,
// and does not notice the death of the node that leads the other one.

import Administration
import Foundation
import TestSurroundings
import Testing

extension ClusterTests {
    @Suite(
        .serialized, .timeLimit(.minutes(20)),
        .enabled(if: NATSServers.isInstalled, "nats-server cannot be installed from PyPI"),
        .enabled(if: ClusterClients.isInstalled, "python3-paho-mqtt is not installed"))
    struct ShardClusterTests {
        private static let settings = #"shards: [{ name: "north", apps: ["plant"] }],"#

        @Test func `a shard moves alone, and the death of its primary disturbs no other`()
            async throws
        {
            try await onThread {
                let cluster = try TestCluster(settings: Self.settings)
                let first = try leader(of: "default", in: cluster)
                try cluster.createApp(on: first)
                var north = try leader(of: "north", in: cluster)
                try cluster.administer(north, CreateApp(app: "plant"))
                let tokens = try cluster.administer(
                    north, MintTokens(app: "plant", users: ["alice", "bob"])
                ).tokens.map(\.token)
                let servers = cluster.nodes.map { "tcp://127.0.0.1:\($0.port)" }
                    .joined(separator: ",")
                let conversation = try Conversation(
                    servers, tokens, receivers: ["bob"], grades: [.durable, .once])
                let clients = try ClusterClients(
                    cluster, group: cluster.createGroup(owner: "owner", on: first))
                try conversation.waitForProgress(cluster)
                try clients.waitForProgress(cluster)

                // The shards have their primaries on two nodes.
                if north === first { north = try handOver("north", from: north, in: cluster) }
                #expect(north !== first && first.process?.hasEnded == false)
                try conversation.waitForProgress(cluster)
                try checkRefusals(on: first, of: north, token: tokens[0], in: cluster)

                _ = try clients.takePause()
                north.process?.signal(SIGKILL)
                let next = try leader(of: "north", in: cluster, otherThan: north)
                try conversation.waitForProgress(cluster)
                let pause = try clients.takePause()
                #expect(try leader(of: "default", in: cluster) === first)
                // A takeover of it would last for longer than the lease.
                #expect(
                    pause < cluster.leaseMilliseconds, "the other shard paused for \(pause) ms")
                try cluster.startEnded()
                try handOverWithoutWill(from: next, tokens, in: cluster)
                try conversation.waitForProgress(cluster)
                try clients.waitForProgress(cluster)

                // The primary of the default shard dies, whatever else it leads.
                first.process?.signal(SIGKILL)
                _ = try leader(of: "default", in: cluster, otherThan: first)
                _ = try leader(of: "north", in: cluster, otherThan: first)
                try conversation.waitForProgress(cluster)
                try clients.waitForProgress(cluster)
                try finish(conversation, clients, in: cluster)
            }
        }

        @Test func `a stream of another cluster for one shard prevents the start`() async throws {
            try await onThread {
                let cluster = try TestCluster(settings: Self.settings)
                _ = try leader(of: "default", in: cluster)
                let node = try standby(in: cluster) { $0.sequence > 0 }
                node.process?.signal(SIGTERM)
                _ = try node.process?.waitForEnd()
                // A store of another shard, which is one of another cluster.
                let files = FileManager.default
                let folder = "\(node.data)/shards/north"
                try files.removeItem(atPath: "\(folder)/data.mdb")
                try files.copyItem(atPath: "\(node.data)/data.mdb", toPath: "\(folder)/data.mdb")
                try cluster.start(node)
                let code = try node.process?.waitForEnd()
                #expect(code == 4, "\(cluster.logs)")
                let log = try String(contentsOfFile: node.log, encoding: .utf8)
                #expect(
                    log.split(separator: "\n").contains {
                        $0.contains("event=cluster_fenced")
                            && $0.contains("node=\(node.name)/north")
                    }, "\(cluster.logs)")
            }
        }

        @Test func `a node with other shards is refused, or no app is created beside it`()
            async throws
        {
            try await onThread {
                let cluster = try TestCluster(settings: Self.settings)
                let north = try leader(of: "north", in: cluster)
                try cluster.administer(north, CreateApp(app: "plant"))
                let shown = try clusterAdmin(north).send(ShowCluster()).shards
                let leading = try #require(shown?.first { $0.name == "north" })
                let last = leading.sequence + leading.lagRecords
                let node = try standby(in: cluster) { $0.name != "north" || $0.sequence >= last }
                node.process?.signal(SIGTERM)
                _ = try node.process?.waitForEnd()
                func configure(_ apps: String) throws {
                    let text = try String(contentsOfFile: node.configuration, encoding: .utf8)
                    let changed = text.replacing(/apps: \[[^\]]*\]/, with: "apps: [\(apps)]")
                    try Data(changed.utf8).write(to: URL(filePath: node.configuration))
                }
                // Its store has the app in the shard north.
                try configure(#""home""#)
                try cluster.start(node)
                #expect(try node.process?.waitForEnd() == 1, "\(cluster.logs)")
                let log = try String(contentsOfFile: node.log, encoding: .utf8)
                #expect(log.contains("an app cannot be moved"), "\(cluster.logs)")
                // An app that nobody has yet.
                try configure(#""plant", "home""#)
                try cluster.start(node)
                let first = try leader(of: "default", in: cluster)
                let alarm = "the node \(node.name) has other \"shards\" than this one"
                try cluster.wait("alarm") {
                    let alarms = try clusterAdmin(first).send(ShowCluster()).alarms
                    return alarms.contains { $0.hasPrefix(alarm) } ? () : nil
                }
                do {
                    try cluster.administer(first, CreateApp(app: "home"))
                    Issue.record("the app is created in a shard on which the nodes do not agree")
                } catch AdministrationError.refused(let refusal) {
                    #expect(refusal.message.contains("has other \"shards\""), "\(refusal)")
                }
                node.process?.signal(SIGTERM)
                _ = try node.process?.waitForEnd()
                try configure(#""plant""#)
                try cluster.start(node)
                try cluster.wait("app") {
                    (try? admin(leader(of: "default", in: cluster)).send(CreateApp(app: "home")))
                        .map { _ in }
                }
            }
        }

        // MARK: -

        private func admin(_ node: TestCluster.Node) throws -> AdministrationClient {
            try AdministrationClient(dataDirectory: node.data)
        }

        private func clusterAdmin(_ node: TestCluster.Node) throws -> AdministrationClient {
            try AdministrationClient(socketPath: "\(node.data)/\(ClusterLine.socketName)")
        }

        /// The node that serves a shard.
        private func leader(
            of shard: String, in cluster: TestCluster, otherThan former: TestCluster.Node? = nil
        ) throws -> TestCluster.Node {
            try cluster.wait("primary of \(shard)") {
                cluster.nodes.first { node in
                    guard node !== former, node.process?.hasEnded == false,
                        let shown = try? clusterAdmin(node).send(ShowCluster()).shards
                    else { return false }
                    return shown.contains {
                        $0.name == shard && $0.part == "primary" && $0.hasLease
                    }
                }
            }
        }

        /// A node that is a standby of all shards, each of which is as wanted.
        private func standby(
            in cluster: TestCluster, where isWanted: (ShowCluster.Shard) -> Bool
        ) throws -> TestCluster.Node {
            try cluster.wait("a standby of all shards") {
                cluster.nodes.last { node in
                    guard let shown = try? clusterAdmin(node).send(ShowCluster()).shards
                    else { return false }
                    return shown.allSatisfy { $0.part == "standby" && isWanted($0) }
                }
            }
        }

        /// Makes another node the primary of a shard, and returns it.
        private func handOver(
            _ shard: String, from node: TestCluster.Node, in cluster: TestCluster
        ) throws -> TestCluster.Node {
            // It is refused before a standby was heard.
            try cluster.wait("hand-over") {
                (try? clusterAdmin(node).send(StepDown(shard: shard))).map { _ in }
            }
            let start = Date()
            let next = try leader(of: shard, in: cluster, otherThan: node)
            let seconds = Date().timeIntervalSince(start)
            print("\(shard) moved from \(node.name) to \(next.name) in \(seconds) s")
            // Nobody waits for the end of the lease.
            #expect(1_000 * seconds < Double(cluster.leaseMilliseconds))
            #expect(node.process?.hasEnded == false, "\(cluster.logs)")
            return next
        }

        /// A hand-over ends no session: a device that connects again has sent no will.
        private func handOverWithoutWill(
            from node: TestCluster.Node, _ tokens: [String], in cluster: TestCluster
        ) throws {
            let (watcher, device) = (try RawConnection(node.port), try RawConnection(node.port))
            #expect(try watcher.logIn("watcher", tokens[0]) == [0x20, 2, 0, 0])
            try watcher.send([0x82, 12, 0, 1, 0, 7] + Array("wills/#".utf8) + [1])
            #expect(watcher.receive(5) == [0x90, 3, 0, 1, 1])
            #expect(try device.logIn("device", tokens[1], will: "wills/x") == [0x20, 2, 0, 0])

            let next = try handOver("north", from: node, in: cluster)
            #expect(watcher.receive(1) == [] && device.receive(1) == [])
            func logInAgain(
                _ client: String, _ token: String, will: String?
            ) throws -> RawConnection {
                // The core may still be restored.
                try cluster.wait("login at the new primary") {
                    let connection = try RawConnection(next.port)
                    let answer = try connection.logIn(client, token, will: will)
                    return answer == [0x20, 2, 1, 0] ? connection : nil
                }
            }
            let returned = try logInAgain("device", tokens[1], will: "wills/x")
            try returned.send([0x32, 12, 0, 7] + Array("wills/y".utf8) + [0, 1, 0x79])
            #expect(returned.receive(4) == [0x40, 2, 0, 1])
            let heard = try logInAgain("watcher", tokens[0], will: nil)
            // Messages of a topic come in the order in which they were sent.
            #expect(heard.receive(9).suffix(5) == Array("wills".utf8))
            #expect(heard.receive(2) == Array("/y".utf8))
        }

        /// What a node answers about a shard whose primary is another one.
        private func checkRefusals(
            on node: TestCluster.Node, of primary: TestCluster.Node, token: String,
            in cluster: TestCluster
        ) throws {
            let address = Array("127.0.0.1:\(primary.port)".utf8)
            func connect(_ password: String, level: UInt8 = 5) -> [UInt8] {
                let body =
                    [0, 4] + Array("MQTT".utf8) + [level, 0xC2, 0, 60] + (level == 5 ? [0] : [])
                    + [0, 1, 0x77, 0, 1, 0x78, 0, UInt8(password.utf8.count)] + Array(password.utf8)
                return TestCluster.exchange(node.port, [0x10, UInt8(body.count)] + body)
            }
            try cluster.wait("redirection to the new primary") {
                let answer = connect(token)
                return answer.starts(with: [0x20]) && answer.dropFirst(3).first == 0x9C
                    && answer.suffix(address.count).elementsEqual(address) ? () : nil
            }
            #expect(connect(token, level: 4) == [0x20, 2, 0, 3])
            // One that nobody knows does not wander.
            let last = token.last == "k" ? "m" : "k"
            try cluster.wait("refusal of a wrong token") {
                [0x86, 0x87].contains(connect(token.dropLast() + last).dropFirst(3).first)
                    ? () : nil
            }
            do {
                _ = try admin(node).send(ListUsers(app: "plant"))
                Issue.record("a standby lists users")
            } catch AdministrationError.refused(let refusal) {
                #expect(refusal.message.contains("127.0.0.1:\(primary.webPort)"), "\(refusal)")
            }
            // It redirects before its threads for the shard have ended.
            try cluster.wait("statistics of the primary of one shard") {
                let shards = try admin(node).send(ReadStatistics()).shards ?? []
                let leads = shards.map { shard in
                    shard.counters.first { $0.name == "cluster/leads" }?.value
                }
                return leads == [1, 0] ? () : nil
            }
            let listed = try cluster.administer(node, ListApps())
            #expect(listed.apps.map(\.app) == ["demo"] && listed.missingShards == ["north"])
            let answer = TestCluster.get(node.webPort, "/api/v1/apps/plant/users")
            #expect(answer.status == 307, "\(answer)")
            #expect(
                answer.text.contains(
                    "Location: http://127.0.0.1:\(primary.webPort)/api/v1/apps/plant/users\r\n"))
            #expect(TestCluster.get(node.webPort, "/readyz").status == 200)
            try checkAlerts(on: node, in: cluster)
        }

        /// The node has the metrics that the alert rules use.
        private func checkAlerts(on node: TestCluster.Node, in cluster: TestCluster) throws {
            let rules = URL(filePath: #filePath).deletingLastPathComponent()
                .deletingLastPathComponent().deletingLastPathComponent()
                .appending(path: "docs/operating/prometheus/alerts.yml")
            let used = try String(contentsOf: rules, encoding: .utf8)
                .matches(of: #/martlet_(shard_)?cluster_\w+/#).map(\.output.0)
            #expect(used.count > 10)
            for name in used {
                // The servers tell the size of the log each five seconds, if they are not busy.
                try cluster.wait("metric \(name)") {
                    let metrics = TestCluster.metrics(node.webPort)
                    return metrics.contains("\n\(name) ") || metrics.contains("\n\(name){")
                        ? () : nil
                }
            }
        }

        private func finish(
            _ conversation: Conversation, _ clients: ClusterClients, in cluster: TestCluster
        ) throws {
            let sent = conversation.stop()
            try cluster.wait("delivery over MRT") {
                sent.isSubset(of: conversation.received) ? () : nil
            }
            #expect(conversation.doubledCount == 0)
            let result = try clients.stop()
            print("MRT: \(sent.count) acknowledged; MQTT: \(result)")
            #expect(result.lost == 0 && result.doubledOnce == 0, "\(result)\n\(cluster.logs)")
            #expect(result.lostWills == 0 && result.lostRetained == 0, "\(result)")
        }
    }
}

extension RawConnection {
    /// Logs in with MQTT 3.1.1 and a session that stays. Returns what was answered.
    fileprivate func logIn(
        _ client: String, _ token: String, will topic: String? = nil
    ) throws -> [UInt8] {
        func field(_ text: String) -> [UInt8] { [0, UInt8(text.utf8.count)] + Array(text.utf8) }
        let will = topic.map { field($0) + field("gone") } ?? []
        let body =
            field("MQTT") + [4, topic == nil ? 0xC0 : 0xCC, 0, 60] + field(client) + will
            + field("x") + field(token)
        try send([0x10, UInt8(body.count)] + body)
        return receive(4)
    }
}

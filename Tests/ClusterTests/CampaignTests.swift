// Real brokers and servers are killed and stopped, links are cut and disks are full while clients
// publish. What was acknowledged is delivered, what is to be delivered once is delivered once, and
// every store is what the log makes of an empty one.
//
// MARTLET_CLUSTER_ROUNDS=20 makes all faults twenty times, in another order each time
// (`make cluster-test`).

import Administration
import Foundation
import MartletClient
import TestSurroundings
import Testing

extension ClusterTests {
    @Suite(
        .serialized, .timeLimit(.minutes(600)),
        .enabled(if: NATSServers.isInstalled, "nats-server cannot be installed from PyPI"),
        .enabled(if: ClusterClients.isInstalled, "python3-paho-mqtt is not installed"))
    struct CampaignTests {
        @Test func `nothing acknowledged is lost, whoever dies`() async throws {
            try await onThread {
                let rounds = ProcessInfo.processInfo.environment["MARTLET_CLUSTER_ROUNDS"]
                    .flatMap { Int($0) }
                let cluster = try TestCluster(
                    hasFaults: true,
                    leaseMilliseconds: rounds == nil ? TestCluster.longLeaseMilliseconds : 2_000)
                let first = try cluster.primary(otherThan: nil)
                try cluster.createApp(on: first)
                let conversation = try Self.conversation(cluster, first)
                let clients = try ClusterClients(
                    cluster, group: cluster.createGroup(owner: "owner", on: first))
                try clients.connectMortal("cut")
                try clients.cut("cut")
                let scene = CampaignScene(cluster: cluster, clients: clients)
                var pauses: [CampaignFault: [Int]] = [:]
                for round in 0..<(rounds ?? 1) {
                    var faults =
                        rounds == nil ? CampaignFault.usual : CampaignFault.allCases.shuffled()
                    faults.removeAll { !$0.isPossible(in: cluster) }
                    for fault in faults {
                        // A will of the first primary that is killed is sent after the grace, which
                        // passes during the other faults.
                        if fault == .primaryKilled { try clients.connectMortal("mortal-\(round)") }
                        _ = try clients.takePause()
                        try scene.make(fault)
                        let pause = try clients.takePause()
                        pauses[fault, default: []].append(pause)
                        if let bound = fault.bound(in: cluster, isCampaign: rounds != nil) {
                            #expect(
                                Double(pause) < bound, "\(fault) in round \(round): \(pause) ms")
                        }
                        try settle(cluster, clients)
                        if rounds != nil { print("round \(round), \(fault): \(pause) ms") }
                    }
                }
                let faultCount = pauses.values.reduce(0) { $0 + $1.count }
                for (fault, list) in pauses.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
                    let sorted = list.sorted()
                    print("\(fault): \(list.count), ms \(sorted[0]) to \(sorted[sorted.count - 1])")
                }
                try finish(conversation, in: cluster)
                let result = try clients.stop()
                conversation.close()
                print("\(faultCount) faults, \(result)")
                #expect(result.lostWills == 0 && result.lostRetained == 0, "\(result)")
                #expect(result.lost == 0 && result.doubledOnce == 0, "\(result)\n\(cluster.logs)")
                #expect(result.acknowledged > 100 * faultCount)
                try compareStores(cluster)
            }
        }

        /// Clients of MRT beside those of MQTT: durable messages, and those that come once.
        private static func conversation(
            _ cluster: TestCluster, _ primary: TestCluster.Node
        ) throws -> Conversation {
            let tokens = try cluster.mintTokens("alice", "bob", on: primary)
            let servers = cluster.nodes.map { "tcp://127.0.0.1:\($0.port)" }.joined(separator: ",")
            return try Conversation(
                servers, tokens, receivers: ["bob"], grades: [.durable, .once])
        }

        private func finish(_ conversation: Conversation, in cluster: TestCluster) throws {
            // A node that takes connections and says nothing costs an attempt of 15 s, so that some
            // faults pass without these clients.
            try conversation.waitForProgress(cluster)
            let sent = conversation.stop()
            try cluster.wait("delivery over MRT") {
                sent.isSubset(of: conversation.received) ? () : nil
            }
            print("MRT: \(sent.count) acknowledged, \(conversation.doubledCount) doubled")
            #expect(conversation.doubledCount == 0)
        }

        /// Three nodes again, and three servers with all records.
        private func settle(_ cluster: TestCluster, _ clients: ClusterClients) throws {
            try cluster.wait("three nodes") {
                // One that was killed in this moment is found to have ended later.
                try cluster.startEnded()
                let ready = cluster.nodes.filter {
                    [200, 503].contains(TestCluster.get($0.webPort, "/readyz").status)
                }
                return ready.count == cluster.nodes.count ? () : nil
            }
            try clients.waitForProgress(cluster)
        }

        /// Compares the stores of all nodes, which have their rows from times as primaries and as
        /// standbys. If the log has all its records, a node without a store makes one from it
        /// alone.
        private func compareStores(_ cluster: TestCluster) throws {
            let primary = try cluster.primary(otherThan: nil)
            // The ends of the connections change rows too. The user comes after them, so that
            // only heartbeats follow it.
            try cluster.wait("end of all connections") {
                let counters = try cluster.administer(primary, ReadStatistics()).counters
                let isOver = counters.contains { $0.name == "clients/connected" && $0.value == 0 }
                return isOver ? () : nil
            }
            try cluster.administer(primary, AddUser(app: "demo", user: "last"))
            let shown = try show(primary).nodes[0]
            let last = shown.sequence + shown.lagRecords
            var nodes = cluster.nodes
            if try show(primary).firstRecord == 1 {
                let witness = try cluster.makeWitness()
                try cluster.start(witness)
                nodes.append(witness)
            }
            try cluster.wait("stores with all records", seconds: 120) {
                let present = try show(primary).nodes.filter { $0.heardMilliseconds < 2_000 }
                return present.count == nodes.count && present.allSatisfy { $0.sequence >= last }
                    ? () : nil
            }
            for node in nodes where node !== primary {
                node.process?.signal(SIGTERM)
                #expect(try node.process?.waitForEnd() == 0, "\(cluster.logs)")
            }
            primary.process?.signal(SIGKILL)
            _ = try primary.process?.waitForEnd()
            let rows = try StoreRows(directory: primary.data)
            for node in nodes {
                let check = try ClusterProcess(
                    TestCluster.program, ["--verify-store", "--data", node.data], log: node.log)
                #expect(try check.waitForEnd() == 0, "\(cluster.logs)")
                let own = try StoreRows(directory: node.data)
                #expect(own == rows, "\(node.name) \(own.counts), \(primary.name) \(rows.counts)")
            }
            print("\(nodes.count) stores with the same rows: \(rows.counts)")
        }

        private func show(_ node: TestCluster.Node) throws -> ShowCluster.Reply {
            try AdministrationClient(socketPath: "\(node.data)/\(ClusterLine.socketName)")
                .send(ShowCluster())
        }
    }
}

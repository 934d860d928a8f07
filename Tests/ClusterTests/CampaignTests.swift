// Real brokers and servers are killed and stopped while clients publish. What was acknowledged is
// delivered, and what is to be delivered once is delivered once.
//
// MARTLET_CLUSTER_ROUNDS=20 runs the events twenty times, in another order each time
// (`make cluster-test`).

import Foundation
import TestSurroundings
import Testing

@Suite(
    .serialized, .timeLimit(.minutes(600)),
    .enabled(if: NATSServers.isInstalled, "nats-server cannot be installed from PyPI"),
    .enabled(if: ClusterClients.isInstalled, "python3-paho-mqtt is not installed"))
struct CampaignTests {
    /// What happens to a cluster, with the seconds until service has to be there again.
    private enum Fault: CaseIterable {
        case primaryKilled, primaryStopped, primaryTerminated, serverKilled, serverStopped
        case standbyKilled, primaryAndServerKilled

        var seconds: Double {
            switch self {
            case .primaryTerminated, .standbyKilled: 2
            // Clients notice a stopped peer by their keep-alive of 5 s.
            case .primaryStopped: 12
            case .primaryKilled: 5
            case .serverKilled, .serverStopped, .primaryAndServerKilled: 12
            }
        }
    }

    @Test func `nothing acknowledged is lost, whoever dies`() async throws {
        try await onThread {
            let cluster = try TestCluster()
            let first = try cluster.primary(otherThan: nil)
            try TestCluster.createApp(on: first)
            let clients = try ClusterClients(
                cluster, group: TestCluster.createGroup(owner: "owner", on: first))
            try clients.connectMortal("cut")
            try clients.cut("cut")
            let rounds = ProcessInfo.processInfo.environment["MARTLET_CLUSTER_ROUNDS"]
                .flatMap { Int($0) }
            var faultCount = 0
            var longest: [String: Int] = [:]
            for round in 0..<(rounds ?? 1) {
                var faults = Fault.allCases
                if rounds != nil { faults.shuffle() }
                for fault in faults {
                    // A will of the first primary that is killed is sent after the grace, which
                    // passes during the other faults.
                    let mortal = "mortal-\(round)"
                    if fault == .primaryKilled { try clients.connectMortal(mortal) }
                    _ = try clients.takePause()
                    try make(fault, cluster, clients)
                    let pause = try clients.takePause()
                    longest["\(fault)"] = max(longest["\(fault)"] ?? 0, pause)
                    faultCount += 1
                    let bound = fault.seconds * 1_000 * Double(Sanitizer.patience)
                    #expect(Double(pause) < bound, "\(fault) in round \(round): \(pause) ms")
                    try settle(cluster, clients)
                }
            }
            let result = try clients.stop()
            print("\(faultCount) faults, pauses in ms: \(longest), \(result)")
            #expect(result.lostWills == 0 && result.lostRetained == 0, "\(result)")
            #expect(result.lost == 0 && result.doubledOnce == 0, "\(result)\n\(cluster.logs)")
            #expect(result.acknowledged > 100 * faultCount)
            try endInOrder(cluster)
        }
    }

    private func make(
        _ fault: Fault, _ cluster: TestCluster, _ clients: ClusterClients
    ) throws {
        let primary = try cluster.primary(otherThan: nil)
        let process = try #require(primary.process)
        let server = Int.random(in: 0..<3)
        switch fault {
        case .primaryKilled:
            process.signal(SIGKILL)
            _ = try cluster.primary(otherThan: primary)
        case .primaryTerminated:
            process.signal(SIGTERM)
            #expect(try process.waitForEnd() == 0)
        case .primaryStopped:
            process.signal(SIGSTOP)
            _ = try cluster.primary(otherThan: primary)
            try clients.waitForProgress(cluster)
            process.signal(SIGCONT)
            // It finds another primary, and ends to begin again as a standby.
            #expect(try process.waitForEnd() == 8)
        case .standbyKilled:
            cluster.nodes.first { $0 !== primary }?.process?.signal(SIGKILL)
        case .serverKilled:
            cluster.servers.kill(server)
            try clients.waitForProgress(cluster)
            try cluster.servers.start(server)
        case .serverStopped:
            cluster.servers.signal(server, SIGSTOP)
            try clients.waitForProgress(cluster)
            cluster.servers.signal(server, SIGCONT)
        case .primaryAndServerKilled:
            process.signal(SIGKILL)
            cluster.servers.kill(server)
            _ = try cluster.primary(otherThan: primary)
            try clients.waitForProgress(cluster)
            try cluster.servers.start(server)
        }
        try clients.waitForProgress(cluster)
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

    /// Stops all nodes, and checks every record of their stores.
    private func endInOrder(_ cluster: TestCluster) throws {
        for node in cluster.nodes { node.process?.signal(SIGTERM) }
        for node in cluster.nodes {
            #expect(try node.process?.waitForEnd() == 0, "\(cluster.logs)")
            let check = try ClusterProcess(
                TestCluster.program, ["--verify-store", "--data", node.data], log: node.log)
            #expect(try check.waitForEnd() == 0, "\(cluster.logs)")
        }
    }
}

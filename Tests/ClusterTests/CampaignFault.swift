// What happens to a cluster in a campaign, and how it is made.

import Foundation
import TestSurroundings
import Testing

/// A fault, or two at once.
enum CampaignFault: String, CaseIterable {
    case primaryKilled, primaryStopped, primaryTerminated, serverKilled, serverStopped
    case standbyKilled, primaryAndServerKilled
    case primaryAndServerStopped, standbysStopped, serversStopped, serversKilled
    case primaryCut, primaryLinkCut, serverCut, serversCut, standbyCut
    case serverDiskFull, serverDisksFull, primaryDiskFull

    /// Those of a run that is no campaign: one of each kind.
    static let usual: [CampaignFault] = [
        .primaryKilled, .primaryCut, .primaryTerminated, .serverKilled, .serverDiskFull,
        .standbyKilled, .primaryAndServerKilled,
    ]

    /// Seconds until there are acknowledgements again, with a lease of 2 s; nil where there are
    /// none while the fault lasts.
    var seconds: Double? {
        switch self {
        case .standbyKilled, .standbysStopped, .standbyCut, .primaryDiskFull: 2
        // The servers may still elect a leader after the fault before.
        case .primaryTerminated: 4
        // Clients notice a stopped peer by their keep-alive of 5 s.
        case .primaryStopped, .primaryAndServerStopped, .primaryCut: 14
        case .primaryKilled: 5
        case .serverKilled, .serverStopped, .primaryAndServerKilled, .serverDiskFull: 12
        // An isolated leader of the stream goes on for some seconds, and a node that waits for a
        // server that it does not reach looks for another one.
        case .serverCut, .primaryLinkCut: 20
        case .serversStopped, .serversKilled, .serversCut, .serverDisksFull: nil
        }
    }

    /// Whether another node becomes the primary when the lease has ended.
    private var waitsForLease: Bool {
        switch self {
        case .primaryKilled, .primaryStopped, .primaryCut, .primaryAndServerKilled,
            .primaryAndServerStopped:
            true
        default: false
        }
    }

    /// Milliseconds without acknowledgements that are too many; nil where there is no bound.
    ///
    /// - Parameter isCampaign: whether the machine has nothing else to do. Another one may pause
    ///   programs for seconds: half a lease is added for that.
    func bound(in cluster: TestCluster, isCampaign: Bool) -> Double? {
        guard let seconds else { return nil }
        let usual = seconds * 1_000 * Double(Sanitizer.patience)
        if isCampaign { return usual }
        // A primary that is told to stop hands over: a takeover at the end of its lease would come
        // after a lease and a quarter.
        if self == .primaryTerminated { return Double(cluster.leaseMilliseconds) * 1.2 }
        let pause = Double(cluster.leaseMilliseconds) / 2
        // A standby takes over a quarter of the lease after its end.
        let lease = waitsForLease ? Double(cluster.leaseMilliseconds) * 1.25 : 0
        return usual + pause + lease
    }

    func isPossible(in cluster: TestCluster) -> Bool {
        switch self {
        case .serverDiskFull, .serverDisksFull: cluster.disks != nil
        case .primaryDiskFull: cluster.hasNodeDisks
        default: true
        }
    }
}

/// A cluster with its clients, to which faults are made.
struct CampaignScene {
    let cluster: TestCluster
    let clients: ClusterClients

    /// Makes a fault, and waits until there are acknowledgements again.
    func make(_ fault: CampaignFault) throws {
        let primary = try cluster.primary(otherThan: nil)
        let process = try #require(primary.process)
        let standbys = cluster.nodes.filter { $0 !== primary }
        let server = Int.random(in: 0..<3)
        let others = (0..<3).filter { $0 != server }
        switch fault {
        case .primaryKilled:
            process.signal(SIGKILL)
            _ = try cluster.primary(otherThan: primary)
        case .primaryTerminated:
            process.signal(SIGTERM)
            #expect(try process.waitForEnd() == 0)
        case .primaryStopped:
            process.signal(SIGSTOP)
            try waitForSuccessor(of: primary)
            process.signal(SIGCONT)
            try expectDeposed(process)
        case .primaryAndServerStopped:
            process.signal(SIGSTOP)
            cluster.servers.signal(server, SIGSTOP)
            try waitForSuccessor(of: primary)
            process.signal(SIGCONT)
            cluster.servers.signal(server, SIGCONT)
            try expectDeposed(process)
        case .standbyKilled: standbys.first?.process?.signal(SIGKILL)
        case .standbysStopped:
            for standby in standbys { standby.process?.signal(SIGSTOP) }
            try clients.waitForProgress(cluster)
            for standby in standbys { standby.process?.signal(SIGCONT) }
        case .serverKilled:
            cluster.servers.kill(server)
            try clients.waitForProgress(cluster)
            try cluster.servers.start(server)
        case .serverStopped:
            cluster.servers.signal(server, SIGSTOP)
            try clients.waitForProgress(cluster)
            cluster.servers.signal(server, SIGCONT)
        case .serversStopped:
            for server in others { cluster.servers.signal(server, SIGSTOP) }
            try waitForEndOfLease(of: primary)
            for server in others { cluster.servers.signal(server, SIGCONT) }
        case .serversKilled:
            for server in 0..<3 { cluster.servers.kill(server) }
            try waitForEndOfLease(of: primary)
            for server in 0..<3 { try cluster.servers.start(server) }
        case .primaryAndServerKilled:
            process.signal(SIGKILL)
            cluster.servers.kill(server)
            try waitForSuccessor(of: primary)
            try cluster.servers.start(server)
        case .primaryCut, .primaryLinkCut, .serverCut, .serversCut, .standbyCut:
            try cut(fault, primary: primary, server: server)
        case .serverDiskFull, .serverDisksFull, .primaryDiskFull:
            try fillDisks(fault, primary: primary, server: server)
        }
        try clients.waitForProgress(cluster)
    }

    private func cut(
        _ fault: CampaignFault, primary: TestCluster.Node, server: Int
    ) throws {
        let process = try #require(primary.process)
        let links = try #require(cluster.links)
        switch fault {
        case .primaryCut:
            try links.cut(ClusterLinks.ofNode(primary.name))
            try waitForSuccessor(of: primary)
            try links.heal(ClusterLinks.ofNode(primary.name))
            try expectDeposed(process)
        case .primaryLinkCut:
            try links.cut(["\(primary.name)/\(server)"])
            try clients.waitForProgress(cluster)
            try links.heal(["\(primary.name)/\(server)"])
        case .serverCut:
            try links.cut(ClusterLinks.ofServer(server))
            try clients.waitForProgress(cluster)
            try links.heal(ClusterLinks.ofServer(server))
        case .serversCut:
            let all = (0..<3).map { ClusterLinks.between($0, ($0 + 1) % 3) }
            try links.cut(all)
            try waitForEndOfLease(of: primary)
            try links.heal(all)
        default:
            let standby = try #require(cluster.nodes.first { $0 !== primary })
            try links.cut(ClusterLinks.ofNode(standby.name))
            try clients.waitForProgress(cluster)
            try links.heal(ClusterLinks.ofNode(standby.name))
        }
    }

    private func fillDisks(
        _ fault: CampaignFault, primary: TestCluster.Node, server: Int
    ) throws {
        switch fault {
        case .primaryDiskFull:
            // It goes on in the space that its store has, and refuses sends when that is used.
            _ = FileManager.default.createFile(atPath: primary.fullDisk, contents: nil)
            try clients.waitForProgress(cluster)
            unlink(primary.fullDisk)
        case .serverDiskFull:
            try cluster.disks?.fill(server)
            try clients.waitForProgress(cluster)
            cluster.disks?.empty(server)
            // It writes again when it has been started again.
            try restart([server])
        default:
            for server in 0..<3 { try cluster.disks?.fill(server) }
            try waitForEndOfLease(of: primary)
            for server in 0..<3 { cluster.disks?.empty(server) }
            try restart([0, 1, 2])
        }
    }

    private func restart(_ servers: [Int]) throws {
        for server in servers { cluster.servers.kill(server) }
        for server in servers { try cluster.servers.start(server) }
    }

    private func waitForSuccessor(of primary: TestCluster.Node) throws {
        _ = try cluster.primary(otherThan: primary)
        try clients.waitForProgress(cluster)
    }

    /// It finds another primary, and ends to begin again as a standby.
    private func expectDeposed(_ process: ClusterProcess) throws {
        #expect(try process.waitForEnd() == 8)
    }

    private func waitForEndOfLease(of primary: TestCluster.Node) throws {
        try cluster.wait("end of the lease") {
            TestCluster.get(primary.webPort, "/readyz").status == 200 ? nil : ()
        }
    }
}

// What operators are told of a cluster by one of its nodes, and how they make a primary step down:
// for `martlet cluster` and for the HTTP API.

import Administration
import BrokerTerms
import Glibc
import Replication
import Threads

extension ClusterGate {
    /// The node and its cluster, as a view shows them.
    func show(from view: ClusterView) -> ShowCluster.Reply {
        let now = Self.nowMilliseconds
        var nodes = [
            node(
                NamedReport(
                    name: view.own.name, part: view.part, sequence: view.applied,
                    address: view.own.address, webAddress: view.own.webAddress),
                in: view, heardMilliseconds: 0)
        ]
        for (key, peer) in view.peers.sorted(by: { $0.key < $1.key }) {
            nodes.append(
                node(
                    NamedReport(
                        name: key.name, part: peer.report.part, sequence: peer.report.sequence,
                        address: key.address,
                        webAddress: String(decoding: peer.report.webAddress, as: UTF8.self)),
                    in: view, heardMilliseconds: now - min(peer.heardMilliseconds, now)))
        }
        var reply = ShowCluster.Reply(
            nodes: nodes, term: view.term.raw, leaseMilliseconds: view.own.leaseMilliseconds,
            leaseLeftMilliseconds: leaseLeftMilliseconds, durability: view.own.durability)
        reply.servers = (view.log?.servers ?? []).map {
            ShowCluster.Server(
                name: $0.name, isLeader: $0.isLeader, isCurrent: $0.isCurrent, lag: $0.lag)
        }
        reply.alarms = view.alarms(hasLease: reply.hasLease, at: now)
        reply.firstRecord = view.log?.first.raw
        reply.lastRecord = view.log?.last.raw
        reply.logByteCount = view.log?.byteCount
        reply.logByteCountMaximum = view.log?.byteCountMaximum
        return reply
    }

    /// What a row of the reply is made of.
    private struct NamedReport {
        let name: String
        let part: NodeReport.Part
        let sequence: LogSequence
        let address: String
        let webAddress: String
    }

    private func node(
        _ report: NamedReport, in view: ClusterView, heardMilliseconds: UInt64
    ) -> ShowCluster.Node {
        ShowCluster.Node(
            name: report.name, part: "\(report.part)", address: report.address,
            webAddress: report.webAddress, sequence: report.sequence.raw,
            lagRecords: view.received.raw - min(report.sequence.raw, view.received.raw),
            heardMilliseconds: heardMilliseconds)
    }
}

extension ClusterView {
    /// What an operator should look at.
    func alarms(hasLease: Bool, at now: UInt64) -> [String] {
        var alarms: [String] = []
        if part == .primary {
            if !hasLease {
                alarms.append("there is no lease: the log does not answer, and clients wait")
            }
            let standbys = present(at: now).filter { $0.report.part == .standby }
            if standbys.count < 2 {
                alarms.append(
                    "\(standbys.count) of 2 standbys were heard in the last "
                        + "\(ClusterLimits.reportAgeMilliseconds / 1_000) seconds")
            }
            for (name, report) in standbys.sorted(by: { $0.name < $1.name }) {
                let lag = received.raw - min(report.sequence.raw, received.raw)
                if lag > ClusterLimits.stepDownLagMaximum {
                    alarms.append("the standby \(name) lacks \(lag) records")
                }
            }
        } else if primary(at: now) == nil {
            alarms.append("no primary was heard lately")
        }
        if let namesake = present(at: now).first(where: { $0.name == own.name }) {
            let address = String(decoding: namesake.report.address, as: UTF8.self)
            alarms.append("another node, \(address), has the name of this one")
        }
        for name in nodesWithOtherShards(at: now) {
            alarms.append(ClusterView.otherShards(of: name))
        }
        if isTakeoverRefused {
            alarms.append("the log is full: this node cannot take over")
        } else if isLogNearlyFull {
            alarms.append("the log is nearly full: sends are refused")
        }
        guard let log else {
            return alarms
                + [
                    logAnswer == .absent
                        ? ClusterView.absentLog : "no server tells the state of the log"
                ]
        }
        if !log.servers.isEmpty, !log.servers.contains(where: \.isLeader) {
            alarms.append("the log has no leader")
        }
        for server in log.servers where !server.isCurrent {
            alarms.append(
                "the server \(server.name) is not reachable, or lacks \(server.lag) operations")
        }
        if own.durability != "strict" {
            alarms.append(
                "the durability is \(own.durability): a loss of servers can lose messages")
        }
        return alarms
    }
}

extension Locked<ClusterView> {
    /// Stops this broker as SIGTERM does; the exit code makes the service manager start it again.
    func stepDown() throws(AdministrationRefusal) -> StepDown.Reply {
        try checkStepDown()
        withLock { $0.isAskedToStepDown = true }
        kill(getpid(), SIGTERM)
        return StepDown.Reply()
    }

    /// Refuses what would leave the log without a primary.
    func checkStepDown() throws(AdministrationRefusal) {
        let now = ClusterGate.nowMilliseconds
        let refusal: String? = withLock { view in
            guard view.part == .primary else {
                guard let primary = view.primary(at: now) else {
                    return "this node is not the primary, and no primary was heard lately"
                }
                let name = String(decoding: primary.node.name, as: UTF8.self)
                return "this node is not the primary: \(name) is"
            }
            // This process has all that was acknowledged.
            guard view.logAnswer != .absent else { return ClusterView.absentLog }
            let standbys = view.present(at: now).map(\.report).filter { $0.part == .standby }
            guard let best = standbys.map(\.sequence.raw).max() else {
                return "no standby was heard lately: nobody would take over"
            }
            let lag = view.received.raw - min(best, view.received.raw)
            guard lag <= ClusterLimits.stepDownLagMaximum else {
                return "each standby lacks \(lag) records or more: a takeover would wait for them"
            }
            return nil
        }
        if let refusal { throw AdministrationRefusal(.implementationSpecificError, refusal) }
    }
}

// Operations on the cluster of which this broker is the primary.

import Administration
import BrokerTerms
import Threads

extension AdministrationService {
    func showCluster() throws(AdministrationRefusal) -> ShowCluster.Reply {
        if !shardNodes.isEmpty { return shardNodes.show() }
        let (gate, view) = try clusterParts()
        return gate.show(from: view.withLock { $0 })
    }

    func stepDown(_ request: StepDown) throws(AdministrationRefusal) -> StepDown.Reply {
        if !shardNodes.isEmpty { return try shardNodes.stepDown(request) }
        if let shard = request.shard {
            throw AdministrationRefusal(
                .implementationSpecificError,
                "this node has no shards, and so none named \(shard)", cause: .unknown)
        }
        return try clusterParts().view.stepDown()
    }

    /// Refuses a request about an app whose shard another node of the cluster serves.
    func checkPlace(of app: String) throws(AdministrationRefusal) {
        guard shards.elsewhere(app) != nil else {
            // What another node has changed since is not here.
            guard shards.cores.count == 1 || shards[app].gate?.mayEmit ?? true else {
                throw AdministrationRefusal(
                    .serverUnavailable,
                    "this node has no lease for the shard \(shards.name(ofApp: app)) now")
            }
            return
        }
        throw useAnotherServer(for: shards.map.place(ofApp: Array(app.utf8)))
    }

    /// Refuses a new app while nodes do not agree on the shard that is to have it, or if another
    /// shard has one of its name.
    func checkShards(of app: [UInt8]) throws(AdministrationRefusal) {
        let views = shards.cores.compactMap { $0.gate?.view }
        for view in views {
            guard let name = view.withLock({ $0.knownNodeWithOtherShards }) else { continue }
            throw AdministrationRefusal(
                .implementationSpecificError, ClusterView.otherShards(of: name))
        }
        for (other, core) in shards.cores.enumerated() where other != place {
            let shard = shards.map.names[other]
            guard let hasApp = core.hasApp(app) else {
                throw AdministrationRefusal(
                    .serverUnavailable,
                    "the store of the shard \(shard) is closed now, and may have an app of this "
                        + "name: try again")
            }
            guard hasApp else { continue }
            throw AdministrationRefusal(
                .quotaExceeded, "the shard \(shard) has an app of this name", cause: .exists)
        }
    }

    /// The refusal of a request for a shard that another node serves.
    func useAnotherServer(for place: Int) -> AdministrationRefusal {
        let core = shards.cores[place]
        core.countRedirection()
        let primary = core.primaryAddresses
        let address = String(
            decoding: primary.web.isEmpty ? primary.client : primary.web, as: UTF8.self)
        return AdministrationRefusal(
            .useAnotherServer,
            "this node is a standby of the app's shard, \(shards.map.names[place])"
                + (address.isEmpty
                    ? ", and no primary is known" : "; its primary is \(address)"))
    }

    private func clusterParts() throws(AdministrationRefusal) -> (
        gate: ClusterGate, view: Locked<ClusterView>
    ) {
        guard let gate = shared.gate, let view = gate.view else {
            throw AdministrationRefusal(
                .topicNameInvalid, "this broker is no node of a cluster", cause: .unknown)
        }
        return (gate, view)
    }
}

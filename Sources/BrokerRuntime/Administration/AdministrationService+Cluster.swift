// Operations on the cluster of which this broker is the primary.

import Administration
import BrokerTerms
import Threads

extension AdministrationService {
    func showCluster() throws(AdministrationRefusal) -> ShowCluster.Reply {
        let (gate, view) = try clusterParts()
        return gate.show(from: view.withLock { $0 })
    }

    func clusterView() throws(AdministrationRefusal) -> Locked<ClusterView> {
        try clusterParts().view
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

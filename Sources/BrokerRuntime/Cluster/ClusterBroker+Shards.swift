// A node with several shards: one broker with one set of listeners from the start, and for each
// shard a log, a store, and a part in the cluster. The core of a shard whose primary is elsewhere
// is empty.

import Administration
import BrokerTerms
import Configuration
import Credentials
import Glibc
import Threads

extension ClusterBroker {
    /// Serves the shards of a node until a signal requests a stop.
    static func serveShards(
        _ configuration: LoadedConfiguration, version: String, log: LogWriter,
        opener: ClusterLogOpener, until signals: inout Signals,
        fail: @escaping BrokerServer.Failure,
        load: () throws(ConfigurationError) -> LoadedConfiguration
    ) throws(StartError) -> End {
        let settings = configuration.settings
        let map = ShardMap(settings.shards)
        // A store that is missing is copied from another node.
        let layout = ShardLayout(settings, in: settings.dataDirectory)
        try layout.checkNames()
        // Before a listener opens. A store that is copied later is checked when it is opened.
        if settings.store.checksPages { try layout.checkApps() }
        do throws(CredentialError) {
            try PrivateDirectory.ensure(settings.dataDirectory)
        } catch {
            throw .credentials(error)
        }
        try layout.makeFolder()
        let nodes = (0..<map.count).map {
            ShardNode($0, of: map, settings, opener: opener, log: log, fail: fail)
        }
        let server = try BrokerServer(
            settings, version: version, log: log, cluster: nil, shardNodes: nodes, fail: fail)
        let administration = try ClusterAdministration(settings, log: log, fail: fail) {
            nodes.answer($0)
        }
        server.open()
        server.run(until: &signals, configuration: configuration, load: load)
        administration.stop()
        return nodes.contains { $0.view.withLock { $0.isAskedToStepDown } }
            ? .steppedDown : .stopped
    }
}

extension [ShardNode] {
    /// Executes the request in a line and returns the line with its reply.
    func answer(_ line: [UInt8]) -> [UInt8] {
        do throws(AdministrationRefusal) {
            switch try ClusterCommand(line: line) {
            case .show(let request): return request.line(replying: show())
            case .stepDown(let request): return request.line(replying: try stepDown(request))
            }
        } catch {
            return error.line
        }
    }

    /// The default shard as a node without shards is shown, and each shard in short.
    func show() -> ShowCluster.Reply {
        let first = self[0]
        var reply = first.gate.show(from: first.view.withLock { $0 })
        reply.shards = map(\.summary)
        return reply
    }

    /// Hands over one shard, or all that this node leads by a stop of the process.
    func stepDown(_ request: StepDown) throws(AdministrationRefusal) -> StepDown.Reply {
        if let name = request.shard {
            guard let node = first(where: { $0.name == name }) else {
                throw AdministrationRefusal(
                    .implementationSpecificError, "there is no shard \"\(name)\"",
                    cause: .unknown)
            }
            return try node.stepDown()
        }
        let leading = filter { $0.view.withLock { $0.part == .primary } }
        guard let last = leading.last else {
            throw AdministrationRefusal(
                .implementationSpecificError, "this node is the primary of no shard")
        }
        for node in leading { try node.view.checkStepDown() }
        return try last.view.stepDown()
    }
}

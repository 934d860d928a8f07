// A broker that is a node of a cluster, from its start to its end: it waits for its log, is a
// standby, becomes the primary, and serves as one broker does. A primary that another node has
// replaced ends its process, and the next start is that of a standby
// (docs/decisions/0012-cluster-processes.md).

import BrokerCore
import Configuration
import Glibc
import QueueStore
import Replication
import Threads

/// Runs a node.
public enum ClusterBroker {
    /// How it ended.
    public enum End: Sendable {
        /// A signal has stopped it.
        case stopped
        /// An operator has made another node the primary: this one starts again as a standby.
        case steppedDown
    }

    /// Serves until a signal requests a stop.
    ///
    /// - Parameters:
    ///   - opener: nil for a program without a client of the log.
    ///   - fail: ends the process if the node cannot continue.
    ///   - load: reads the configuration again when a signal requests a reload.
    public static func serve(
        _ configuration: LoadedConfiguration, version: String, log: LogWriter,
        opener: ClusterLogOpener?, until signals: inout Signals,
        fail: @escaping BrokerServer.Failure,
        load: () throws(ConfigurationError) -> LoadedConfiguration
    ) throws(StartError) -> End {
        guard let opener else { throw .cluster(ClusterFounding.noClient) }
        let settings = configuration.settings
        guard settings.shards.isEmpty else {
            return try serveShards(
                configuration, version: version, log: log, opener: opener, until: &signals,
                fail: fail, load: load)
        }
        try ShardLayout(settings, in: settings.dataDirectory).checkNames()
        guard
            let node = try wait(
                settings, log: log, opener: opener, until: &signals, fail: fail)
        else { return .stopped }
        let server = try BrokerServer(
            settings, version: version, log: log, cluster: node, fail: fail)
        server.open()
        server.run(until: &signals, configuration: configuration, load: load)
        return node.view.withLock { $0.isAskedToStepDown } ? .steppedDown : .stopped
    }

    /// Is a standby until the node is the primary; nil after a signal.
    private static func wait(
        _ settings: BrokerSettings, log: LogWriter, opener: ClusterLogOpener,
        until signals: inout Signals, fail: @escaping BrokerServer.Failure
    ) throws(StartError) -> ClusterNode? {
        let current = Locked<ClusterNode?>(nil)
        let standby = try StandbyServer(settings, log: log, fail: fail) {
            guard let node = current.withLock({ $0 }) else { return PrimaryAddresses() }
            let primary = node.view.withLock { view in
                view.refusedCount += 1
                return view.primary(at: ClusterGate.nowMilliseconds)
            }
            return PrimaryAddresses(
                client: primary?.address ?? [], web: primary?.webAddress ?? [])
        }
        defer { standby.stop() }
        let notifier = ServiceNotifier()
        notifier.ready()
        var opening = Opening(settings, opener: opener, log: log)
        while true {
            if let node = current.withLock({ $0 }) {
                if node.waitForLead(milliseconds: ClusterLimits.openingMilliseconds / 4) {
                    return node
                }
            } else if let node = try opening.attempt(fail: fail) {
                current.withLock { $0 = node }
                notifier.status("standby")
                try node.start()
                continue
            }
            let isWaiting = current.withLock { $0 == nil }
            let request = signals.wait(
                milliseconds: isWaiting ? Int(ClusterLimits.openingMilliseconds) : 0)
            switch request {
            case .stop:
                log.write(.info, .brokerStopping)
                standby.stop()
                current.withLock { $0 }?.stop()
                opening.end()
                log.write(.info, .brokerStopped)
                return nil
            case .reload:
                do throws(StartError) {
                    try standby.renew(settings)
                } catch {
                    log.write(
                        .error, .configurationRefused, fields: ["detail": .text("\(error)")])
                }
            case .ignored(let name): log.writeIgnored(signal: name)
            case .none: break
            }
            notifier.alive()
        }
    }
}

/// The attempts to open a node's log and store.
struct Opening {
    private let settings: BrokerSettings
    private let opener: ClusterLogOpener
    private let log: LogWriter
    private let signal: WakeSignal
    private let shard: ShardNode?
    private var opened: OpenedLog?
    private var lastLine = ""
    private var nextLineMilliseconds: UInt64 = 0
    /// The attempt to get a copy that runs.
    private var fetch: CopyFetch?
    private var sources = CopySources()
    /// Set while a copy is needed: of the cluster of the store, or of any.
    private var wanted: (cluster: StoreIdentity?, reason: String)?

    /// - Parameter shard: the shard of the settings; nil if the process has one.
    init(
        _ settings: BrokerSettings, opener: ClusterLogOpener, log: LogWriter,
        shard: ShardNode? = nil
    ) {
        self.shard = shard
        signal = shard?.gate.nodeSignal ?? WakeSignal()
        self.settings = settings
        self.opener = opener
        self.log = log
    }

    /// A node; nil if an answer is missing that may come later.
    mutating func attempt(
        fail: @escaping BrokerServer.Failure
    ) throws(StartError) -> ClusterNode? {
        guard let nodeLog = try openedLog(), hasCopy(over: nodeLog) else { return nil }
        let store: Box<LMDBQueueStore>
        switch try ClusterOpening.find(settings, beside: nodeLog, signal: signal) {
        case .store(let found):
            try shard?.checkApps(of: found)
            store = found
        case .waits(let reason):
            tell(reason)
            return nil
        case .needsCopy(let cluster, let reason):
            wanted = (cluster, reason)
            fetch = beginCopy(of: cluster, over: nodeLog)
            return nil
        }
        let node = ClusterNode(
            settings, store: store, log: nodeLog, signal: signal, writer: log, shard: shard,
            fail: fail)
        log.write(
            .info, .clusterStandby,
            fields: [
                "node": .text(node.logName),
                "sequence": .number(node.view.withLock { $0.applied.raw }),
            ])
        return node
    }

    /// Whether no copy is needed, or it is there. Begins another attempt after one that has failed.
    private mutating func hasCopy(over nodeLog: any NodeLog) -> Bool {
        guard let fetch, let wanted else { return true }
        switch fetch.outcome {
        case nil: return false
        case .success:
            fetch.stop()
            self.fetch = nil
            self.wanted = nil
            return true
        case .failure(let failure):
            tell("\(wanted.reason), so a copy of another node's store is needed: \(failure.text)")
            fetch.stop()
            if failure.isOfSource, let source = fetch.source {
                sources.noteFailure(of: source, now: ClusterGate.nowMilliseconds)
            }
            self.fetch = beginCopy(of: wanted.cluster, over: nodeLog)
            return false
        }
    }

    private func beginCopy(of cluster: StoreIdentity?, over nodeLog: any NodeLog) -> CopyFetch {
        CopyFetch(
            settings, named: ClusterNode.logName(settings, shard: shard), of: cluster,
            from: sources, over: nodeLog, log: log)
    }

    /// Ends a log that no node has.
    func end() {
        fetch?.stop()
        opened?.log.stop()
    }

    private mutating func openedLog() throws(StartError) -> (any NodeLog)? {
        if let opened { return opened.log }
        let (signal, log) = (signal, log)
        let node = ClusterNode.logName(settings, shard: shard)
        do throws(ClusterLogError) {
            let opened = try opener.open(
                settings.cluster, false,
                { text, isFault in
                    log.write(
                        isFault ? .warning : .info, isFault ? .clusterWarning : .clusterConnected,
                        fields: ["node": .text(node), "detail": .text(text)])
                },
                { signal.notify() })
            for warning in opened.warnings {
                log.write(
                    .warning, .clusterWarning,
                    fields: ["node": .text(node), "detail": .text(warning)])
            }
            self.opened = opened
            return opened.log
        } catch {
            guard error.isTemporary else { throw StartError(error) }
            tell(error.text)
            return nil
        }
    }

    /// Says what the node waits for: when it changes, and once a minute.
    private mutating func tell(_ text: String) {
        let now = ClusterGate.nowMilliseconds
        guard text != lastLine || now >= nextLineMilliseconds else { return }
        lastLine = text
        nextLineMilliseconds = now + ClusterLimits.openingLogMilliseconds
        let detail = shard.map { "shard \($0.name): \(text)" } ?? text
        log.write(.warning, .clusterWaiting, fields: ["detail": .text(detail)])
    }
}

// The start of a node: its store and its log have to belong together. What an operator has to
// decide is refused with words; servers that do not answer yet are asked again.

import BrokerCore
import Configuration
import Primitives
import QueueStore
import Replication
import Threads

/// Why a log cannot be opened.
public struct ClusterLogError: Error, Hashable, Sendable {
    /// In words for an operator.
    public var text: String
    /// Whether it can end without an operator.
    public var isTemporary: Bool

    public init(_ text: String, isTemporary: Bool) {
        self.text = text
        self.isTemporary = isTemporary
    }
}

/// A log that was opened, with what its check has found.
public struct OpenedLog {
    public var log: any NodeLog
    /// What weakens the promise; empty if nothing does.
    public var warnings: [String]

    public init(log: any NodeLog, warnings: [String]) {
        self.log = log
        self.warnings = warnings
    }
}

/// Opens the log of a cluster. A program that is linked with a client of the log's servers has one.
public struct ClusterLogOpener: Sendable {
    /// - Parameters:
    ///   - creates: whether a stream that is missing is created.
    ///   - notice: called for what happens to the connection, with words for the program's log,
    ///     and whether it is a fault.
    ///   - wake: called when the log has an event.
    public typealias Open =
        @Sendable (
            _ settings: ClusterSettings, _ creates: Bool,
            _ notice: @escaping @Sendable (String, Bool) -> Void,
            _ wake: @escaping @Sendable () -> Void
        ) throws(ClusterLogError) -> OpenedLog

    let open: Open

    public init(open: @escaping Open) { self.open = open }
}

extension StartError {
    init(_ error: ClusterLogError) { self = .cluster(error.text) }
}

/// What the start of a node finds.
enum ClusterOpening {
    /// A store beside its log.
    enum Finding {
        /// At a position that the log continues.
        case store(Box<LMDBQueueStore>)
        /// The log has no first record yet, or no server tells it: later there may be one. The
        /// reason is in words.
        case waits(because: String)
        /// The log lacks records that the store needs: another node's store has them. The cluster
        /// is that of the store, or nil for a store without rows; the reason is in words.
        case needsCopy(StoreIdentity?, because: String)
    }

    private static let noFirstRecord =
        "the cluster has no first record yet, or its servers do not answer"

    static func find(
        _ settings: BrokerSettings, beside log: any NodeLog, signal: WakeSignal
    ) throws(StartError) -> Finding {
        let answer = log.readState()
        guard let state = answer.state else {
            return .waits(because: answer == .absent ? ClusterView.absentLog : noFirstRecord)
        }
        let store = try open(settings)
        guard let position = store.position else {
            guard store.openingStamp == nil else {
                throw .clusterStore(
                    "the store in \(settings.dataDirectory) belongs to no cluster: found one with "
                        + "it (martletd --found-cluster), or use an empty directory or a copy of "
                        + "another node's store (martletd --copy-node)")
            }
            return try adopt(store, settings, beside: log, of: state, signal: signal)
        }
        if position.sequence > state.last {
            throw .clusterStore(
                "the store has applied record \(position.sequence.raw), and the stream "
                    + "\(settings.cluster.stream) ends with \(state.last.raw): the stream was "
                    + "deleted or replaced")
        }
        if position.sequence.next < state.first {
            return .needsCopy(
                position.cluster,
                because: "the log begins with record \(state.first.raw), and the store ends with "
                    + "\(position.sequence.raw)")
        }
        return .store(Box(store))
    }

    private static func open(
        _ settings: BrokerSettings
    ) throws(StartError) -> LMDBQueueStore {
        do throws(StoreError) {
            return try LMDBQueueStore(
                directory: settings.dataDirectory, options: StoreOptions(settings))
        } catch {
            throw .store(error)
        }
    }

    /// Makes a new store one of the cluster whose log has all rows.
    private static func adopt(
        _ store: consuming LMDBQueueStore, _ settings: BrokerSettings, beside log: any NodeLog,
        of state: LogState, signal: WakeSignal
    ) throws(StartError) -> Finding {
        guard state.last > .start else { return .waits(because: noFirstRecord) }
        guard state.first == LogSequence.start.next else {
            return .needsCopy(nil, because: "the log begins with record \(state.first.raw)")
        }
        guard let bytes = firstRecord(log, signal) else { return .waits(because: noFirstRecord) }
        let record: Replication.LogRecord
        do throws(LogRecordError) {
            record = try Replication.LogRecord(decoding: bytes, cluster: nil)
        } catch {
            throw .cluster(
                "the first record of the stream \(settings.cluster.stream) is no record of a "
                    + "cluster (\(error)): the stream belongs to something else")
        }
        guard case .takeover(let node) = record.content, node.beginsEmpty else {
            return .needsCopy(
                nil, because: "the cluster was founded with a store that had rows")
        }
        do throws(StoreError) {
            try store.adopt(record.cluster)
        } catch {
            throw .store(error)
        }
        return .store(Box(try open(settings)))
    }

    /// The first record; nil if no server tells it within some seconds.
    private static func firstRecord(_ log: any NodeLog, _ signal: WakeSignal) -> [UInt8]? {
        var log = log
        let request = LogRequest(raw: .max)
        log.read(at: LogSequence.start.next, as: request)
        let end = ClusterGate.nowMilliseconds + ClusterLimits.reportAgeMilliseconds
        while ClusterGate.nowMilliseconds < end {
            while let event = log.takeEvent() {
                guard case .read(request, let outcome) = event else { continue }
                guard case .record(let bytes) = outcome else { return nil }
                return bytes
            }
            _ = signal.wait(milliseconds: 100)
        }
        return nil
    }
}

/// `martletd --found-cluster` and `martletd --copy-node`.
public enum ClusterFounding {
    /// Makes the store of the data directory the first one of a cluster, whose log is empty.
    ///
    /// - Parameter tell: called with what the servers lack, before it waits for them.
    /// - Returns: what the operator reads.
    public static func run(
        _ settings: BrokerSettings, opener: ClusterLogOpener?, tell: (String) -> Void
    ) throws(StartError) -> String {
        guard let opener else { throw .cluster(noClient) }
        guard settings.cluster.isUsed else {
            throw .cluster("--found-cluster needs cluster.servers in the configuration")
        }
        let map = ShardMap(settings.shards)
        let layout = ShardLayout(settings, in: settings.dataDirectory)
        try layout.checkNames()
        try layout.checkApps()
        // All streams are looked at before the first store is changed.
        var logs: [OpenedLog] = []
        defer { for opened in logs { opened.log.stop() } }
        for place in 0..<map.count {
            let own = map.settings(of: place, settings)
            let opened = try open(own.cluster, opener, tell)
            logs.append(opened)
            try checkEmpty(opened, own)
        }
        var lines: [String] = []
        for place in 0..<map.count {
            if place == 1 { try layout.makeFolder() }
            lines.append(try found(map.settings(of: place, settings), logs[place]))
        }
        return lines.joined(separator: "\n")
    }

    private static func checkEmpty(
        _ opened: OpenedLog, _ settings: BrokerSettings
    ) throws(StartError) {
        guard let state = opened.log.readState().state else {
            throw .cluster("the servers do not describe the stream \(settings.cluster.stream)")
        }
        guard state.last == .start else {
            throw .cluster(
                "the stream \(settings.cluster.stream) has \(state.last.raw) records: it is the "
                    + "log of a cluster already")
        }
    }

    /// Founds the cluster of one shard.
    private static func found(
        _ settings: BrokerSettings, _ opened: OpenedLog
    ) throws(StartError) -> String {
        let known: ReplicaPosition?
        do throws(StoreError) {
            known = try join(settings)
        } catch {
            throw .store(error)
        }
        if let known {
            throw .clusterStore(
                "the store in \(settings.dataDirectory) is a node's already, at record "
                    + "\(known.sequence.raw)")
        }
        let notes = opened.warnings.map { "warning: \($0)\n" }.joined()
        return notes + "\(settings.dataDirectory) has the first store of the cluster in the stream "
            + "\(settings.cluster.stream): start this node, then the others"
    }

    /// Opens or creates the stream, of servers that may just have been started.
    private static func open(
        _ settings: ClusterSettings, _ opener: ClusterLogOpener, _ tell: (String) -> Void
    ) throws(StartError) -> OpenedLog {
        let end = ClusterGate.nowMilliseconds + ClusterLimits.foundingMilliseconds
        let pause = WakeSignal()
        var lastText = ""
        while true {
            do throws(ClusterLogError) {
                return try opener.open(settings, true, { _, _ in }, {})
            } catch {
                guard error.isTemporary, ClusterGate.nowMilliseconds < end else {
                    throw StartError(error)
                }
                if error.text != lastText { tell("waiting: \(error.text)") }
                lastText = error.text
            }
            _ = pause.wait(milliseconds: ClusterLimits.openingMilliseconds)
        }
    }

    /// - Returns: the position of a store that is a node's already.
    private static func join(
        _ settings: BrokerSettings
    ) throws(StoreError) -> ReplicaPosition? {
        var store = try LMDBQueueStore(
            directory: settings.dataDirectory, options: StoreOptions(settings))
        if let position = store.position { return position }
        try store.join(at: .founding(store.identity))
        return nil
    }

    /// Copies the store of a node, which may run, for another node.
    public static func copy(
        _ settings: BrokerSettings, to destination: String
    ) throws(StartError) -> String {
        let map = ShardMap(settings.shards)
        do throws(StoreError) {
            let reports = try ShardCopies.make(map, in: destination) {
                (place, directory) throws(StoreError) in
                let own = map.settings(of: place, settings)
                return try LMDBQueueStore.copy(
                    directory: own.dataDirectory, to: directory,
                    besides: place == 0 && map.count > 1 ? [ShardMap.folder] : [], isNode: true,
                    options: StoreOptions(own))
            }
            let byteCount = reports.reduce(0) { $0 + $1.byteCount }
            let stores = map.count == 1 ? "store" : "\(map.count) stores"
            return "\(destination) has a copy of the node's \(stores), \(byteCount) bytes: make "
                + "it the data directory of another node"
        } catch {
            throw .store(error)
        }
    }

    /// The refusal of a program that is not linked with a client of the log.
    static let noClient =
        "this martletd was built without libnats, so it cannot be a node of a cluster: install "
        + "libnats-dev and build with MARTLET_CLUSTER=1 (make sets it), or remove cluster.servers"
}

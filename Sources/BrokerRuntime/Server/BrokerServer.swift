// Starts and stops the parts of a broker: store, core, event loops, writer and administration
// socket.

import Administration
import BrokerCore
import CLinuxShims
import Configuration
import Credentials
import Dialects
import Glibc
import NetTransport
import Primitives
import QueueStore
import SourceInterfaces
import Threads

/// A broker that is running.
public final class BrokerServer {
    let shards: Shards
    let clock: BrokerClock
    let log: LogWriter
    let listenerSet: ListenerSet
    let web: WebServices
    let trust: ClientTrust
    // Reloads change the following properties. Only the main thread uses them.
    var settings: BrokerSettings
    var files: FileWatch
    var nextDailyRound = Instant(milliseconds: 0)
    /// The number of the newest refusal that the apps were told of.
    var toldRefusals: UInt64 = 0
    let rates: ClientRates
    let connectionLimiter: ConnectionLimiter
    private let backups: BackupRunner
    let operators: Operators
    let reloads = ReloadRequests()
    private let traces = TraceRegistry()
    /// The listeners of the configuration, with the ports that the system chose.
    var listeners: [ListenerSettings] { listenerSet.settings }
    private let version: String
    private let fail: Failure
    /// The node whose primary this broker is; nil for a single broker, and with several shards.
    let cluster: ClusterNode?
    /// The nodes of a cluster's shards, by place, if there are several: each may be a standby.
    let shardNodes: [ShardNode]
    /// The settings, for the threads of these.
    let sharedSettings: Locked<BrokerSettings>
    /// Held while the thread of the administration executes requests.
    private let operations = Locked<Void>(())
    private let administrationHandle: LoopHandle
    private var loops: [Thread] = []
    private let passwords: PasswordVerifier
    private var administration: Thread?
    private var writers: [Thread] = []
    private var passwordHashing: Thread?
    private var fileThread: Thread?

    /// Ends the process of a broker that cannot continue.
    public typealias Failure = @Sendable (StartError.Kind) -> Never

    /// Sets process-wide options. Must be called before anything else runs.
    public static func prepareProcess() {
        TLSMemory.install()
    }

    /// Starts a broker: binds its ports and restores the stored state. Clients that connect wait
    /// until ``open()``.
    ///
    /// - Parameters:
    ///   - version: the version that the log and `martlet stats` show.
    ///   - fail: ends the process if the running broker cannot continue.
    public convenience init(
        _ settings: BrokerSettings, version: String, log: LogWriter, fail: @escaping Failure
    ) throws(StartError) {
        try self.init(settings, version: version, log: log, cluster: nil, fail: fail)
    }

    /// - Parameters:
    ///   - cluster: the node that has become the primary; nil for a single broker.
    ///   - shardNodes: those of a cluster with several shards, which do not run yet.
    init(
        _ settings: BrokerSettings, version: String, log: LogWriter, cluster: ClusterNode?,
        shardNodes: [ShardNode] = [], fail: @escaping Failure
    ) throws(StartError) {
        self.cluster = cluster
        self.shardNodes = shardNodes
        sharedSettings = Locked(settings)
        self.log = log
        self.fail = fail
        self.settings = settings
        self.version = version
        backups = BackupRunner(
            ShardMap(settings.shards), of: settings.dataDirectory, log: log)
        Self.keepLargeBlocksApart()
        files = FileWatch(settings.watchedFiles)
        rates = ClientRates(ClientRates.Values(settings))
        connectionLimiter = ConnectionLimiter(
            maximumPerAddress: settings.limits.connectionsPerAddress,
            totalMaximum: settings.limits.connections)
        trust = ClientTrust(try TrustMaterial(settings))
        operators = try Self.readOperators(settings)
        listenerSet = try ListenerSet(settings, preSharedKeys: trust.preSharedKeys)
        let interfaces = try SourceServices(settings, log: log)
        web = WebServices(listenerSet.web, operators: operators, interfaces: interfaces)
        // Those of a cluster's shards are opened when their nodes lead.
        let stores = shardNodes.isEmpty ? try ShardStores(settings) : nil
        if let stores { try Self.check(stores, isNode: cluster != nil, log: log) }
        clock = stores?.clocks[0] ?? BrokerClock(after: nil, downtimeMaximumSeconds: 0)
        administrationHandle = try Self.makeHandle()
        let loopCount = settings.loops == 0 ? Self.loopCountDefault : settings.loops
        var handles: [LoopHandle] = []
        for _ in 0..<loopCount { handles.append(try Self.makeHandle()) }
        let inquiries = LoopInquiries()
        var cores: [SharedBroker] = []
        for node in shardNodes {
            cores.append(node.makeCore(handles, inquiries, trust: trust, at: clock.moment()))
        }
        if let stores {
            for place in 0..<stores.map.count {
                let broker = try stores.restore(
                    place, trust: trust.vouchers, loopCount: loopCount)
                let repaired = broker.counters.rowsRepaired
                if repaired > 0 {
                    log.write(
                        .warning, .storeRepaired,
                        fields: [
                            "rows": .number(repaired),
                            "shard": .optional(stores.map.label(of: place)),
                        ])
                }
                cores.append(
                    SharedBroker(
                        broker, loopHandles: handles,
                        writerSignal: cluster?.gate.nodeSignal ?? WakeSignal(), gate: cluster?.gate,
                        inquiries: inquiries,
                        offsetMilliseconds: stores.clocks[place].offsetMilliseconds
                            - clock.offsetMilliseconds))
            }
        }
        shards = Shards(ShardMap(settings.shards), cores)
        passwords = PasswordVerifier(shards: shards)
        try loadTicketKeys()
        try startAdministration()
        if let stores { startWriters(stores) }
        for (node, core) in zip(shardNodes, cores) {
            node.start(
                ShardNode.Parts(
                    core: core, shards: shards, trust: trust, backups: backups, clock: clock,
                    settings: sharedSettings, operations: operations))
        }
    }

    /// Starts to accept clients.
    public func open() {
        passwords.start()
        for index in shards.loopHandles.indices { startLoop(UInt8(index)) }
        listenerSet.writeAddresses(to: log, state: "ready")
        web.health.set(.starting, false)
    }

    /// On two cores, one loop is faster than two: the second core serves the store and the kernel,
    /// and no effects cross threads (docs/PERFORMANCE.md).
    static let loopCountDefault = 1

    /// Makes glibc return large blocks to the system when they are freed: tables grow by doubling
    /// and free their old blocks. By default glibc raises this threshold when the first large block
    /// is freed; 5,000 idle connections then keep 0.8 MB of holes. 128 KiB is glibc's initial
    /// value.
    private static func keepLargeBlocksApart() {
        mallopt(M_MMAP_THRESHOLD, 128 << 10)
    }

    /// Serves until a signal requests a stop, then stops.
    ///
    /// - Parameters:
    ///   - configuration: the configuration that contains the settings.
    ///   - load: reads the configuration again when a signal requests a reload.
    public func run(
        until signals: inout Signals, configuration: LoadedConfiguration,
        load: () throws(ConfigurationError) -> LoadedConfiguration
    ) {
        let start = configuration
        var configuration = configuration
        var watch = LoopWatchdog(shards.loopHandles)
        var conditions = ConditionLog()
        var heap = HeapTrim()
        var health = HealthMonitor(web.health, of: web.listeners)
        var nextLook = clock.moment().instant
        let notifier = ServiceNotifier()
        log.write(
            .info, .brokerStarted, fields: ["version": .text(version), "state": "ready"])
        withoutEffect.report()
        notifier.ready()
        reloads.open()
        while true {
            let request = signals.wait(milliseconds: Self.housekeepingMilliseconds)
            if request == .stop { break }
            if case .ignored(let name) = request {
                log.writeIgnored(signal: name)
            }
            if request == .reload {
                notifier.reloading()
                // A later request has to see what was written meanwhile.
                let isAsked = reloads.isAsked
                let outcome: ReloadOutcome
                do throws(ConfigurationError) {
                    let new = try load()
                    outcome = reload(new, from: configuration, startedWith: start)
                    if case .applied = outcome { configuration = new }
                } catch {
                    refuse("\(error)")
                    outcome = .refused("\(error)")
                }
                if isAsked { reloads.finish(outcome) }
                notifier.ready()
            }
            noteLeases()
            let now = clock.moment().instant
            health.note(
                turns: shards.loopHandles.map { $0.counters.turns },
                stores: lookAtStores(&conditions), at: now)
            if health.wakesLoops { for handle in shards.loopHandles { handle.wake() } }
            if now >= nextLook {
                let pauses = shards.loopHandles.reduce(0) { $0 + $1.counters.acceptPauses }
                let dropped = shards.cores.reduce(0) {
                    $0 + $1.enter { $0.broker.counters.queueDropped }
                }
                conditions.noteLosses(dropped: dropped, acceptPauses: pauses, in: log)
                nextLook = now.advanced(byMilliseconds: Self.fileWatchMilliseconds)
                renewChangedFiles()
                keepDaily()
                tellRefusedLogins()
            }
            heap.look(at: now)
            // The writers check for memory that their stores no longer need.
            for core in shards.cores { core.writerSignal.notify() }
            if notifier.watchdogMilliseconds != nil, watch.haveTurned() { notifier.alive() }
            log.reportSuppressed()
        }
        notifier.stopping()
        stop()
    }

    /// Notes whether a node of a cluster may serve clients: those of one shard at least.
    private func noteLeases() {
        guard shards.isClustered else { return }
        let leading = shards.cores.filter { $0.takesEvents }
        web.health.set(.standby, leading.isEmpty)
        web.health.set(
            .noLease,
            !leading.isEmpty && leading.allSatisfy { $0.gate.map { !$0.mayEmit } ?? false })
    }

    /// The states of the stores; a full one is logged.
    private func lookAtStores(
        _ conditions: inout ConditionLog
    ) -> [HealthMonitor.Store] {
        shards.cores.enumerated().map { place, core in
            let isCutOff = core.gate.map { !$0.mayEmit } ?? false
            let (store, limit) = core.enter { state in
                (
                    HealthMonitor.Store(
                        committed: state.committedSequence,
                        // A restart does not mend the log of a cluster.
                        isIdle: isCutOff || state.broker.isIdle(state.committedSequence + 1),
                        isFull: state.broker.hasFullStore), state.broker.storeLimit
                )
            }
            conditions.noteStore(
                isFull: store.isFull, because: limit, of: shards.map.label(of: place), in: log)
            return store
        }
    }

    /// The interval at which the main thread wakes up: half the shortest watchdog interval that
    /// systemd accepts, one second.
    private static let housekeepingMilliseconds = 500
    /// The interval at which files are checked for changes: a renewed certificate may take effect
    /// within seconds, and a check costs a few system calls.
    private static let fileWatchMilliseconds: UInt64 = 10_000

    /// Stops: accepts no more input, stores what was accepted, sends the results, and closes the
    /// connections.
    public func stop() {
        log.write(.info, .brokerStopping)
        cluster?.beginStop()
        for node in shardNodes { node.beginStop() }
        web.health.set(.draining, true)
        reloads.close()
        web.interfaces.queue.stopHashing()
        passwordHashing?.join()
        web.interfaces.files?.stop()
        fileThread?.join()
        // Administration stops first: it waits for commits too, and only one thread at a time may.
        administrationHandle.requestStop()
        administration?.join()
        for core in shards.cores { core.setMeanwhile(nil) }
        backups.stop()
        // Without its log a node cannot store the last input, and tells nobody that it has it.
        let leading = shards.cores.filter { $0.takesEvents && $0.gate?.mayEmit ?? true }
        for core in leading { core.beginDraining() }
        for core in leading { core.drain() }
        for handle in shards.loopHandles { handle.requestStop() }
        for loop in loops { loop.join() }
        passwords.stop()
        for node in shardNodes { node.requestStop() }
        for node in shardNodes { node.join() }
        if let cluster {
            cluster.stop()
        } else {
            for core in shards.cores { core.writerSignal.stop() }
            for writer in writers { writer.join() }
        }
        log.write(.info, .brokerStopped)
    }

    /// Changes the state of the core that has an app, and returns when the change is on disk.
    func changeAndCommit(
        _ app: String, _ body: (inout Broker) throws(NoRoom) -> Void
    ) throws(NoRoom) {
        let core = shards[app]
        let (result, sequence) = core.enter { state in
            let result = Result { () throws(NoRoom) in try body(&state.broker) }
            return (result, state.broker.pendingSequence)
        }
        core.waitForCommit(of: sequence)
        try result.get()
    }

    // MARK: - Parts

    /// Refuses the stores of a cluster's node for a single broker, and the other way round.
    private static func check(
        _ stores: ShardStores, isNode: Bool, log: LogWriter
    ) throws(StartError) {
        for (place, store) in stores.stores.enumerated() {
            let directory = stores.directory(of: place)
            guard (store.value.position != nil) == isNode else {
                throw .clusterStore(
                    "the store in \(directory) is that of a cluster's node: set "
                        + "cluster.servers, or restore a backup of it into another directory")
            }
            guard let older = store.value.upgradedFormat else { continue }
            log.write(
                .info, .storeUpgraded,
                fields: [
                    "from": .number(UInt64(older)), "to": .number(UInt64(LMDBQueueStore.format)),
                    "shard": .optional(stores.map.label(of: place)),
                ])
        }
    }

    private static func readOperators(
        _ settings: BrokerSettings
    ) throws(StartError) -> Operators {
        do throws(CredentialError) {
            return try Operators(dataDirectory: settings.dataDirectory)
        } catch {
            throw .credentials(error)
        }
    }

    static let ticketKeyFile = "ticket-keys"

    /// Loads the keys of session tickets, which are kept beside the store, so that the tickets of
    /// clients stay valid over a restart.
    func loadTicketKeys() throws(StartError) {
        let keys: [UInt8]
        do throws(CredentialError) {
            keys = try TicketKeyFile.ensure(
                "\(settings.dataDirectory)/\(Self.ticketKeyFile)",
                byteCount: ServerTLSContext.ticketKeyByteCount,
                unixSeconds: Int64(clock.moment().unixSeconds))
        } catch {
            throw .credentials(error)
        }
        try listenerSet.setTicketKeys(keys)
    }

    private static func makeHandle() throws(StartError) -> LoopHandle {
        do throws(TransportError) {
            return try LoopHandle()
        } catch {
            throw .transport(error)
        }
    }

    private func startWriters(_ stores: ShardStores) {
        if let cluster {
            let (core, store) = (shards.first, stores.stores[0])
            let sizes = store.value.tableByteCounts()
            core.commits.tables.withLock { $0 = sizes }
            let serving = ClusterNode.Serving(shared: core, clock: clock, backups: backups)
            return cluster.serve(store, serving)
        }
        for (place, core) in shards.cores.enumerated() {
            writers.append(startWriter(stores.stores[place], of: core, place))
        }
    }

    private func startWriter(
        _ store: Box<LMDBQueueStore>, of core: SharedBroker, _ place: Int
    ) -> Thread {
        let (log, fail) = (log, fail)
        let writer = Box(
            StoreWriter(
                store: store, shared: core,
                clock: clock.shifted(byMilliseconds: core.offsetMilliseconds), backups: backups,
                place: place))
        return Thread(name: place == 0 ? "store" : "store-\(place)") {
            do throws(StoreError) {
                try writer.value.run()
            } catch {
                // Nothing may be acknowledged any more: a second sync would not report whether the
                // data of the first one is on disk.
                log.write(.error, .storeFailed, fields: ["detail": .text("\(error)")])
                fail(.store)
            }
        }
    }

    private func startLoop(_ index: UInt8) {
        var configuration = EventLoop.Configuration()
        configuration.loopIndex = index
        configuration.connectionsMaximum = settings.limits.connections
        // Each loop gets an equal share. Connections beyond it wait in the kernel.
        let loopCount = shards.loopHandles.count
        configuration.pendingMaximum =
            (settings.limits.pendingLogins + loopCount - 1) / loopCount
        configuration.handshakesMaximum = (settings.limits.handshakes + loopCount - 1) / loopCount
        configuration.outgoingTotalMaximum = settings.limits.outgoingBytes / loopCount
        configuration.connectionLimiter = connectionLimiter
        configuration.packetMaximum = settings.limits.packetMaximum
        configuration.authenticationMilliseconds =
            UInt64(settings.limits.authenticationSeconds) * 1000
        configuration.clockOffsetMilliseconds = clock.offsetMilliseconds
        if let gate = shards.first.gate {
            // With several, the handler answers each when the shard of its connection has a lease.
            let isOnly = shards.cores.count == 1
            configuration.mayAnswerPings = { isOnly && gate.mayEmit }
        }
        let handler = Box(
            BrokerLoopHandler(
                loopIndex: index, shards: shards, clock: clock, terms: listenerSet.terms,
                identityProofs: listenerSet.identityProofs, trust: trust, rates: rates,
                packetMaximum: settings.limits.packetMaximum, web: web,
                passwords: passwords, traces: traces,
                log: ConnectionLog(log, listeners: listenerSet)))
        loops.append(
            runLoop(
                handler, name: "loop-\(index)", configuration: configuration,
                handle: shards.loopHandles[Int(index)], listeners: listenerSet.listeners))
    }

    private func startAdministration() throws(StartError) {
        var configuration = EventLoop.Configuration()
        configuration.connectionsMaximum = Self.administratorsMaximum
        configuration.packetMaximum = AdministrationLine.requestByteCountMaximum
        configuration.firstPacketMaximum = AdministrationLine.requestByteCountMaximum
        configuration.clockOffsetMilliseconds = clock.offsetMilliseconds
        let listener: Listener
        do throws(TransportError) {
            listener = try Listener(
                unixPath: "\(settings.dataDirectory)/\(AdministrationLine.socketName)")
        } catch {
            throw .transport(error)
        }
        let service = AdministrationService(
            shards: shards, clock: clock, log: log, backups: backups, listeners: listenerSet,
            web: web, trust: trust, rates: rates, reloads: reloads, passwords: passwords,
            traces: traces, shardNodes: shardNodes, version: version)
        for core in shards.cores where core.gate != nil {
            core.setMeanwhile { [clock, unowned core] in
                service.serveMeanwhile(at: clock.moment().instant, of: core)
            }
        }
        let handler = Box(
            AdministrationLoopHandler(
                service: service, systemIntervalSeconds: settings.mqtt.sysIntervalSeconds,
                operations: operations))
        administration = runLoop(
            handler, name: "admin", configuration: configuration, handle: administrationHandle,
            listeners: [listener])
        web.metrics.setWriter(administrationHandle)
        web.requests.setExecutor(administrationHandle)
        web.interfaces.queue.setExecutor(administrationHandle)
        let interfaces = web.interfaces
        let userPasswords = UserPasswords(shards: shards, clock: clock)
        passwordHashing = Thread(name: "interfaces") {
            interfaces.check(
                userPasswords, with: UserPasswordHasher(), clock: userPasswords.clock)
        }
        if let files = interfaces.files {
            fileThread = Thread(name: "files") { [shards, clock] in
                files.run(interfaces, shards: shards, clock: clock)
            }
        }
        // The first statistics are due now.
        administrationHandle.wake()
    }

    /// Concurrent connections of administrators: people and scripts.
    private static let administratorsMaximum = 64

    private func runLoop<Handler: LoopHandler & ~Copyable & SendableMetatype>(
        _ handler: Box<Handler>, name: String, configuration: EventLoop.Configuration,
        handle: LoopHandle, listeners: [Listener]
    ) -> Thread {
        let (log, fail) = (log, fail)
        return Thread(name: name) {
            do throws(TransportError) {
                var loop = try EventLoop(configuration, handle: handle)
                for listener in listeners { try loop.listen(on: listener) }
                loop.run(&handler.value)
            } catch {
                log.write(.error, .brokerStopped, fields: ["detail": .text("\(error)")])
                fail(.other)
            }
        }
    }
}

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
    let shared: SharedBroker
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
    /// The node whose primary this broker is; nil for a single broker.
    let cluster: ClusterNode?
    private let administrationHandle: LoopHandle
    private var loops: [Thread] = []
    private let passwords: PasswordVerifier
    private var administration: Thread?
    private var writer: Thread?
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

    /// - Parameter cluster: the node that has become the primary; nil for a single broker.
    init(
        _ settings: BrokerSettings, version: String, log: LogWriter, cluster: ClusterNode?,
        fail: @escaping Failure
    ) throws(StartError) {
        self.cluster = cluster
        self.log = log
        self.fail = fail
        self.settings = settings
        self.version = version
        backups = BackupRunner(log: log)
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
        var store = try Self.openStore(settings)
        guard (store.position != nil) == (cluster != nil) else {
            throw .clusterStore(
                "the store in \(settings.dataDirectory) is that of a cluster's node: set "
                    + "cluster.servers, or restore a backup of it into another directory")
        }
        if let older = store.upgradedFormat {
            log.write(
                .info, .storeUpgraded,
                fields: [
                    "from": .number(UInt64(older)), "to": .number(UInt64(LMDBQueueStore.format)),
                ])
        }
        let loopCount = settings.loops == 0 ? Self.loopCountDefault : settings.loops
        let restored = try Self.restore(
            &store, settings: settings, trust: trust.vouchers, loopCount: loopCount)
        clock = restored.clock
        let repaired = restored.broker.counters.rowsRepaired
        if repaired > 0 { log.write(.warning, .storeRepaired, fields: ["rows": .number(repaired)]) }
        administrationHandle = try Self.makeHandle()
        var handles: [LoopHandle] = []
        for _ in 0..<loopCount { handles.append(try Self.makeHandle()) }
        shared = SharedBroker(
            restored.broker, loopHandles: handles,
            writerSignal: cluster?.gate.nodeSignal ?? WakeSignal(), gate: cluster?.gate)
        passwords = PasswordVerifier(shared: shared)
        try loadTicketKeys()
        try startAdministration()
        startWriter(store)
    }

    /// Starts to accept clients.
    public func open() {
        passwords.start()
        for index in shared.loopHandles.indices { startLoop(UInt8(index)) }
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
        var watch = LoopWatchdog(shared.loopHandles)
        var conditions = ConditionLog()
        var heap = HeapTrim()
        var health = HealthMonitor(web.health, of: web.listeners)
        var nextLook = clock.moment().instant
        let notifier = ServiceNotifier()
        log.write(
            .info, .brokerStarted, fields: ["version": .text(version), "state": "ready"])
        reportWithoutEffect()
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
            let (isFull, limit, dropped, committed, isIdle) = shared.enter {
                (
                    $0.broker.hasFullStore, $0.broker.storeLimit, $0.broker.counters.queueDropped,
                    $0.committedSequence,
                    $0.broker.isIdle($0.committedSequence + 1)
                )
            }
            let isCutOff = cluster.map { !$0.gate.mayEmit } ?? false
            web.health.set(.noLease, isCutOff)
            conditions.noteStore(isFull: isFull, because: limit, in: log)
            let now = clock.moment().instant
            health.note(
                turns: shared.loopHandles.map { $0.counters.turns }, committed: committed,
                // A restart does not mend the log of a cluster.
                isIdle: isIdle || isCutOff, isFull: isFull, at: now)
            if health.wakesLoops { for handle in shared.loopHandles { handle.wake() } }
            if now >= nextLook {
                let pauses = shared.loopHandles.reduce(0) { $0 + $1.counters.acceptPauses }
                conditions.noteLosses(dropped: dropped, acceptPauses: pauses, in: log)
                nextLook = now.advanced(byMilliseconds: Self.fileWatchMilliseconds)
                renewChangedFiles()
                keepDaily()
                tellRefusedLogins()
            }
            heap.look(at: now)
            // The writer checks for memory that the store no longer needs.
            shared.writerSignal.notify()
            if notifier.watchdogMilliseconds != nil, watch.haveTurned() { notifier.alive() }
            log.reportSuppressed()
        }
        notifier.stopping()
        stop()
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
        web.health.set(.draining, true)
        reloads.close()
        web.interfaces.queue.stopHashing()
        passwordHashing?.join()
        web.interfaces.files?.stop()
        fileThread?.join()
        // Administration stops first: it waits for commits too, and only one thread at a time may.
        administrationHandle.requestStop()
        administration?.join()
        shared.setMeanwhile(nil)
        backups.stop()
        // Without its log a node cannot store the last input, and tells nobody that it has it.
        if cluster?.gate.mayEmit ?? true { shared.drain() }
        for handle in shared.loopHandles { handle.requestStop() }
        for loop in loops { loop.join() }
        passwords.stop()
        if let cluster {
            cluster.stop()
        } else {
            shared.writerSignal.stop()
            writer?.join()
        }
        log.write(.info, .brokerStopped)
    }

    /// Changes the core's state and returns when the change is on disk.
    func changeAndCommit(
        _ body: (inout Broker) throws(NoRoom) -> Void
    ) throws(NoRoom) {
        let (result, sequence) = shared.enter { state in
            let result = Result { () throws(NoRoom) in try body(&state.broker) }
            return (result, state.broker.pendingSequence)
        }
        shared.waitForCommit(of: sequence)
        try result.get()
    }

    // MARK: - Parts

    private static func openStore(
        _ settings: BrokerSettings
    ) throws(StartError) -> LMDBQueueStore {
        do throws(StoreError) {
            return try LMDBQueueStore(
                directory: settings.dataDirectory,
                options: StoreOptions(settings))
        } catch {
            throw .store(error)
        }
    }

    private struct Restored: ~Copyable {
        var broker: Broker
        let clock: BrokerClock
    }

    private static func restore(
        _ store: inout LMDBQueueStore, settings: BrokerSettings, trust: VoucherTrust,
        loopCount: Int
    ) throws(StartError) -> Restored {
        // The core needs the time before the rows of the store are read.
        let clock = BrokerClock(
            after: store.openingStamp,
            downtimeMaximumSeconds: settings.store.downtimeMaximumSeconds)
        var broker = Broker(
            limits: CoreLimits(settings), loopCount: loopCount, trust: trust,
            at: clock.moment())
        var state: RestoredState
        do throws(StoreError) {
            state = try store.restore(into: &broker)
        } catch {
            throw .store(error)
        }
        store.claimRoom(telling: &state)
        do throws(RestoreError) {
            try broker.finishRestoring(
                state, newEpochSeed: SystemRandom.number(), at: clock.moment())
        } catch {
            throw .state(error)
        }
        broker.anonymousApp = Array(DevelopmentSetup.app.utf8)
        // Reading the rows leaves up to half as much free memory as the restored state uses.
        malloc_trim(0)
        return Restored(broker: broker, clock: clock)
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

    private func startWriter(_ store: consuming LMDBQueueStore) {
        let (log, fail) = (log, fail)
        if let cluster {
            let sizes = store.tableByteCounts()
            shared.commits.tables.withLock { $0 = sizes }
            let serving = ClusterNode.Serving(shared: shared, clock: clock, backups: backups)
            return cluster.serve(Box(store), serving)
        }
        let box = Box(StoreWriter(store: store, shared: shared, clock: clock, backups: backups))
        writer = Thread(name: "store") {
            do throws(StoreError) {
                try box.value.run()
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
        let loopCount = shared.loopHandles.count
        configuration.pendingMaximum =
            (settings.limits.pendingLogins + loopCount - 1) / loopCount
        configuration.handshakesMaximum = (settings.limits.handshakes + loopCount - 1) / loopCount
        configuration.outgoingTotalMaximum = settings.limits.outgoingBytes / loopCount
        configuration.connectionLimiter = connectionLimiter
        configuration.packetMaximum = settings.limits.packetMaximum
        configuration.authenticationMilliseconds =
            UInt64(settings.limits.authenticationSeconds) * 1000
        configuration.clockOffsetMilliseconds = clock.offsetMilliseconds
        if let gate = shared.gate { configuration.mayAnswerPings = { gate.mayEmit } }
        let handler = Box(
            BrokerLoopHandler(
                loopIndex: index, shared: shared, clock: clock, terms: listenerSet.terms,
                identityProofs: listenerSet.identityProofs, trust: trust, rates: rates,
                packetMaximum: settings.limits.packetMaximum, web: web,
                passwords: passwords, traces: traces,
                log: ConnectionLog(log, listeners: listenerSet)))
        loops.append(
            runLoop(
                handler, name: "loop-\(index)", configuration: configuration,
                handle: shared.loopHandles[Int(index)], listeners: listenerSet.listeners))
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
            shared: shared, clock: clock, log: log, backups: backups, listeners: listenerSet,
            web: web, trust: trust, rates: rates, reloads: reloads, passwords: passwords,
            traces: traces, version: version)
        if shared.gate != nil {
            shared.setMeanwhile { [clock] in service.serveMeanwhile(at: clock.moment().instant) }
        }
        let handler = Box(
            AdministrationLoopHandler(
                service: service, systemIntervalSeconds: settings.mqtt.sysIntervalSeconds))
        administration = runLoop(
            handler, name: "admin", configuration: configuration, handle: administrationHandle,
            listeners: [listener])
        web.metrics.setWriter(administrationHandle)
        web.requests.setExecutor(administrationHandle)
        web.interfaces.queue.setExecutor(administrationHandle)
        let interfaces = web.interfaces
        let userPasswords = UserPasswords(shared: shared, clock: clock)
        passwordHashing = Thread(name: "interfaces") {
            interfaces.check(
                userPasswords, with: UserPasswordHasher(), clock: userPasswords.clock)
        }
        if let files = interfaces.files {
            fileThread = Thread(name: "files") { [shared, clock] in
                files.run(interfaces, shared: shared, clock: clock)
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

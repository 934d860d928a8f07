// The composition: store, core, lanes, writer and door put together and taken apart again. The one
// place that knows everything.

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
import Threads

/// A broker that is running.
public final class BrokerServer {
    let shared: SharedBroker
    let clock: BrokerClock
    let log: LogWriter
    let listenerSet: ListenerSet
    let trust: ClientTrust
    // What follows changes with reloads and is the main thread's.
    var settings: BrokerSettings
    var files: FileWatch
    var nextDailyRound = Instant(milliseconds: 0)
    let rates: ClientRates
    let census: AddressCensus
    private let backups: BackupRunner
    /// The listeners of the configuration, with the ports that the system chose.
    var listeners: [ListenerSettings] { listenerSet.settings }
    private let version: String
    private let doorHandle: LoopHandle
    private var lanes: [Thread] = []
    private var door: Thread?
    private var writer: Thread?

    /// What has to be decided for the whole process before anything else of it runs.
    public static func prepareProcess() {
        TLSMemory.install()
    }

    /// Starts a broker: when this returns, its ports are its own and the stored state is back. Who
    /// connects waits until ``open()``.
    ///
    /// - Parameter version: what the log and `martlet stats` say is running.
    public init(
        _ settings: BrokerSettings, version: String, log: LogWriter
    ) throws(StartError) {
        self.log = log
        self.settings = settings
        self.version = version
        backups = BackupRunner(log: log)
        Self.keepLargeBlocksApart()
        files = FileWatch(settings.files)
        rates = ClientRates(ClientRates.Values(settings))
        census = AddressCensus(
            maximumPerAddress: settings.limits.connectionsPerAddress,
            totalMaximum: settings.limits.connections)
        trust = ClientTrust(try TrustMaterial(settings))
        listenerSet = try ListenerSet(settings, preSharedKeys: trust.preSharedKeys)
        var store = try Self.openStore(settings)
        if let older = store.upgradedFormat {
            log.write(
                .info, .storeUpgraded,
                ["from": .number(UInt64(older)), "to": .number(UInt64(LMDBQueueStore.format))])
        }
        let laneCount = settings.loops == 0 ? Self.laneCountDefault : settings.loops
        let restored = try Self.restore(
            &store, settings, trust.vouchers, laneCount: laneCount)
        clock = restored.clock
        let repaired = restored.broker.counters.rowsRepaired
        if repaired > 0 { log.write(.warning, .storeRepaired, ["rows": .number(repaired)]) }
        doorHandle = try Self.makeHandle()
        var handles: [LoopHandle] = []
        for _ in 0..<laneCount { handles.append(try Self.makeHandle()) }
        shared = SharedBroker(
            restored.broker, laneHandles: handles, writerSignal: WakeSignal())
        try sealTickets()
        try startDoor()
        startWriter(store)
    }

    /// Lets clients in.
    public func open() {
        for lane in shared.laneHandles.indices { startLane(UInt8(lane)) }
        for listener in listenerSet.listeners {
            log.write(
                .info, .listening,
                [
                    "address": .text("\(listener.address)"),
                    "tls": .number(listener.tls == nil ? 0 : 1),
                ])
        }
    }

    /// One loop serves this machine's two cores better than two: the second core is the store's and
    /// the kernel's, and nothing has to cross (docs/PERFORMANCE.md).
    static let laneCountDefault = 1

    /// Tables grow by doubling, and what they grow out of should go back to the system. Left to
    /// itself, glibc raises the size from which it does that with the first large block that is
    /// freed, and 5,000 idle connections keep 0.8 MB of holes. 128 KiB is its own first choice.
    private static func keepLargeBlocksApart() {
        mallopt(M_MMAP_THRESHOLD, 128 << 10)
    }

    /// Serves until a signal asks to stop, then stops.
    ///
    /// - Parameters:
    ///   - configuration: what the settings came from.
    ///   - load: reads the configuration anew when a signal asks for it.
    public func run(
        until signals: inout Signals, _ configuration: LoadedConfiguration,
        load: () throws(ConfigurationError) -> LoadedConfiguration
    ) {
        let start = configuration
        var configuration = configuration
        var watch = LaneWatch(shared.laneHandles)
        var conditions = ConditionLog()
        var heap = HeapTrim()
        var nextLook = clock.moment().instant
        let notifier = ServiceNotifier()
        log.write(
            .info, .brokerStarted, ["version": .text(version), "state": "ready"])
        notifier.ready()
        while true {
            let request = signals.wait(milliseconds: Self.housekeepingMilliseconds)
            if request == .stop { break }
            if request == .reload {
                notifier.reloading()
                do throws(ConfigurationError) {
                    let new = try load()
                    if reload(new, from: configuration, startedWith: start) {
                        configuration = new
                    }
                } catch {
                    refuse("\(error)")
                }
                notifier.ready()
            }
            let (isFull, dropped) = shared.enter {
                ($0.broker.hasFullStore, $0.broker.counters.queueDropped)
            }
            conditions.noteStore(isFull: isFull, log)
            let now = clock.moment().instant
            if now >= nextLook {
                let pauses = shared.laneHandles.reduce(0) { $0 + $1.counters.acceptPauses }
                conditions.noteLosses(dropped: dropped, acceptPauses: pauses, log)
                nextLook = now.advanced(byMilliseconds: Self.fileWatchMilliseconds)
                renewChangedFiles()
                keepDaily()
            }
            heap.look(at: now)
            if notifier.watchdogMilliseconds != nil, watch.haveTurned() { notifier.alive() }
            log.reportSuppressed()
        }
        notifier.stopping()
        stop()
    }

    /// How often the main thread wakes up: twice in the shortest watchdog that makes sense.
    private static let housekeepingMilliseconds = 500
    /// How often files are looked at: a renewed certificate need not be in use at once, and a look
    /// is a few system calls.
    private static let fileWatchMilliseconds: UInt64 = 10_000

    /// Stops: nothing is taken in any more, what was taken in is stored and its senders hear so,
    /// then the lanes say good-bye.
    public func stop() {
        log.write(.info, .brokerStopping)
        // The door goes first: it waits for commits too, and one thread at a time may.
        doorHandle.requestStop()
        door?.join()
        backups.stop()
        shared.drain()
        for handle in shared.laneHandles { handle.requestStop() }
        for lane in lanes { lane.join() }
        shared.writerSignal.stop()
        writer?.join()
        log.write(.info, .brokerStopped)
    }

    /// Changes the core's state and returns when the change is on disk.
    func changeAndCommit(
        _ body: (inout Broker) throws(NoRoom) -> Void
    ) throws(NoRoom) {
        let (result, sequence) = shared.enter { state in
            let result = Result { () throws(NoRoom) in try body(&state.broker) }
            return (result, state.broker.gatheringSequence)
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
        _ store: inout LMDBQueueStore, _ settings: BrokerSettings, _ trust: VoucherTrust,
        laneCount: Int
    ) throws(StartError) -> Restored {
        // The core needs the time before the store has told when it last committed.
        let clock = BrokerClock(
            after: store.openingStamp,
            downtimeMaximumSeconds: settings.store.downtimeMaximumSeconds)
        var broker = Broker(
            limits: CoreLimits(settings), laneCount: laneCount, trust: trust,
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
        // What the rows went through on their way: up to half as much again as what came of them.
        malloc_trim(0)
        return Restored(broker: broker, clock: clock)
    }

    static let ticketKeyFile = "ticket-keys"

    /// Tickets that the fleet holds stay good over a restart: their keys are kept beside the store.
    func sealTickets() throws(StartError) {
        let keys: [UInt8]
        do throws(CredentialError) {
            keys = try TicketKeyFile.ensure(
                "\(settings.dataDirectory)/\(Self.ticketKeyFile)",
                byteCount: ServerTLSContext.ticketKeyByteCount,
                unixSeconds: Int64(clock.moment().unixMilliseconds / 1000))
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
        let log = log
        let box = Box(StoreWriter(store: store, shared: shared, clock: clock, backups: backups))
        writer = Thread(name: "store") {
            do throws(StoreError) {
                try box.value.run()
            } catch {
                // Nothing may be acknowledged any more, and a second sync proves nothing.
                log.write(.error, .storeFailed, ["detail": .text("\(error)")])
                exit(StartError.Kind.store.exitCode)
            }
        }
    }

    private func startLane(_ lane: UInt8) {
        var configuration = EventLoop.Configuration()
        configuration.lane = lane
        configuration.connectionsMaximum = settings.limits.connections
        // Each lane has its share; who is beyond it waits, and is not sent away.
        let laneCount = shared.laneHandles.count
        configuration.pendingMaximum =
            (settings.limits.pendingLogins + laneCount - 1) / laneCount
        configuration.handshakesMaximum = (settings.limits.handshakes + laneCount - 1) / laneCount
        configuration.outgoingTotalMaximum = settings.limits.outgoingBytes / laneCount
        configuration.census = census
        configuration.packetMaximum = settings.limits.packetMaximum
        configuration.authenticationMilliseconds =
            UInt64(settings.limits.authenticationSeconds) * 1000
        configuration.clockOffsetMilliseconds = clock.offsetMilliseconds
        let handler = Box(
            LaneHandler(
                lane: lane, shared: shared, clock: clock, terms: listenerSet.terms,
                identityProofs: listenerSet.identityProofs, trust: trust, rates: rates,
                packetMaximum: settings.limits.packetMaximum, notes: LaneLog(log)))
        lanes.append(
            runLoop(
                "lane-\(lane)", configuration, shared.laneHandles[Int(lane)],
                listenerSet.listeners, handler))
    }

    private func startDoor() throws(StartError) {
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
        let handler = Box(
            AdministrationDoor(
                desk: OperatorDesk(
                    shared: shared, clock: clock, log: log, backups: backups,
                    listeners: listenerSet, trust: trust, rates: rates,
                    version: version),
                systemIntervalSeconds: settings.mqtt.sysIntervalSeconds))
        door = runLoop("door", configuration, doorHandle, [listener], handler)
        // The first round of statistics is due.
        doorHandle.wake()
    }

    /// People and scripts who administrate at the same time.
    private static let administratorsMaximum = 64

    private func runLoop<Handler: LoopHandler & ~Copyable & SendableMetatype>(
        _ name: String, _ configuration: EventLoop.Configuration, _ handle: LoopHandle,
        _ listeners: [Listener], _ handler: Box<Handler>
    ) -> Thread {
        let log = log
        return Thread(name: name) {
            do throws(TransportError) {
                var loop = try EventLoop(configuration, handle: handle)
                for listener in listeners { try loop.listen(on: listener) }
                loop.run(&handler.value)
            } catch {
                log.write(.error, .brokerStopped, ["detail": .text("\(error)")])
                exit(StartError.Kind.other.exitCode)
            }
        }
    }
}

/// Carries a value that cannot be copied to the thread that will use it, which is the only one.
private final class Box<Value: ~Copyable>: @unchecked Sendable {
    var value: Value
    init(_ value: consuming Value) {
        self.value = value
    }
}

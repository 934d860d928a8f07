// One run: a broker, its store, a network and clients in one process and one thread, with one event
// queue. Its phases: use with faults, for the given number of steps; recovery, until nothing is in
// flight; the final check. The same options give the same run.

import BrokerCore
import Primitives

final class Simulation {
    let context: SimulationContext
    let network: SimulatedNetwork
    let store: FaultyStore
    let clients: [any NetworkedClient]
    /// The relay or the moderator of some runs.
    let services: [ServiceClient]
    /// The nodes; nil for a broker without a cluster.
    private(set) var cluster: Cluster?
    /// Nil while the process is down.
    var process: BrokerProcess?
    private var lives = 0
    private(set) var stepCount = 0
    /// When everything must be at rest.
    private var recoveryDeadline = Instant.never
    /// The number of messages that clients had received at the last one, and its step.
    private var progress = (received: 0, step: 0)
    /// The message that shows at the end that everybody can be reached.
    private var probe: Int?

    var oracle: Oracle { context.oracle }
    private var options: SimulationOptions { context.options }
    private var profile: Profile { context.profile }

    init(_ options: SimulationOptions, _ history: History = History(isRecording: false)) {
        let context = SimulationContext(options, history)
        self.context = context
        let network = SimulatedNetwork(context)
        self.network = network
        store = FaultyStore(context)
        clients = context.profile.clients.enumerated().map { index, habits in
            if let mqtt = habits.mqtt {
                SimulatedMQTTClient(index, mqtt: mqtt, context: context, network: network)
            } else {
                SimulatedClient(index, context: context, network: network)
            }
        }
        services = Simulation.makeServices(context, network)
    }

    /// A client or a service, by its index.
    private func peer(_ index: Int) -> any NetworkedClient {
        index < clients.count ? clients[index] : services[index - clients.count]
    }

    // MARK: The run

    /// Runs to the end, or to the first violated property.
    func run() -> SimulationReport {
        if options.nodeCount > 1 { beginCluster() } else { context.enter(.brokerStarted, after: 0) }
        for client in clients where client.habits.mqtt?.isLate != true {
            context.enter(
                .clientPowered(client: client.index),
                after: context.useRandom.milliseconds(in: 0...200))
        }
        for service in services {
            context.enter(.clientPowered(client: service.index), after: 10)
        }
        context.enter(.clientUsed, after: 100)
        if !services.isEmpty { context.enter(.serviceUsed, after: 120) }
        if !profile.habits.isEmpty { context.enter(.habitDue, after: 200) }
        if profile.historyInterval != nil { context.enter(.historyDue, after: 150) }
        if profile.receiptInterval != nil { context.enter(.receiptDue, after: 200) }
        if profile.revisionInterval != nil { context.enter(.revisionDue, after: 200) }
        context.enter(.faultDue, after: profile.faultInterval)
        if cluster == nil { enterBackup() }
        while oracle.violation == nil, !isOver {
            guard let (time, occurrence) = context.eventQueue.takeNext() else { break }
            context.advance(to: time)
            carryOut(occurrence)
            process?.broker.checkInvariants()
            stepCount += 1
            if stepCount == options.stepMaximum { recover() }
        }
        if oracle.violation == nil { checkAtEnd() }
        return SimulationReport(self)
    }

    private var isOver = false

    private func carryOut(_ occurrence: Occurrence) {
        if cluster != nil, postpones(occurrence) { return }
        switch occurrence {
        case .cluster(let step):
            cluster?.carryOut(step)
            process = cluster?.leader
        case .loopTurn(let loop, let life): living(life)?.turn(loop: loop)
        case .storeAsked(let life):
            if let node = cluster?.node(of: life) {
                node.takeBatch()
            } else if let process = living(life) {
                beginCommit(process)
            }
        case .storeFinished(let life): if let process = living(life) { finishCommit(process) }
        case .coreDue(let life): living(life)?.advance()
        case .brokerStarted: startBroker()
        case .linkOpened(let link): openLink(link)
        case .bytesArrived(let link, let end): bytesArrived(link, end)
        case .closeNoticed(let link, let end): closeNoticed(link, end)
        case .silenceChecked(let link): checkSilence(link)
        case .clientDue(let client): peer(client).timePassed()
        case .clientPowered(let client):
            if !context.isRecovering || isMain(client) { peer(client).powerOn() }
        case .clientStarted(let client):
            if !context.isRecovering || isMain(client) { peer(client).start() }
        case .clientUsed: useClient()
        case .habitDue: runHabit()
        case .historyDue: useHistory()
        case .receiptDue: useReceipts()
        case .revisionDue: useRevisions()
        case .serviceUsed: useServices()
        case .serviceDue(let service): services[service - clients.count].due()
        case .faultDue: injectFault()
        case .storeHasRoom: setStore(isFull: false)
        case .backupMade: makeBackup()
        case .backupPutBack: putBackupBack()
        }
        if context.isRecovering { checkForRest() }
    }

    /// The process, if it is still this one.
    private func living(_ life: Int) -> BrokerProcess? {
        if let cluster { return cluster.process(life) }
        return process?.life == life ? process : nil
    }

    // MARK: Cluster

    /// The nodes begin with the same store, as after a copy.
    private func beginCluster() {
        _ = BrokerProcess(context, network: network, store: store, life: 0)
        cluster = Cluster(context, network: network, store: store.contents)
        cluster?.begin()
    }

    /// A paused process does nothing until it goes on.
    private func postpones(_ occurrence: Occurrence) -> Bool {
        let life: Int? =
            switch occurrence {
            case .loopTurn(_, let life), .storeAsked(let life), .coreDue(let life): life
            case .silenceChecked(let link): network.links[link].life
            default: nil
            }
        guard let life, let until = cluster?.node(of: life)?.pausedUntil else { return false }
        context.eventQueue.enter(occurrence, at: until)
        return true
    }

    // MARK: Broker

    func startBroker() {
        guard process == nil, cluster == nil else { return }
        lives += 1
        oracle.history.note(.broker, "starts, life \(lives)")
        process = BrokerProcess(context, network: network, store: store, life: lives)
        oracle.brokerStarted()
    }

    /// The process is killed, or the machine loses its power.
    func crash(committing: Bool) {
        guard let dead = process else { return }
        process = nil
        network.brokerDied(life: dead.life)
        store.crash(committing: committing)
        oracle.brokerDied(
            committing ? "dies, the batch under way is stored" : "dies, with what is not stored")
        context.enter(
            .brokerStarted, after: context.faultRandom.milliseconds(in: 10...20_000))
    }

    /// The process stops in order: it disconnects its clients and stores the pending batches.
    func stop() {
        guard let stopping = process else { return }
        process = nil
        stopping.writeShutdown()
        stopping.storePending(in: store)
        stopping.prepareToStop()
        stopping.storePending(in: store)
        store.crash(committing: false)
        oracle.brokerStopped()
        context.enter(
            .brokerStarted, after: context.faultRandom.milliseconds(in: 10...5_000))
    }

    private func beginCommit(_ process: BrokerProcess) {
        guard process.beginCommit(in: store) else { return }
        oracle.batchTaken()
        context.enter(.storeFinished(life: process.life), after: drawCommitTime())
    }

    private func drawCommitTime() -> UInt64 {
        if isStoreSlow, !context.isRecovering {
            return context.storeRandom.milliseconds(in: 500...5_000)
        }
        return context.storeRandom.milliseconds(in: 0...profile.commitMaximum)
    }

    var isStoreSlow = false

    private func finishCommit(_ process: BrokerProcess) {
        guard store.isCommitting else { return }
        let mayFail = !context.isRecovering && oracle.violation == nil
        if mayFail, context.storeRandom.happens(perTenThousand: profile.failedCommits) {
            // After a failed sync the contents of the disk are unknown, so the process ends.
            crash(committing: context.storeRandom.happens(perTenThousand: 5_000))
            return
        }
        process.finishCommit(in: store)
        oracle.batchStored()
    }

    func setStore(isFull: Bool) {
        store.isFull = isFull
        oracle.storeChanged(isFull: isFull)
    }

    // MARK: Network

    private func openLink(_ link: Int) {
        let client = peer(network.links[link].client)
        guard network.links[link].isOpenAtClient else { return }
        if let gateway = gateway(of: link) {
            client.linkOpened(link, isAccepted: gateway.takeDevice(link))
            return
        }
        guard let process = cluster.map({ $0.acceptor() }) ?? process else {
            client.linkOpened(link, isAccepted: false)
            return
        }
        network.accepted(link, as: process.open(link: link), life: process.life)
        if client.index < clients.count { oracle.wakesOpen(client.index) }
        client.linkOpened(link, isAccepted: true)
    }

    private func bytesArrived(_ index: Int, _ end: End) {
        let bytes = network.takeArrived(on: index, at: end)
        let link = network.links[index]
        switch end {
        case .client:
            if link.isOpenAtBroker { living(link.life)?.drained(link.connection) }
            if link.isOpenAtClient { peer(link.client).received(bytes) }
        case .broker:
            if let gateway = gateway(of: index) { return gateway.carry(bytes, from: index) }
            if !bytes.isEmpty { living(link.life)?.arrived(bytes, on: link.connection) }
        }
    }

    private func closeNoticed(_ index: Int, _ end: End) {
        guard network.learnOfClose(index, by: end) else { return }
        let link = network.links[index]
        switch end {
        case .client: peer(link.client).linkClosed(index)
        case .broker:
            if let gateway = gateway(of: index) { return gateway.loseDevice(index) }
            living(link.life)?.closed(link.connection)
        }
    }

    /// The gateway that a device's link leads to.
    private func gateway(of link: Int) -> SimulatedClient? {
        network.links[link].gateway.flatMap { clients[$0] as? SimulatedClient }
    }

    private func checkSilence(_ index: Int) {
        let link = network.links[index]
        guard link.isOpenAtBroker, let process = living(link.life),
            let again = process.checkSilence(link.connection)
        else { return }
        context.enter(.silenceChecked(link: index), after: max(again, 1))
    }

    // MARK: The final phase

    /// The clients that stay connected at the end: of a device's rivals, only the first.
    private func isMain(_ client: Int) -> Bool {
        client >= clients.count || !profile.clients[client].isRival
    }

    /// Ends the faults: everything runs, and nothing is lost from now on.
    private func recover() {
        oracle.history.note(.broker, "no more faults")
        context.isRecovering = true
        recoveryDeadline = context.now.advanced(bySeconds: Simulation.recoverySeconds)
        setStore(isFull: false)
        cluster?.heal()
        context.enter(.brokerStarted, after: 0)
        for client in clients where isMain(client.index) {
            context.enter(.clientPowered(client: client.index), after: 10)
            context.enter(.clientStarted(client: client.index), after: 10)
        }
        for service in services {
            context.enter(.clientPowered(client: service.index), after: 10)
            context.enter(.clientStarted(client: service.index), after: 10)
        }
        for client in clients where !isMain(client.index) { client.powerOff() }
    }

    /// A little longer than a device may take to return after a restart before its will is sent.
    private var graceEnds: Instant { oracle.brokerUpSince.advanced(bySeconds: 100) }

    /// Two hours: sixty of the longest waits before a reconnect.
    private static let recoverySeconds: UInt64 = 7_200
    /// Long enough for every client to have reconnected and repeated its sends.
    private static let backupRecoverySeconds: UInt64 = 200
    /// Steps after the last message that a client received: many times what any run needs. It ends
    /// runs without progress. How long a queue of several hundred takes with a client that answers
    /// once a second depends on the client.
    private static let idleStepMaximum = 100_000

    private func checkForRest() {
        if oracle.receivedCount > progress.received {
            progress = (oracle.receivedCount, stepCount)
        }
        if oracle.hasBackup {
            // Clients wait for messages that the backup does not have: they never come to rest.
            isOver =
                context.now
                >= context.recoverySince.advanced(
                    bySeconds: Simulation.backupRecoverySeconds)
            return
        }
        if context.now > recoveryDeadline
            || stepCount > max(progress.step, options.stepMaximum) + Simulation.idleStepMaximum
        {
            oracle.fail(.allComesToRest, whatIsLeft() ?? "the probe")
            return
        }
        // By then the broker has done what it does by itself after a restart, such as sending
        // wills.
        guard whatIsLeft() == nil, context.now >= graceEnds else { return }
        if probe == nil {
            sendProbe()
        } else {
            isOver = true
        }
    }

    /// One message to all devices shows that everybody can be reached.
    private func sendProbe() {
        let sender = clients.firstIndex { isMain($0.index) }!
        probe = oracle.sends.count
        let users = Array(0..<profile.userCount)
        clients[sender].send(
            Order(receivers: .users(users, isList: true), grade: .once, messageIdentifier: "probe"))
    }

    /// The part that has not come to rest; nil if everything has.
    private func whatIsLeft() -> String? {
        guard let process else { return "the broker is down" }
        for client in clients where isMain(client.index) {
            if !client.isConnected { return "client \(client.index) is not connected" }
            if !client.isAtRest { return "client \(client.index) waits for an answer" }
        }
        for service in services {
            if !service.isConnected { return "the \(service.service) is not connected" }
            if !service.isAtRest { return "the \(service.service) waits for an answer" }
        }
        let gauges = process.broker.gauges()
        let connected = clients.count { $0.isConnected } + services.count
        if gauges.connections != connected {
            return "\(gauges.connections) connections of \(connected) clients"
        }
        if gauges.messagesInMemory > 0 { return "\(gauges.messagesInMemory) messages in memory" }
        if gauges.queuedMessages > 0 { return "\(gauges.queuedMessages) messages in queues" }
        if process.isReplaying { return "retained messages" }
        if process.broker.hasBatch || store.isCommitting { return "a batch" }
        if let cluster { return cluster.unrest }
        return store.isDrained ? nil : "messages in the store"
    }

    private func checkAtEnd() {
        for client in clients where client.isConnected {
            // Not the device's last CONNACK: those of rivals may overtake each other.
            if let session = client.session { oracle.lasts(session) }
        }
        if let cluster { cluster.checkAtEnd() } else { checkHistory() }
        if context.has(.canary), let probe { oracle.loseRecord(probe) }
        oracle.checkAtEnd()
    }
}

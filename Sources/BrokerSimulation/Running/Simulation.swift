// One run: a broker, its store, a network and clients in one process and one thread, with one
// agenda. First a storm of use and troubles, for as many steps as asked for; then healing, until
// everything has come to rest; then the settlement. The same options give the same run.

import BrokerCore
import Primitives

final class Simulation {
    let surroundings: Surroundings
    let network: SimulatedNetwork
    let store: FaultyStore
    let clients: [any NetworkedClient]
    /// Nil while the process is down.
    var process: BrokerProcess?
    private var lives = 0
    private(set) var stepCount = 0
    /// When everything must have come to rest.
    private var healingDeadline = Instant.never
    /// How many messages clients had received when the last one came, and at which step.
    private var progress = (received: 0, step: 0)
    /// The message that shows at the end that everybody can be reached.
    private var probe: Int?

    var ledger: Ledger { surroundings.ledger }
    private var options: SimulationOptions { surroundings.options }
    private var profile: Profile { surroundings.profile }

    init(_ options: SimulationOptions, _ history: History = History(isRecording: false)) {
        let surroundings = Surroundings(options, history)
        self.surroundings = surroundings
        let network = SimulatedNetwork(surroundings)
        self.network = network
        store = FaultyStore(surroundings)
        clients = surroundings.profile.clients.enumerated().map { index, habits in
            if let mqtt = habits.mqtt {
                SimulatedMQTTClient(index, mqtt, surroundings, network)
            } else {
                SimulatedClient(index, surroundings, network)
            }
        }
    }

    // MARK: The run

    /// Runs to the end, or to the first broken promise.
    func run() -> SimulationReport {
        surroundings.enter(.brokerStarted, after: 0)
        for client in clients where client.habits.mqtt?.isLate != true {
            surroundings.enter(
                .clientPowered(client: client.index),
                after: surroundings.useRandom.milliseconds(in: 0...200))
        }
        surroundings.enter(.clientUsed, after: 100)
        if !profile.habits.isEmpty { surroundings.enter(.habitShown, after: 200) }
        surroundings.enter(.troubleComes, after: profile.troubleInterval)
        enterBackup()
        while ledger.violation == nil, !isOver {
            guard let (time, occurrence) = surroundings.agenda.takeNext() else { break }
            surroundings.advance(to: time)
            carryOut(occurrence)
            process?.broker.checkInvariants()
            stepCount += 1
            if stepCount == options.stepMaximum { heal() }
        }
        if ledger.violation == nil { settle() }
        return SimulationReport(self)
    }

    private var isOver = false

    private func carryOut(_ occurrence: Occurrence) {
        switch occurrence {
        case .loopTurn(let loop, let life): living(life)?.turn(loop: loop)
        case .storeAsked(let life): if let process = living(life) { beginCommit(process) }
        case .storeFinished(let life): if let process = living(life) { finishCommit(process) }
        case .coreDue(let life): living(life)?.advance()
        case .brokerStarted: startBroker()
        case .linkOpened(let link): openLink(link)
        case .bytesArrived(let link, let end): bytesArrived(link, end)
        case .closeNoticed(let link, let end): closeNoticed(link, end)
        case .silenceChecked(let link): checkSilence(link)
        case .clientDue(let client): clients[client].timePassed()
        case .clientPowered(let client):
            if !surroundings.isHealing || isMain(client) { clients[client].powerOn() }
        case .clientStarted(let client):
            if !surroundings.isHealing || isMain(client) { clients[client].start() }
        case .clientUsed: useClient()
        case .habitShown: showHabit()
        case .troubleComes: makeTrouble()
        case .storeHasRoom: setStore(isFull: false)
        case .backupMade: makeBackup()
        case .backupPutBack: putBackupBack()
        }
        if surroundings.isHealing { lookForRest() }
    }

    /// The process, if it is still this one.
    private func living(_ life: Int) -> BrokerProcess? {
        process?.life == life ? process : nil
    }

    // MARK: Broker

    func startBroker() {
        guard process == nil else { return }
        lives += 1
        ledger.history.note(.broker, "starts, life \(lives)")
        process = BrokerProcess(surroundings, network, store, life: lives)
        ledger.brokerStarted()
    }

    /// The process is killed, or the machine loses its power.
    func crash(inFlightBatch: Bool) {
        guard let dead = process else { return }
        process = nil
        network.brokerDied(life: dead.life)
        store.crash(inFlightBatch: inFlightBatch)
        ledger.brokerDied(
            inFlightBatch ? "dies, the batch under way is stored" : "dies, with what is not stored")
        surroundings.enter(
            .brokerStarted, after: surroundings.troubleRandom.milliseconds(in: 10...20_000))
    }

    /// The process is asked to stop: it says good-bye and stores what it has gathered.
    func stop() {
        guard let stopping = process else { return }
        process = nil
        stopping.sayGoodbye()
        stopping.storeGathered(in: store)
        stopping.prepareToStop()
        stopping.storeGathered(in: store)
        store.crash(inFlightBatch: false)
        ledger.brokerStopped()
        surroundings.enter(
            .brokerStarted, after: surroundings.troubleRandom.milliseconds(in: 10...5_000))
    }

    private func beginCommit(_ process: BrokerProcess) {
        guard process.beginCommit(in: store) else { return }
        surroundings.enter(.storeFinished(life: process.life), after: drawCommitTime())
    }

    private func drawCommitTime() -> UInt64 {
        if isStoreSlow, !surroundings.isHealing {
            return surroundings.storeRandom.milliseconds(in: 500...5_000)
        }
        return surroundings.storeRandom.milliseconds(in: 0...profile.commitMaximum)
    }

    var isStoreSlow = false

    private func finishCommit(_ process: BrokerProcess) {
        guard store.isCommitting else { return }
        let mayFail = !surroundings.isHealing && ledger.violation == nil
        if mayFail, surroundings.storeRandom.happens(perTenThousand: profile.failedCommits) {
            // A failed sync is final: nobody knows what the disk has, and the process ends.
            crash(inFlightBatch: surroundings.storeRandom.happens(perTenThousand: 5_000))
            return
        }
        process.finishCommit(in: store)
    }

    func setStore(isFull: Bool) {
        store.isFull = isFull
        ledger.storeChanged(isFull: isFull)
    }

    // MARK: Network

    private func openLink(_ link: Int) {
        let client = clients[network.links[link].client]
        guard network.links[link].isOpenAtClient else { return }
        if let gateway = gateway(of: link) {
            client.linkOpened(link, isAccepted: gateway.takeDevice(link))
            return
        }
        guard let process else {
            client.linkOpened(link, isAccepted: false)
            return
        }
        network.accepted(link, as: process.open(link: link), life: process.life)
        client.linkOpened(link, isAccepted: true)
    }

    private func bytesArrived(_ index: Int, _ end: End) {
        let bytes = network.takeArrived(on: index, at: end)
        let link = network.links[index]
        switch end {
        case .client:
            if link.isOpenAtBroker { living(link.life)?.drained(link.connection) }
            if link.isOpenAtClient { clients[link.client].received(bytes) }
        case .broker:
            if let gateway = gateway(of: index) { return gateway.carry(bytes, from: index) }
            if !bytes.isEmpty { living(link.life)?.arrived(bytes, on: link.connection) }
        }
    }

    private func closeNoticed(_ index: Int, _ end: End) {
        guard network.learnOfClose(index, by: end) else { return }
        let link = network.links[index]
        switch end {
        case .client: clients[link.client].linkClosed(index)
        case .broker:
            if let gateway = gateway(of: index) { return gateway.loseDevice(index) }
            living(link.life)?.closed(link.connection)
        }
    }

    /// The gateway that a device's link leads to.
    private func gateway(of link: Int) -> SimulatedClient? {
        network.links[link].carrier.flatMap { clients[$0] as? SimulatedClient }
    }

    private func checkSilence(_ index: Int) {
        let link = network.links[index]
        guard link.isOpenAtBroker, let process = living(link.life),
            let again = process.checkSilence(link.connection)
        else { return }
        surroundings.enter(.silenceChecked(link: index), after: max(again, 1))
    }

    // MARK: The end

    /// The clients that come to rest connected: of a device's rivals, only the first.
    private func isMain(_ client: Int) -> Bool { !profile.clients[client].isRival }

    /// The troubles end: everything runs, and nothing is lost any more.
    private func heal() {
        ledger.history.note(.broker, "the troubles are over")
        surroundings.isHealing = true
        healingDeadline = surroundings.now.advanced(bySeconds: Simulation.healingSeconds)
        setStore(isFull: false)
        surroundings.enter(.brokerStarted, after: 0)
        for client in clients where isMain(client.index) {
            surroundings.enter(.clientPowered(client: client.index), after: 10)
            surroundings.enter(.clientStarted(client: client.index), after: 10)
        }
        for client in clients where !isMain(client.index) { client.powerOff() }
    }

    /// A little longer than a device has to come back after a restart, before its will is sent.
    private var graceEnds: Instant { ledger.brokerUpSince.advanced(bySeconds: 100) }

    /// Two hours: sixty of the longest waits before a reconnect.
    private static let healingSeconds: UInt64 = 7_200
    /// Long enough for every client to have come back and sent again.
    private static let backupHealingSeconds: UInt64 = 200
    /// Steps after the last message that a client received: many times what any run needs. It ends
    /// those in which nothing moves. How long a queue of many hundred takes to a client that
    /// answers once a second is the client's affair.
    private static let idleStepMaximum = 100_000

    private func lookForRest() {
        if ledger.receivedCount > progress.received {
            progress = (ledger.receivedCount, stepCount)
        }
        if ledger.hasBackup {
            // Clients wait for what the backup does not know: there is no rest to wait for.
            isOver =
                surroundings.now
                >= surroundings.healingSince.advanced(
                    bySeconds: Simulation.backupHealingSeconds)
            return
        }
        if surroundings.now > healingDeadline
            || stepCount > max(progress.step, options.stepMaximum) + Simulation.idleStepMaximum
        {
            ledger.accuse(.allComesToRest, whatIsLeft() ?? "the probe")
            return
        }
        // What a broker does by itself after a restart, as sending wills, it has done by then.
        guard whatIsLeft() == nil, surroundings.now >= graceEnds else { return }
        if probe == nil {
            sendProbe()
        } else {
            isOver = true
        }
    }

    /// Everybody can be reached: one message to all devices shows it.
    private func sendProbe() {
        let sender = clients.firstIndex { isMain($0.index) }!
        probe = ledger.sends.count
        let users = Array(0..<profile.userCount)
        clients[sender].send(
            Order(receivers: .users(users, isList: true), grade: .once, messageIdentifier: "probe"))
    }

    /// What has not come to rest; nil when everything has.
    private func whatIsLeft() -> String? {
        guard let process else { return "the broker is down" }
        for client in clients where isMain(client.index) {
            if !client.isConnected { return "client \(client.index) is not connected" }
            if !client.isAtRest { return "client \(client.index) waits for an answer" }
        }
        let gauges = process.broker.gauges()
        let connected = clients.count { $0.isConnected }
        if gauges.connections != connected {
            return "\(gauges.connections) connections of \(connected) clients"
        }
        if gauges.messagesInMemory > 0 { return "\(gauges.messagesInMemory) messages in memory" }
        if gauges.queuedMessages > 0 { return "\(gauges.queuedMessages) messages in queues" }
        if process.isReplaying { return "retained messages" }
        if process.broker.hasBatch || store.isCommitting { return "a batch" }
        return store.isDrained ? nil : "messages in the store"
    }

    private func settle() {
        for client in clients where client.isConnected {
            // Not the device's last CONNACK: those of rivals may overtake each other.
            if let session = client.session { ledger.lasts(session) }
        }
        if surroundings.has(.canary), let probe { ledger.loseLine(probe) }
        ledger.settle()
    }
}

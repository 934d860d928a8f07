// One life of the broker's process: the real core with its event loops, from a start to a stop or a
// crash. What it has not committed dies with it.

import BrokerCore
import Primitives

final class BrokerProcess {
    /// Which life it is, counted from 1.
    let life: Int
    var broker: Broker
    var effects: Effects
    private let surroundings: Surroundings
    private let loops: UnsafeMutablePointer<SimulatedLoop>
    private let loopCount: Int
    private var isStoreAsked = false
    private var deadlineEntered = Instant.never

    init(
        _ surroundings: Surroundings, _ network: SimulatedNetwork, _ store: FaultyStore, life: Int
    ) {
        self.life = life
        self.surroundings = surroundings
        loopCount = surroundings.profile.loopCount
        loops = .allocate(capacity: loopCount)
        for loop in 0..<loopCount {
            (loops + loop).initialize(
                to: SimulatedLoop(surroundings, network, index: UInt8(loop), life: life))
        }
        effects = Effects(loopCount: loopCount)
        broker = Broker(
            limits: surroundings.profile.limits, loopCount: loopCount, at: surroundings.moment)
        let state = store.restore(into: &broker)
        do throws(RestoreError) {
            try broker.finishRestoring(
                state, newEpochSeed: surroundings.secretRandom.next(), at: surroundings.moment)
        } catch {
            // The run ends with this.
            surroundings.ledger.accuse(.startsAgain, "\(error)")
            return
        }
        if state.stamp == nil { setUp(store) }
        lookAround()
    }

    deinit {
        loops.deinitialize(count: loopCount)
        loops.deallocate()
    }

    /// What an operator does before the first client comes: an app, and a token for each user.
    private func setUp(_ store: FaultyStore) {
        do throws(NoRoom) {
            try addTokens()
        } catch {
            preconditionFailure("a new store without room")
        }
        storeGathered(in: store)
    }

    private func addTokens() throws(NoRoom) {
        _ = try broker.addApp(Array(Profile.app.utf8), keyDigest: nil, rights: .everything)
        for user in 0..<surroundings.profile.userCount {
            let isGateway = surroundings.profile.clients.contains {
                $0.user == user && $0.isGateway
            }
            let token = Token(
                identifier: Array(Profile.token(user).utf8), digest: SimulatedDoorkeeper.digest,
                app: Array(Profile.app.utf8), user: Array(Profile.userName(user).utf8),
                device: nil, expiresUnixSeconds: .max,
                rights: isGateway ? BrokerProcess.gatewayRights : rights(ofUser: user))
            let isNew = try broker.addToken(token)
            precondition(isNew, "a token that is there already")
        }
    }

    private static let gatewayRights = compiled(
        Rights.everything.texts + [Array("attach:*".utf8)])

    private func rights(ofUser user: Int) -> Rights? {
        surroundings.profile.restrictions[user].map { restriction in
            var texts = restriction.texts
            if surroundings.has(.wideSending) || surroundings.has(.uncheckedWill) {
                texts += ["send:*", "publish:#", "broadcast"]
            }
            if surroundings.has(.rawNames), let name = restriction.deviceName {
                texts.append("subscribe:\(name)/#")
            }
            if surroundings.has(.wideSubscribing) { texts.append("subscribe:#") }
            return BrokerProcess.compiled(texts.map { Array($0.utf8) })
        }
    }

    private static func compiled(_ texts: [[UInt8]]) -> Rights {
        do throws(RightsError) {
            return try Rights(texts)
        } catch {
            preconditionFailure("rights that are none: \(error)")
        }
    }

    /// Stores what is gathered, batch by batch, as a process does that is being stopped.
    func storeGathered(in store: FaultyStore) {
        if store.isCommitting { finishCommit(in: store) }
        while beginCommit(in: store) { finishCommit(in: store) }
    }

    /// What the core writes down when nothing is taken in any more.
    func prepareToStop() {
        if surroundings.has(.forgottenResults) { return }
        broker.prepareToStop()
    }

    // MARK: Lanes

    /// Whether retained messages are still being sent to somebody.
    var isReplaying: Bool { (0..<loopCount).contains { loops[$0].awaitsDrain } }

    /// Gives a new connection to a event loop, in turn.
    func open(link: Int) -> ConnectionID {
        loops[link % loopCount].opened(link: link)
    }

    func arrived(_ bytes: [UInt8], on connection: ConnectionID) {
        loops[Int(connection.loop)].arrived(bytes, on: connection)
        askForTurn(Int(connection.loop))
    }

    /// The client has read: there is room for more.
    func drained(_ connection: ConnectionID) {
        loops[Int(connection.loop)].drained(connection)
    }

    func closed(_ connection: ConnectionID) {
        loops[Int(connection.loop)].closed(connection, .lost)
        askForTurn(Int(connection.loop))
    }

    /// See ``SimulatedLane/checkSilence(_:)``.
    func checkSilence(_ connection: ConnectionID) -> UInt64? {
        defer { askForTurn(Int(connection.loop)) }
        return loops[Int(connection.loop)].checkSilence(connection)
    }

    func turn(loop: Int) {
        loops[loop].turn(self)
        lookAround()
    }

    func sayGoodbye() {
        for loop in 0..<loopCount { loops[loop].sayGoodbye() }
    }

    private func askForTurn(_ loop: Int) {
        guard !loops[loop].isTurnComing else { return }
        loops[loop].isTurnComing = true
        surroundings.enter(
            .loopTurn(loop: loop, life: life),
            after: surroundings.networkRandom.milliseconds(in: 0...2))
    }

    // MARK: Core

    /// What the core is due to do by itself.
    func advance() {
        deadlineEntered = .never
        broker.advance(to: surroundings.moment, effects: &effects)
        lookAround()
    }

    /// After every entry into the core: wakes the event loops it has left something for, and the writer,
    /// and sets the clock.
    private func lookAround() {
        for loop in 0..<loopCount where !effects[UInt8(loop)].isEmpty { askForTurn(loop) }
        if broker.hasBatch, !isStoreAsked {
            isStoreAsked = true
            if surroundings.misbehaves(.lostWakeUp, perTenThousand: 20) { return }
            surroundings.enter(.storeAsked(life: life), after: 0)
        }
        if let deadline = broker.nextDeadline, deadline < deadlineEntered, deadline != .never {
            deadlineEntered = deadline
            surroundings.agenda.enter(
                .coreDue(life: life), at: max(deadline, surroundings.now))
        }
    }

    // MARK: Store

    /// Gives the store the batch that has gathered; false when there is none.
    func beginCommit(in store: FaultyStore) -> Bool {
        isStoreAsked = false
        var batch = StoreBatch()
        guard !store.isCommitting, broker.takeBatch(into: &batch, at: surroundings.moment) else {
            return false
        }
        if let result = store.begin(batch) {
            broker.stored(result, at: surroundings.moment, effects: &effects)
            lookAround()
        }
        return true
    }

    /// Brings the result of the commit that is under way.
    func finishCommit(in store: FaultyStore) {
        var result = StoreResult()
        let isNews = store.finish(into: &result)
        if isNews { broker.stored(result, at: surroundings.moment, effects: &effects) }
        lookAround()
    }
}

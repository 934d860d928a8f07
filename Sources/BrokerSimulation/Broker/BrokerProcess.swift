// The broker's process from a start to a stop or a crash: the real core with its event loops. A
// crash loses what it has not committed.

import BrokerCore
import BrokerTerms
import Primitives

final class BrokerProcess {
    /// The number of this start, counted from 1.
    let life: Int
    var broker: Broker
    var effects: Effects
    private let context: SimulationContext
    private let loops: UnsafeMutablePointer<SimulatedLoop>
    private let loopCount: Int
    private var isStoreAsked = false
    private let isStoreNew: Bool
    private var deadlineEntered = Instant.never
    /// An operator's removals of kept messages whose outcome was not taken.
    private var removals: [UInt64] = []

    convenience init(
        _ context: SimulationContext, network: SimulatedNetwork, store: FaultyStore, life: Int
    ) {
        self.init(context, network: network, life: life) { store.restore(into: &$0) }
        if isStoreNew { setUp(store) }
        scheduleWork()
    }

    /// The process of a node that becomes the primary.
    convenience init(
        _ context: SimulationContext, network: SimulatedNetwork, node: ClusterNode, life: Int
    ) {
        self.init(context, network: network, life: life, node: node) {
            node.restoredStore.restore(into: &$0)
        }
        scheduleWork()
    }

    private init(
        _ context: SimulationContext, network: SimulatedNetwork, life: Int,
        node: ClusterNode? = nil, restore: (inout Broker) -> RestoredState
    ) {
        self.life = life
        self.context = context
        loopCount = context.profile.loopCount
        loops = .allocate(capacity: loopCount)
        for loop in 0..<loopCount {
            (loops + loop).initialize(
                to: SimulatedLoop(context, network, index: UInt8(loop), life: life, node: node))
        }
        effects = Effects(loopCount: loopCount)
        broker = Broker(
            limits: BrokerProcess.limits(context), loopCount: loopCount, at: context.moment)
        let state = restore(&broker)
        isStoreNew = state.stamp == nil
        do throws(RestoreError) {
            try broker.finishRestoring(
                state, newEpochSeed: context.secretRandom.next(), at: context.moment)
        } catch {
            // This ends the run.
            context.oracle.fail(.startsAgain, "\(error)")
        }
    }

    deinit {
        loops.deinitialize(count: loopCount)
        loops.deallocate()
    }

    /// The operator's setup before the first client connects: an app, and a token for each user.
    private func setUp(_ store: FaultyStore) {
        do throws(NoRoom) {
            try addTokens()
        } catch {
            preconditionFailure("a new store is full: \(error)")
        }
        storePending(in: store)
    }

    private func addTokens() throws(NoRoom) {
        _ = try broker.addApp(Array(Profile.app.utf8), keyDigest: nil, rights: .everything)
        for user in 0..<context.profile.userCount {
            let isGateway = context.profile.clients.contains {
                $0.user == user && $0.isGateway
            }
            let token = Token(
                identifier: Array(Profile.token(user).utf8), digest: SimulatedAuthenticator.digest,
                app: Array(Profile.app.utf8), user: Array(Profile.userName(user).utf8),
                device: nil, expiresUnixSeconds: .max,
                rights: isGateway ? BrokerProcess.gatewayRights : rights(ofUser: user))
            let isNew = try broker.addToken(token)
            precondition(isNew, "token-of-user\(user) exists already")
        }
        for service in context.profile.services {
            let token = Token(
                identifier: Array(service.token.utf8), digest: SimulatedAuthenticator.digest,
                app: Array(Profile.app.utf8), user: Array(service.rawValue.utf8), device: nil,
                expiresUnixSeconds: .max,
                rights: service == .relay ? BrokerProcess.relayRights : nil)
            let isNew = try broker.addToken(token)
            precondition(isNew, "\(service.token) exists already")
        }
    }

    /// The limits of a run; those of planted bugs have another policy.
    private static func limits(_ context: SimulationContext) -> CoreLimits {
        var limits = context.profile.limits
        switch context.options.mutation {
        case .transientWake: limits.appPolicy.wake?.wakesForTransient = true
        case .hastyWake: limits.appPolicy.wake?.intervalSeconds = 1
        case .acceptedSilence: limits.appPolicy.moderation?.acceptsWhenSilent = true
        case .unaskedMessages: limits.appPolicy.moderation?.coversUsers = false
        default: break
        }
        return limits
    }

    private static let relayRights = compiled(Rights.everything.texts + [Array("wake:*".utf8)])

    private static let gatewayRights = compiled(
        Rights.everything.texts + [Array("attach:*".utf8)])

    private func rights(ofUser user: Int) -> Rights? {
        context.profile.restrictions[user].map { restriction in
            var texts = restriction.texts
            if context.has(.wideSending) || context.has(.uncheckedWill) {
                texts += ["send:*", "publish:#", "broadcast"]
            }
            if context.has(.rawNames), let name = restriction.deviceName {
                texts.append("subscribe:\(name)/#")
            }
            if context.has(.wideSubscribing) { texts.append("subscribe:#") }
            return BrokerProcess.compiled(texts.map { Array($0.utf8) })
        }
    }

    private static func compiled(_ texts: [[UInt8]]) -> Rights {
        do throws(RightsError) {
            return try Rights(texts)
        } catch {
            preconditionFailure("invalid rights: \(error)")
        }
    }

    /// Stores the pending batches one by one, as a stopping process does.
    func storePending(in store: FaultyStore) {
        if store.isCommitting { finishCommit(in: store) }
        while beginCommit(in: store) { finishCommit(in: store) }
    }

    /// Lets the core store its results when it accepts no more events.
    func prepareToStop() {
        if context.has(.forgottenResults) { return }
        broker.prepareToStop()
    }

    // MARK: Loops

    /// Whether retained messages are still being sent to a session.
    var isReplaying: Bool { (0..<loopCount).contains { loops[$0].awaitsDrain } }

    /// Assigns a new connection to an event loop, round robin.
    func open(link: Int) -> ConnectionID {
        loops[link % loopCount].opened(link: link)
    }

    func arrived(_ bytes: [UInt8], on connection: ConnectionID) {
        loops[Int(connection.loop)].arrived(bytes, on: connection)
        scheduleTurn(Int(connection.loop))
    }

    /// The client has read: there is room for more.
    func drained(_ connection: ConnectionID) {
        loops[Int(connection.loop)].drained(connection)
    }

    func closed(_ connection: ConnectionID) {
        loops[Int(connection.loop)].closed(connection, .lost)
        scheduleTurn(Int(connection.loop))
    }

    /// See ``SimulatedLoop/checkSilence(_:)``.
    func checkSilence(_ connection: ConnectionID) -> UInt64? {
        defer { scheduleTurn(Int(connection.loop)) }
        return loops[Int(connection.loop)].checkSilence(connection)
    }

    func turn(loop: Int) {
        loops[loop].turn(self)
        scheduleWork()
    }

    func writeShutdown() {
        for loop in 0..<loopCount { loops[loop].writeShutdown() }
    }

    private func scheduleTurn(_ loop: Int) {
        guard !loops[loop].isTurnComing else { return }
        loops[loop].isTurnComing = true
        context.enter(
            .loopTurn(loop: loop, life: life),
            after: context.networkRandom.milliseconds(in: 0...2))
    }

    // MARK: Core

    /// Runs the core's due deadlines.
    func advance() {
        deadlineEntered = .never
        broker.advance(to: context.moment, effects: &effects)
        scheduleWork()
    }

    /// Schedules turns of loops that have effects, the writer, and the core's next deadline. Called
    /// after every entry into the core.
    private func scheduleWork() {
        for loop in 0..<loopCount where !effects[UInt8(loop)].isEmpty { scheduleTurn(loop) }
        if broker.hasBatch, !isStoreAsked {
            isStoreAsked = true
            if context.misbehaves(.lostWakeUp, perTenThousand: 20) { return }
            context.enter(.storeAsked(life: life), after: 0)
        }
        if let deadline = broker.nextDeadline, deadline < deadlineEntered, deadline != .never {
            deadlineEntered = deadline
            context.eventQueue.enter(
                .coreDue(life: life), at: max(deadline, context.now))
        }
    }

    // MARK: Services

    /// The connected devices of a user, as an operator sees them.
    func connectionCount(ofUser user: Int) -> Int {
        broker.userDescription(
            app: Array(Profile.app.utf8), user: Array(Profile.userName(user).utf8),
            at: context.moment)?.summary.connectionCount ?? 0
    }

    /// An operator sets a template. False if the store has no room for it.
    func setTemplate(_ json: String, kind: UInt8) -> Bool {
        defer { scheduleWork() }
        guard let kind = WakeTarget.Kind(rawValue: kind) else { return false }
        do throws(NoRoom) {
            return try broker.setWakeTemplate(
                Array(json.utf8), for: kind, app: Array(Profile.app.utf8))
        } catch {
            return false
        }
    }

    // MARK: Conversations

    /// An operator removes a message from a conversation.
    func removeFromHistory(_ number: UInt64, of selection: ConversationSelection) {
        guard case .pending(let inspection)? = broker.removeFromHistory(number, of: selection)
        else { return }
        removals.append(inspection)
        scheduleWork()
    }

    /// A whole conversation, the newest message first; nil if there is no such user or group.
    func readHistory(
        of selection: ConversationSelection, pageCount: Int, in store: FaultyStore
    ) -> [QueuedMessage]? {
        // As an operator does who removes messages, with each page.
        removals.removeAll { broker.takeDrop($0) != nil }
        var messages: [QueuedMessage] = []
        var before: UInt64? = .max
        while let end = before {
            let inspection = broker.readHistory(
                of: selection, before: end, search: HistorySearch(), countMaximum: pageCount,
                contentMaximum: 2_000)
            guard let inspection else { return nil }
            if inspection == 0 { return messages }
            storePending(in: store)
            guard let page = broker.takeHistory(inspection) else {
                preconditionFailure("page \(inspection) is not read")
            }
            messages += page.messages
            before = page.next
        }
        return messages
    }

    // MARK: Store

    /// Passes the pending batch to the store; false if there is none.
    func beginCommit(in store: FaultyStore) -> Bool {
        isStoreAsked = false
        var batch = StoreBatch()
        guard !store.isCommitting, takeBatch(into: &batch) else { return false }
        if let result = store.begin(batch) { finish(result) }
        return true
    }

    /// Takes the pending batch; false if there is none.
    func takeBatch(into batch: inout StoreBatch) -> Bool {
        isStoreAsked = false
        guard broker.takeBatch(into: &batch, at: context.moment) else { return false }
        if broker.takeResumption() {
            // Events of each loop may have waited for the batch.
            for loop in 0..<loopCount { scheduleTurn(loop) }
            scheduleWork()
        }
        return true
    }

    /// Passes a result to the core.
    func finish(_ result: StoreResult) {
        broker.stored(result, at: context.moment, effects: &effects)
        scheduleWork()
    }

    /// All loops run: what may leave has changed.
    func wakeLoops() {
        for loop in 0..<loopCount { scheduleTurn(loop) }
    }

    /// Passes the result of the commit in flight to the core.
    func finishCommit(in store: FaultyStore) {
        var result = StoreResult()
        let isNews = store.finish(into: &result)
        if isNews { finish(result) } else { scheduleWork() }
    }
}

// The world that the core's tests are written in: a broker, a store without a disk, and clients
// with names. Events go in by one call each, effects come out as lines, time passes when it is told
// to.

import BrokerSimulation
import BrokerTerms
import Primitives

@testable import BrokerCore

/// A broker and everything around it. Users belong to the app `app`, sessions are written
/// `user/device`.
final class World {
    var broker: Broker
    var store = InMemoryStore()
    var now = Moment(
        instant: Instant(milliseconds: 1_000_000), unixMilliseconds: 1_700_000_000_000)
    var limits: CoreLimits { didSet { broker.limits = limits } }
    /// Whether the log's notes are in the transcript.
    var showsNotes = false
    var effects = Effects(loopCount: 2)
    private var transcript: [String] = []
    /// Whether the effects of the last call told of something that no stored batch contains.
    private(set) var toldUnstored = false
    /// When each message that the broker sent was accepted, since it was last emptied.
    var acceptances: [UInt64?] = []
    private var batch = StoreBatch()
    private var result = StoreResult()
    /// What the edge has verified for claims of the next event.
    var identities = TurnIdentities()
    private var nextSlot = 0
    private var nextRandom: UInt64 = 1_000

    /// The connection each session had last.
    private(set) var connections: [String: ConnectionID] = [:]
    private var names: [ConnectionID: String] = [:]
    /// What the last answer to a request said.
    private(set) var lastBody = ""
    private(set) var lastAnswer: [UInt8] = []
    /// What the broker called the last client that named no device.
    private(set) var assignedDevice = ""
    /// The cookie each session was given last.
    private(set) var cookies: [String: UInt64] = [:]
    /// Whether each session was told that it has a will.
    private(set) var hasWill: [String: Bool] = [:]
    /// How many conversations with unread messages each session was told last, if it pulls.
    private(set) var unreadCounts: [String: UInt8] = [:]
    /// The epoch each session was told last.
    private(set) var epochs: [String: UInt64] = [:]

    static let app = Array("app".utf8)
    static let keyDigest = Digest(words: (1, 2, 3, 4))
    static let tokenDigest = Digest(words: (5, 6, 7, 8))

    init(limits: CoreLimits = CoreLimits()) {
        self.limits = limits
        broker = Broker(limits: limits, loopCount: 2, at: now)
        restore()
        _ = try! broker.addApp(World.app, keyDigest: World.keyDigest, rights: .everything)
        settle()
    }

    // MARK: - Events

    /// One event; its ranges are in `bytes`.
    func step(_ event: Event, bytes: [UInt8] = []) {
        bytes.withUnsafeBytes {
            broker.step(
                event, bytes: $0, identities: identities, at: now, effects: &effects)
        }
        collect()
    }

    @discardableResult
    func connect(
        _ name: String, clean: Bool = false, expiry: UInt32? = nil, window: UInt16 = .max,
        resume: (epoch: UInt64, number: UInt64)? = nil,
        outbox: (epoch: UInt64, seen: UInt64, used: UInt64)? = nil, isReconnect: Bool = false,
        cookie: UInt64? = nil, loop: UInt8 = 0, dialect: SessionDialect = .mrt,
        gateway: String? = nil, claim: ((inout [UInt8]) -> Claim)? = nil,
        will: ((inout [UInt8]) -> WillRequest)? = nil,
        adjust: (inout ConnectRequest) -> Void = { _ in }
    ) -> ConnectionID {
        let (user, device) = World.split(name)
        var bytes = World.preceding
        let deviceRange = bytes.appendRange(device)
        let identity: Claim
        if let gateway {
            identity = .attached(gateway: connections[gateway]!, user: bytes.appendRange(user))
        } else {
            identity =
                claim?(&bytes)
                ?? .appKey(
                    app: bytes.appendRange("app"), digest: World.keyDigest,
                    user: bytes.appendRange(user))
        }
        nextSlot += 1
        let start = gateway == nil ? 0 : ConnectionID.channelSlotsStart
        let connection = ConnectionID(loop: loop, slot: start + nextSlot, generation: 1)
        names[connection] = name
        connections[name] = connection
        var request = ConnectRequest(
            dialect: dialect, claim: identity, device: deviceRange, startsClean: clean,
            isReconnect: isReconnect, keepAliveSeconds: 60, sessionExpirySeconds: expiry,
            inboxWindow: window,
            resume: resume.map { InboxPosition(epoch: $0.epoch, number: $0.number) },
            cookie: cookie,
            outbox: outbox.map {
                OutboxPosition(epoch: $0.epoch, resultsSeen: $0.seen, highestUsed: $0.used)
            },
            newEpoch: random(), newCookie: random())
        if let will = will?(&bytes) { request.setWill(will) }
        adjust(&request)
        step(.connectReceived(connection, request), bytes: bytes)
        return connection
    }

    /// Connects with an outbox epoch of its own, commits, and forgets what was said: for tests that
    /// are about what comes afterwards.
    func begin(_ names: String..., expiry: UInt32? = nil, window: UInt16 = .max) {
        for name in names {
            connect(name, expiry: expiry, window: window, outbox: (epoch: 7, seen: 0, used: 0))
        }
        settle()
        _ = lines()
    }

    func send(
        _ name: String, _ number: UInt64, to target: Target, _ text: String,
        grade: Grade = .durable, id: String = "", expiry: UInt64? = nil, time: UInt64 = 0,
        byteCount: UInt32? = nil, isRaw: Bool = false, isKept: Bool? = nil, asks: SendAsks = []
    ) {
        var bytes = World.preceding
        var request = SendRequest(
            number: grade == .transient ? 0 : number, grade: grade,
            target: target.append(to: &bytes), messageIdentifier: bytes.appendRange(id),
            expirySeconds: expiry, senderUnixMilliseconds: time, isRaw: isRaw,
            payload: bytes.appendRange((isRaw ? "" : "\0") + text),
            messageByteCount: byteCount ?? UInt32(text.utf8.count) + 16)
        request.isKept = isKept == true
        request.isNeverKept = isKept == false
        request.asks = asks
        if !asks.isEmpty { request.reference = 0xA0 + number }
        step(.sendReceived(connections[name]!, request), bytes: bytes)
    }

    /// A message of an operator, as a user of the app.
    func send(
        as user: String, to target: Target, _ text: String, grade: Grade, isRaw: Bool = false,
        isRetained: Bool = false, byteCount: UInt32? = nil, rights: Rights = .everything,
        device: String = "", key: SendKey? = nil, asks: SendAsks = [],
        adjust: (inout SendingUser) -> Void = { _ in }
    ) -> OperatorSend? {
        var bytes = World.preceding
        var request = SendRequest(
            number: 0, grade: grade, target: target.append(to: &bytes), isRaw: isRaw,
            payload: bytes.appendRange((isRaw ? "" : "\0") + text),
            messageByteCount: byteCount ?? UInt32(text.utf8.count) + 16)
        request.isRetained = isRetained
        request.asks = asks
        if !asks.isEmpty { request.reference = 0xF0 }
        var sender = SendingUser(
            app: World.app, user: Array(user.utf8), device: Array(device.utf8), rights: rights)
        adjust(&sender)
        let send = broker.send(
            request, in: bytes, as: sender, key: key, at: now, effects: &effects)
        collect()
        return send
    }

    /// A recall of an operator, as a user of the app.
    func recall(as user: String, _ reference: UInt64) -> OperatorRecall? {
        let recall = broker.recall(
            RecallRequest(message: .reference(reference)), in: [],
            as: SendingUser(app: World.app, user: Array(user.utf8)), at: now, effects: &effects)
        collect()
        return recall
    }

    func acknowledge(_ name: String, through number: UInt64) {
        step(.inboxAcknowledged(connections[name]!, throughNumber: number))
    }

    func seeResults(_ name: String, through number: UInt64) {
        step(.resultsSeen(connections[name]!, throughNumber: number))
    }

    func subscribe(_ name: String, _ filter: String, grade: Grade = .once, id: UInt64? = nil) {
        var bytes = World.preceding
        let wanted = FilterRequest(filter: bytes.appendRange(filter), grade: grade)
        let request = SubscribeRequest(
            requestIdentifier: id ?? freeRequest(name), filters: .one(wanted))
        step(.subscribeReceived(connections[name]!, request), bytes: bytes)
    }

    func unsubscribe(_ name: String, _ filter: String, id: UInt64? = nil) {
        var bytes = World.preceding
        let request = UnsubscribeRequest(
            requestIdentifier: id ?? freeRequest(name),
            filters: .one(bytes.appendRange(filter)))
        step(.unsubscribeReceived(connections[name]!, request), bytes: bytes)
    }

    /// The lowest number that no open request of a client bears.
    func freeRequest(_ name: String) -> UInt64 {
        let connection = connections[name]!
        let open = Set(
            broker.commits.openRequests.lazy.filter { $0.connection == connection }
                .map(\.identifier))
        return (1...).first { !open.contains($0) }!
    }

    func disconnect(_ name: String, expiry: UInt32? = nil, sendsWill: Bool = false) {
        let request = DisconnectRequest(sessionExpirySeconds: expiry, sendsWill: sendsWill)
        step(.disconnectReceived(connections[name]!, request))
    }

    func setWill(
        _ name: String, to target: Target, _ text: String, delay: UInt32 = 0,
        isRetained: Bool = false, id: UInt64? = nil
    ) {
        var bytes = World.preceding
        var message = SendRequest(
            number: 0, grade: .once, target: target.append(to: &bytes),
            payload: bytes.appendRange("\0" + text), messageByteCount: 20)
        message.isRetained = isRetained
        let request = WillRequest(delaySeconds: delay, message: message)
        step(
            .willSet(connections[name]!, requestIdentifier: id ?? freeRequest(name), request),
            bytes: bytes)
    }

    func clearWill(_ name: String, id: UInt64? = nil) {
        step(.willCleared(connections[name]!, requestIdentifier: id ?? freeRequest(name)))
    }

    /// A request about groups, made of ranges in the bytes it appends to.
    func groups(_ name: String, id: UInt64? = nil, _ make: (inout [UInt8]) -> GroupRequest) {
        var bytes = World.preceding
        let request = make(&bytes)
        step(
            .groupRequested(
                connections[name]!, requestIdentifier: id ?? freeRequest(name), request),
            bytes: bytes)
    }

    /// Asks for a group; the key tells one request from another.
    func createGroup(
        _ name: String, key: UInt64, title: String = "title", meta: String = "",
        allowed: [String]? = nil, id: UInt64? = nil
    ) {
        groups(name, id: id) { bytes in
            .create(
                GroupCreation(
                    key: key, title: bytes.appendRange(title), meta: bytes.appendRange(meta),
                    allowed: allowed.map { bytes.appendList($0) }, seed: random()))
        }
    }

    /// Makes a group and lets users join it; gives its id.
    func makeGroup(
        owner: String, members: [String] = [], allowed: [String]? = nil, meta: String = ""
    ) -> String {
        createGroup(owner, key: random(), meta: meta, allowed: allowed)
        settle()
        let group = lastBody
        for member in members {
            groups(member) { .join($0.appendRange(group)) }
        }
        settle()
        _ = lines()
        return group
    }

    /// What an operator does to a group.
    func operate(_ group: String, _ action: GroupAction) -> ReasonCode {
        let result = broker.changeGroup(
            app: World.app, Array(group.utf8), action, at: now, effects: &effects)
        collect()
        return result.reason
    }

    /// One slice of the deletion of a group; nil if there is none.
    func deleteGroup(_ group: String) -> GroupDeletion? {
        defer { collect() }
        return broker.deleteGroup(
            app: World.app, Array(group.utf8), at: now, effects: &effects)
    }

    /// A group that an operator makes for an owner; gives its id.
    func operatorGroup(owner: String, allowed: [String]? = nil) -> String {
        addUser(owner)
        let result = broker.createGroup(
            app: World.app, owner: Array(owner.utf8), title: Array("title".utf8), meta: [],
            allowed: allowed.map { $0.map { Array($0.utf8) } }, key: random(), seed: random(),
            at: now, effects: &effects)
        collect()
        precondition(result.reason == .success)
        return String(decoding: result.group, as: UTF8.self)
    }

    /// The network loses a connection.
    func lose(_ names: String...) {
        for name in names { step(.connectionClosed(connections[name]!, .lost)) }
    }

    /// Time passes, and the broker does what has become due.
    func pass(milliseconds: UInt64) {
        now.instant = now.instant.advanced(byMilliseconds: milliseconds)
        now.unixMilliseconds += milliseconds
        broker.advance(to: now, effects: &effects)
        collect()
    }

    var hasSystemSubscribers: Bool { broker.hasSystemSubscribers }

    /// The broker tells a value of its own.
    func publishSystem(_ topic: String, _ payload: String) {
        let value = SystemValue(topic: Array(topic.utf8), payload: Array(payload.utf8))
        broker.publishSystem([value], at: now, effects: &effects)
        collect()
    }

    func retireSystemValues() { broker.retireSystemValues() }

    func pass(seconds: UInt64) { pass(milliseconds: seconds * 1000) }

    // MARK: - What there is

    var gauges: Gauges { broker.gauges() }
    var counters: Counters { broker.counters }
    var hasBatch: Bool { broker.hasBatch }

    /// Replaces what the app's users may do.
    func setRights(_ texts: String...) {
        let rights = try! Rights(texts.map { Array($0.utf8) })
        _ = try! broker.setAppRights(World.app, rights: rights, at: now, effects: &effects)
        collect()
    }

    /// What the broker says of whether a user's device may do something.
    func explain(_ name: String, _ action: RightsAction) -> RightsExplanation {
        let (user, device) = World.split(name)
        var search = TokenSearch(
            matching: TokenFilter(app: World.app, user: Array(user.utf8)), after: nil,
            countMaximum: 100)
        while broker.advance(&search) {}
        var passwords = PasswordSearch(
            app: World.app, user: Array(user.utf8), after: nil, countMaximum: 100)
        while broker.advance(&passwords) {}
        return broker.explain(
            app: World.app, user: Array(user.utf8), device: Array(device.utf8),
            tokens: search.page.tokens, passwords: passwords.page.passwords, action)!
    }

    /// Makes a token of a user's; without rights of its own where none are given.
    func addToken(_ identifier: String, user: String, rights: [String]?) {
        let isNew = try! broker.addToken(
            Token(
                identifier: Array(identifier.utf8), digest: World.tokenDigest, app: World.app,
                user: Array(user.utf8), device: nil, expiresUnixSeconds: .max,
                rights: rights.map { try! Rights($0.map { Array($0.utf8) }) }))
        precondition(isNew, "two tokens \(identifier)")
    }

    /// Adds a token for the user of a connected device, which presents it as its new credential.
    func exchangeToken(_ identifier: String, of name: String) {
        addToken(identifier, user: Self.split(name).user, rights: nil)
        var bytes = World.preceding
        let claim = Claim.token(identifier: bytes.appendRange(identifier), digest: Self.tokenDigest)
        step(.credentialPresented(connections[name]!, claim), bytes: bytes)
    }

    /// Takes a token back.
    @discardableResult
    func revoke(_ identifier: String) -> Revocation {
        let filter = TokenFilter(app: World.app, identifier: Array(identifier.utf8))
        var revocation = Revocation(of: filter)
        while revokeSlice(of: &revocation) {}
        collect()
        return revocation
    }

    /// Revokes a key of the app, or of another one.
    func revokeKey(_ name: String, app: [UInt8] = World.app) -> KeyRevocation {
        defer { collect() }
        return broker.revokeKey(Array(name.utf8), app: app, at: now, effects: &effects)
    }

    /// Ends the connections of a user.
    func kick(_ user: String, sendsWills: Bool) {
        let filter = SessionFilter(
            app: World.app, user: Array(user.utf8), isConnected: true)
        var search = SessionSearch(matching: filter, countMaximum: .max)
        while kickSlice(of: &search, sendsWills: sendsWills) {}
    }

    /// Ends sessions for good.
    func deleteSessions(matching filter: SessionFilter) {
        var search = SessionSearch(matching: filter, countMaximum: .max)
        while deleteSlice(of: &search) {}
    }

    /// Ends the next slice of sessions. Returns false when the search is over.
    func deleteSlice(of search: inout SessionSearch) -> Bool {
        defer { collect() }
        return broker.deleteSessions(&search, at: now, effects: &effects)
    }

    /// Ends the connections of the next slice of sessions. Returns false when the search is over.
    func kickSlice(of search: inout SessionSearch, sendsWills: Bool = true) -> Bool {
        defer { collect() }
        return broker.kickSessions(&search, sendsWills: sendsWills, at: now, effects: &effects)
    }

    /// Revokes the next slice of tokens. Returns false when all were read.
    func revokeSlice(of revocation: inout Revocation) -> Bool {
        defer { collect() }
        return broker.revokeTokens(&revocation, at: now, effects: &effects)
    }

    /// Deletes the queues of sessions without a connection.
    func purgeQueues(matching filter: SessionFilter) {
        var away = filter
        away.isConnected = false
        var search = SessionSearch(matching: away, countMaximum: .max)
        while broker.purgeQueues(&search, at: now) {}
    }

    /// A page of sessions, and where the next one begins.
    func sessions(
        matching filter: SessionFilter, after place: UInt32? = nil, countMaximum: Int = 1_000
    ) -> (sessions: [SessionDescription], next: UInt32?) {
        var search = SessionSearch(matching: filter, after: place, countMaximum: countMaximum)
        while broker.advance(&search, at: now) {}
        return (search.descriptions, search.next)
    }

    /// Asks for a message to be dropped.
    func drop(_ number: UInt64, of selection: QueueSelection) -> QueueDrop? {
        defer { collect() }
        return broker.dropMessage(number, of: selection, at: now, effects: &effects)
    }

    /// From now on this is believed.
    func replaceTrust(_ trust: VoucherTrust) -> Int {
        defer { collect() }
        return broker.replaceTrust(trust, at: now, effects: &effects)
    }

    func addUser(_ name: String) { _ = try! broker.addUser(Array(name.utf8), app: World.app) }
    func addToken(_ token: Token) -> Bool { try! broker.addToken(token) }

    var nextDeadline: Instant? { broker.nextDeadline }

    /// Messages that the full queue of a session refused or dropped. The session may be connected.
    func overflowCount(_ name: String) -> UInt32 {
        let (user, device) = World.split(name)
        let known = broker.user(named: Array(user.utf8), app: Index(place: 0))
        let session = broker.session(of: known!, device: Name(Array(device.utf8)))
        return broker.sessions[session!].inbox.overflowCount.value
    }

    /// The highest number that was delivered to a session on its connection.
    func sentThrough(_ name: String) -> UInt64 {
        let session = broker.session(of: connections[name]!)!
        return broker.live.connectedSessions[broker.connectedIndex(of: session)].sentThrough
    }

    // MARK: - The store

    /// The broker believes the store full, or has forgotten that it was.
    func fillStore() { setFull(true) }
    func forgetFullStore() { setFull(false) }

    private func setFull(_ isFull: Bool) {
        var state = RestoredState(
            identity: StoreIdentity(high: 0, low: 0), nextMessage: StoredMessageID(raw: 1),
            stamp: nil, damaged: [])
        state.isFull = isFull
        state.rowRoomByteCount = broker.commits.room.rowRoomByteCount
        broker.commits.room.restore(state)
    }

    /// Hands a batch to the store, which has not carried it out yet; false when there is none.
    @discardableResult
    func beginCommit() -> Bool {
        guard broker.takeBatch(into: &batch, at: now) else { return false }
        broker.checkInvariants()
        store.begin(batch)
        return true
    }

    /// The batch that is under way is committed, and the core is told.
    func finishCommit(
        softLimitBytes: UInt64 = .max, usedBytes: UInt64 = 0, lacksDiskSpace: Bool = false
    ) {
        store.finish(into: &result)
        if lacksDiskSpace { (result.isFull, result.lacksDiskSpace) = (true, true) }
        result.softLimitBytes = softLimitBytes
        result.usedBytes = usedBytes
        broker.stored(result, at: now, effects: &effects)
        collect()
    }

    @discardableResult
    func commit() -> Bool {
        guard beginCommit() else { return false }
        finishCommit()
        return true
    }

    /// Commits until there is nothing left to commit.
    func settle() {
        var rounds = 0
        while commit() {
            rounds += 1
            precondition(rounds < 10_000, "the core always has another batch")
        }
        checkStore()
    }

    /// When nothing is under way, the core's sums are the store's.
    func checkStore() {
        var outlines = QueueOutlines()
        _ = store.restore(into: &outlines)
        var expected: [UInt64: QueueTally] = [:]
        for session in broker.sessions.places
        where broker.sessions.contains(session) && broker.sessions[session].isPersistent {
            let unstored = broker.unstoredEntries(of: session)
            let inbox = broker.sessions[session].inbox
            expected[inbox.queue.raw] = QueueTally(
                queue: inbox.queue, count: UInt64(inbox.count) - unstored.count,
                byteCount: inbox.byteCount - unstored.byteCount)
        }
        for offlineQueue in broker.queues.offlineQueues.places
        where broker.queues.offlineQueues.contains(offlineQueue) {
            let inbox = broker.queues.offlineQueues[offlineQueue]
            expected[inbox.queue.raw] = QueueTally(
                queue: inbox.queue, count: UInt64(inbox.count), byteCount: inbox.byteCount)
        }
        for index in broker.conversationTable.conversations.places
        where broker.conversationTable.conversations.contains(index) {
            let kept = broker.conversationTable.conversations[index].kept
            expected[kept.queue.raw] = QueueTally(
                queue: kept.queue, count: UInt64(kept.count), byteCount: kept.byteCount)
        }
        for index in broker.queues.leftovers.places where broker.queues.leftovers.contains(index) {
            let leftover = broker.queues.leftovers[index]
            let stored = outlines.tallies.removeValue(forKey: leftover.queue.raw)?.count ?? 0
            precondition(
                stored == leftover.count,
                "a leftover counts \(leftover.count), the store \(stored)")
        }
        precondition(
            outlines.tallies == expected.filter { $0.value.count > 0 },
            "the core counts \(expected), the store \(outlines.tallies)")
        checkRows()
    }

    /// What was in the batch that was handed over last.
    var lastBatch: StoreBatch { batch }

    /// The broker dies and starts again from what was committed.
    ///
    /// - Parameter committing: whether the batch under way still reaches the disk.
    func crash(committing: Bool = false) {
        store.crash(committing: committing)
        effects = Effects(loopCount: 2)
        connections = [:]
        broker = Broker(limits: limits, loopCount: 2, at: now)
        restore()
    }

    private func restore() {
        let state = store.restore(into: &broker)
        // The store is this broker's own: a row it cannot read is a fault of the test.
        try! broker.finishRestoring(state, newEpochSeed: random(), at: now)
    }

    // MARK: - Lines

    /// What was said to the clients since the last call.
    func lines() -> [String] {
        defer { transcript = [] }
        return transcript
    }

    /// The same without the inbox numbers, which a restart makes large.
    func unnumberedLines() -> [String] {
        lines().map { line in
            guard let start = line.firstIndex(of: "#"), let end = line[start...].firstIndex(of: " ")
            else { return line }
            return String(line[..<start] + line[end...].dropFirst())
        }
    }

    func collect() {
        broker.checkInvariants()
        toldUnstored = effects[0].tellsUnstored || effects[1].tellsUnstored
        for loop in 0..<2 as Range<UInt8> {
            for index in 0..<effects[loop].effects.count {
                let effect = effects[loop].effects[index]
                note(effect, loop)
                if case .note = effect, !showsNotes { continue }
                transcript.append(effects[loop].line(effect) { names[$0] ?? "nobody" })
            }
            acceptances += effects[loop].publications.elements.map(\.acceptedNanoseconds)
            effects[loop].removeAll()
        }
    }

    private func note(_ effect: Effect, _ loop: UInt8) {
        switch effect {
        case .accept(let connection, let acceptance):
            epochs[names[connection]!] = acceptance.epoch
            assignedDevice = String(
                decoding: acceptance.assignedDevice.bytes(in: effects[loop].bytes.bytes),
                as: UTF8.self)
            cookies[names[connection]!] = acceptance.cookie
            hasWill[names[connection]!] = acceptance.hasWill
            unreadCounts[names[connection]!] = acceptance.unreadCount
        case .mqtt(.answerFilters(let answer)):
            lastAnswer = Array(answer.codes.bytes(in: effects[loop].bytes.bytes))
            lastBody = ""
        case .mrt(.respond(_, _, _, let body)), .mrt(.reportRecall(_, _, let body)):
            lastAnswer = Array(body.bytes(in: effects[loop].bytes.bytes))
            lastBody = String(decoding: lastAnswer, as: UTF8.self)
        default:
            break
        }
    }

    private func random() -> UInt64 {
        nextRandom += 1
        return nextRandom
    }

    static func split(_ name: String) -> (user: String, device: String) {
        let parts = name.split(separator: "/", omittingEmptySubsequences: false)
        return (String(parts[0]), parts.count > 1 ? String(parts[1]) : "")
    }
}

/// The sums of a store's queues.
private struct QueueOutlines: StoreVisitor {
    var tallies: [UInt64: QueueTally] = [:]

    mutating func visitRecord(
        table: RecordTable, key: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer
    ) {}

    mutating func visitQueue(_ outline: QueueOutline) {
        tallies[outline.tally.queue.raw] = outline.tally
    }
}

extension Broker {
    /// What is in a session's window though the store refused it.
    fileprivate func unstoredEntries(
        of session: Index<Session>
    ) -> (count: UInt64, byteCount: UInt64) {
        guard let connected = sessions[session].connected else { return (0, 0) }
        var sum: (count: UInt64, byteCount: UInt64) = (0, 0)
        for position in 0..<live.connectedSessions[connected].window.count {
            let entry = live.connectedSessions[connected].window[position]
            guard entry.isUnstored else { continue }
            sum.count += 1
            sum.byteCount += UInt64(entry.byteCount)
        }
        return sum
    }
}

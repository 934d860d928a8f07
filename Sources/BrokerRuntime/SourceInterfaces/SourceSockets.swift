// The sockets of one event loop that speak for another system. Their users have sessions of the
// core like all others: a login and the acknowledgements of deliveries become packets of MRT, and
// what the core sends is translated. Other events go to the administration thread, one of a
// connection at a time.
//
// These clients acknowledge nothing. They answer pings, in the order of what they read: a pong
// acknowledges all messages before its ping.

import Administration
import BrokerCore
import BrokerTerms
import Credentials
import Dialects
import NetTransport
import Primitives
import SourceInterfaces
import WireFormat

/// The sockets of one event loop, which alone uses it.
final class SourceSockets {
    private let services: WebServices
    private let loopIndex: UInt8
    private let shards: Shards
    private let rates: ClientRates
    private let clock: BrokerClock
    private let log: LogWriter
    /// Bytes of a message after the login.
    private let messageByteCountMaximum: Int
    /// By slot, in pieces that are never copied: an array that doubles would leave its old memory.
    private var sockets: ContiguousArray<ContiguousArray<SourceSocket?>> = []
    private static let pieceCount = 64
    private(set) var count = 0
    /// Events without an answer.
    private var waitingCount = 0
    /// Sockets that do not read what they get, so that nothing of them is read.
    private var unread: [UnreadSocket] = []
    /// What members of groups are told of one change, until the core decides on the next.
    private var states: [StateKey: [UInt8]] = [:]
    /// Pings that came while a node of a cluster has no lease, the last one of each connection.
    private var heldPings: [ConnectionID: [UInt8]] = [:]
    /// Every second the sockets of some slots get a ping, so that each has one in its interval and
    /// no time of its own.
    private var nextRound = Instant.never
    private var round = 0
    private static let roundMilliseconds: UInt64 = 1_000
    private static let roundCount = Int(SocketLimits.pingMilliseconds / roundMilliseconds)

    /// A socket with too many unsent bytes.
    private struct UnreadSocket {
        let connection: ConnectionID
        /// When it read last.
        var since: Instant
        var byteCount: Int
    }

    /// Which state of which group is told, and in which form.
    private struct StateKey: Hashable {
        let app: [UInt8]
        let group: [UInt8]
        let event: String
        let form: SocketForm
    }

    init(
        _ services: WebServices, loopIndex: UInt8, shards: Shards, rates: ClientRates,
        clock: BrokerClock, packetMaximum: Int, log: LogWriter
    ) {
        messageByteCountMaximum =
            services.interfaces.files == nil
            ? SocketLimits.messageByteCountMaximum
            : min(
                packetMaximum - JSONLimits.framingByteCountMaximum,
                FileStoreLimits.eventByteCountMaximum)
        self.services = services
        self.log = log
        self.loopIndex = loopIndex
        self.shards = shards
        self.rates = rates
        self.clock = clock
    }

    /// Whether there is none, which is all that other connections pay for.
    var isEmpty: Bool { count == 0 }

    private subscript(connection: ConnectionID) -> SourceSocket? {
        get {
            let slot = connection.slot
            guard slot < sockets.count * Self.pieceCount, !connection.isChannel,
                let socket = sockets[slot / Self.pieceCount][slot % Self.pieceCount],
                socket.generation == connection.generation
            else { return nil }
            return socket
        }
        set {
            sockets[connection.slot / Self.pieceCount][connection.slot % Self.pieceCount] = newValue
        }
    }

    func contains(_ connection: ConnectionID) -> Bool { self[connection] != nil }

    /// Whether the next message of a connection is read, and how long it may be; nil if not.
    func messageByteCountMaximum(of connection: ConnectionID) -> Int? {
        guard let socket = self[connection], !socket.isWaiting else { return nil }
        switch socket.phase {
        case .opening, .stranger: return SocketLimits.firstMessageByteCountMaximum
        case .established: return messageByteCountMaximum
        case .authenticating, .ended: return nil
        }
    }

    /// Whether nothing more of a connection is read.
    func hasEnded(_ connection: ConnectionID) -> Bool {
        self[connection].map { $0.phase == .ended } ?? true
    }

    // MARK: - Beginning and end

    /// A connection speaks WebSocket from now on.
    func open(
        _ connection: ConnectionID, _ form: SocketForm,
        in loop: inout some BrokerLoop & ~Copyable
    ) {
        while sockets.count * Self.pieceCount <= connection.slot {
            sockets.append(ContiguousArray(repeating: nil, count: Self.pieceCount))
        }
        self[connection] = SourceSocket(generation: connection.generation, form: form)
        count += 1
        if count == 1 { nextRound = loop.now.advanced(byMilliseconds: Self.roundMilliseconds) }
        if let greeting = form.greeting(identifier: Self.identifier()) {
            write(greeting, to: connection, in: &loop)
        }
    }

    func close(_ connection: ConnectionID) {
        guard let socket = self[connection] else { return }
        if socket.isWaiting {
            waitingCount -= 1
            services.interfaces.queue.abandonEvent(of: connection, on: loopIndex)
        }
        heldPings[connection] = nil
        self[connection] = nil
        count -= 1
        if count == 0 { nextRound = .never }
    }

    private static func identifier() -> String {
        var digits: [UInt8] = []
        digits.append(hexadecimal: UInt64.random(in: 0...(.max)))
        return String(decoding: digits, as: UTF8.self)
    }

    /// Tells a client what is wrong, and ends the connection.
    func end(
        _ connection: ConnectionID, code: Int, _ message: String, of name: String? = nil,
        to number: UInt64? = nil, in loop: inout some BrokerLoop & ~Copyable
    ) {
        guard let form = self[connection]?.form else { return }
        write(
            form.refusal(code: code, message, of: name, to: number), to: connection, in: &loop)
        leave(connection, after: code, in: &loop)
    }

    private func leave(
        _ connection: ConnectionID, after code: Int, in loop: inout some BrokerLoop & ~Copyable
    ) {
        if let farewell = self[connection]?.form.farewell(after: code) {
            write(farewell, to: connection, in: &loop)
        }
        self[connection]?.phase = .ended
        loop.close(connection, afterFlush: true)
    }

    private func write(
        _ text: [UInt8], to connection: ConnectionID, in loop: inout some BrokerLoop & ~Copyable
    ) {
        loop.write(SocketText.frame(text), to: connection)
    }

    // MARK: - Messages of clients

    /// Whether a client has read so little of what it gets that no message of it is read. Each
    /// message has one answer at most, so this bounds them.
    func holdUnread(
        _ connection: ConnectionID, in loop: inout some BrokerLoop & ~Copyable
    ) -> Bool {
        let byteCount = loop.outgoingByteCount(of: connection)
        guard byteCount > ScheduleLimits.unsentBytesMaximum else { return false }
        unread.append(
            UnreadSocket(connection: connection, since: loop.now, byteCount: byteCount))
        loop.pauseReading(connection, for: .answers)
        return true
    }

    /// Reads on from clients that have read. Returns those that have read nothing for too long.
    private func releaseUnread(
        _ loop: inout some BrokerLoop & ~Copyable
    ) -> [ConnectionID] {
        var late: [ConnectionID] = []
        var rest: [UnreadSocket] = []
        for var socket in unread where contains(socket.connection) {
            let byteCount = loop.outgoingByteCount(of: socket.connection)
            if byteCount <= ScheduleLimits.unsentBytesMaximum {
                loop.resumeReading(socket.connection, from: .answers)
                continue
            }
            if byteCount != socket.byteCount {
                socket.byteCount = byteCount
                socket.since = loop.now
            }
            let due = socket.since.advanced(byMilliseconds: SocketLimits.silenceMilliseconds)
            guard due > loop.now else {
                // One that has not logged in has its own deadline.
                if self[socket.connection]?.phase == .established {
                    late.append(socket.connection)
                }
                continue
            }
            // This turn sends when it ends; afterwards the socket itself begins a turn.
            let isBlocked = loop.isSendBlocked(socket.connection)
            loop.nextWake = min(loop.nextWake, isBlocked ? due : loop.now)
            rest.append(socket)
        }
        unread = rest
        return late
    }

    /// Takes a message of a client.
    ///
    /// - Returns: a packet of MRT that stands for it; nil for none.
    func take(
        _ text: [UInt8], from connection: ConnectionID, in loop: inout some BrokerLoop & ~Copyable
    ) -> [UInt8]? {
        guard let socket = self[connection] else { return nil }
        switch socket.form.input(text) {
        case .ping(let content):
            if mayEmit(to: socket) {
                write(socket.form.pong(content), to: connection, in: &loop)
            } else {
                heldPings[connection] = content
            }
        case .pong: return takePong(from: connection)
        case .connect:
            guard socket.phase == .opening else {
                end(connection, code: 400, "the namespace is open", in: &loop)
                return nil
            }
            self[connection]?.phase = .stranger
            write(SocketForm.accepted(identifier: Self.identifier()), to: connection, in: &loop)
        case .connectElsewhere(let namespace):
            write(SocketForm.refused(namespace: namespace), to: connection, in: &loop)
            countRefusal(connection, in: &loop)
        case .event:
            services.interfaces.countRequest(to: .diuit)
            switch socket.phase {
            case .opening:
                services.interfaces.countRefusal(at: .diuit)
                end(connection, code: 400, "no CONNECT of Socket.IO", in: &loop)
            case .stranger: return authenticate(text, on: connection, socket, in: &loop)
            case .established: execute(text, of: connection, socket, in: &loop)
            case .authenticating, .ended: break
            }
        case .ignored: break
        case .close: leave(connection, after: 0, in: &loop)
        case .fault(let code, let message): end(connection, code: code, message, in: &loop)
        }
        return nil
    }

    /// Counts a message before the login that leads to nothing.
    private func countRefusal(
        _ connection: ConnectionID, in loop: inout some BrokerLoop & ~Copyable
    ) {
        guard var socket = self[connection], socket.phase != .established else { return }
        socket.refusedCount += 1
        self[connection] = socket
        if socket.refusedCount >= SocketLimits.eventsBeforeLoginMaximum {
            leave(connection, after: 403, in: &loop)
        }
    }

    /// Whether a node of a cluster has its lease: without one clients are to leave it.
    private func mayEmit(to socket: SourceSocket) -> Bool {
        guard shards.first.gate != nil else { return true }
        return shards.cores[shards.place(of: socket.credential)].gate?.mayEmit ?? true
    }

    var hasHeldPings: Bool { !heldPings.isEmpty }

    /// Answers the pings that were held.
    ///
    /// - Parameter mayEmit: whether that of a connection may be answered now.
    func answerHeldPings(
        in loop: inout some BrokerLoop & ~Copyable, where mayEmit: (ConnectionID) -> Bool
    ) {
        for (connection, content) in heldPings where mayEmit(connection) {
            heldPings[connection] = nil
            guard let socket = self[connection] else { continue }
            write(socket.form.pong(content), to: connection, in: &loop)
        }
    }

    private func takePong(from connection: ConnectionID) -> [UInt8]? {
        guard let socket = self[connection], socket.isPinging else { return nil }
        self[connection]?.isPinging = false
        guard socket.pingedNumber > 0 else { return nil }
        self[connection]?.pingedNumber = 0
        return MRT.Ack(inboxNumber: socket.pingedNumber).encoded(from: [])
    }

    // MARK: - Login

    private func authenticate(
        _ text: [UInt8], on connection: ConnectionID, _ socket: SourceSocket,
        in loop: inout some BrokerLoop & ~Copyable
    ) -> [UInt8]? {
        var event: SocketEvent?
        do throws(SourceRefusal) {
            let found = try SocketEvent(text, socket.form)
            event = found
            guard found.name == "authenticate" else {
                throw SourceRefusal(403, "the first event is authenticate")
            }
            let token = try found.text("authToken")
            return try login(token, number: found.number, on: connection, in: loop)
        } catch {
            let refusal = socket.form.refusal(
                code: Int(error.status), error.text, of: event?.name, to: event?.number)
            write(refusal, to: connection, in: &loop)
            services.interfaces.countRefusal(at: .diuit)
            if event?.name == "authenticate", error.status == 403 {
                let peer = loop.peer(of: connection)
                // Guesses are not logged above the limit.
                if services.operators.failures.note(peer, at: loop.now) == nil {
                    log.writeRefusal(
                        .authenticationFailed, of: peer, user: "", reason: .badUserNameOrPassword,
                        "interface diuit: no valid session")
                }
                leave(connection, after: 403, in: &loop)
            } else {
                countRefusal(connection, in: &loop)
            }
            return nil
        }
    }

    /// The CONNECT of a session.
    private func login(
        _ text: String, number: UInt64?, on connection: ConnectionID,
        in loop: borrowing some BrokerLoop & ~Copyable
    ) throws(SourceRefusal) -> [UInt8] {
        guard var socket = self[connection] else {
            preconditionFailure("a login on \(connection), which is no socket")
        }
        var source = Array(text.utf8)
        guard let token = OpaqueToken(presented: source.span.bytes) else {
            throw SourceRefusal(403, field: "authToken", "is no session")
        }
        socket.token = token.id
        socket.digest = Digest(token.digest)
        guard let holder = holder(of: socket, at: loop.now), case .user(_, let device) = holder.kind
        else { throw SourceRefusal(403, field: "authToken", "is no session that is valid") }
        let app = String(decoding: holder.app, as: UTF8.self)
        guard services.interfaces.apps.has(.diuit, app: app) else {
            throw SourceRefusal(403, field: "authToken", "is of an app without this interface")
        }
        var connect = MRT.Connect()
        connect.credential = .token(ByteRange(offset: 0, count: source.count))
        connect.keepAliveSeconds = SocketLimits.keepAliveSeconds
        connect.inboxWindow = SocketLimits.windowMessages
        if let device {
            connect.device = ByteRange(offset: source.count, count: device.count)
            source += device
        }
        socket.phase = .authenticating
        socket.wantsAnswer = number != nil
        socket.writtenNumber = number ?? 0
        self[connection] = socket
        return connect.encoded(from: source)
    }

    private func holder(of socket: SourceSocket, at now: Instant) -> CredentialHolder? {
        let unixSeconds = clock.moment(at: now).unixSeconds
        return shards.holder(of: socket.credential, unixSeconds: unixSeconds)
    }

    // MARK: - Events

    /// Gives an event to the administration thread. Until it is answered, nothing more is read.
    private func execute(
        _ text: [UInt8], of connection: ConnectionID, _ socket: SourceSocket,
        in loop: inout some BrokerLoop & ~Copyable
    ) {
        guard let holder = holder(of: socket, at: loop.now), case .user(let user, _) = holder.kind
        else {
            services.interfaces.countRefusal(at: .diuit)
            return end(connection, code: 403, "the session is not valid any more", in: &loop)
        }
        let app = String(decoding: holder.app, as: UTF8.self)
        guard services.interfaces.apps.has(.diuit, app: app) else {
            services.interfaces.countRefusal(at: .diuit)
            return end(connection, code: 404, Self.closedInterface, in: &loop)
        }
        let request = SourceRequest(
            route: .socketEvent(socket.form), query: [], content: text, contentForm: .json,
            host: "", user: SourceUser(app: app, user: String(decoding: user, as: UTF8.self)))
        let call = SourceCall(
            connection: connection, loop: loopIndex, request: request,
            credential: .presented(socket.credential, holder),
            address: loop.peer(of: connection), began: loop.now)
        let wait = services.requests.count(
            call.holder, perSecond: rates.values.messagesPerSecond, at: loop.now)
        // Nobody executes events any more when the broker is stopping.
        let isStopping = services.health.current.contains(.draining)
        guard !isStopping, wait == nil, add(call) else {
            services.interfaces.countRefusal(at: .diuit)
            // The loop does not read a file to find the number of its event.
            let event =
                text.count <= SocketLimits.messageByteCountMaximum
                ? try? SocketEvent(text, socket.form) : nil
            let detail =
                isStopping
                ? "the broker is stopping"
                : wait == nil ? "too many requests wait" : "more than limits.messagesPerSecond"
            let refusal = socket.form.refusal(
                code: !isStopping && wait != nil ? 429 : 503, detail, of: event?.name,
                to: event?.number)
            write(refusal, to: connection, in: &loop)
            return
        }
        self[connection]?.isWaiting = true
        waitingCount += 1
        loop.pauseReading(connection, for: .answers)
    }

    /// Gives an event to the administration thread, or to that of files if it may have one.
    private func add(_ call: SourceCall) -> Bool {
        let queue = services.interfaces.queue
        guard let files = services.interfaces.files,
            call.request.content.count > SocketLimits.messageByteCountMaximum
                || call.request.content.contains(Self.fileWord)
        else { return queue.add(call) }
        guard queue.reserve(call) else { return false }
        if files.add(call) { return true }
        queue.finish(call)
        return false
    }

    private static let closedInterface = "the interface is closed"

    /// What an event with a file has in it.
    private static let fileWord = Array("base64".utf8)

    /// Sends the answers that are there, and the pings that are due.
    ///
    /// - Returns: connections whose clients have read nothing for too long.
    func endTurn(_ loop: inout some BrokerLoop & ~Copyable) -> [ConnectionID] {
        let late = unread.isEmpty ? [] : releaseUnread(&loop)
        sendAnswersAndPings(in: &loop)
        return late
    }

    private func sendAnswersAndPings(in loop: inout some BrokerLoop & ~Copyable) {
        if waitingCount > 0 {
            for (connection, text) in services.interfaces.queue.takeAnswers(for: loopIndex) {
                // It may have closed.
                guard self[connection]?.isWaiting == true else { continue }
                self[connection]?.isWaiting = false
                waitingCount -= 1
                if !text.isEmpty { write(text, to: connection, in: &loop) }
                loop.resumeReading(connection, from: .answers)
            }
        }
        guard nextRound <= loop.now else {
            loop.nextWake = min(loop.nextWake, nextRound)
            return
        }
        // After a long pause of the machine nobody gets two pings at once.
        if loop.now.milliseconds(since: nextRound) >= SocketLimits.pingMilliseconds / 2 {
            nextRound = loop.now
        }
        // The lateness of the rounds of an interval does not add up: a client leaves that gets no
        // ping in time.
        while nextRound <= loop.now {
            nextRound = nextRound.advanced(byMilliseconds: Self.roundMilliseconds)
            round = (round + 1) % Self.roundCount
            sendPings(in: &loop)
        }
        loop.nextWake = min(loop.nextWake, nextRound)
    }

    /// Sends the pings of a round, and ends connections whose interface a reload has closed.
    private func sendPings(in loop: inout some BrokerLoop & ~Copyable) {
        let slotCount = sockets.count * Self.pieceCount
        for slot in stride(from: round, to: slotCount, by: Self.roundCount) {
            guard let socket = sockets[slot / Self.pieceCount][slot % Self.pieceCount],
                socket.phase == .established, mayEmit(to: socket)
            else { continue }
            let connection = ConnectionID(
                loop: loopIndex, slot: slot, generation: socket.generation)
            if let app = holder(of: socket, at: loop.now)?.app,
                !services.interfaces.apps.has(.diuit, app: String(decoding: app, as: UTF8.self))
            {
                end(connection, code: 404, Self.closedInterface, in: &loop)
                continue
            }
            if socket.isPinging { continue }
            beginPing(of: connection)
            write(socket.form.ping, to: connection, in: &loop)
        }
    }

    private func beginPing(of connection: ConnectionID) {
        guard let socket = self[connection] else { return }
        self[connection]?.isPinging = true
        self[connection]?.pingedNumber = socket.writtenNumber
    }
}

extension SourceSockets: MessageRelay {
    func frames(
        of message: [UInt8], number: UInt64, to connection: ConnectionID, user: [UInt8]
    ) -> [UInt8] {
        guard let socket = self[connection], socket.phase != .ended else { return [] }
        let name = String(decoding: user, as: UTF8.self)
        var texts: [[UInt8]] = []
        switch DiuitEvents.output(of: message, to: name) {
        case .connected:
            self[connection]?.phase = .established
            self[connection]?.writtenNumber = 0
            let device = DiuitEvents.device(device(of: socket), of: name)
            texts = [socket.form.answer(device, to: socket.loginNumber)]
        case .refused(let code, let detail):
            self[connection]?.phase = .ended
            texts = [
                socket.form.refusal(
                    code: code, detail, of: "authenticate", to: socket.loginNumber)
            ]
            if let farewell = socket.form.farewell(after: code) { texts.append(farewell) }
        case .closed(let code, let detail):
            self[connection]?.phase = .ended
            texts = [socket.form.refusal(code: code, detail, of: nil, to: nil)]
            if let farewell = socket.form.farewell(after: code) { texts.append(farewell) }
        case .event(let event, let data): texts = [socket.form.event(event, data)]
        case .state(let event, let group):
            if let text = state(event, ofGroup: group, for: socket) { texts = [text] }
        case .nothing: break
        }
        if number > 0 {
            self[connection]?.writtenNumber = number
            if !socket.isPinging {
                beginPing(of: connection)
                texts.append(socket.form.ping)
            }
        }
        return texts.filter { !$0.isEmpty }.flatMap(SocketText.frame)
    }

    /// The name of the device that the token is for; empty for a token without one.
    private func device(of socket: SourceSocket) -> String {
        guard case .user(_, let name?)? = holder(of: socket, at: clock.moment().instant)?.kind
        else { return "" }
        return String(decoding: name, as: UTF8.self)
    }

    /// The newest state of a group, at the time at which its change is told. It is written once for
    /// all members.
    private func state(
        _ event: String, ofGroup group: String, for socket: SourceSocket
    ) -> [UInt8]? {
        guard let app = holder(of: socket, at: clock.moment().instant)?.app else { return nil }
        let key = StateKey(
            app: app, group: Array(group.utf8), event: event, form: socket.form)
        if let known = states[key] { return known }
        let found = shards[app].look { $0.groupDescription(app: app, key.group) }
        guard let found else { return nil }
        func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }
        let data = DiuitEvents.state(
            event, ofGroup: group, meta: text(found.meta), allowed: found.allowed?.map(text))
        let written = socket.form.event(event, data)
        if states.count < Self.statesMaximum { states[key] = written }
        return written
    }

    /// States that are kept for other members, each of at most
    /// ``SourceLimits/stateByteCountMaximum``.
    private static let statesMaximum = 64

    /// The core has decided again: what was told of groups may be older than a change that is to be
    /// told now.
    func beginEffects() {
        if !states.isEmpty { states = [:] }
    }
}

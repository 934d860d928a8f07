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
    private let shared: SharedBroker
    private let rates: ClientRates
    private let clock: BrokerClock
    /// By slot.
    private var sockets: ContiguousArray<SourceSocket?> = []
    private(set) var count = 0
    /// Events without an answer.
    private var waitingCount = 0
    /// When established sockets get their next ping. All have the same interval, so that the next
    /// one is at the front.
    private var pings = Ring<Ping>()

    private struct Ping: BitwiseCopyable {
        let due: Instant
        let connection: ConnectionID
    }

    init(
        _ services: WebServices, loopIndex: UInt8, shared: SharedBroker, rates: ClientRates,
        clock: BrokerClock
    ) {
        self.services = services
        self.loopIndex = loopIndex
        self.shared = shared
        self.rates = rates
        self.clock = clock
    }

    /// Whether there is none, which is all that other connections pay for.
    var isEmpty: Bool { count == 0 }

    private subscript(connection: ConnectionID) -> SourceSocket? {
        get {
            guard connection.slot < sockets.count, !connection.isChannel else { return nil }
            let socket = sockets[connection.slot]
            return socket?.generation == connection.generation ? socket : nil
        }
        set { sockets[connection.slot] = newValue }
    }

    func contains(_ connection: ConnectionID) -> Bool { self[connection] != nil }

    /// Whether the next message of a connection is read, and how long it may be; nil if not.
    func messageByteCountMaximum(of connection: ConnectionID) -> Int? {
        guard let socket = self[connection], !socket.isWaiting else { return nil }
        switch socket.phase {
        case .opening, .stranger, .established: return socket.messageByteCountMaximum
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
        while sockets.count <= connection.slot { sockets.append(nil) }
        sockets[connection.slot] = SourceSocket(generation: connection.generation, form: form)
        count += 1
        if let greeting = form.greeting(identifier: Self.identifier()) {
            write(greeting, to: connection, in: &loop)
        }
    }

    func close(_ connection: ConnectionID) {
        guard let socket = self[connection] else { return }
        if socket.isWaiting { waitingCount -= 1 }
        sockets[connection.slot] = nil
        count -= 1
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
        leave(connection, in: &loop)
    }

    private func leave(_ connection: ConnectionID, in loop: inout some BrokerLoop & ~Copyable) {
        if let farewell = self[connection]?.form.farewell {
            write(farewell, to: connection, in: &loop)
        }
        self[connection]?.phase = .ended
        loop.close(connection, afterFlush: true)
    }

    private func write(
        _ text: [UInt8], to connection: ConnectionID, in loop: inout some BrokerLoop & ~Copyable
    ) {
        let frame = SocketText.frame(text)
        guard let target = loop.reservePacket(frame.count, for: connection, .required) else {
            return
        }
        frame.withUnsafeBytes { target.copyMemory(from: $0.baseAddress!, byteCount: $0.count) }
        loop.commitPacket(frame.count, for: connection)
    }

    // MARK: - Messages of clients

    /// Takes a message of a client.
    ///
    /// - Returns: a packet of MRT that stands for it; nil for none.
    func take(
        _ text: [UInt8], from connection: ConnectionID, in loop: inout some BrokerLoop & ~Copyable
    ) -> [UInt8]? {
        guard let socket = self[connection] else { return nil }
        switch socket.form.input(text) {
        case .ping(let content):
            // One that does not read what it gets has an answer to its next ping.
            if loop.outgoingByteCount(of: connection) <= ScheduleLimits.unsentBytesMaximum {
                write(socket.form.pong(content), to: connection, in: &loop)
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
            switch socket.phase {
            case .opening: end(connection, code: 400, "no CONNECT of Socket.IO", in: &loop)
            case .stranger: return authenticate(text, on: connection, socket, in: &loop)
            case .established: execute(text, of: connection, socket, in: &loop)
            case .authenticating, .ended: break
            }
        case .ignored: break
        case .close: leave(connection, in: &loop)
        case .fault(let code, let message): end(connection, code: code, message, in: &loop)
        }
        return nil
    }

    /// Counts a message before the login that leads to nothing.
    private func countRefusal(
        _ connection: ConnectionID, in loop: inout some BrokerLoop & ~Copyable
    ) {
        guard let socket = self[connection], socket.phase != .established else { return }
        self[connection]?.refusedCount += 1
        if socket.refusedCount + 1 >= SocketLimits.eventsBeforeLoginMaximum {
            leave(connection, in: &loop)
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
            if event?.name == "authenticate", error.status == 403 {
                _ = services.operators.failures.note(loop.peer(of: connection), at: loop.now)
                leave(connection, in: &loop)
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
        socket.loginNumber = number
        self[connection] = socket
        return connect.encoded(from: source)
    }

    private func holder(of socket: SourceSocket, at now: Instant) -> CredentialHolder? {
        let unixSeconds = clock.moment(at: now).unixSeconds
        return shared.look { $0.holder(of: socket.credential, unixSeconds: unixSeconds) }
    }

    // MARK: - Events

    /// Gives an event to the administration thread. Until it is answered, nothing more is read.
    private func execute(
        _ text: [UInt8], of connection: ConnectionID, _ socket: SourceSocket,
        in loop: inout some BrokerLoop & ~Copyable
    ) {
        guard let holder = holder(of: socket, at: loop.now), case .user(let user, _) = holder.kind
        else { return end(connection, code: 403, "the session is not valid any more", in: &loop) }
        let app = String(decoding: holder.app, as: UTF8.self)
        guard services.interfaces.apps.has(.diuit, app: app) else {
            return end(connection, code: 404, "the interface is closed", in: &loop)
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
        guard wait == nil, services.interfaces.queue.add(call) else {
            let event = try? SocketEvent(text, socket.form)
            let refusal = socket.form.refusal(
                code: wait == nil ? 503 : 429,
                wait == nil ? "too many requests wait" : "more than limits.messagesPerSecond",
                of: event?.name, to: event?.number)
            write(refusal, to: connection, in: &loop)
            return
        }
        self[connection]?.isWaiting = true
        waitingCount += 1
        loop.pauseReading(connection, for: .answers)
    }

    /// Sends the answers that are there, and the pings that are due.
    func endTurn(_ loop: inout some BrokerLoop & ~Copyable) {
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
        while !pings.isEmpty, pings[0].due <= loop.now {
            let connection = pings.removeFirst().connection
            guard let socket = self[connection], socket.phase == .established else { continue }
            if !socket.isPinging {
                beginPing(of: connection)
                write(socket.form.ping, to: connection, in: &loop)
            }
            append(pingOf: connection, at: loop.now)
        }
        if !pings.isEmpty { loop.nextWake = min(loop.nextWake, pings[0].due) }
    }

    private func append(pingOf connection: ConnectionID, at now: Instant) {
        pings.append(
            Ping(
                due: now.advanced(byMilliseconds: SocketLimits.pingMilliseconds),
                connection: connection))
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
            append(pingOf: connection, at: clock.moment().instant)
            texts = [socket.form.answer(device(of: socket, user: name), to: socket.loginNumber)]
        case .refused(let code, let detail):
            self[connection]?.phase = .ended
            texts = [
                socket.form.refusal(
                    code: code, detail, of: "authenticate", to: socket.loginNumber)
            ]
            if let farewell = socket.form.farewell { texts.append(farewell) }
        case .closed(let code, let detail):
            self[connection]?.phase = .ended
            texts = [socket.form.refusal(code: code, detail, of: nil, to: nil)]
            if let farewell = socket.form.farewell { texts.append(farewell) }
        case .event(let event, let data): texts = [socket.form.event(event, data)]
        case .state(let event, let group):
            if let data = state(event, ofGroup: group, for: socket) {
                texts = [socket.form.event(event, data)]
            }
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

    /// What `authenticate` is answered with: the device, without tokens.
    private func device(of socket: SourceSocket, user: String) -> SourceValue {
        var device = ""
        if case .user(_, let bytes?)? = holder(of: socket, at: clock.moment().instant)?.kind {
            device = String(decoding: bytes, as: UTF8.self)
        }
        return .object([
            "userId": .text(user), "deviceId": .text(device),
            "device": .object([
                "id": .text(device), "serial": .text(device), "status": .text("online"),
                "platform": .null, "meta": .object([:]),
            ]),
        ])
    }

    /// The newest state of a group, at the time at which its change is told.
    private func state(
        _ event: String, ofGroup group: String, for socket: SourceSocket
    ) -> SourceValue? {
        guard let app = holder(of: socket, at: clock.moment().instant)?.app else { return nil }
        let found = shared.look { $0.groupDescription(app: app, Array(group.utf8)) }
        guard let found else { return nil }
        func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }
        var members: [String: SourceValue] = ["chatId": .text(group)]
        if event == "meta.updated" {
            members["meta"] = DiuitEvents.meta(text(found.meta))
        } else {
            members["whiteList"] = DiuitEvents.whiteList(found.allowed?.map(text))
        }
        return .object(members)
    }
}

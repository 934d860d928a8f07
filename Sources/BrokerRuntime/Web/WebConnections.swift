// The connections of web listeners before they speak WebSocket: requests are read, answered from
// what the loop knows, and the connection stays, becomes a WebSocket or closes. It has no more than
// the time for a login between two requests, and counts as one that has not logged in.

import Administration
import BrokerTerms
import Configuration
import Dialects
import NetTransport
import Primitives
import WireFormat

/// Answers the HTTP requests of one event loop.
struct WebConnections: ~Copyable {
    let services: WebServices
    let loopIndex: UInt8
    let credentials: APICredentials
    let trust: ClientTrust
    let clock: BrokerClock
    let log: LogWriter
    var connections: [ConnectionID: Connection] = [:]
    /// Requests that wait for the text of the metrics.
    private var waiting: [(connection: ConnectionID, answer: Answer, form: PrometheusText.Form)] =
        []
    /// Connections with more requests than a turn answers, or whose client does not read.
    private var paused: [ConnectionID] = []
    private var streams = StreamPacing()
    /// Connections with requests that the administration thread has.
    private var executing: [ConnectionID: AwaitedAnswers] = [:]
    /// Connections whose content is being read, all and those of each user's tokens.
    private var readingCount = 0
    private var readingCounts: [APIPrincipal.User: Int] = [:]
    /// The subscriptions of event streams whose login is not accepted yet.
    var subscribing: [ConnectionID: StreamSubscriptions] = [:]
    /// The event streams of operators.
    var logStreams: [ConnectionID: LogStream] = [:]

    struct Connection {
        let terms: WebListeners.Terms
        /// Whether a request has begun that is not complete.
        var isWithinRequest = false
        /// Set when the connection takes no more requests.
        var isDone = false
        /// The response is an event stream; whatever the client sends is ignored.
        var isStream = false
        /// The request whose content is being read.
        var content: APIContent?
        /// Requests in the turn of the last one.
        var requestCount = 0
        var turn: UInt64 = 0

        /// Whether a turn answers another request.
        mutating func takesRequest(in turn: UInt64) -> Bool {
            if turn != self.turn {
                self.turn = turn
                requestCount = 0
            }
            requestCount += 1
            return requestCount <= WebLimits.requestsPerTurnMaximum
        }
    }

    /// Contents of users that a loop reads at a time. With those of app keys and operators
    /// (``RequestShare``) there are 96, which bounds their memory to 6 MiB.
    static let contentsMaximum = 64
    /// Contents of one user that a loop reads at a time: each is there until its time is over, so
    /// that the holder of one token must not have all of them.
    static let contentsPerUserMaximum = 16

    /// How a response is sent, whatever it is.
    struct Answer {
        let isHead: Bool
        let closes: Bool
        /// The client, if the request named it; otherwise the connection's peer.
        let client: SocketAddress?
        /// Which pages of other origins may read it; nil for none.
        let cors: CORSHeaders?
    }

    init(
        _ services: WebServices, loopIndex: UInt8, shared: SharedBroker, trust: ClientTrust,
        clock: BrokerClock, log: LogWriter
    ) {
        self.services = services
        credentials = APICredentials(shared: shared, operators: services.operators)
        self.trust = trust
        self.loopIndex = loopIndex
        self.clock = clock
        self.log = log
    }

    /// Whether no connection is one of these, which is all that a connection of packets pays for.
    var isEmpty: Bool { connections.isEmpty }

    func contains(_ connection: ConnectionID) -> Bool { connections[connection] != nil }

    /// Notes a connection of a web listener; false for another one.
    mutating func open(_ connection: ConnectionID, tag: UInt32) -> Bool {
        guard let terms = services.listeners.terms(tag: tag) else { return false }
        connections[connection] = Connection(terms: terms)
        return true
    }

    mutating func close(_ connection: ConnectionID) {
        guard !connections.isEmpty else { return }
        takeContent(of: connection)
        connections[connection] = nil
        executing[connection] = nil
        subscribing[connection] = nil
        endLogStream(connection)
    }

    @discardableResult
    private mutating func takeContent(of connection: ConnectionID) -> APIContent? {
        guard let content = connections[connection]?.content else { return nil }
        connections[connection]?.content = nil
        readingCount -= 1
        if case .user(let user) = content.request.credential.principal {
            readingCounts[user, default: 0] -= 1
            if readingCounts[user] == 0 { readingCounts[user] = nil }
        }
        return content
    }

    /// What became of the bytes of a connection.
    enum Outcome {
        case consumed(Int)
        /// It speaks WebSocket from now on, and its packets have these terms.
        ///
        /// - Parameter actingUser: for whom the holder of an app's key connects; nil if the
        ///   handshake names nobody.
        case webSocket(terms: UInt8, json: JSONForm?, actingUser: [UInt8]?)
        /// The response is an event stream, for a client that logs in with this.
        case eventStream(EventStreamLogin, terms: UInt8)
    }

    /// Answers the requests in `bytes`.
    mutating func receive(
        _ bytes: ByteRange, from connection: ConnectionID, isDraining: Bool,
        in loop: inout some BrokerLoop & ~Copyable
    ) -> Outcome {
        if isStream(connection) {
            // Nothing is read after the request of a stream: it would not count towards any rate.
            // What is unsent comes again, because it is not acknowledged.
            loop.close(connection, afterFlush: false)
            return .consumed(Int(bytes.count))
        }
        let bytes = bytes.bytes(in: loop.arena)
        var offset = 0
        while let known = connections[connection], !known.isDone {
            guard loop.outgoingByteCount(of: connection) <= ScheduleLimits.unsentBytesMaximum,
                connections[connection]?.takesRequest(in: loop.turn) == true
            else {
                loop.pauseReading(connection, for: .answers)
                paused.append(connection)
                return .consumed(offset)
            }
            let rest = UnsafeRawBufferPointer(rebasing: bytes[offset...])
            if connections[connection]?.content != nil {
                offset += readContent(rest.bytes, of: connection, in: &loop)
                if isHeld(connection) || connections[connection]?.content != nil {
                    return .consumed(offset)
                }
                continue
            }
            do throws(HTTPFault) {
                guard case .head(let head, let byteCount) = try HTTPRequestHead.parse(rest.bytes)
                else {
                    connections[connection]?.isWithinRequest = !rest.isEmpty
                    return .consumed(offset)
                }
                connections[connection]?.isWithinRequest = false
                let request = WebRequest(
                    head: head, bytes: rest,
                    client: client(of: head, rest.bytes, from: connection, in: loop),
                    cors: cors(of: head, rest.bytes))
                if holds(request, of: connection, in: &loop) { return .consumed(offset) }
                if request.hasPath("/api/v1/events"), !streams.admits(in: loop.turn) {
                    loop.pauseReading(connection, for: .answers)
                    streams.wait(connection)
                    return .consumed(offset)
                }
                offset += byteCount
                let action = route(request, from: connection, isDraining: isDraining, in: loop)
                switch action {
                case .respond(let response, let detail):
                    respond(
                        response, to: request.answer, of: connection, detail: detail, in: &loop)
                case .metrics(let form):
                    guard
                        let text = services.metrics.text(
                            at: loop.now, for: loopIndex, as: form)
                    else {
                        loop.pauseReading(connection, for: .answers)
                        waiting.append((connection, request.answer, form))
                        return .consumed(offset)
                    }
                    respond(.metrics(text, as: form), to: request.answer, of: connection, in: &loop)
                case .api(let waiting):
                    execute(waiting, answering: request.answer, in: &loop)
                    if isHeld(connection) { return .consumed(offset) }
                case .content(let content):
                    startContent(content, of: connection, in: &loop)
                case .eventStream(let login, let terms):
                    guard offset == bytes.count else {
                        refuse(
                            connection, with: .badRequest, "data after the request of a stream",
                            in: &loop)
                        return .consumed(bytes.count)
                    }
                    guard admits(request, on: connection, in: &loop) else { continue }
                    services.listeners.count(isRefusal: false)
                    beginStream(connection, login)
                    return .eventStream(login, terms: terms)
                case .logStream(let stream):
                    guard offset == bytes.count else {
                        refuse(
                            connection, with: .badRequest, "data after the request of a stream",
                            in: &loop)
                        return .consumed(bytes.count)
                    }
                    guard admits(request, on: connection, in: &loop) else { continue }
                    beginLogStream(stream, answering: request.answer, on: connection, in: &loop)
                case .webSocket(let handshake, let terms, let json, let actingUser):
                    guard offset == bytes.count else {
                        // A client sends no frame before it has the answer (RFC 6455, 4.1).
                        refuse(
                            connection, with: .badRequest,
                            "data before the answer to the handshake",
                            in: &loop)
                        return .consumed(bytes.count)
                    }
                    guard admits(request, on: connection, in: &loop) else { continue }
                    append(handshake, to: connection, in: &loop)
                    services.listeners.count(isRefusal: false)
                    connections[connection] = nil
                    loop.startWebSocket(connection, json == nil ? .binary : .text)
                    return .webSocket(terms: terms, json: json, actingUser: actingUser)
                }
            } catch {
                refuse(connection, with: error.status, Self.detail(of: error, rest), in: &loop)
            }
        }
        return .consumed(bytes.count)
    }

    /// The time for a request, or until the next one, is over.
    mutating func deadlineReached(
        _ connection: ConnectionID, in loop: inout some BrokerLoop & ~Copyable
    ) {
        if executing[connection] != nil {
            // The broker is late, not the client.
            loop.restartAuthentication(connection)
        } else if let content = takeContent(of: connection) {
            respond(
                .problem(
                    .requestTimeout, "the content is not complete",
                    reason: .keepAliveTimeout),
                to: content.answer.closing, of: connection,
                detail: "the content is not complete", in: &loop)
        } else if connections[connection]?.isWithinRequest == true {
            refuse(connection, with: .requestTimeout, "the request is not complete", in: &loop)
        } else {
            loop.close(connection, afterFlush: true)
        }
    }

    /// Lets connections go on that waited for the next turn, and those that waited for the text of
    /// the metrics if it is there.
    mutating func endTurn(_ loop: inout some BrokerLoop & ~Copyable) {
        if !paused.isEmpty { resumePaused(&loop) }
        if !streams.isEmpty {
            let known = connections
            for connection in streams.takeNext(where: { known[$0] != nil }) {
                loop.resumeReading(connection, from: .answers)
            }
        }
        if !executing.isEmpty { takeAnswers(in: &loop) }
        if !logStreams.isEmpty { writeLogStreams(&loop) }
        guard !waiting.isEmpty else { return }
        let requests = waiting
        waiting = []
        for (connection, answer, form) in requests where contains(connection) {
            guard let text = services.metrics.text(at: loop.now, for: loopIndex, as: form) else {
                waiting.append((connection, answer, form))
                continue
            }
            respond(.metrics(text, as: form), to: answer, of: connection, in: &loop)
            loop.resumeReading(connection, from: .answers)
        }
    }

    private mutating func resumePaused(_ loop: inout some BrokerLoop & ~Copyable) {
        let connections = paused
        paused = []
        for connection in connections where contains(connection) {
            // Otherwise its client does not read, and it ends with the time for a request.
            if loop.outgoingByteCount(of: connection) <= ScheduleLimits.unsentBytesMaximum {
                loop.resumeReading(connection, from: .answers)
            } else {
                paused.append(connection)
                // This turn sends the answers when it ends, and nothing else may begin the next.
                if !loop.isSendBlocked(connection) { loop.nextWake = loop.now }
            }
        }
    }

    // MARK: - Requests for the administration thread

    /// Whether nothing more is read from a connection until earlier answers were sent.
    private func isHeld(_ connection: ConnectionID) -> Bool {
        executing[connection].map { $0.hold != .none } ?? false
    }

    /// Whether a request waits for answers to earlier ones. A message does not, up to a limit.
    private mutating func holds(
        _ request: WebRequest, of connection: ConnectionID,
        in loop: inout some BrokerLoop & ~Copyable
    ) -> Bool {
        guard let awaited = executing[connection] else { return false }
        if request.isMessage, awaited.takesMessage { return false }
        executing[connection]?.hold = request.isMessage ? .untilRoom : .untilAnswered
        loop.pauseReading(connection, for: .answers)
        return true
    }

    /// Gives a request to the administration thread. Until it has answered, nothing more is read,
    /// unless the request is a message.
    private mutating func execute(
        _ request: APIRequest, answering answer: Answer, in loop: inout some BrokerLoop & ~Copyable
    ) {
        let connection = request.connection
        var request = request
        request.number = executing[connection, default: AwaitedAnswers()].append(
            answer, contentByteCount: request.content.count)
        if answer.closes { connections[connection]?.isDone = true }
        guard services.requests.add(request) else {
            executing[connection]?.complete(request.number, with: Self.busy)
            sendAnswers(of: connection, in: &loop)
            return
        }
        guard request.operation.kind != .sendMessage else { return }
        loop.pauseReading(connection, for: .answers)
        executing[connection]?.hold = .untilAnswered
    }

    private static var busy: HTTPResponse {
        var response = HTTPResponse.problem(
            .unavailable, "too many requests wait", reason: .serverBusy)
        response.retryAfterSeconds = 1
        return response
    }

    private mutating func takeAnswers(in loop: inout some BrokerLoop & ~Copyable) {
        for (connection, number, response) in services.requests.takeAnswers(for: loopIndex) {
            // It may have closed.
            guard executing[connection] != nil else { continue }
            executing[connection]?.complete(number, with: response)
            sendAnswers(of: connection, in: &loop)
        }
    }

    /// Sends the answers that wait for no earlier one, and reads on if there is no reason to wait.
    private mutating func sendAnswers(
        of connection: ConnectionID, in loop: inout some BrokerLoop & ~Copyable
    ) {
        while let next = executing[connection]?.takeFirst() {
            let isLast = executing[connection]?.isEmpty ?? true
            send(
                next.response, to: next.answer, of: connection, isLast: isLast,
                detail: next.detail, in: &loop)
        }
        guard let awaited = executing[connection] else { return }
        if awaited.isEmpty { executing[connection] = nil }
        if awaited.endsHold {
            executing[connection]?.hold = .none
            loop.resumeReading(connection, from: .answers)
        }
    }

    private mutating func startContent(
        _ content: APIContent, of connection: ConnectionID,
        in loop: inout some BrokerLoop & ~Copyable
    ) {
        guard takesContent(of: content.request.credential.principal) else {
            respond(Self.busy, to: content.answer.closing, of: connection, in: &loop)
            return
        }
        readingCount += 1
        if case .user(let user) = content.request.credential.principal {
            readingCounts[user, default: 0] += 1
        }
        connections[connection]?.content = content
        if content.awaitsContinue { append(HTTPResponse.continuation, to: connection, in: &loop) }
        // It has as much time as a head.
        loop.restartAuthentication(connection)
    }

    /// Whether another content is read, now.
    private func takesContent(of principal: APIPrincipal) -> Bool {
        let maximum = RequestShare.maximum(Self.contentsMaximum, for: principal.kind)
        guard readingCount < maximum else { return false }
        guard case .user(let user) = principal else { return true }
        return readingCounts[user, default: 0] < Self.contentsPerUserMaximum
    }

    /// Reads content, and executes its request when it is complete. Returns how many bytes were
    /// read.
    private mutating func readContent(
        _ bytes: RawSpan, of connection: ConnectionID,
        in loop: inout some BrokerLoop & ~Copyable
    ) -> Int {
        var offset = 0
        do throws(HTTPContentFault) {
            while let piece = try connections[connection]?.content?.decoder.next(
                in: bytes, at: &offset)
            {
                switch piece {
                case .content(let range):
                    range.bytes(in: bytes).withUnsafeBytes {
                        connections[connection]?.content?.request.content.append(contentsOf: $0)
                    }
                case .end:
                    guard let content = takeContent(of: connection) else { return offset }
                    execute(content.request, answering: content.answer, in: &loop)
                    return offset
                }
            }
        } catch {
            let content = takeContent(of: connection)
            respond(
                .problem(
                    error.status, "\(error.text)",
                    reason: error == .tooLarge ? .packetTooLarge : .malformedPacket),
                to: content?.answer.closing ?? .last, of: connection, detail: error.text,
                in: &loop)
        }
        return offset
    }

    // MARK: - Responses

    /// Answers a request, after those before it.
    ///
    /// - Parameter detail: what is wrong, for the log; nil for what need not be logged.
    mutating func respond(
        _ response: HTTPResponse, to answer: Answer, of connection: ConnectionID,
        detail: StaticString? = nil, in loop: inout some BrokerLoop & ~Copyable
    ) {
        guard executing[connection] != nil else {
            send(response, to: answer, of: connection, isLast: true, detail: detail, in: &loop)
            return
        }
        executing[connection]?.append(answer, response: response, detail: detail)
        if response.closes || answer.closes { connections[connection]?.isDone = true }
    }

    /// - Parameter isLast: whether no other answer of the connection follows.
    private mutating func send(
        _ response: HTTPResponse, to answer: Answer, of connection: ConnectionID, isLast: Bool,
        detail: StaticString?, in loop: inout some BrokerLoop & ~Copyable
    ) {
        var response = response
        response.omitsContent = answer.isHead
        response.cors = answer.cors
        // While others wait for a login, a connection gets no further time for requests.
        response.closes = response.closes || answer.closes || (isLast && loop.isCrowded)
        services.listeners.count(isRefusal: response.status.rawValue >= 400)
        append(
            response.bytes(unixSeconds: clock.moment(at: loop.now).unixSeconds),
            to: connection, in: &loop)
        if let detail {
            let peer = answer.client ?? loop.peer(of: connection)
            logRefusal(of: peer, response.status, detail)
        }
        if response.closes {
            connections[connection]?.isDone = true
            loop.close(connection, afterFlush: true)
        } else {
            loop.restartAuthentication(connection)
        }
    }

    /// Answers what cannot be read any further, and closes.
    private mutating func refuse(
        _ connection: ConnectionID, with status: HTTPStatus, _ detail: StaticString,
        in loop: inout some BrokerLoop & ~Copyable
    ) {
        respond(
            .text(status, detail), to: .last, of: connection, detail: detail, in: &loop)
    }

    func append(
        _ bytes: [UInt8], to connection: ConnectionID, in loop: inout some BrokerLoop & ~Copyable
    ) {
        guard let target = loop.reservePacket(bytes.count, for: connection, .required) else {
            return
        }
        bytes.withUnsafeBytes { target.copyMemory(from: $0.baseAddress!, byteCount: $0.count) }
        loop.commitPacket(bytes.count, for: connection)
    }

    private func logRefusal(
        of peer: SocketAddress, _ status: HTTPStatus, _ detail: StaticString
    ) {
        log.write(
            .warning, .webRequestRefused,
            fields: [
                "address": .text("\(peer)"),
                "status": .number(status.rawValue), "detail": .text("\(detail)"),
            ])
    }

    /// What is wrong; other protocols are named.
    private static func detail(
        of fault: HTTPFault, _ bytes: UnsafeRawBufferPointer
    ) -> StaticString {
        switch bytes.first {
        case 0x10: "an MQTT or MRT packet; this is a listener for WebSocket"
        case 0x16: "a TLS handshake; this listener has no TLS"
        default: fault.text
        }
    }
}

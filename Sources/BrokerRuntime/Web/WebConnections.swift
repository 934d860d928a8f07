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
    let rates: ClientRates
    let clock: BrokerClock
    let log: LogWriter
    var connections: [ConnectionID: Connection] = [:]
    // The connections that wait for something: what it is, is in their phase or their answers.
    /// For the text of the metrics.
    private var waiting: [ConnectionID] = []
    /// For the next turn: they have more requests than a turn answers, or a client who does not
    /// read.
    private var paused: [ConnectionID] = []
    private var streams = RequestPacing(perTurnMaximum: WebLimits.streamsPerTurnMaximum)
    /// For the verification of their web tokens; and the tokens that are verified.
    var verifications = RequestPacing(perTurnMaximum: WebLimits.webTokensPerTurnMaximum)
    var webTokens = WebTokenCache()
    /// How many wait for answers of the administration thread.
    private var awaitingCount = 0
    /// For their login: event streams that have not subscribed yet.
    var subscribing: Set<ConnectionID> = []
    /// For lines of the log.
    var logStreams: Set<ConnectionID> = []
    /// Whose response is a file.
    var files: Set<ConnectionID> = []
    /// Contents that are being read.
    private var readingCounts = RequestShareCounts(Self.contentShare)

    struct Connection {
        let terms: WebListeners.Terms
        var phase = Phase.head(isBegun: false)
        /// The requests that the administration thread has, and answers that wait for those before
        /// them; nil if there are none. The next requests may be read meanwhile.
        var awaited: AwaitedAnswers?
        /// Whether a request had a valid credential.
        var hasCredential = false
        /// Requests in the turn of the last one.
        var requestCount = 0
        var turn: UInt64 = 0

        /// Bytes that may be unsent when another request is read. A stranger has one answer at a
        /// time, because the memory for what is unsent belongs to clients.
        var unsentByteCountMaximum: Int { hasCredential ? ScheduleLimits.unsentBytesMaximum : 0 }

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

    /// What the next bytes of a connection are. Any phase may end in `done`; a connection that
    /// speaks WebSocket leaves this type.
    enum Phase {
        /// The head of a request, of which some bytes may be there. Leads to every other phase.
        case head(isBegun: Bool)
        /// The content of a request; then a head.
        case content(APIContent)
        /// None: the response is the text of the metrics, which is being written. Then a head.
        case metrics(Answer, PrometheusText.Form)
        /// None: the response is a file, of which a piece is being read or sent. Then a head.
        case file(Answer, isReading: Bool)
        /// A fault: the response is the event stream of a client of the core, which subscribes to
        /// these filters when its login is accepted.
        case eventStream(StreamSubscriptions?)
        /// A fault: the response is the event stream of an operator; nil when it has ended.
        case logStream(LogStream?)
        /// Ignored: the connection closes after its answers.
        case done
    }

    /// Contents that a loop reads at a time: 96 with those of app keys and operators, which bounds
    /// their memory to 6 MiB. Each is there until its time is over, so that the holder of one token
    /// or key must not have all of them.
    static let contentShare = RequestShare(users: 64, oneUser: 16, oneKey: 16)

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
        _ services: WebServices, loopIndex: UInt8, shards: Shards, trust: ClientTrust,
        rates: ClientRates, clock: BrokerClock, log: LogWriter
    ) {
        self.services = services
        credentials = APICredentials(shards: shards, operators: services.operators)
        self.trust = trust
        self.rates = rates
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
        guard !connections.isEmpty, connections[connection] != nil else { return }
        takeContent(of: connection)
        if isAwaiting(connection) {
            awaitingCount -= 1
            services.requests.abandonReads(of: connection)
        }
        subscribing.remove(connection)
        endLogStream(connection)
        endFile(connection)
        connections[connection] = nil
    }

    /// Takes no more requests of a connection, which closes after its answers.
    private mutating func finish(_ connection: ConnectionID) {
        takeContent(of: connection)
        connections[connection]?.phase = .done
    }

    /// What became of the bytes of a connection.
    enum Outcome {
        case consumed(Int)
        /// It speaks WebSocket from now on.
        case webSocket(WebSocketClient)
        /// The response is an event stream, for a client that logs in with this.
        case eventStream(EventStreamLogin)
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
        let count = Int(bytes.count)
        var offset = 0
        while takesBytes(connection) {
            guard isUnsentBounded(of: connection, in: loop),
                connections[connection]?.takesRequest(in: loop.turn) == true
            else {
                loop.pauseReading(connection, for: .answers)
                paused.append(connection)
                return .consumed(offset)
            }
            let place = ByteRange(offset: Int(bytes.offset) + offset, count: count - offset)
            let rest = place.bytes(in: loop.arena)
            if isReadingContent(connection) {
                offset += readContent(rest.bytes, of: connection, in: &loop)
                if isHeld(connection) || isReadingContent(connection) { return .consumed(offset) }
                continue
            }
            do throws(HTTPFault) {
                guard
                    let (request, byteCount) = try nextRequest(
                        at: place, of: connection, in: &loop)
                else { return .consumed(offset) }
                offset += byteCount
                let action = route(request, from: connection, isDraining: isDraining, in: loop)
                if let outcome = perform(
                    action, of: request, on: connection, at: offset, hasMore: offset < count,
                    in: &loop)
                {
                    return outcome
                }
            } catch {
                refuse(connection, with: error.status, Self.detail(of: error, rest), in: &loop)
            }
        }
        return .consumed(count)
    }

    /// Whether so little is unsent that another request is read.
    private func isUnsentBounded(
        of connection: ConnectionID, in loop: borrowing some BrokerLoop & ~Copyable
    ) -> Bool {
        let maximum = connections[connection]?.unsentByteCountMaximum ?? 0
        return loop.outgoingByteCount(of: connection) <= maximum
    }

    /// Whether the next bytes of a connection are read.
    private func takesBytes(_ connection: ConnectionID) -> Bool {
        switch connections[connection]?.phase {
        case .head, .content: true
        case .metrics, .file, .eventStream, .logStream, .done, nil: false
        }
    }

    /// The next request, and how many bytes its head has; nil if it is not complete, or has to wait
    /// for answers or for another turn.
    private mutating func nextRequest(
        at place: ByteRange, of connection: ConnectionID,
        in loop: inout some BrokerLoop & ~Copyable
    ) throws(HTTPFault) -> (request: WebRequest, byteCount: Int)? {
        let rest = place.bytes(in: loop.arena)
        guard case .head(let head, let byteCount) = try HTTPRequestHead.parse(rest.bytes) else {
            connections[connection]?.phase = .head(isBegun: !rest.isEmpty)
            return nil
        }
        connections[connection]?.phase = .head(isBegun: false)
        var request = WebRequest(
            head: head, bytes: rest,
            client: client(of: head, rest.bytes, from: connection, in: loop),
            cors: cors(of: head, rest.bytes))
        // Decided once: another loop may note the refusal that changes the answer.
        request.mustBeVerified =
            request.hasPath(.events) && mustVerify(request, on: connection, in: loop)
        if holds(request, of: connection, in: &loop)
            || !verifyWebToken(of: &request, from: connection, in: &loop)
        {
            return nil
        }
        if request.hasPath(.events), !streams.admits(in: loop.turn) {
            loop.pauseReading(connection, for: .answers)
            streams.wait(connection)
            return nil
        }
        return (request, byteCount)
    }

    /// Does what a request leads to. Returns nil if the next request may be read.
    ///
    /// - Parameters:
    ///   - offset: where the head of the request ends.
    ///   - hasMore: whether bytes follow it.
    private mutating func perform(
        _ action: WebAction, of request: WebRequest, on connection: ConnectionID, at offset: Int,
        hasMore: Bool, in loop: inout some BrokerLoop & ~Copyable
    ) -> Outcome? {
        if let detail = action.refusalOfMore {
            guard !hasMore else {
                refuse(connection, with: .badRequest, detail, in: &loop)
                return nil
            }
            guard admits(request, on: connection, in: &loop) else { return nil }
        }
        switch action {
        case .respond(let response, let detail):
            respond(response, to: request.answer, of: connection, detail: detail, in: &loop)
        case .metrics(let form):
            guard respondMetrics(form, to: request.answer, of: connection, in: &loop) else {
                return .consumed(offset)
            }
        case .api(let waiting):
            execute(waiting, answering: request.answer, in: &loop)
            if isHeld(connection) { return .consumed(offset) }
        case .interface(let call):
            execute(call, answering: request.answer, in: &loop)
            if isHeld(connection) { return .consumed(offset) }
        case .file(let file):
            beginFile(file, answering: request.answer, on: connection, in: &loop)
            return .consumed(offset)
        case .content(let content):
            startContent(content, of: connection, in: &loop)
        case .eventStream(let login):
            services.listeners.count(isRefusal: false)
            beginStream(connection, login)
            return .eventStream(login)
        case .logStream(let stream):
            beginLogStream(stream, answering: request.answer, on: connection, in: &loop)
        case .webSocket(let handshake, let client):
            upgrade(
                connection, with: handshake, to: client.json == nil ? .binary : .text, in: &loop)
            return .webSocket(client)
        }
        return nil
    }

    /// Speaks WebSocket on a connection from now on.
    private mutating func upgrade(
        _ connection: ConnectionID, with handshake: [UInt8], to form: WebSocketForm,
        in loop: inout some BrokerLoop & ~Copyable
    ) {
        loop.write(handshake, to: connection)
        services.listeners.count(isRefusal: false)
        connections[connection] = nil
        loop.startWebSocket(connection, form)
    }

    /// Answers with the text of the metrics. Returns false if the connection waits until it is
    /// written.
    private mutating func respondMetrics(
        _ form: PrometheusText.Form, to answer: Answer, of connection: ConnectionID,
        in loop: inout some BrokerLoop & ~Copyable
    ) -> Bool {
        guard let text = services.metrics.text(at: loop.now, for: loopIndex, as: form) else {
            loop.pauseReading(connection, for: .answers)
            connections[connection]?.phase = .metrics(answer, form)
            waiting.append(connection)
            return false
        }
        respond(.metrics(text, as: form), to: answer, of: connection, in: &loop)
        return true
    }

    /// The time for a request, or until the next one, is over.
    mutating func deadlineReached(
        _ connection: ConnectionID, in loop: inout some BrokerLoop & ~Copyable
    ) {
        // The broker is late, not the client.
        guard !isAwaiting(connection) else { return loop.restartAuthentication(connection) }
        switch connections[connection]?.phase {
        case .content(let content):
            takeContent(of: connection)
            respond(
                .problem(
                    .requestTimeout, "the content is not complete",
                    reason: .keepAliveTimeout),
                to: content.answer.closing, of: connection,
                detail: "the content is not complete", in: &loop)
        case .head(isBegun: true):
            refuse(connection, with: .requestTimeout, "the request is not complete", in: &loop)
        case .file(_, isReading: true):
            // The disk is late, not the client.
            loop.restartAuthentication(connection)
        case .head(isBegun: false), .metrics, .file, .eventStream, .logStream, .done, nil:
            loop.close(connection, afterFlush: true)
        }
    }

    /// Lets connections go on that waited for the next turn, and those that waited for the text of
    /// the metrics if it is there.
    mutating func endTurn(_ loop: inout some BrokerLoop & ~Copyable) {
        if !paused.isEmpty { resumePaused(&loop) }
        if !streams.isEmpty || !verifications.isEmpty {
            let known = connections
            let next =
                streams.takeNext { known[$0] != nil } + verifications.takeNext { known[$0] != nil }
            for connection in next { loop.resumeReading(connection, from: .answers) }
        }
        if awaitingCount > 0 { takeAnswers(in: &loop) }
        if !logStreams.isEmpty { writeLogStreams(&loop) }
        if !files.isEmpty { sendFiles(&loop) }
        guard !waiting.isEmpty else { return }
        let connections = waiting
        waiting = []
        for connection in connections {
            guard case .metrics(let answer, let form)? = self.connections[connection]?.phase
            else { continue }
            self.connections[connection]?.phase = .head(isBegun: false)
            if respondMetrics(form, to: answer, of: connection, in: &loop) {
                loop.resumeReading(connection, from: .answers)
            }
        }
    }

    private mutating func resumePaused(_ loop: inout some BrokerLoop & ~Copyable) {
        let connections = paused
        paused = []
        for connection in connections where contains(connection) {
            // Otherwise its client does not read, and it ends with the time for a request.
            if isUnsentBounded(of: connection, in: loop) {
                loop.resumeReading(connection, from: .answers)
            } else {
                paused.append(connection)
                // This turn sends the answers when it ends, and nothing else may begin the next.
                if !loop.isSendBlocked(connection) { loop.nextWake = loop.now }
            }
        }
    }

    // MARK: - Requests for the administration thread

    /// Whether a connection waits for answers of the administration thread.
    private func isAwaiting(_ connection: ConnectionID) -> Bool {
        connections[connection]?.awaited != nil
    }

    /// Whether nothing more is read from a connection until earlier answers were sent.
    private func isHeld(_ connection: ConnectionID) -> Bool {
        connections[connection]?.awaited.map { $0.hold != .none } ?? false
    }

    /// Whether a request waits for answers to earlier ones. A message does not, up to a limit.
    private mutating func holds(
        _ request: WebRequest, of connection: ConnectionID,
        in loop: inout some BrokerLoop & ~Copyable
    ) -> Bool {
        guard let takesMessage = connections[connection]?.awaited?.takesMessage else {
            return false
        }
        // 100 Continue would be read as the answer to an earlier message.
        let isPipelined = request.isMessage && !request.awaitsContinue
        if isPipelined, takesMessage { return false }
        connections[connection]?.awaited?.hold = isPipelined ? .untilRoom : .untilAnswered
        loop.pauseReading(connection, for: .answers)
        return true
    }

    /// Gives a request to the administration thread. Until it has answered, nothing more is read,
    /// unless the request is a message.
    private mutating func execute(
        _ request: APIRequest, answering answer: Answer, in loop: inout some BrokerLoop & ~Copyable
    ) {
        let connection = request.connection
        guard
            let number = beginAwaiting(
                connection, answer, contentByteCount: request.content.count)
        else { return }
        connections[connection]?.hasCredential = true
        var request = request
        request.number = number
        let perSecond = rates.values.messagesPerSecond
        if let wait = services.requests.count(
            request.holder, perSecond: perSecond, at: loop.now)
        {
            connections[connection]?.awaited?.complete(
                request.number, with: Self.tooFast(waiting: wait))
            sendAnswers(of: connection, in: &loop)
            return
        }
        guard services.requests.add(request) else {
            connections[connection]?.awaited?.complete(request.number, with: Self.busy)
            sendAnswers(of: connection, in: &loop)
            return
        }
        guard !request.isMessage else { return }
        loop.pauseReading(connection, for: .answers)
        connections[connection]?.awaited?.hold = .untilAnswered
    }

    /// Notes that a connection waits for an answer. Returns the number of its request; nil if the
    /// connection is not open.
    mutating func beginAwaiting(
        _ connection: ConnectionID, _ answer: Answer, contentByteCount: Int
    ) -> UInt32? {
        // Only a connection that is open has requests.
        guard connections[connection] != nil else { return nil }
        if !isAwaiting(connection) {
            connections[connection]?.awaited = AwaitedAnswers()
            awaitingCount += 1
        }
        let number = connections[connection]?.awaited?.append(
            answer, contentByteCount: contentByteCount)
        if answer.closes { finish(connection) }
        return number
    }

    static func tooFast(waiting seconds: UInt64) -> HTTPResponse {
        var response = HTTPResponse.problem(
            .tooManyRequests, "more than limits.messagesPerSecond requests of this user or key",
            reason: .messageRateTooHigh)
        response.retryAfterSeconds = max(1, seconds)
        return response
    }

    static var busy: HTTPResponse {
        var response = HTTPResponse.problem(
            .unavailable, "too many requests wait", reason: .serverBusy)
        response.retryAfterSeconds = 1
        return response
    }

    private mutating func takeAnswers(in loop: inout some BrokerLoop & ~Copyable) {
        for (connection, number, response) in services.requests.takeAnswers(for: loopIndex) {
            // It may have closed.
            guard isAwaiting(connection) else { continue }
            connections[connection]?.awaited?.complete(number, with: response)
            sendAnswers(of: connection, in: &loop)
        }
    }

    /// Sends the answers that wait for no earlier one, and reads on if there is no reason to wait.
    mutating func sendAnswers(
        of connection: ConnectionID, in loop: inout some BrokerLoop & ~Copyable
    ) {
        while let next = connections[connection]?.awaited?.takeFirst() {
            let isLast = connections[connection]?.awaited?.isEmpty ?? true
            send(
                next.response, to: next.answer, of: connection, isLast: isLast,
                detail: next.detail, in: &loop)
        }
        guard let endsHold = connections[connection]?.awaited?.endsHold else { return }
        if connections[connection]?.awaited?.isEmpty == true {
            connections[connection]?.awaited = nil
            awaitingCount -= 1
        }
        if endsHold {
            connections[connection]?.awaited?.hold = .none
            loop.resumeReading(connection, from: .answers)
        }
    }

    private mutating func startContent(
        _ content: APIContent, of connection: ConnectionID,
        in loop: inout some BrokerLoop & ~Copyable
    ) {
        guard readingCounts.admits(1, for: content.purpose.holder) else {
            respond(Self.busy, to: content.answer.closing, of: connection, in: &loop)
            return
        }
        readingCounts.add(1, for: content.purpose.holder)
        if case .api = content.purpose { connections[connection]?.hasCredential = true }
        connections[connection]?.phase = .content(content)
        if content.awaitsContinue { loop.write(HTTPResponse.continuation, to: connection) }
        // It has as much time as a head.
        loop.restartAuthentication(connection)
    }

    private func isReadingContent(_ connection: ConnectionID) -> Bool {
        if case .content? = connections[connection]?.phase { true } else { false }
    }

    /// Ends the reading of a content; nil if none is read.
    @discardableResult
    private mutating func takeContent(of connection: ConnectionID) -> APIContent? {
        guard case .content(let content)? = connections[connection]?.phase else { return nil }
        connections[connection]?.phase = .head(isBegun: false)
        readingCounts.add(-1, for: content.purpose.holder)
        return content
    }

    /// Reads content, and executes its request when it is complete. Returns how many bytes were
    /// read.
    private mutating func readContent(
        _ bytes: RawSpan, of connection: ConnectionID,
        in loop: inout some BrokerLoop & ~Copyable
    ) -> Int {
        var offset = 0
        var isComplete = false
        var fault: HTTPContentFault?
        guard case .content(var content)? = connections[connection]?.phase else { return 0 }
        // Not in two places while it grows: each piece would copy it.
        connections[connection]?.phase = .head(isBegun: false)
        do throws(HTTPContentFault) {
            while !isComplete, let piece = try content.decoder.next(in: bytes, at: &offset) {
                switch piece {
                case .content(let range):
                    range.bytes(in: bytes).withUnsafeBytes {
                        content.content.append(contentsOf: $0)
                    }
                case .end: isComplete = true
                }
            }
        } catch {
            fault = error
        }
        connections[connection]?.phase = .content(content)
        if let fault {
            takeContent(of: connection)
            respond(
                .problem(
                    fault.status, "\(fault.text)",
                    reason: fault == .tooLarge ? .packetTooLarge : .malformedPacket),
                to: content.answer.closing, of: connection, detail: fault.text, in: &loop)
        } else if isComplete {
            takeContent(of: connection)
            switch content.purpose {
            case .api(var request):
                request.content = content.content
                execute(request, answering: content.answer, in: &loop)
            case .interface(var call):
                call.request.content = content.content
                execute(call, answering: content.answer, in: &loop)
            }
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
        guard isAwaiting(connection) else {
            send(response, to: answer, of: connection, isLast: true, detail: detail, in: &loop)
            return
        }
        connections[connection]?.awaited?.append(answer, response: response, detail: detail)
        if response.closes || answer.closes { finish(connection) }
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
        loop.write(
            response.bytes(unixSeconds: clock.moment(at: loop.now).unixSeconds), to: connection)
        if let detail {
            let peer = answer.client ?? loop.peer(of: connection)
            logRefusal(of: peer, response.status, detail)
        }
        if response.closes {
            finish(connection)
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

// Executes requests of the HTTP API on the administration thread.

import Administration
import BrokerCore
import BrokerTerms
import NetTransport
import WireFormat

extension AdministrationService {
    /// Executes the requests that wait, and wakes the loops that have answers. All messages among
    /// them share a commit.
    func answerRequests() {
        var sends: [(request: APIRequest, send: PendingSend)] = []
        for request in requests.takeRequests() {
            if let send = begin(request) { sends.append((request, send)) }
        }
        finish(sends)
    }

    /// Answers the messages on which a moderator has decided.
    func answerHeld() {
        guard requests.hasHeld else { return }
        for place in shards.cores.indices {
            var service = self
            service.place = place
            service.answerHeldOfShard()
        }
    }

    private func answerHeldOfShard() {
        guard shards.cores.count == 1 || shared.takesEvents else {
            // The core that held them is gone: the next primary asks the moderator again.
            for request in requests.takeHeld(of: place) {
                answer(request) { () throws(AdministrationRefusal) in
                    throw useAnotherServer(for: place)
                }
            }
            return
        }
        var sends: [(request: APIRequest, send: PendingSend)] = []
        let (outcomes, sequence) = shared.enter { state in
            (state.broker.takeHeldOutcomes(), state.broker.pendingSequence)
        }
        for (number, outcome) in outcomes {
            guard let (request, message) = requests.takeHeld(number, of: place) else { continue }
            answer(request) { () throws(AdministrationRefusal) in
                switch try progress(of: message, outcome, sequence) {
                case .complete(let reply): return message.object(replying: reply)
                case .pending(let send): sends.append((request, send))
                case .held(let number): preconditionFailure("message \(number) is held again")
                }
                return nil
            }
        }
        // The batch of those that were released first may be in flight, and the next one empty.
        if !sends.isEmpty { shared.waitForCommit(of: sequence - 1) }
        finish(sends)
    }

    /// Waits for the commit of messages, and answers them.
    private func finish(_ sends: [(request: APIRequest, send: PendingSend)]) {
        waitForCommits(of: sends.map(\.send))
        for (request, send) in sends {
            answer(request) { () throws(AdministrationRefusal) in
                send.request.object(replying: try finish(send))
            }
        }
    }

    /// Executes a request, or begins it: the messages that are sent share a commit.
    ///
    /// - Returns: a message that is to be finished; nil if the request is answered.
    private func begin(_ request: APIRequest) -> PendingSend? {
        var pending: PendingSend?
        answer(request) { () throws(AdministrationRefusal) in
            // What another node has changed since is not here. What this node sees of its cluster
            // is wanted then most of all.
            let isOfCluster = request.operation.kind == .showCluster
            guard isOfCluster || mayAnswer else {
                throw AdministrationRefusal(
                    .serverUnavailable, "this node is not the primary of its cluster now")
            }
            // The content may have taken seconds, in which the credential was revoked.
            let now = clock.moment().unixSeconds
            guard let credential = credentials.renewed(request.credential, unixSeconds: now) else {
                if let recall = request.recall {
                    shards.cores[recall.place].enter {
                        $0.broker.forgetResult(ofOperatorRecall: recall.number)
                    }
                }
                // The shard may have moved meanwhile.
                if let place = credentials.standbyPlace(of: request.credential) {
                    throw useAnotherServer(for: place)
                }
                throw AdministrationRefusal(
                    .badUserNameOrPassword, "the token or key is not valid any more")
            }
            let requester = APIRequester(credential.principal, actingFor: request.actingUser)
            let members = request.query.map { ($0.name, $0.value) }
            if let search = try search(request, members, by: requester) {
                return try advance(search, of: request, by: requester)
            }
            let command = try request.operation.command(
                path: request.path, query: members,
                content: request.isPayload ? [] : request.content,
                payload: request.isPayload
                    ? APIPayload(bytes: request.content, mediaType: request.mediaType) : nil,
                by: requester)
            if case .showSelf(let own) = command {
                return own.object(replying: try showSelf(credential))
            }
            if case .startTrace(let start) = command {
                try checkPlace(of: start.app)
                return start.object(
                    replying: try serving(start.app).start(
                        start, by: credential.principal.description))
            }
            if let app = command.app { try checkPlace(of: app) }
            let service = command.app.map(serving) ?? self
            if command.revisesMessage {
                return try service.advance(command, of: request, by: credential)
            }
            guard case .sendMessage(let message) = command else {
                return try execute(command, replyingAs: .object)
            }
            let key = request.idempotencyKey.map { IdempotencyKey.sendKey($0, of: request) }
            guard request.waits else {
                try service.beginOnly(message, of: request, by: credential, key: key)
                return Self.empty
            }
            switch try service.begin(message, by: credential, key: key, moderation: .holds) {
            case .complete(let reply): return message.object(replying: reply)
            case .pending(let send): pending = send
            case .held(let number):
                requests.hold(request, message, as: number, of: service.place)
            }
            return nil
        }
        return pending
    }

    /// The search of a request for a list with conditions; nil for another request.
    private func search(
        _ request: APIRequest, _ members: [(name: String, value: String)],
        by requester: APIRequester
    ) throws(AdministrationRefusal) -> ListSearch? {
        if let search = request.search { return search }
        guard let query = try ListQuery(members, of: request.operation) else { return nil }
        return try ListSearch(query, of: request.operation, path: request.path, by: requester)
    }

    /// Compares the items of a few pages, and lets the request wait again if there are more.
    ///
    /// - Returns: the answer; nil if the request waits again.
    private func advance(
        _ search: ListSearch, of request: APIRequest, by requester: APIRequester
    ) throws(AdministrationRefusal) -> [UInt8]? {
        var search = search
        search.beginTurn()
        repeat {
            let command = try request.operation.command(
                path: request.path, query: search.page, content: [], by: requester)
            search.take(try execute(command, replyingAs: .object))
            if search.isComplete { return search.answer }
        } while !search.isTurnOver
        var waiting = request
        waiting.search = search
        requests.addAgain(waiting)
        return nil
    }

    /// Hands a message to the core for a client that does not wait for its commit.
    private func beginOnly(
        _ message: SendMessage, of request: APIRequest, by credential: APICredential,
        key: SendKey?
    ) throws(AdministrationRefusal) {
        let progress: SendProgress
        do throws(AdministrationRefusal) {
            progress = try begin(
                message, by: credential, key: key, moderation: .holdsUnanswered)
        } catch  where error.cause == .underWay {
            // The first request with the key was taken too.
            return
        }
        guard case .pending(let send) = progress else { return }
        shared.enter { $0.broker.forgetResult(ofOperatorSend: send.number) }
        let isFull = requests.noteUnstored(
            byteCount: request.content.count, batch: send.sequence, of: place)
        if isFull { shared.waitForCommit(of: send.sequence) }
    }

    private static let empty = [UInt8]("{}\n".utf8)

    /// Answers a request with what `body` returns, unless that is nil.
    private func answer(
        _ request: APIRequest, _ body: () throws(AdministrationRefusal) -> [UInt8]?
    ) {
        let operation = request.operation
        var response: HTTPResponse
        do throws(AdministrationRefusal) {
            guard let content = try body() else { return }
            response = HTTPResponse(
                request.waits ? HTTPStatus(rawValue: operation.status) ?? .ok : .accepted,
                contentType: "application/json", content: content)
        } catch  where error.reason == ReasonCode.badUserNameOrPassword.rawValue {
            response = .problem(.unauthorized, error.message, reason: .badUserNameOrPassword)
            response.fields = [
                "WWW-Authenticate: Bearer realm=\"martlet\", error=\"invalid_token\""
            ]
        } catch {
            response = .problem(
                HTTPStatus(rawValue: error.httpStatus) ?? .badRequest, error.message,
                reason: ReasonCode(rawValue: error.reason) ?? .unspecifiedError)
            // Another node of the cluster answers soon, or this one does again.
            if response.status == .unavailable { response.retryAfterSeconds = 1 }
        }
        if operation.isLogged {
            log.write(
                operatorRequest: operation, by: request.credential.principal, from: request.address,
                target: request.target, status: response.status)
        }
        requests.finish(request, with: response)
        shared.loopHandles[Int(request.loop)].wake()
    }
}

extension APIPrincipal {
    /// Who shares the lines of the log that it causes; nil for an operator, who has no limit.
    fileprivate var nameOfLogShare: String? {
        switch self {
        case .operator: nil
        case .appKey(let key): "\(key.app)/\(key.name)"
        case .user(let user): user.app
        }
    }
}

extension LogWriter {
    /// Writes who changed something over the HTTP API, or tried to. The query of a request that
    /// reads is left out: it may have words that somebody looked for in messages, and who reads the
    /// log may not read messages.
    func write(
        operatorRequest operation: APIOperation, by principal: APIPrincipal,
        from address: SocketAddress, target: String, status: HTTPStatus
    ) {
        write(
            status.rawValue < 400 ? .info : .warning, .operatorRequest,
            of: principal.nameOfLogShare,
            fields: [
                "operator": .text(principal.description), "address": .text("\(address)"),
                "request": .text(operation.kind.rawValue),
                "method": .text(operation.method.rawValue),
                "target": .text(
                    operation.method == .get ? String(target.prefix { $0 != "?" }) : target),
                "status": .number(status.rawValue),
            ])
    }
}

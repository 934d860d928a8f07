// The HTTP API on an event loop: who asks, what for, and the content. The administration
// thread executes the request.

import Administration
import BrokerTerms
import Configuration
import Credentials
import NetTransport
import Primitives
import WireFormat

/// A request to the API whose content is read.
struct APIContent {
    /// Whose content it is.
    enum Purpose {
        case api(APIRequest)
        case interface(SourceCall)

        var holder: RequestHolder {
            switch self {
            case .api(let request): request.holder
            case .interface(let call): call.holder
            }
        }
    }

    let purpose: Purpose
    /// As far as it has arrived.
    var content: [UInt8] = []
    var decoder: HTTPContentDecoder
    let answer: WebConnections.Answer
    /// Whether the client waits for 100 Continue before it sends the content.
    let awaitsContinue: Bool
}

/// A request to the API that is answered as soon as its head is read.
private struct RefusedRequest: Error {
    let answer: WebAction

    init(_ answer: WebAction) { self.answer = answer }

    init(_ status: HTTPStatus, _ detail: String, reason: ReasonCode = .malformedPacket) {
        answer = .respond(.problem(status, detail, reason: reason))
    }
}

extension WebConnections {
    /// Decides on a request to the API, as far as its head tells.
    func routeAPI(
        _ request: WebRequest, from connection: ConnectionID,
        in loop: borrowing some BrokerLoop & ~Copyable
    ) -> WebAction {
        // A preflight has no credential.
        if request.head.method == .options, request.head.traits.contains(.isPreflight) {
            return preflightAPI(request)
        }
        do throws(RefusedRequest) {
            try redirect(request)
            let credential = try authenticate(request, from: connection, in: loop)
            if request.isRead, request.hasPath(.openAPI) {
                return .respond(
                    HTTPResponse(
                        .ok, contentType: "application/json", content: OpenAPIDocument.json))
            }
            let (operation, path) = try Self.findOperation(of: request)
            let peer = peer(of: request, on: connection, in: loop)
            try check(credential.principal, for: operation, path: path, from: peer)
            let actingUser = try Self.actingUser(of: request, for: operation)
            var waiting = APIRequest(
                connection: connection, loop: loopIndex, operation: operation, path: path,
                query: try Self.query(of: request), credential: credential,
                actingUser: actingUser, address: peer, target: request.target)
            try Self.readPayloadType(of: request, into: &waiting)
            try Self.readIdempotencyKey(of: request, into: &waiting)
            return content(of: request, for: .api(waiting))
        } catch {
            return error.answer
        }
    }

    /// Sends a request whose path names an app to the primary of the app's shard, as a standby of
    /// a cluster without shards does: before it looks at the credential.
    private func redirect(_ request: WebRequest) throws(RefusedRequest) {
        guard credentials.shards.isClustered, credentials.shards.cores.count > 1,
            let segments = HTTPTarget.segments(
                of: request.head.path.bytes(in: request.bytes).bytes)
        else { return }
        let root = APIOperation.root.split(separator: "/").map(String.init)
        let rest = segments.dropFirst(root.count)
        guard segments.starts(with: root), rest.first == "apps",
            let app = rest.dropFirst().first,
            let core = credentials.shards.elsewhere(app)
        else { return }
        throw RefusedRequest(.respond(redirection(of: request, to: core)))
    }

    /// The answer to a request that another node of the cluster serves.
    func redirection(of request: WebRequest, to core: SharedBroker) -> HTTPResponse {
        core.countRedirection()
        let primary = core.primaryAddresses.web
        guard !primary.isEmpty else {
            var response = HTTPResponse.problem(
                .unavailable,
                "this node is a standby of the app's shard, and no primary is known",
                reason: .useAnotherServer)
            response.retryAfterSeconds = 1
            return response
        }
        var response = HTTPResponse.problem(
            .temporaryRedirect, "the app's shard has its primary on another node",
            reason: .useAnotherServer)
        response.location = primary + Array(request.target.utf8)
        return response
    }

    /// The credential of a request.
    private func authenticate(
        _ request: WebRequest, from connection: ConnectionID,
        in loop: borrowing some BrokerLoop & ~Copyable
    ) throws(RefusedRequest) -> APICredential {
        let now = clock.moment(at: loop.now).unixSeconds
        do throws(APICredentials.Refusal) {
            return try credential(of: request, unixSeconds: now)
        } catch {
            if let core = error.elsewhere {
                throw RefusedRequest(.respond(redirection(of: request, to: core)))
            }
            throw RefusedRequest(
                refuseCredential(request, from: connection, error.detail, in: loop))
        }
    }

    /// The core that would have the app of a request's credential, if another node of the cluster
    /// serves it; nil otherwise.
    func elsewhere(
        _ request: WebRequest, in loop: borrowing some BrokerLoop & ~Copyable
    ) -> SharedBroker? {
        guard credentials.shards.isClustered, credentials.shards.cores.count > 1 else { return nil }
        do throws(APICredentials.Refusal) {
            _ = try credential(of: request, unixSeconds: clock.moment(at: loop.now).unixSeconds)
            return nil
        } catch {
            return error.elsewhere
        }
    }

    /// The operation that the path and the method of a request name, and the values of the path.
    private static func findOperation(
        of request: WebRequest
    ) throws(RefusedRequest) -> (operation: APIOperation, path: [String]) {
        let segments = HTTPTarget.segments(of: request.head.path.bytes(in: request.bytes).bytes)
        guard let place = segments.flatMap(APIPlace.init) else {
            throw RefusedRequest(.notFound, "there is nothing here", reason: .topicNameInvalid)
        }
        let found = place.operations.first { request.hasMethod($0.operation.method) }
        guard let found else {
            var response = HTTPResponse.problem(
                .methodNotAllowed, "this path has other methods; see Allow",
                reason: .implementationSpecificError)
            response.allowed = allowed(place.methods)
            throw RefusedRequest(.respond(response))
        }
        return found
    }

    /// Whether a principal may make an operation.
    private func check(
        _ principal: APIPrincipal, for operation: APIOperation, path: [String],
        from peer: SocketAddress
    ) throws(RefusedRequest) {
        guard let refusal = principal.refusal(of: operation, path: path) else { return }
        log.writeRefusal(
            .operatorRefused, of: peer, user: principal.description, reason: .notAuthorized,
            refusal.text)
        throw RefusedRequest(.forbidden, refusal.text, reason: .notAuthorized)
    }

    private static func actingUser(
        of request: WebRequest, for operation: APIOperation
    ) throws(RefusedRequest) -> String? {
        guard operation.takesActingUser else { return nil }
        do throws(ActingUserFault) {
            return try request.actingUser
        } catch {
            throw RefusedRequest(.badRequest, error.detail)
        }
    }

    private static func query(
        of request: WebRequest
    ) throws(RefusedRequest) -> [HTTPTarget.Member] {
        guard let query = request.queryMembers else {
            throw RefusedRequest(
                .badRequest,
                "the query is malformed: NAME=VALUE, joined by &, with a plus as %2B and a "
                    + "space as %20")
        }
        return query
    }

    /// Reads the type of a content that is a payload.
    private static func readPayloadType(
        of request: WebRequest, into waiting: inout APIRequest
    ) throws(RefusedRequest) {
        let query = waiting.query.map { ($0.name, $0.value) }
        guard waiting.operation.takesPayload(query: query), !request.hasJSON else { return }
        waiting.isPayload = true
        guard let field = request.head.contentType, !field.isEmpty else { return }
        let text = String(validating: field.bytes(in: request.bytes), as: UTF8.self)
        guard let text, text.utf8.count <= SendMessage.contentTypeByteCountMaximum else {
            throw RefusedRequest(
                .badRequest,
                "Content-Type has more than \(SendMessage.contentTypeByteCountMaximum)"
                    + " bytes, or is not UTF-8")
        }
        waiting.mediaType = text
    }

    private static func readIdempotencyKey(
        of request: WebRequest, into waiting: inout APIRequest
    ) throws(RefusedRequest) {
        guard let field = request.head.idempotencyKey, request.head.method == .post else { return }
        // A program that repeats a request because of its key relies on the key.
        guard waiting.operation.takesIdempotencyKey else {
            throw RefusedRequest(.badRequest, "only messages have an Idempotency-Key")
        }
        guard let key = IdempotencyKey.read(field.bytes(in: request.bytes.bytes)) else {
            throw RefusedRequest(
                .badRequest, "Idempotency-Key is not a string of 1 to 128 characters of ASCII")
        }
        waiting.idempotencyKey = key
    }

    /// Whether and how the content of a request is read.
    func content(of request: WebRequest, for purpose: APIContent.Purpose) -> WebAction {
        let head = request.head
        func refused(
            _ status: HTTPStatus, _ detail: StaticString, reason: ReasonCode = .malformedPacket
        ) -> WebAction {
            .respond(.problem(status, "\(detail)", reason: reason), detail: detail)
        }
        if head.traits.contains(.expectsOther) {
            return refused(.expectationFailed, "only 100-continue can be expected")
        }
        let takesAnyType: Bool
        switch purpose {
        case .api(let waiting):
            guard head.hasContent else { return .api(waiting) }
            guard waiting.operation.takesContent else {
                return refused(
                    .contentTooLarge, "this operation takes no content", reason: .packetTooLarge)
            }
            takesAnyType = waiting.isPayload
        case .interface(let call):
            guard head.hasContent else { return .interface(call) }
            // The interface refuses what it does not read.
            takesAnyType = true
        }
        guard !head.traits.contains(.isCoded), request.hasJSON || takesAnyType else {
            return refused(
                .unsupportedMediaType, "the content must be application/json without a coding",
                reason: .payloadFormatInvalid)
        }
        do throws(HTTPContentFault) {
            return .content(
                APIContent(
                    purpose: purpose, decoder: try HTTPContentDecoder(head),
                    answer: WebConnections.Answer(
                        isHead: false, closes: !head.isPersistent, client: request.client,
                        cors: request.cors),
                    awaitsContinue: request.awaitsContinue))
        } catch {
            return refused(error.status, error.text, reason: .packetTooLarge)
        }
    }

    func credential(
        of request: WebRequest, unixSeconds now: UInt64
    ) throws(APICredentials.Refusal) -> APICredential {
        guard let token = request.bearerToken else {
            throw APICredentials.Refusal(
                detail: request.head.authorization == nil
                    ? "Authorization: Bearer TOKEN is missing" : "no operator has this token")
        }
        return try credentials.find(
            token.bytes(in: request.bytes).bytes, webToken: request.webToken, unixSeconds: now)
    }

    /// Verifies the web token of a request to the API, unless it was verified lately.
    ///
    /// - Returns: false if the turn has verified as many as it may. The connection then waits for
    ///   its next turn.
    mutating func verifyWebToken(
        of request: inout WebRequest, from connection: ConnectionID,
        in loop: inout some BrokerLoop & ~Copyable
    ) -> Bool {
        guard let range = presentedToken(of: request) else { return true }
        let token = range.bytes(in: request.bytes).bytes
        guard APICredentials.isWebToken(token),
            let part = isForInterface(request) ? .api : request.part,
            connections[connection]?.terms.parts.contains(part) == true,
            part == .api || request.mustBeVerified
        else { return true }
        let now = clock.moment(at: loop.now).unixSeconds
        let digest = SHA256Digest(of: token)
        // Before the keys are read: what they verify belongs to no later generation.
        let generation = trust.generation
        if let known = webTokens.find(digest, generation: generation, unixSeconds: now) {
            request.webToken = .success(known)
            return true
        }
        guard verifications.admits(in: loop.turn) else {
            loop.pauseReading(connection, for: .answers)
            verifications.wait(connection)
            return false
        }
        do throws(TrustRefusal) {
            let identity = try trust.identity(webToken: token, unixSeconds: Int64(now))
            webTokens.add(identity, digest: digest, generation: generation)
            request.webToken = .success(identity)
        } catch {
            request.webToken = .failure(error)
        }
        return true
    }

    /// Refuses a request without a valid credential.
    func refuseCredential(
        _ request: WebRequest, from connection: ConnectionID, _ detail: String,
        in loop: borrowing some BrokerLoop & ~Copyable
    ) -> WebAction {
        let peer = peer(of: request, on: connection, in: loop)
        return request.head.authorization != nil
            ? refuseCredential(from: peer, detail, in: loop)
            : refuseCredential(
                from: peer, detail, logged: "no token of an operator", hasToken: false, in: loop)
    }

    /// Refuses a credential, or that there is none.
    ///
    /// - Parameter logged: the detail for the log; nil for that of the answer.
    func refuseCredential(
        from peer: SocketAddress, _ detail: String, logged: String? = nil,
        hasToken: Bool = true, in loop: borrowing some BrokerLoop & ~Copyable
    ) -> WebAction {
        // Guesses are counted by address, and are not logged above the limit.
        if let seconds = services.operators.failures.note(peer, at: loop.now) {
            var response = HTTPResponse.problem(
                .tooManyRequests, "too many refused requests from this address",
                reason: .connectionRateExceeded)
            response.retryAfterSeconds = seconds
            response.closes = true
            return .respond(response)
        }
        log.writeRefusal(
            .authenticationFailed, of: peer, user: "", reason: .badUserNameOrPassword,
            logged ?? detail)
        var response = HTTPResponse.problem(
            .unauthorized, detail, reason: .badUserNameOrPassword)
        response.fields = [
            hasToken
                ? "WWW-Authenticate: Bearer realm=\"martlet\", error=\"invalid_token\""
                : "WWW-Authenticate: Bearer realm=\"martlet\""
        ]
        return .respond(response)
    }

    /// The methods for the field `Allow`. GET stands for HEAD too.
    static func allowed(_ methods: [APIMethod]) -> [StaticString] {
        methods.flatMap { method -> [StaticString] in
            switch method {
            case .get: ["GET", "HEAD"]
            case .post: ["POST"]
            case .put: ["PUT"]
            case .delete: ["DELETE"]
            }
        }
    }
}

/// The field `Martlet-User` is malformed.
struct ActingUserFault: Error {
    let detail = "Martlet-User is no user in UTF-8, with % as %25"
}

extension WebRequest {
    /// The user in `Martlet-User`; nil without the field.
    var actingUser: String? {
        get throws(ActingUserFault) {
            guard let field = head.actingUser else { return nil }
            guard let user = HTTPTarget.text(of: field.bytes(in: bytes).bytes), !user.isEmpty
            else { throw ActingUserFault() }
            return user
        }
    }

    /// The place of the token in `Authorization: Bearer TOKEN` (RFC 6750, 2.1); nil without one.
    var bearerToken: ByteRange? {
        guard let field = head.authorization else { return nil }
        let scheme: StaticString = "bearer "
        let count = scheme.utf8CodeUnitCount
        let text = field.bytes(in: bytes).bytes
        guard text.byteCount > count,
            text.extracting(first: count).isEqual(ignoringCase: scheme)
        else { return nil }
        return ByteRange(
            offset: Int(field.offset) + count, count: Int(field.count) - count)
    }

    /// The members of the query; nil where it is malformed.
    var queryMembers: [HTTPTarget.Member]? {
        guard let query = head.query else { return [] }
        return HTTPTarget.members(of: query.bytes(in: bytes).bytes)
    }

    fileprivate var target: String {
        let path = String(decoding: head.path.bytes(in: bytes), as: UTF8.self)
        guard let query = head.query else { return path }
        return path + "?" + String(decoding: query.bytes(in: bytes), as: UTF8.self)
    }

    fileprivate func hasMethod(_ method: APIMethod) -> Bool {
        switch method {
        case .get: isRead
        case .post: head.method == .post
        case .put: head.method == .put
        case .delete: head.method == .delete
        }
    }

    /// Whether the content is JSON, which is UTF-8 whatever a parameter says (RFC 8259, 8.1).
    fileprivate var hasJSON: Bool { hasContent(ofType: "application/json") }

    /// Whether `Content-Type` names a type, whatever its parameters say.
    func hasContent(ofType type: StaticString) -> Bool {
        guard let field = head.contentType else { return false }
        let text = field.bytes(in: bytes).bytes
        var count = 0
        while count < text.byteCount, text[count] != UInt8(ascii: ";"),
            text[count] != UInt8(ascii: " ")
        {
            count += 1
        }
        return text.extracting(first: count).isEqual(ignoringCase: type)
    }
}

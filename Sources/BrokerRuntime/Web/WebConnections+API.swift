// The HTTP API on an event loop: who asks, what for, and the content. The administration
// thread executes the request.

import Administration
import BrokerTerms
import Configuration
import NetTransport
import Primitives
import WireFormat

/// A request to the API whose content is read.
struct APIContent {
    var request: APIRequest
    var decoder: HTTPContentDecoder
    let answer: WebConnections.Answer
    /// Whether the client waits for 100 Continue before it sends the content.
    let awaitsContinue: Bool
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
        let now = clock.moment(at: loop.now)
        let credential: APICredential
        do throws(APICredentials.Refusal) {
            credential = try self.credential(
                of: request, unixSeconds: now.unixSeconds)
        } catch {
            return refuseCredential(request, from: connection, error.detail, in: loop)
        }
        if request.isRead, request.hasPath("/api/v1/openapi.json") {
            return .respond(
                HTTPResponse(
                    .ok, contentType: "application/json", content: OpenAPIDocument.json))
        }
        let segments = HTTPTarget.segments(of: request.head.path.bytes(in: request.bytes).bytes)
        guard let place = segments.flatMap(APIPlace.init) else {
            return .respond(.problem(.notFound, "there is nothing here", reason: .topicNameInvalid))
        }
        guard
            let (operation, path) = place.operations.first(where: {
                request.hasMethod($0.operation.method)
            })
        else {
            var response = HTTPResponse.problem(
                .methodNotAllowed, "this path has other methods; see Allow",
                reason: .implementationSpecificError)
            response.allowed = Self.allowed(place)
            return .respond(response)
        }
        let principal = credential.principal
        if let refusal = principal.refusal(of: operation, path: path) {
            log(
                .operatorRefused, of: peer(of: request, on: connection, in: loop),
                user: principal.description, reason: .notAuthorized, refusal.text)
            return .respond(.problem(.forbidden, refusal.text, reason: .notAuthorized))
        }
        var actingUser: String?
        if operation.takesActingUser {
            do throws(ActingUserFault) {
                actingUser = try request.actingUser
            } catch {
                return .respond(
                    .problem(.badRequest, error.detail, reason: .malformedPacket))
            }
        }
        guard let query = request.queryMembers else {
            return .respond(
                .problem(
                    .badRequest,
                    "the query is malformed: NAME=VALUE, joined by &, with a plus as %2B and a "
                        + "space as %20", reason: .malformedPacket))
        }
        var waiting = APIRequest(
            connection: connection, loop: loopIndex, operation: operation, path: path,
            query: query, credential: credential, actingUser: actingUser,
            address: peer(of: request, on: connection, in: loop), target: request.target)
        if operation.takesPayload(query: query.map { ($0.name, $0.value) }), !request.hasJSON {
            waiting.isPayload = true
            if let field = request.head.contentType, !field.isEmpty {
                let text = String(
                    validating: field.bytes(in: request.bytes), as: UTF8.self)
                guard let text, text.utf8.count <= SendMessage.contentTypeByteCountMaximum else {
                    return .respond(
                        .problem(
                            .badRequest,
                            "Content-Type has more than \(SendMessage.contentTypeByteCountMaximum)"
                                + " bytes, or is not UTF-8", reason: .malformedPacket))
                }
                waiting.mediaType = text
            }
        }
        if let field = request.head.idempotencyKey, request.head.method == .post {
            // Who repeats a request because of its key must not do it in vain.
            guard operation.takesIdempotencyKey else {
                return .respond(
                    .problem(
                        .badRequest, "only messages have an Idempotency-Key",
                        reason: .malformedPacket))
            }
            guard let key = IdempotencyKey.read(field.bytes(in: request.bytes.bytes)) else {
                return .respond(
                    .problem(
                        .badRequest,
                        "Idempotency-Key is not a string of 1 to 128 characters of ASCII",
                        reason: .malformedPacket))
            }
            waiting.idempotencyKey = key
        }
        return content(of: request, for: waiting)
    }

    /// Whether and how the content of a request is read.
    private func content(of request: WebRequest, for waiting: APIRequest) -> WebAction {
        let head = request.head
        func refused(
            _ status: HTTPStatus, _ detail: StaticString, reason: ReasonCode = .malformedPacket
        ) -> WebAction {
            .respond(.problem(status, "\(detail)", reason: reason), detail: detail)
        }
        if head.traits.contains(.expectsOther) {
            return refused(.expectationFailed, "only 100-continue can be expected")
        }
        guard head.hasContent else { return .api(waiting) }
        guard waiting.operation.takesContent else {
            return refused(
                .contentTooLarge, "this operation takes no content", reason: .packetTooLarge)
        }
        guard !head.traits.contains(.isCoded), request.hasJSON || waiting.isPayload else {
            return refused(
                .unsupportedMediaType, "the content must be application/json without a coding",
                reason: .payloadFormatInvalid)
        }
        do throws(HTTPContentFault) {
            return .content(
                APIContent(
                    request: waiting, decoder: try HTTPContentDecoder(head),
                    answer: WebConnections.Answer(
                        isHead: false, closes: !head.isPersistent, client: request.client,
                        cors: request.cors),
                    awaitsContinue: head.traits.contains(.expectsContinue)
                        && !head.traits.contains(.isVersion10)))
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
            token.bytes(in: request.bytes).bytes, trust: trust, unixSeconds: now)
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
        log(
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

    /// Writes a refused request to the log, with the fields of a refused login.
    private func log(
        _ event: LogEventName, of peer: SocketAddress, user: String, reason: ReasonCode,
        _ detail: String
    ) {
        log.write(
            .warning, event,
            fields: [
                "address": .text("\(peer)"), "user": .text(user),
                "device": "", "reason": .text(reason.name.description),
                "code": .number(reason.rawValue),
                "subject": "", "detail": .text(detail),
            ])
    }

    private static func allowed(_ place: APIPlace) -> [StaticString] {
        place.methods.flatMap { method -> [StaticString] in
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
    fileprivate var hasJSON: Bool {
        guard let field = head.contentType else { return false }
        let text = field.bytes(in: bytes).bytes
        var count = 0
        while count < text.byteCount, text[count] != UInt8(ascii: ";"),
            text[count] != UInt8(ascii: " ")
        {
            count += 1
        }
        return text.extracting(first: count).isEqual(ignoringCase: "application/json")
    }
}

extension HTTPResponse {
    /// Problem details (RFC 9457).
    static func problem(
        _ status: HTTPStatus, _ detail: String, reason: ReasonCode
    ) -> HTTPResponse {
        let problem = APIProblem(
            title: "\(status.phrase)", status: status.rawValue, detail: detail,
            code: APIProblem.Code(number: reason.rawValue, name: "\(reason.name)"))
        return HTTPResponse(
            status, contentType: APIProblem.contentType, content: problem.bytes)
    }
}

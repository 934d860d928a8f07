// Requests to interfaces of other systems on an event loop: which interface and app they belong to,
// and the content. The administration thread executes them.

import BrokerTerms
import Credentials
import NetTransport
import Primitives
import SourceInterfaces
import WireFormat

extension WebRequest {
    fileprivate var sourceMethod: SourceRoute.Method? {
        switch head.method {
        case .get, .head: .get
        case .post: .post
        case .put: .put
        case .delete: .delete
        case .options, .other: nil
        }
    }

    fileprivate var sourceContentForm: SourceRequest.ContentForm {
        if hasContent(ofType: "application/json") { return .json }
        return hasContent(ofType: "application/x-www-form-urlencoded") ? .form : .other
    }

    /// The values of the members of the query by their names; nil where it is malformed.
    fileprivate var queryValues: [String: String]? {
        queryMembers.map { members in
            Dictionary(members.map { ($0.name, $0.value) }) { _, last in last }
        }
    }

    /// The app that the client names.
    fileprivate var application: String? {
        head.application.map { String(decoding: $0.bytes(in: bytes), as: UTF8.self) }
    }

    /// The host of the authority, without the port.
    fileprivate var host: String {
        let text = String(decoding: head.authority.bytes(in: bytes), as: UTF8.self)
        guard let colon = text.lastIndex(of: ":"), !text.hasSuffix("]") else { return text }
        return String(text[..<colon])
    }
}

extension WebConnections {
    /// Whether a request is for an interface that an app has.
    func isForInterface(_ request: WebRequest) -> Bool {
        isForInterface(path: request.head.path.bytes(in: request.bytes).bytes)
    }

    /// The place of the token that decides on a request: in the field of QuickBlox at its paths,
    /// and otherwise in `Authorization`.
    func presentedToken(of request: WebRequest) -> ByteRange? {
        let path = request.head.path.bytes(in: request.bytes).bytes
        let count = SourceRoute.startWithOwnToken.utf8CodeUnitCount
        guard isForInterface(path: path), path.byteCount >= count,
            path.extracting(first: count).isEqual(SourceRoute.startWithOwnToken)
        else { return request.bearerToken }
        return request.head.sessionToken
    }

    /// Whether a path begins like one of an interface, and an app has one.
    func isForInterface(path: RawSpan) -> Bool {
        let begins = SourceRoute.starts.contains { start in
            let count = start.utf8CodeUnitCount
            return path.byteCount >= count && path.extracting(first: count).isEqual(start)
        }
        return begins && !services.interfaces.apps.isEmpty
    }

    /// Answers a browser that asks whether a page may make a request to an interface.
    private func preflightInterface(_ request: WebRequest, _ path: [String]) -> WebAction {
        preflight(
            request,
            methods: Self.names(of: SourceRoute.methods(of: path)),
            fields: ["authorization", "content-type", "qb-token", "x-diuit-application-id"])
    }

    /// Decides on a request to an interface, as far as its head tells.
    func routeInterface(
        _ request: WebRequest, from connection: ConnectionID, isDraining: Bool,
        in loop: borrowing some BrokerLoop & ~Copyable
    ) -> WebAction {
        let nothing = WebAction.respond(.text(.notFound, "there is nothing here"))
        let apps = services.interfaces.apps
        let segments = HTTPTarget.segments(of: request.head.path.bytes(in: request.bytes).bytes)
        guard connections[connection]?.terms.parts.contains(.api) == true, let segments else {
            return nothing
        }
        if let form = SocketForm(path: segments) {
            guard apps.has(.diuit) else { return nothing }
            return openSocket(form, request, of: connection, isDraining: isDraining, in: loop)
        }
        if segments.prefix(2) == ["1", "files"] {
            return routeFile(segments, request, from: peer(of: request, on: connection, in: loop))
        }
        if request.head.method == .options, request.head.traits.contains(.isPreflight),
            !SourceRoute.methods(of: segments).isEmpty
        {
            return preflightInterface(request, segments)
        }
        let place = request.sourceMethod.map { SourceRoute.find($0, segments) } ?? .otherMethods
        let route: SourceRoute
        switch place {
        case .nothing: return nothing
        case .otherMethods:
            var response = HTTPResponse.text(.methodNotAllowed, "this path has other methods")
            response.allowed = Self.allowed(SourceRoute.methods(of: segments))
            return .respond(response)
        case .route(let found): route = found
        }
        guard apps.has(route.interface) else { return nothing }
        services.interfaces.countRequest(to: route.interface)
        func refused(_ status: UInt16, _ detail: String) -> WebAction {
            services.interfaces.countRefusal(at: route.interface)
            var response = HTTPResponse(
                SourceExecutor.answer(SourceRefusal(status, detail), at: route.interface))
            // The window of an address has ended by then.
            if status == 429 { response.retryAfterSeconds = AddressCounts.windowSeconds }
            return .respond(response)
        }
        guard !isStopping(isDraining) else {
            return refused(503, "the broker is stopping")
        }
        let peer = peer(of: request, on: connection, in: loop)
        let tooMany = "too many refused requests from this address"
        if !route.needsToken, services.operators.failures.isExceeded(by: peer, at: loop.now) {
            return refused(429, tooMany)
        }
        if route == .register, services.interfaces.registrations.isExceeded(by: peer, at: loop.now)
        {
            return refused(429, "too many registrations from this address")
        }
        var credential: APICredential?
        var user: SourceUser?
        if route.needsToken {
            guard let (found, holder) = holder(of: request, in: loop) else {
                guard services.operators.failures.note(peer, at: loop.now) == nil else {
                    return refused(429, tooMany)
                }
                log.writeRefusal(
                    .authenticationFailed, of: peer, user: "", reason: .badUserNameOrPassword,
                    "interface \(route.interface.rawValue): no valid token")
                return refused(403, "no valid token")
            }
            guard apps.has(route.interface, app: holder.app) else {
                services.interfaces.countRefusal(at: route.interface)
                return nothing
            }
            (credential, user) = (found, holder)
        }
        var call = SourceCall(
            connection: connection, loop: loopIndex,
            request: SourceRequest(
                route: route,
                query: request.head.query?.bytes(in: request.bytes).map { $0 } ?? [],
                content: [], contentForm: request.sourceContentForm, host: request.host,
                user: user), credential: credential, address: peer, began: loop.now)
        call.request.application = request.application
        return content(of: request, for: .interface(call))
    }

    /// Decides on the handshake of a socket.
    private func openSocket(
        _ form: SocketForm, _ request: WebRequest, of connection: ConnectionID, isDraining: Bool,
        in loop: borrowing some BrokerLoop & ~Copyable
    ) -> WebAction {
        services.interfaces.countRequest(to: .diuit)
        let action = socketAction(
            form, request, of: connection, isDraining: isDraining, in: loop)
        if case .respond = action { services.interfaces.countRefusal(at: .diuit) }
        return action
    }

    private func socketAction(
        _ form: SocketForm, _ request: WebRequest, of connection: ConnectionID, isDraining: Bool,
        in loop: borrowing some BrokerLoop & ~Copyable
    ) -> WebAction {
        if services.operators.failures.isExceeded(
            by: peer(of: request, on: connection, in: loop), at: loop.now)
        {
            return .respond(.text(.tooManyRequests, "too many refused requests from this address"))
        }
        if form == .socketIO, let fault = SocketHandshake.fault(of: request.queryValues) {
            return .respond(
                HTTPResponse(
                    .badRequest, contentType: "application/json", content: fault.bytes))
        }
        return openWebSocket(request, of: connection, as: form, isDraining: isDraining)
    }

    /// The credential of a request, and the user whose it is; nil unless it is a user's.
    private func holder(
        of request: WebRequest, in loop: borrowing some BrokerLoop & ~Copyable
    ) -> (APICredential, SourceUser)? {
        guard let place = presentedToken(of: request) else { return nil }
        let now = clock.moment(at: loop.now).unixSeconds
        let credential = try? credentials.find(
            place.bytes(in: request.bytes).bytes,
            webToken: request.webToken, unixSeconds: now)
        guard let credential, case .user(let user) = credential.principal else { return nil }
        return (credential, SourceUser(app: user.app, user: user.user))
    }

    /// Gives a request to the threads that execute it. Until it is answered, nothing more is read.
    mutating func execute(
        _ call: SourceCall, answering answer: Answer, in loop: inout some BrokerLoop & ~Copyable
    ) {
        let connection = call.connection
        guard
            let number = beginAwaiting(
                connection, answer, contentByteCount: call.request.content.count)
        else { return }
        var call = call
        call.number = number
        let wait = services.requests.count(
            call.holder, perSecond: rates.values.messagesPerSecond, at: loop.now)
        guard wait == nil, services.interfaces.queue.add(call) else {
            let interface = call.request.route.interface
            services.interfaces.countRefusal(at: interface)
            let refusal =
                wait == nil
                ? SourceRefusal(503, "too many requests wait")
                : SourceRefusal(429, "more than limits.messagesPerSecond requests of this user")
            var response = HTTPResponse(SourceExecutor.answer(refusal, at: interface))
            response.retryAfterSeconds = max(1, wait ?? 1)
            connections[connection]?.awaited?.complete(number, with: response)
            sendAnswers(of: connection, in: &loop)
            return
        }
        loop.pauseReading(connection, for: .answers)
        connections[connection]?.awaited?.hold = .untilAnswered
    }
}

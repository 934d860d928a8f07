// The routes of web listeners: WebSocket for both dialects, health, and metrics.

import BrokerCore
import BrokerTerms
import Configuration
import Dashboard
import Dialects
import NetTransport
import Primitives
import SourceInterfaces
import WireFormat

extension WebConnections {
    func route(
        _ request: WebRequest, from connection: ConnectionID, isDraining: Bool,
        in loop: borrowing some BrokerLoop & ~Copyable
    ) -> WebAction {
        if isForInterface(request) {
            return routeInterface(request, from: connection, isDraining: isDraining, in: loop)
        }
        guard let part = request.part, connections[connection]?.terms.parts.contains(part) == true
        else { return .respond(.text(.notFound, "there is nothing here")) }
        if part == .api {
            guard !isStopping(isDraining) else {
                return .respond(
                    .problem(.unavailable, "the broker is stopping", reason: .serverShuttingDown))
            }
            return routeAPI(request, from: connection, in: loop)
        }
        if request.hasPath(.leanMessage), !services.interfaces.apps.has(.leanmessage) {
            return .respond(.text(.notFound, "there is nothing here"))
        }
        if request.hasPath(.events) {
            return openEventStream(request, of: connection, isDraining: isDraining, in: loop)
        }
        if part == .mqtt || part == .mrt || part == .json {
            let action = openWebSocket(request, of: connection, isDraining: isDraining)
            if request.hasPath(.leanMessage) {
                services.interfaces.countRequest(to: .leanmessage)
                if case .respond = action { services.interfaces.countRefusal(at: .leanmessage) }
            }
            return action
        }
        if request.hasPath(.login) {
            return routeLogin(request, from: connection, in: loop)
        }
        // First: other clients are not told whether there are metrics.
        if part == .metrics, !mayReadMetrics(request, from: connection, in: loop) {
            return .respond(.text(.notFound, "there is nothing here"))
        }
        guard request.isRead else {
            var response = HTTPResponse.text(.methodNotAllowed, "only GET and HEAD")
            response.allowed = ["GET", "HEAD"]
            return .respond(response)
        }
        guard !request.head.hasContent else {
            return .respond(.text(.contentTooLarge, "no content is read here"))
        }
        if let file = request.dashboardFile { return .respond(.dashboard(file)) }
        if part == .metrics {
            return .metrics(
                request.head.traits.contains(.prefersOpenMetrics) ? .openMetrics : .plain)
        }
        var findings = services.health.current
        if isDraining { findings.insert(.draining) }
        if request.hasPath(.healthz) { findings.formIntersection(.fatal) }
        return .respond(.health(findings))
    }

    /// Whether the broker is stopping: nothing new begins, although connections are still open.
    ///
    /// - Parameter isDraining: the core has begun to end its connections.
    func isStopping(_ isDraining: Bool) -> Bool {
        isDraining || services.health.current.contains(.draining)
    }

    private func mayReadMetrics(
        _ request: WebRequest, from connection: ConnectionID,
        in loop: borrowing some BrokerLoop & ~Copyable
    ) -> Bool {
        switch services.listeners.values.metrics {
        case .loopback:
            // A client that a proxy names is on another machine: 127.0.0.1 is the proxy then.
            loop.peer(of: connection).isLoopback && !loop.isPeerNamed(of: connection)
                && request.head.forwardedFor.isEmpty && request.hasLocalHost
        case .anyone: true
        case .nobody: false
        }
    }

    /// - Parameter form: of the messages of an interface of another system; nil for the broker's.
    func openWebSocket(
        _ request: WebRequest, of connection: ConnectionID, as form: SocketForm? = nil,
        isDraining: Bool
    ) -> WebAction {
        func refused(
            _ status: HTTPStatus, _ detail: StaticString, fields: [StaticString] = []
        ) -> WebAction {
            var response = HTTPResponse.text(status, detail)
            response.fields = fields
            response.closes = true
            return .respond(response, detail: detail)
        }
        let head = request.head
        let isMRT = request.hasPath(.mrt)
        let isJSON = request.part == .json || form != nil
        guard head.method == .get else {
            let detail: StaticString = "only GET"
            var response = HTTPResponse.text(.methodNotAllowed, detail)
            response.allowed = ["GET"]
            response.closes = true
            return .respond(response, detail: detail)
        }
        guard !head.hasContent else { return refused(.contentTooLarge, "a handshake with content") }
        guard head.wantsWebSocket, !head.traits.contains(.isVersion10) else {
            return refused(
                .upgradeRequired, "no WebSocket handshake",
                fields: ["Upgrade: websocket", "Connection: Upgrade"])
        }
        guard head.traits.contains(.isWebSocketVersion13) else {
            return refused(
                .upgradeRequired, "the version of WebSocket is not 13",
                fields: [
                    "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13",
                ])
        }
        guard let key = head.webSocketKey?.bytes(in: request.bytes),
            WebSocketHandshake.isKey(key.bytes)
        else { return refused(.badRequest, "Sec-WebSocket-Key is missing or malformed") }
        guard allowsOrigin(of: request, on: connection) else {
            return refused(.forbidden, "the origin is not allowed")
        }
        // The messages of a JSON client name no version that a subprotocol would choose.
        let subprotocol = isJSON ? nil : Self.subprotocol(of: head, isMRT: isMRT)
        guard isJSON || subprotocol != nil else {
            return refused(
                .badRequest,
                isMRT ? "the subprotocol mrt is not offered" : "the subprotocol mqtt is not offered"
            )
        }
        guard !isStopping(isDraining), let terms = connections[connection]?.terms else {
            return refused(.unavailable, "the broker is stopping")
        }
        var actingUser: [UInt8]?
        if isJSON, form == nil {
            guard let named = Self.actingUser(of: request) else {
                return refused(
                    .badRequest, "the acting user in Martlet-User or ?user is not a user")
            }
            actingUser = named.isEmpty ? nil : named
        }
        let digest = HandshakeDigest.sha1(WebSocketHandshake.digestInput(key: key.bytes))
        return .webSocket(
            handshake: WebSocketHandshake.response(digest: digest, subprotocol: subprotocol),
            WebSocketClient(
                terms: isMRT || isJSON ? terms.mrt : terms.mqtt,
                json: form != nil
                    ? .relayed
                    : !isJSON ? nil : request.hasPath(.leanMessage) ? .leanMessage : .socket,
                actingUser: actingUser, form: form))
    }

    /// The user for whom the holder of an app's key connects: `user` of the query, because browsers
    /// send no fields of their own with a handshake, or `Martlet-User`. Empty if there is none, nil
    /// if it is malformed.
    private static func actingUser(of request: WebRequest) -> [UInt8]? {
        guard let members = request.queryMembers else { return nil }
        let named = members.filter { $0.name == "user" }
        guard named.count <= 1 else { return nil }
        var user = named.first?.value
        if user == nil {
            do throws(ActingUserFault) {
                user = try request.actingUser
            } catch {
                return nil
            }
        }
        guard let user else { return [] }
        let bytes = Array(user.utf8)
        return TextRules.isIdentifier(bytes.span.bytes) ? bytes : nil
    }

    private static func subprotocol(of head: HTTPRequestHead, isMRT: Bool) -> StaticString? {
        if isMRT { return head.subprotocols.contains(.mrt) ? "mrt" : nil }
        if head.subprotocols.contains(.mqtt) { return "mqtt" }
        return head.subprotocols.contains(.mqttV31) ? "mqttv3.1" : nil
    }

    /// Whether a page of the request's origin may connect: one that was loaded from the address
    /// that it connects to, or one of the configuration. Programs have no origin.
    ///
    /// Where this machine needs no credential, the address has to be one of this machine: a page
    /// from elsewhere whose own name was made to lead here would need none either.
    func allowsOrigin(of request: WebRequest, on connection: ConnectionID) -> Bool {
        guard let place = request.head.origin else { return true }
        let bytes = request.bytes.bytes
        let origin = place.bytes(in: bytes)
        if let end = WebOrigin.schemeEnd(of: origin) {
            let host = origin.extracting(droppingFirst: end)
            let isOpen = connections[connection]?.terms.isOpenToMachine == true
            if host.isEqual(ignoringCase: request.head.authority.bytes(in: bytes)),
                !isOpen || request.hasLocalHost
            {
                return true
            }
        }
        let allowed = services.listeners.values.allowedOrigins
        return allowed.contains(WebOrigin.any) || WebOrigin.isListed(origin, in: allowed)
    }
}

// The routes of web listeners: WebSocket for both dialects, health, and metrics.

import BrokerTerms
import Configuration
import Dashboard
import Dialects
import NetTransport
import Primitives
import WireFormat

/// A request and the bytes that its ranges point into.
struct WebRequest {
    let head: HTTPRequestHead
    let bytes: UnsafeRawBufferPointer
    /// The client, if a reverse proxy named it; otherwise the connection's peer.
    let client: SocketAddress?
    /// Which pages of other origins may read the response; nil for none.
    let cors: CORSHeaders?

    func hasPath(_ path: StaticString) -> Bool { head.path.bytes(in: bytes).bytes.isEqual(path) }

    /// Whether the authority is `localhost` or an address. A page of a browser on this machine
    /// whose own name was made to lead here sends that name (DNS rebinding).
    var hasLocalHost: Bool {
        let authority = head.authority.bytes(in: bytes.bytes)
        var isAddress = true
        var end = 0
        while end < authority.byteCount, authority[end] != UInt8(ascii: ":") {
            // The numbers of an IPv4 address, or the bracket before an IPv6 address.
            switch authority[end] {
            case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."): break
            case UInt8(ascii: "["): return end == 0
            default: isAddress = false
            }
            end += 1
        }
        return isAddress || authority.extracting(first: end).isEqual(ignoringCase: "localhost")
    }

    /// The part of a listener that a path belongs to; nil for an unknown path.
    var part: WebParts? {
        if hasPath("/mqtt") { return .mqtt }
        if hasPath("/mrt") { return .mrt }
        if hasPath("/api/v1/socket") || hasPath("/api/v1/events") { return .json }
        if hasPath("/healthz") || hasPath("/readyz") { return .health }
        if hasPath("/metrics") { return .metrics }
        if dashboardFile != nil || hasPath("/login") { return .dashboard }
        let path = head.path.bytes(in: bytes)
        return path.starts(with: "/api/".utf8) ? .api : nil
    }

    var dashboardFile: DashboardFile? { DashboardFile.all.first { hasPath($0.path) } }

    var isRead: Bool { head.method == .get || head.method == .head }

    /// Whether it sends a message: the path is, or begins and ends as, that of an operation that
    /// does.
    var isMessage: Bool {
        guard head.method == .post else { return false }
        let path = head.path.bytes(in: bytes)
        return hasPath("/api/v1/messages")
            || path.starts(with: "/api/v1/apps/".utf8)
                && path.suffix(9).elementsEqual("/messages".utf8)
    }

    var answer: WebConnections.Answer {
        WebConnections.Answer(
            isHead: head.method == .head,
            // Content is not read: what follows it cannot be found.
            closes: !head.isPersistent || head.hasContent, client: client, cors: cors)
    }
}

/// What a request leads to.
enum WebAction {
    case respond(HTTPResponse, detail: StaticString? = nil)
    case metrics(PrometheusText.Form)
    /// A request for the administration thread, which has no content.
    case api(APIRequest)
    /// A request for the administration thread whose content follows.
    case content(APIContent)
    case webSocket([UInt8], terms: UInt8, json: JSONForm?, actingUser: [UInt8]?)
    case eventStream(EventStreamLogin, terms: UInt8)
    case logStream(LogStream)
}

extension WebConnections {
    func route(
        _ request: WebRequest, from connection: ConnectionID, isDraining: Bool,
        in loop: borrowing some BrokerLoop & ~Copyable
    ) -> WebAction {
        guard let part = request.part, connections[connection]?.terms.parts.contains(part) == true
        else { return .respond(.text(.notFound, "there is nothing here")) }
        if part == .api {
            guard !isDraining, !services.health.current.contains(.draining) else {
                return .respond(
                    .problem(.unavailable, "the broker is stopping", reason: .serverShuttingDown))
            }
            return routeAPI(request, from: connection, in: loop)
        }
        if request.hasPath("/api/v1/events") {
            return openEventStream(request, of: connection, isDraining: isDraining, in: loop)
        }
        if part == .mqtt || part == .mrt || part == .json {
            return openWebSocket(request, of: connection, isDraining: isDraining)
        }
        if request.hasPath("/login") {
            return routeLogin(request, from: connection, in: loop)
        }
        // First: other clients are not told whether there are metrics.
        if part == .metrics, !mayReadMetrics(request, from: connection, in: loop) {
            return .respond(.text(.notFound, "there is nothing here"))
        }
        guard request.isRead else {
            var response = HTTPResponse.text(.methodNotAllowed, "only GET and HEAD")
            response.fields = ["Allow: GET, HEAD"]
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
        if request.hasPath("/healthz") { findings.formIntersection(.fatal) }
        return .respond(.health(findings))
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

    private func openWebSocket(
        _ request: WebRequest, of connection: ConnectionID, isDraining: Bool
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
        let isMRT = request.hasPath("/mrt")
        let isJSON = request.part == .json
        guard head.method == .get else {
            return refused(.methodNotAllowed, "only GET", fields: ["Allow: GET"])
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
        guard allowsOrigin(of: request) else {
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
        guard !isDraining, let terms = connections[connection]?.terms else {
            return refused(.unavailable, "the broker is stopping")
        }
        var actingUser: [UInt8]?
        if isJSON {
            guard let named = Self.actingUser(of: request) else {
                return refused(
                    .badRequest, "the acting user in Martlet-User or ?user is not a user")
            }
            actingUser = named.isEmpty ? nil : named
        }
        let digest = HandshakeDigest.sha1(WebSocketHandshake.digestInput(key: key.bytes))
        return .webSocket(
            WebSocketHandshake.response(digest: digest, subprotocol: subprotocol),
            terms: isMRT || isJSON ? terms.mrt : terms.mqtt, json: isJSON ? .socket : nil,
            actingUser: actingUser)
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
    func allowsOrigin(of request: WebRequest) -> Bool {
        guard let place = request.head.origin else { return true }
        let bytes = request.bytes.bytes
        let origin = place.bytes(in: bytes)
        if let end = WebOrigin.schemeEnd(of: origin) {
            let host = origin.extracting(droppingFirst: end)
            if host.isEqual(ignoringCase: request.head.authority.bytes(in: bytes)) { return true }
        }
        let allowed = services.listeners.values.allowedOrigins
        return allowed.contains(WebOrigin.any) || WebOrigin.isListed(origin, in: allowed)
    }
}

/// The form of an origin (RFC 6454, 6.2): `https://HOST` or `https://HOST:PORT`.
enum WebOrigin {
    /// Stands for every origin, and lets pages open WebSockets only.
    static let any = [UInt8(ascii: "*")]

    /// Whether an origin is one of a list. Browsers write scheme and host in lower case.
    static func isListed(_ origin: RawSpan, in allowed: [[UInt8]]) -> Bool {
        for element in allowed where origin.isEqual(ignoringCase: element.span.bytes) {
            return true
        }
        return false
    }

    /// Where the host begins; nil for `null` and what is no origin of the web.
    static func schemeEnd(of origin: RawSpan) -> Int? {
        for scheme in ["http://", "https://"] as [StaticString] {
            let count = scheme.utf8CodeUnitCount
            guard origin.byteCount > count else { continue }
            if origin.extracting(first: count).isEqual(ignoringCase: scheme) { return count }
        }
        return nil
    }
}

extension HTTPResponse {
    /// A status with a line that says why.
    static func text(_ status: HTTPStatus, _ line: StaticString) -> HTTPResponse {
        HTTPResponse(
            status, contentType: "text/plain; charset=utf-8", content: Array("\(line)\n".utf8))
    }

    /// Whether the broker is well, and what is not; nothing else, because strangers may ask.
    static func health(_ findings: BrokerHealth.Finding) -> HTTPResponse {
        let reasons = BrokerHealth.Finding.names.filter { findings.contains($0.0) }
            .map { "\"\($0.1)\"" }.joined(separator: ",")
        let status = findings.isEmpty ? "ok" : "unavailable"
        return HTTPResponse(
            findings.isEmpty ? .ok : .unavailable, contentType: "application/json",
            content: Array("{\"status\":\"\(status)\",\"reasons\":[\(reasons)]}\n".utf8))
    }

    static func dashboard(_ file: DashboardFile) -> HTTPResponse {
        var response = HTTPResponse(.ok, contentType: file.contentType, content: file.content)
        response.fields = DashboardFile.fields
        return response
    }

    /// The metrics.
    static func metrics(_ text: [UInt8], as form: PrometheusText.Form) -> HTTPResponse {
        var response = HTTPResponse(.ok, contentType: form.contentType, content: text)
        response.fields = ["Vary: Accept"]
        return response
    }
}

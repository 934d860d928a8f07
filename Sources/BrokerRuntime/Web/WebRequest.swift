// A request of a web listener, and which part of the listener it is for.

import BrokerCore
import Configuration
import Dashboard
import NetTransport
import Primitives
import WireFormat

/// The paths that have code of their own. The others are those of the table of operations
/// (`APIOperation.all`) and of the dashboard's files.
struct WebPath {
    let text: StaticString

    static let mqtt = WebPath(text: "/mqtt")
    static let mrt = WebPath(text: "/mrt")
    static let healthz = WebPath(text: "/healthz")
    static let readyz = WebPath(text: "/readyz")
    static let metrics = WebPath(text: "/metrics")
    static let login = WebPath(text: "/login")
    static let socket = WebPath(text: "/api/v1/socket")
    static let leanMessage = WebPath(text: "/leanmessage")
    static let events = WebPath(text: "/api/v1/events")
    static let openAPI = WebPath(text: "/api/v1/openapi.json")
    /// Of operations, so that messages are found before their operation is.
    static let messages = WebPath(text: "/api/v1/messages")
}

/// A request and the bytes that its ranges point into.
struct WebRequest {
    let head: HTTPRequestHead
    let bytes: UnsafeRawBufferPointer
    /// The client, if a reverse proxy named it; otherwise the connection's peer.
    let client: SocketAddress?
    /// Which pages of other origins may read the response; nil for none.
    let cors: CORSHeaders?
    /// Whether a stream needs a valid credential before its login, because its address has been
    /// refused too often.
    var mustBeVerified = false
    /// Whose web token it has, if it is verified and has one.
    var webToken: Result<VerifiedIdentity, TrustRefusal>?

    func hasPath(_ path: WebPath) -> Bool { hasPath(path.text) }

    private func hasPath(_ path: StaticString) -> Bool {
        head.path.bytes(in: bytes).bytes.isEqual(path)
    }

    private func hasPath(within start: StaticString) -> Bool {
        let path = head.path.bytes(in: bytes).bytes
        let count = start.utf8CodeUnitCount
        return path.byteCount >= count && path.extracting(first: count).isEqual(start)
    }

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
        if hasPath(.mqtt) { return .mqtt }
        if hasPath(.mrt) { return .mrt }
        if hasPath(.socket) || hasPath(.events) || hasPath(.leanMessage) { return .json }
        if hasPath(.healthz) || hasPath(.readyz) { return .health }
        if hasPath(.metrics) { return .metrics }
        if dashboardFile != nil || hasPath(.login) { return .dashboard }
        return hasPath(within: "/api/") ? .api : nil
    }

    var dashboardFile: DashboardFile? { DashboardFile.all.first { hasPath($0.path) } }

    var isRead: Bool { head.method == .get || head.method == .head }

    /// Whether it sends a message: the path is, or begins and ends as, that of an operation that
    /// does.
    var isMessage: Bool {
        guard head.method == .post else { return false }
        if hasPath(.messages) { return true }
        let end: StaticString = "/messages"
        let path = head.path.bytes(in: bytes).bytes
        return hasPath(within: "/api/v1/apps/")
            && path.extracting(droppingFirst: path.byteCount - end.utf8CodeUnitCount).isEqual(end)
    }

    /// Whether the client waits for 100 Continue before it sends the content.
    var awaitsContinue: Bool {
        head.traits.contains(.expectsContinue) && !head.traits.contains(.isVersion10)
    }

    var answer: WebConnections.Answer {
        WebConnections.Answer(
            isHead: head.method == .head,
            // Content is not read: what follows it cannot be found.
            closes: !head.isPersistent || head.hasContent, client: client, cors: cors)
    }
}

// CORS: which pages of other origins may read the responses of the API, of event streams and of
// interfaces of other systems, and what they may send (Fetch Standard, 3.2). Without a list, which
// is the default, no page may.

import Administration
import BrokerTerms
import Primitives
import WireFormat

extension WebConnections {
    /// Which pages of other origins may read the response to a request; nil if the request is not
    /// for the API or an interface, or if no page of another origin may.
    ///
    /// An origin has to be named: `*` in the list does not suffice, because whoever reads answers
    /// can read what only the reader's network reaches.
    func cors(of head: HTTPRequestHead, _ bytes: RawSpan) -> CORSHeaders? {
        let path = head.path.bytes(in: bytes)
        let root: StaticString = "/api/v1/"
        let isOfAPI =
            path.byteCount > root.utf8CodeUnitCount
            && path.extracting(first: root.utf8CodeUnitCount).isEqual(root)
        guard isOfAPI || isForInterface(path: path) else { return nil }
        let listed = services.listeners.values.allowedOrigins.filter { $0 != WebOrigin.any }
        if listed.isEmpty { return nil }
        guard let origin = head.origin?.bytes(in: bytes), WebOrigin.isListed(origin, in: listed)
        else { return CORSHeaders() }
        return CORSHeaders(origin: origin.withUnsafeBytes { Array($0) })
    }

    /// Answers a browser that asks whether a page may make a request.
    func preflight(
        _ request: WebRequest, methods: [StaticString], fields: [StaticString]
    ) -> WebAction {
        guard !request.head.hasContent else {
            return .respond(
                .problem(.contentTooLarge, "no content is read here", reason: .packetTooLarge))
        }
        guard let cors = request.cors, !cors.origin.isEmpty else {
            let detail: StaticString = "the origin is not allowed"
            var response = HTTPResponse.problem(
                .forbidden, "\(detail)", reason: .notAuthorized)
            response.closes = true
            return .respond(response, detail: detail)
        }
        var response = HTTPResponse(.noContent)
        response.preflight = HTTPPreflight(methods: methods, fields: fields)
        return .respond(response)
    }

    /// Answers a browser that asks whether a page may make a request to the API.
    func preflightAPI(_ request: WebRequest) -> WebAction {
        if request.hasPath(.openAPI) {
            return preflight(request, methods: ["GET"], fields: ["authorization"])
        }
        let segments = HTTPTarget.segments(of: request.head.path.bytes(in: request.bytes).bytes)
        guard let place = segments.flatMap(APIPlace.init) else {
            return .respond(.problem(.notFound, "there is nothing here", reason: .topicNameInvalid))
        }
        var fields: [StaticString] = ["authorization"]
        let operations = place.operations.map(\.operation)
        if operations.contains(where: \.takesContent) { fields.append("content-type") }
        if operations.contains(where: \.takesIdempotencyKey) { fields.append("idempotency-key") }
        if operations.contains(where: \.takesActingUser) { fields.append("martlet-user") }
        return preflight(request, methods: Self.names(of: place.methods), fields: fields)
    }

    /// The names of methods, without HEAD, which needs no permission (Fetch Standard, 2.2.1).
    static func names(of methods: [APIMethod]) -> [StaticString] {
        methods.map { method in
            switch method {
            case .get: "GET"
            case .post: "POST"
            case .put: "PUT"
            case .delete: "DELETE"
            }
        }
    }
}

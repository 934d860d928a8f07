// The dashboard's login by a link: a browser presents the code of the link, and gets an operator's
// token for it.

import Administration
import BrokerTerms
import NetTransport
import WireFormat

extension WebConnections {
    /// `POST /login` with the code as a bearer token. A page of another site cannot send it:
    /// Authorization needs a preflight, which this path refuses, and the page has no code.
    func routeLogin(
        _ request: WebRequest, from connection: ConnectionID,
        in loop: borrowing some BrokerLoop & ~Copyable
    ) -> WebAction {
        guard request.head.method == .post else {
            var response = HTTPResponse.problem(
                .methodNotAllowed, "only POST", reason: .implementationSpecificError)
            response.allowed = ["POST"]
            return .respond(response)
        }
        guard !request.head.hasContent else {
            return .respond(
                .problem(
                    .contentTooLarge, "the code is in Authorization, and no content is read",
                    reason: .packetTooLarge))
        }
        let now = clock.moment(at: loop.now).unixSeconds
        let exchange =
            request.bearerToken.map { code in
                services.operators.links.exchange(
                    code.bytes(in: request.bytes).bytes, unixSeconds: now)
            } ?? .unknown
        switch exchange {
        case .login(let login):
            log.write(
                .info, .operatorRequest,
                fields: [
                    "operator": .text(login.operator),
                    "address": .text("\(peer(of: request, on: connection, in: loop))"),
                    "request": "operator.login", "method": "POST", "target": "/login",
                    "status": .number(HTTPStatus.ok.rawValue),
                ])
            return .respond(
                HTTPResponse(.ok, contentType: "application/json", content: login.bytes))
        case .unknown:
            return refuseCredential(
                from: peer(of: request, on: connection, in: loop),
                "this link was used, has expired, or was never made", in: loop)
        case .full:
            return .respond(
                .problem(
                    .unavailable, "as many logins by links as there may be exist already",
                    reason: .quotaExceeded))
        }
    }
}

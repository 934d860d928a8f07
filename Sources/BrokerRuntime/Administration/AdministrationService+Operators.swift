// Operations on operators of the HTTP API: add, list, revoke.

import Administration
import BrokerTerms
import Credentials

extension AdministrationService {
    func add(_ request: AddOperator) throws(AdministrationRefusal) -> AddOperator.Reply {
        let name = request.operator
        try Self.checkName(name, "operator")
        guard operators.list.count < Operators.countMaximum else {
            throw AdministrationRefusal(
                .quotaExceeded,
                "there are \(Operators.countMaximum) operators, the most there can be")
        }
        let moment = clock.moment()
        let expires = Self.expiry(after: request.expirySeconds, at: moment)
        let minted = OperatorToken.mint()
        let isNew = try storing { () throws(CredentialError) in
            try operators.add(
                Operators.Operator(
                    name: name, role: request.role, madeUnixSeconds: moment.unixSeconds,
                    expiresUnixSeconds: expires == .max ? nil : expires,
                    digest: minted.token.digest))
        }
        guard isNew else {
            throw AdministrationRefusal(
                .quotaExceeded, "there is an operator \"\(name)\" already", cause: .exists)
        }
        log.write(
            .warning, .administration,
            fields: [
                "request": "operator.add", "name": .text(name),
                "role": .text(request.role.rawValue),
            ])
        return AddOperator.Reply(token: minted.text)
    }

    func listOperators() -> ListOperators.Reply {
        ListOperators.Reply(
            operators: operators.list.map {
                ListOperators.Operator(
                    operator: $0.name, role: $0.role, madeUnixSeconds: $0.madeUnixSeconds,
                    expiresUnixSeconds: $0.expiresUnixSeconds)
            })
    }

    func revoke(_ request: RevokeOperator) throws(AdministrationRefusal) -> RevokeOperator.Reply {
        let name = request.operator
        let isKnown = try storing { () throws(CredentialError) in try operators.remove(name) }
        guard isKnown else {
            throw AdministrationRefusal(
                .topicNameInvalid, "there is no operator \"\(name)\"; see: martlet operator list",
                cause: .unknown)
        }
        log.write(
            .warning, .administration,
            fields: ["request": "operator.revoke", "name": .text(name)])
        return RevokeOperator.Reply()
    }

    func makeLink(
        _ request: MakeLoginLink
    ) throws(AdministrationRefusal) -> MakeLoginLink.Reply {
        let name = request.operator
        try Self.checkName(name, "operator")
        if let known = operators.list.first(where: { $0.name == name }), known.role < request.role {
            throw AdministrationRefusal(
                .notAuthorized, "the operator \"\(name)\" has the role \(known.role.rawValue)")
        }
        let addresses = listeners.dashboardAddresses
        guard !addresses.isEmpty else {
            throw AdministrationRefusal(
                .unspecifiedError,
                "no listener serves the dashboard: add one such as \"https://*:8443\" to listeners")
        }
        let now = clock.moment().unixSeconds
        guard let link = operators.links.make(for: name, role: request.role, unixSeconds: now)
        else {
            throw AdministrationRefusal(
                .quotaExceeded,
                "\(LoginLinks.linkCountMaximum) links wait to be used, the most there can be; each "
                    + "ends after \(LoginLinks.linkSecondsMaximum / 60) minutes")
        }
        log.write(
            .warning, .administration,
            fields: [
                "request": "operator.link", "name": .text(name),
                "role": .text(request.role.rawValue),
            ])
        return MakeLoginLink.Reply(
            code: link.code, expiresUnixSeconds: link.expiresUnixSeconds, addresses: addresses)
    }

    private func storing(
        _ change: () throws(CredentialError) -> Bool
    ) throws(AdministrationRefusal) -> Bool {
        do throws(CredentialError) {
            return try change()
        } catch {
            throw AdministrationRefusal(
                .unspecifiedError, "the operators are not stored: \(error)", cause: .failed)
        }
    }
}

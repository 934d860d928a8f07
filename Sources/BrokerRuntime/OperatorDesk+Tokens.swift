// What an operator does with tokens: minted here.

import Administration
import BrokerCore
import Credentials

extension OperatorDesk {
    func mint(
        _ request: MintTokens
    ) throws(AdministrationRefusal) -> MintTokens.Reply {
        for user in request.users { try checkIdentifier(user, "user") }
        if let device = request.device, !device.isEmpty { try checkIdentifier(device, "device") }
        let rights = try request.rights.map(Self.rights)
        let now = clock.moment().unixMilliseconds / 1000
        let expires = request.expirySeconds.map { now.addingReportingOverflow($0) }
        let minted = request.users.map { _ in OpaqueToken.mint() }
        let isKnown = changeAndCommit { state in
            for (user, token) in zip(request.users, minted) {
                let isAdded = state.broker.addToken(
                    BrokerCore.Token(
                        identifier: Array(token.token.id.description.utf8),
                        digest: Digest(token.token.digest), app: Array(request.app.utf8),
                        user: Array(user.utf8), device: request.device.map { Array($0.utf8) },
                        expiresUnixSeconds: expires.map { $0.overflow ? .max : $0.partialValue }
                            ?? .max,
                        batch: Array((request.batch ?? "").utf8), rights: rights))
                if !isAdded { return false }
            }
            return true
        }
        guard isKnown else { throw Self.unknownApp(request.app) }
        log.write(
            .info, .administration,
            [
                "request": "token.mint", "app": .text(request.app),
                "count": .number(minted.count), "batch": .text(request.batch ?? ""),
            ])
        return MintTokens.Reply(
            tokens: zip(request.users, minted).map { user, token in
                MintTokens.Token(user: user, id: "\(token.token.id)", token: token.text)
            })
    }
}

// Operations on tokens: mint, list, revoke.

import Administration
import BrokerCore
import BrokerTerms
import Credentials
import WireFormat

extension AdministrationService {
    func mint(
        _ request: MintTokens
    ) throws(AdministrationRefusal) -> MintTokens.Reply {
        for user in request.users { try Self.checkIdentifier(user, "user") }
        if let device = request.device, !device.isEmpty {
            try Self.checkIdentifier(device, "device")
        }
        if let batch = request.batch, !batch.isEmpty,
            !TextRules.isMessageIdentifier(Array(batch.utf8).span.bytes)
        {
            throw AdministrationRefusal(
                .clientIdentifierNotValid,
                "the batch must have 1 to 64 bytes, without control characters")
        }
        let rights = try request.rights.map(Self.rights)
        let expires = Self.expiry(after: request.expirySeconds, at: clock.moment())
        let minted = request.users.map { _ in OpaqueToken.mint() }
        let tokens = zip(request.users, minted).map { user, token in
            BrokerCore.Token(
                identifier: Array(token.token.id.description.utf8),
                digest: Digest(token.token.digest), app: Array(request.app.utf8),
                user: Array(user.utf8), device: request.device.map { Array($0.utf8) },
                expiresUnixSeconds: expires,
                batch: Array((request.batch ?? "").utf8), rights: rights)
        }
        let isKnown = try growAndCommit { (state) throws(NoRoom) in
            // All or none: nobody could use the tokens of a reply that was not sent.
            try state.broker.checkRoom(for: tokens, ofApp: Array(request.app.utf8))
            for token in tokens where try !state.broker.addToken(token) { return false }
            return true
        }
        guard isKnown else { throw unknownApp(request.app) }
        log.write(
            .info, .administration,
            fields: [
                "request": "token.mint", "app": .text(request.app),
                "count": .number(minted.count), "batch": .text(request.batch ?? ""),
            ])
        return MintTokens.Reply(
            tokens: zip(request.users, minted).map { user, token in
                MintTokens.Token(user: user, id: "\(token.token.id)", token: token.text)
            })
    }

    func listTokens(
        _ request: ListTokens
    ) throws(AdministrationRefusal) -> ListTokens.Reply {
        try checkApp(request.selection.app)
        let filter = TokenFilter(request.selection)
        let after = request.after.map { Array($0.utf8) }
        var search = TokenSearch(
            matching: filter, after: after,
            countMaximum: request.limit ?? ListTokens.countMaximum)
        shared.enterInSlices { $0.broker.advance(&search) }
        let (tokens, mayHaveMore) = search.page
        return ListTokens.Reply(
            tokens: tokens.map(ListTokens.Token.init),
            next: mayHaveMore ? tokens.last.map { Self.text($0.identifier) } : nil)
    }

    func revoke(_ request: RevokeTokens) throws(AdministrationRefusal) -> RevokeTokens.Reply {
        let selection = request.selection
        guard selection != TokenSelection(app: selection.app) else { throw Self.tooWide }
        try checkApp(selection.app)
        var revocation = Revocation(of: TokenFilter(selection), after: request.after)
        var hasMore = true
        while hasMore, revocation.tokenCount < RevokeTokens.countMaximum {
            hasMore = changeAndCommit { [moment = clock.moment()] state in
                state.broker.revokeTokens(&revocation, at: moment, effects: &state.effects)
            }
        }
        log.write(
            .warning, .administration,
            fields: [
                "request": "token.revoke", "app": .text(selection.app),
                "id": .text(selection.id ?? ""), "user": .text(selection.user ?? ""),
                "device": .text(selection.device ?? ""), "batch": .text(selection.batch ?? ""),
                "count": .number(revocation.tokenCount),
                "connections": .number(revocation.connectionCount),
            ])
        return RevokeTokens.Reply(
            tokenCount: revocation.tokenCount, connectionCount: revocation.connectionCount,
            next: hasMore ? revocation.next : nil)
    }

    static let tooWide = AdministrationRefusal(
        .notAuthorized, "the selection is everything that the app has; name a part of it",
        cause: .tooWide)
}

extension TokenFilter {
    fileprivate init(_ selection: TokenSelection) {
        func bytes(_ text: String?) -> [UInt8]? { text.map { Array($0.utf8) } }
        self.init(
            app: Array(selection.app.utf8), identifier: bytes(selection.id),
            user: bytes(selection.user), device: bytes(selection.device),
            batch: bytes(selection.batch))
    }
}

extension ListTokens.Token {
    fileprivate init(_ token: BrokerCore.Token) {
        func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }
        self.init(
            id: text(token.identifier), user: text(token.user),
            device: token.device.map(text), batch: token.batch.isEmpty ? nil : text(token.batch),
            expiresUnixSeconds: token.expiresUnixSeconds == .max ? nil : token.expiresUnixSeconds,
            lastUsedUnixSeconds: token.lastUsedUnixSeconds == 0 ? nil : token.lastUsedUnixSeconds,
            rights: token.rights.map(AdministrationService.texts))
    }
}

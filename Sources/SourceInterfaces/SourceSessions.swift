// Logins through interfaces: a session is an ordinary token of its user, labelled with the
// interface. The broker keeps its hash; `martlet token list` shows it and `martlet token revoke`
// ends it.

import Administration

/// Makes the tokens of logins.
struct SourceSessions {
    let operations: any SourceOperations

    /// Makes a token for a user. Above the limit of an interface, one of the same device
    /// ends, or else the one that expires first.
    ///
    /// - Parameters:
    ///   - device: the only device that may use it; nil for any.
    ///   - seconds: how long it is valid.
    ///   - rights: nil for those of the app.
    func make(
        for user: SourceUser, interface: SourceInterface, device: String? = nil,
        seconds: UInt64 = SourceLimits.sessionSeconds, rights: [String]? = nil
    ) throws(SourceRefusal) -> String {
        try makeRoom(of: user, device: device, interface: interface)
        let minted = try operations.mint(
            MintTokens(
                app: user.app, users: [user.user], device: device, expirySeconds: seconds,
                batch: interface.tokenBatch, rights: rights))
        guard let token = minted.tokens.first else {
            preconditionFailure("a token for \(user.user) has no text")
        }
        return token.token
    }

    private func makeRoom(
        of user: SourceUser, device: String?, interface: SourceInterface
    ) throws(SourceRefusal) {
        let selection = TokenSelection(
            app: user.app, user: user.user, batch: interface.tokenBatch)
        let tokens = try operations.list(ListTokens(selection)).tokens
        guard tokens.count >= SourceLimits.sessionsPerUserMaximum else { return }
        func order(_ token: ListTokens.Token) -> (Int, UInt64) {
            (device != nil && token.device == device ? 0 : 1, token.expiresUnixSeconds ?? .max)
        }
        let count = tokens.count + 1 - SourceLimits.sessionsPerUserMaximum
        for token in tokens.sorted(by: { order($0) < order($1) }).prefix(count) {
            _ = try operations.revoke(
                RevokeTokens(TokenSelection(app: user.app, id: token.id)))
        }
    }
}

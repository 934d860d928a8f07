// Links that sign an operator in to the dashboard once, and the tokens that browsers got for their
// codes. Both are kept in memory only, as digests, and end with the broker.

import Administration
import Credentials
import Threads

/// The codes that wait for a browser, and the logins that came of them.
final class LoginLinks: Sendable {
    typealias Operator = Operators.Operator

    private struct State {
        /// Codes that may be exchanged. `expiresUnixSeconds` is never nil, here and below.
        var links: [Operator] = []
        /// Tokens that were given for codes.
        var logins: [Operator] = []

        /// Forgets what has expired.
        mutating func trim(unixSeconds: UInt64) {
            func isOver(_ one: Operator) -> Bool { (one.expiresUnixSeconds ?? 0) <= unixSeconds }
            links.removeAll(where: isOver)
            logins.removeAll(where: isOver)
        }
    }

    private let state = Locked(State())

    /// Long enough to copy a link from a terminal to a browser on another machine; a link that
    /// is found later is worth nothing.
    static let linkSecondsMaximum: UInt64 = 600
    /// A working day: a browser that is left open is no longer signed in the next morning.
    static let loginSecondsMaximum: UInt64 = 12 * 3_600
    /// Links at a time, with ten minutes each: far more than people make.
    static let linkCountMaximum = 64
    /// Logins at a time: as many as there may be operators. Each credential is compared with all.
    static let loginCountMaximum = Operators.countMaximum

    /// Makes a code.
    ///
    /// - Returns: its text, and when it expires; nil at ``linkCountMaximum``.
    func make(
        for name: String, role: OperatorRole, unixSeconds: UInt64
    ) -> (code: String, expiresUnixSeconds: UInt64)? {
        let minted = LoginCode.mint()
        let expires = unixSeconds + Self.linkSecondsMaximum
        let isMade = state.withLock { state in
            state.trim(unixSeconds: unixSeconds)
            guard state.links.count < Self.linkCountMaximum else { return false }
            state.links.append(
                Operator(
                    name: name, role: role, madeUnixSeconds: unixSeconds,
                    expiresUnixSeconds: expires, digest: minted.code.digest))
            return true
        }
        return isMade ? (minted.text, expires) : nil
    }

    /// What became of a code that a browser presents.
    enum Exchange {
        case login(OperatorLogin)
        /// There is no such code, or not any more.
        case unknown
        /// There are ``loginCountMaximum`` logins; the code may be used later.
        case full
    }

    /// Exchanges a code for a token. It is used up then.
    func exchange(_ presented: RawSpan, unixSeconds: UInt64) -> Exchange {
        guard let code = LoginCode(presented: presented) else { return .unknown }
        let minted = OperatorToken.mint()
        let expires = unixSeconds + Self.loginSecondsMaximum
        return state.withLock { state in
            state.trim(unixSeconds: unixSeconds)
            guard let index = Self.index(of: code.digest, in: state.links) else { return .unknown }
            guard state.logins.count < Self.loginCountMaximum else { return .full }
            let link = state.links.remove(at: index)
            state.logins.append(
                Operator(
                    name: link.name, role: link.role, madeUnixSeconds: unixSeconds,
                    expiresUnixSeconds: expires, digest: minted.token.digest))
            return .login(
                OperatorLogin(
                    operator: link.name, role: link.role, token: minted.text,
                    expiresUnixSeconds: expires))
        }
    }

    /// The login with a token; nil if there is none, or not any more.
    func find(_ digest: SHA256Digest, unixSeconds: UInt64) -> Operator? {
        let logins = state.withLock { $0.logins }
        guard let index = Self.index(of: digest, in: logins),
            let expires = logins[index].expiresUnixSeconds, expires > unixSeconds
        else { return nil }
        return logins[index]
    }

    /// Ends the links and the logins of an operator. Returns false if there are none.
    func remove(_ name: String) -> Bool {
        state.withLock { state in
            let count = state.links.count + state.logins.count
            state.links.removeAll { $0.name == name }
            state.logins.removeAll { $0.name == name }
            return state.links.count + state.logins.count < count
        }
    }

    /// All are compared, so that the time tells nothing of who is there.
    private static func index(of digest: SHA256Digest, in list: [Operator]) -> Int? {
        var found: Int?
        for (index, one) in list.enumerated() where one.digest.matches(digest) { found = index }
        return found
    }
}

// Lists and revokes opaque tokens for an operator. A revocation closes the connections that the
// tokens admitted.

import Primitives

/// Selects tokens: those that are equal in every property that is not nil.
public struct TokenFilter: Hashable, Sendable {
    public var app: [UInt8]
    public var identifier: [UInt8]?
    public var user: [UInt8]?
    public var device: [UInt8]?
    public var batch: [UInt8]?

    public init(
        app: [UInt8], identifier: [UInt8]? = nil, user: [UInt8]? = nil, device: [UInt8]? = nil,
        batch: [UInt8]? = nil
    ) {
        self.app = app
        self.identifier = identifier
        self.user = user
        self.device = device
        self.batch = batch
    }

    func matches(_ token: Token) -> Bool {
        token.app == app && agrees(identifier, token.identifier) && agrees(user, token.user)
            && (device == nil || token.device == device) && agrees(batch, token.batch)
    }

    private func agrees(_ wanted: [UInt8]?, _ found: [UInt8]) -> Bool {
        wanted == nil || wanted == found
    }
}

/// The result of a revocation.
public struct Revocation: Hashable, Sendable {
    public var tokenCount: Int
    /// The number of connections that were closed.
    public var connectionCount: Int
}

extension Broker {
    /// The tokens that match a filter, in the order of their identifiers.
    ///
    /// - Parameters:
    ///   - identifier: the list begins after this one; nil for the beginning.
    ///   - countMaximum: the maximum number of tokens.
    public func tokens(
        matching filter: TokenFilter, after identifier: [UInt8]?, countMaximum: Int
    ) -> [Token] {
        var found: [Token] = []
        registry.tokens.forEach { _, token in
            let isBehind = identifier.map { $0.lexicographicallyPrecedes(token.identifier) } ?? true
            if isBehind && filter.matches(token) { found.append(token) }
        }
        found.sort { $0.identifier.lexicographicallyPrecedes($1.identifier) }
        return Array(found.prefix(countMaximum))
    }

    /// Revokes tokens. Connections that they admitted are closed with reason 0x87. Wills that
    /// depend on them are not sent, also if the device has disconnected and the delay is running.
    public mutating func revokeTokens(
        matching filter: TokenFilter, at moment: Moment, effects: inout Effects
    ) -> Revocation {
        var step = Step(at: moment, effects: effects)
        var revoked: Set<Handle<Token>> = []
        registry.tokens.forEach { handle, token in
            if filter.matches(token) { revoked.insert(handle) }
        }
        guard !revoked.isEmpty else { return Revocation(tokenCount: 0, connectionCount: 0) }
        var connectionCount = 0
        for access in live.accesses.places where live.accesses.contains(access) {
            guard case .token(let handle) = live.accesses[access].source, revoked.contains(handle)
            else { continue }
            close(session(of: access), .notAuthorized, willFate: .removed, in: &step)
            connectionCount += 1
        }
        for handle in revoked {
            let token = registry.remove(handle)
            commits.remove(.tokens, key: token.identifier)
        }
        return Revocation(tokenCount: revoked.count, connectionCount: connectionCount)
    }
}

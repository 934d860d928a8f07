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

/// A revocation of all tokens that match a filter, in slices: a batch may have a million, and no
/// message waits for more than one slice.
public struct Revocation: Sendable {
    fileprivate let filter: TokenFilter
    fileprivate var place = TokenPlace.beginning
    public fileprivate(set) var tokenCount = 0
    /// The number of connections that were closed.
    public fileprivate(set) var connectionCount = 0

    /// Tokens that are read at a time: about a millisecond, if none is revoked.
    static let readPerSlice = 16_384
    /// Tokens that are read before their number is compared with the two limits: a small part of
    /// them, and enough that the look-up of the app and of the user costs little.
    static let readAtOnce = 256
    /// Tokens that are revoked at a time. For each slice the connections of all apps are looked at.
    static let revokedPerSlice = 2_048

    /// - Parameter place: ``next`` of an earlier revocation of the same filter; nil for all. Peers
    ///   may name any place: the walk begins at the end of the list for one that is behind it.
    public init(of filter: TokenFilter, after place: UInt32? = nil) {
        self.filter = filter
        self.place = place.map { .position(Int($0)) } ?? .beginning
    }

    /// Where another revocation goes on; nil at the end. One of a user's tokens begins again: those
    /// that were revoked are gone, so that it comes to the end too.
    public var next: UInt32? {
        switch place {
        case .beginning, .token: .max
        case .position(let position): UInt32(position)
        case .end: nil
        }
    }
}

/// Where a walk over the tokens of an app or of a user continues.
enum TokenPlace: Sendable {
    case beginning
    /// Before this position in the list of the app.
    case position(Int)
    /// This token of the user, and those behind it.
    case token(Handle<Token>)
    case end

    var isEnd: Bool {
        if case .end = self { return true }
        return false
    }
}

/// A search for the first tokens that match a filter, in the order of their identifiers. Neither
/// those of an app nor those of a user are in that order, so that each search reads all of them, in
/// slices: no message waits for more than one. Tokens that are added or removed meanwhile may be
/// found or not.
public struct TokenSearch: Sendable {
    fileprivate let filter: TokenFilter
    private let start: [UInt8]?
    private let countMaximum: Int
    /// Unsorted; at most twice the maximum.
    private var found: [Token] = []
    /// Once more than the maximum have been found: those behind this one are not among the first.
    private var last: [UInt8]?
    fileprivate(set) var place = TokenPlace.beginning

    /// Tokens that are read at a time: about a millisecond.
    static let sliceCount = 4_096

    /// - Parameters:
    ///   - identifier: the list begins after this one; nil for the beginning.
    ///   - countMaximum: the maximum number of tokens.
    public init(matching filter: TokenFilter, after identifier: [UInt8]?, countMaximum: Int) {
        self.filter = filter
        start = identifier
        self.countMaximum = countMaximum
    }

    /// Bytes of rights in a page; a token may have 64 KiB, and a reply has 4 MiB.
    private static let rightsBytesPerPage = 256 << 10

    /// The tokens that were found, and whether there may be more.
    public var page: (tokens: [Token], mayHaveMore: Bool) {
        var page: [Token] = []
        var byteCount = 0
        for token in first(countMaximum) {
            if byteCount >= Self.rightsBytesPerPage { return (page, true) }
            byteCount += token.rights?.texts.reduce(0) { $0 + $1.count } ?? 0
            page.append(token)
        }
        return (page, page.count == countMaximum)
    }

    private func first(_ count: Int) -> [Token] {
        var first: [Token] = []
        for token in found.sorted(by: {
            $0.identifier.lexicographicallyPrecedes($1.identifier)
        }) {
            if first.count == count { break }
            // A token that moved to the place of a removed one was read twice.
            if token.identifier != first.last?.identifier { first.append(token) }
        }
        return first
    }

    fileprivate mutating func read(_ token: Token) {
        if let start, !start.lexicographicallyPrecedes(token.identifier) { return }
        if let last, last.lexicographicallyPrecedes(token.identifier) { return }
        guard filter.matches(token) else { return }
        found.append(token)
        guard found.count >= 2 * countMaximum else { return }
        found = first(countMaximum)
        // Fewer if tokens were read twice.
        if found.count == countMaximum { last = found.last?.identifier }
    }
}

extension Broker {
    /// Reads the next slice of the tokens. Returns false when all were read.
    public func advance(_ search: inout TokenSearch) -> Bool {
        let slice = advance(
            &search.place, matching: search.filter, countMaximum: TokenSearch.sliceCount)
        for index in slice {
            if let token = registry.tokens[index] { search.read(token) }
        }
        return !search.place.isEnd
    }

    /// The next tokens that may match a filter: the one with its identifier, those of its user, or
    /// those of its app.
    private func advance(
        _ place: inout TokenPlace, matching filter: TokenFilter, countMaximum: Int
    ) -> [Index<Token>] {
        if let identifier = filter.identifier {
            place = .end
            return registry.tokens.index(of: identifier).map { [$0] } ?? []
        }
        guard let app = app(named: filter.app) else {
            place = .end
            return []
        }
        guard let name = filter.user else {
            let tokens = registry.apps[app].tokens
            var end = tokens.count
            // Tokens may have been removed since. A removal moves the last token to its place, so
            // that a walk from the end to the beginning misses none.
            if case .position(let position) = place { end = min(position, end) }
            let start = max(end - countMaximum, 0)
            place = start == 0 ? .end : .position(start)
            return Array(tokens[start..<end])
        }
        var next = user(named: name, app: app).flatMap { registry.users[$0].firstToken }
        // From the beginning again if the token was revoked since.
        if case .token(let handle) = place, registry.tokens[handle] != nil { next = handle.index }
        var slice: [Index<Token>] = []
        while let index = next, slice.count < countMaximum {
            slice.append(index)
            next = registry.tokens.links(of: index).next
        }
        place = next.map { .token(registry.tokens.handle($0)) } ?? .end
        return slice
    }

    /// All tokens of a user.
    func tokens(of user: Index<User>) -> [Token] {
        var tokens: [Token] = []
        var next = registry.users[user].firstToken
        while let index = next {
            if let token = registry.tokens[index] { tokens.append(token) }
            next = registry.tokens.links(of: index).next
        }
        return tokens
    }

    /// Revokes the tokens of the next slice. Connections that they admitted are closed with reason
    /// 0x87. Wills that depend on them are not sent, also if the device has disconnected and the
    /// delay is running.
    /// Returns false when all were read.
    public mutating func revokeTokens(
        _ revocation: inout Revocation, at moment: Moment, effects: inout Effects
    ) -> Bool {
        var step = Step(at: moment, effects: effects)
        var revoked: Set<Handle<Token>> = []
        var readCount = 0
        while !revocation.place.isEnd, readCount < Revocation.readPerSlice,
            revoked.count < Revocation.revokedPerSlice
        {
            let read = advance(
                &revocation.place, matching: revocation.filter,
                countMaximum: Revocation.readAtOnce)
            readCount += read.count
            for index in read {
                guard let token = registry.tokens[index], revocation.filter.matches(token) else {
                    continue
                }
                revoked.insert(registry.tokens.handle(index))
            }
        }
        guard !revoked.isEmpty else { return !revocation.place.isEnd }
        for access in live.accesses.places where live.accesses.contains(access) {
            guard case .token(let handle) = live.accesses[access].source, revoked.contains(handle)
            else { continue }
            close(session(of: access), .notAuthorized, willFate: .removed, in: &step)
            revocation.connectionCount += 1
        }
        commits.remove(
            .tokens, renewable: Set(revoked.map { registry.remove($0).identifier }))
        revocation.tokenCount += revoked.count
        return !revocation.place.isEnd
    }
}

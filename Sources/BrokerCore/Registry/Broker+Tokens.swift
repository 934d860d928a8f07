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
    /// The place that was read last.
    fileprivate var place: UInt32?
    public fileprivate(set) var tokenCount = 0
    /// The number of connections that were closed.
    public fileprivate(set) var connectionCount = 0

    /// Tokens that are read at a time: about a millisecond, if none is revoked.
    static let readPerSlice = 16_384
    /// Tokens that are revoked at a time. For each slice the connections of all apps are looked at.
    static let revokedPerSlice = 2_048

    /// - Parameter place: ``next`` of an earlier revocation of the same filter; nil for all.
    public init(of filter: TokenFilter, after place: UInt32? = nil) {
        self.filter = filter
        self.place = place
    }

    /// The place to go on after; nil if nothing was read.
    public var next: UInt32? { place }
}

/// A search for the first tokens that match a filter, in the order of their identifiers. The table
/// is not in that order, so that each search reads all of it, in slices: no message waits for more
/// than one of them. Tokens that are added or removed meanwhile may be found or not.
public struct TokenSearch: Sendable {
    private let filter: TokenFilter
    private let start: [UInt8]?
    private let countMaximum: Int
    /// Unsorted; at most twice the maximum.
    private var found: [Token] = []
    /// Once more than the maximum have been found: those behind this one are not among the first.
    private var last: [UInt8]?
    /// The place that was read last.
    fileprivate var place: UInt32?

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
        Array(
            found.sorted { $0.identifier.lexicographicallyPrecedes($1.identifier) }.prefix(count))
    }

    fileprivate mutating func read(_ token: Token) {
        if let start, !start.lexicographicallyPrecedes(token.identifier) { return }
        if let last, last.lexicographicallyPrecedes(token.identifier) { return }
        guard filter.matches(token) else { return }
        found.append(token)
        guard found.count >= 2 * countMaximum else { return }
        found = first(countMaximum)
        last = found.last?.identifier
    }
}

extension Broker {
    /// Reads the next slice of the tokens. Returns false when all were read.
    public func advance(_ search: inout TokenSearch) -> Bool {
        var count = 0
        for index in registry.tokens.places.after(search.place) {
            if count == TokenSearch.sliceCount { return true }
            count += 1
            search.place = index.place
            if let token = registry.tokens[index] { search.read(token) }
        }
        return false
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
        var (readCount, isAtEnd) = (0, true)
        for index in registry.tokens.places.after(revocation.place) {
            guard readCount < Revocation.readPerSlice,
                revoked.count < Revocation.revokedPerSlice
            else {
                isAtEnd = false
                break
            }
            readCount += 1
            revocation.place = index.place
            guard let token = registry.tokens[index], revocation.filter.matches(token) else {
                continue
            }
            revoked.insert(registry.tokens.handle(index))
        }
        guard !revoked.isEmpty else { return !isAtEnd }
        for access in live.accesses.places where live.accesses.contains(access) {
            guard case .token(let handle) = live.accesses[access].source, revoked.contains(handle)
            else { continue }
            close(session(of: access), .notAuthorized, willFate: .removed, in: &step)
            revocation.connectionCount += 1
        }
        commits.remove(
            .tokens, renewable: Set(revoked.map { registry.remove($0).identifier }))
        revocation.tokenCount += revoked.count
        return !isAtEnd
    }
}

// Opaque tokens: generated in advance, valid for years, and revocable at once. The table contains
// only the hash of the secret. The secret itself is shown once, when the token is made, and only
// the device stores it.

import Primitives

/// A token and the properties that it gives to its client.
public struct Token: Sendable {
    /// The public part, which lists and logs may show.
    public var identifier: [UInt8]
    /// SHA-256 of the secret part.
    public var digest: Digest
    public var app: [UInt8]
    public var user: [UInt8]
    /// The only device that may use it; nil for any.
    public var device: [UInt8]?
    /// Expiry in Unix seconds; the token is refused from then on. `UInt64.max` for none.
    public var expiresUnixSeconds: UInt64
    /// The batch in which it was made, to find and revoke tokens together.
    public var batch: [UInt8]
    /// The rights of the principal; nil for those of the app's users.
    public var rights: Rights?
    /// Last login in Unix seconds, rounded to the hour; 0 if there was none.
    public var lastUsedUnixSeconds: UInt64

    public init(
        identifier: [UInt8], digest: Digest, app: [UInt8], user: [UInt8], device: [UInt8]?,
        expiresUnixSeconds: UInt64, batch: [UInt8] = [], rights: Rights? = nil,
        lastUsedUnixSeconds: UInt64 = 0
    ) {
        self.rights = rights
        self.lastUsedUnixSeconds = lastUsedUnixSeconds
        self.identifier = identifier
        self.digest = digest
        self.app = app
        self.user = user
        self.device = device
        self.expiresUnixSeconds = expiresUnixSeconds
        self.batch = batch
    }
}

/// All tokens, by their public part. Those of a user form a chain, and those of an app a list;
/// `Registry` keeps the first of each chain, and the lists.
struct TokenTable: ~Copyable {
    /// The neighbors of a token: 16 bytes.
    struct Links {
        let user: Index<User>
        /// Its position in the list of its app.
        var position: UInt32
        @Packed var previous: Index<Token>?
        @Packed var next: Index<Token>?
    }

    private var tokens = Slab<Token>()
    private var identifiers = ByteKeyTable<Token>()
    /// By the places of the tokens.
    private var links: [Links] = []

    var count: Int { tokens.count }
    /// All places, also free ones.
    var places: SlabPlaces<Token> { tokens.places }

    /// The handle of the token at a place in use.
    func handle(_ index: Index<Token>) -> Handle<Token> { tokens.handle(index) }

    /// The token at a place; nil if the place is free.
    subscript(index: Index<Token>) -> Token? { tokens.contains(index) ? tokens[index] : nil }

    func contains(_ identifier: [UInt8]) -> Bool {
        identifier.withUnsafeBytes { identifiers.value(for: $0) != nil }
    }

    /// The links of the token at a place in use.
    func links(of index: Index<Token>) -> Links {
        precondition(tokens.contains(index), "no token at place \(index.place)")
        return links[Int(index.place)]
    }

    mutating func note(position: Int, of index: Index<Token>) {
        links[Int(index.place)].position = UInt32(position)
    }

    /// Removes a token, also from the chain of its user.
    mutating func remove(_ handle: Handle<Token>) -> (token: Token, links: Links) {
        let removed = links(of: handle.index)
        if let previous = removed.previous { links[Int(previous.place)].next = removed.next }
        if let next = removed.next { links[Int(next.place)].previous = removed.previous }
        let token = tokens.remove(handle.index)
        token.identifier.withUnsafeBytes { _ = identifiers.remove($0) }
        return (token, removed)
    }

    /// Adds a token before the first one of its user.
    mutating func insert(
        _ token: Token, of user: Index<User>, before first: Index<Token>?, position: Int
    ) -> Index<Token> {
        let index = tokens.insert(token).index
        let new = Links(user: user, position: UInt32(position), previous: nil, next: first)
        if Int(index.place) < links.count {
            links[Int(index.place)] = new
        } else {
            links.append(new)
        }
        if let first { links[Int(first.place)].previous = index }
        token.identifier.withUnsafeBytes { identifiers.insert(index, for: $0) }
        return index
    }

    /// The place of the token with this public part; nil if there is none or it was revoked.
    func index(of identifier: [UInt8]) -> Index<Token>? {
        identifier.withUnsafeBytes { identifiers.value(for: $0) }
    }

    /// The token with this public part, if the digest of the presented secret is equal to the
    /// token's. The time of the comparison does not depend on where the digests differ.
    func find(_ identifier: UnsafeRawBufferPointer, digest: Digest) -> Handle<Token>? {
        guard let index = identifiers.value(for: identifier), tokens[index].digest == digest else {
            return nil
        }
        return tokens.handle(index)
    }

    /// The token with this public part; nil if there is none or it was revoked.
    func find(_ identifier: [UInt8]) -> Token? {
        index(of: identifier).map { tokens[$0] }
    }

    /// The token of a handle; nil if it was revoked.
    subscript(handle: Handle<Token>) -> Token? {
        tokens.contains(handle) ? tokens[handle.index] : nil
    }

    /// Records a login at a time in Unix seconds. Returns the token if its row must be written
    /// again.
    mutating func noteUse(_ handle: Handle<Token>, _ now: UInt64) -> Token? {
        let last = tokens[handle.index].lastUsedUnixSeconds
        guard now >= last + CoreLimits.tokenUseSecondsMinimum || now < last else { return nil }
        tokens[handle.index].lastUsedUnixSeconds = now
        return tokens[handle.index]
    }
}

extension Records {
    static func token(_ token: Token) -> RecordChange {
        var row = RecordWriter(version: 2)
        row.write(token.digest)
        row.write(token.app)
        row.write(token.user)
        row.write(UInt8(token.device == nil ? 0 : 1))
        row.write(token.device ?? [])
        row.write(token.expiresUnixSeconds)
        row.write(token.batch)
        row.write(token.lastUsedUnixSeconds)
        row.write(UInt8(token.rights == nil ? 0 : 1))
        row.write(token.rights ?? Rights())
        return RecordChange(table: .tokens, key: token.identifier, value: row.bytes)
    }

    static func readToken(key: [UInt8], value: [UInt8]) throws(RestoreError) -> Token {
        var row = try RecordReader(value, version: 2, table: .tokens, key: key)
        let digest = try row.readDigest()
        let app = try row.readString()
        let user = try row.readString()
        let isBound = try row.read(UInt8.self) == 1
        let device = try row.readString()
        let expires = try row.read(UInt64.self)
        let batch = try row.readString()
        let lastUsed = try row.read(UInt64.self)
        let hasRights = try row.read(UInt8.self) == 1
        let rights = try row.readRights()
        return Token(
            identifier: key, digest: digest, app: app, user: user, device: isBound ? device : nil,
            expiresUnixSeconds: expires, batch: batch, rights: hasRights ? rights : nil,
            lastUsedUnixSeconds: lastUsed)
    }
}

extension Token {
    /// Whether a row of ``RecordTable/tokens`` is that of a token whose secret has this digest.
    ///
    /// - Parameter identifier: the row's key, which is the public part of the token.
    public static func matches(
        row value: [UInt8], of identifier: [UInt8], digest: Digest
    ) -> Bool {
        (try? Records.readToken(key: identifier, value: value))?.digest == digest
    }
}

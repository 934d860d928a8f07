// Opaque tokens: pre-generated, valid for years, revocable at once (D12). Only the hash of the
// secret is here; the secret itself is shown once, when it is made, and known to its device alone.

import Primitives

/// What a token says about who presents it.
public struct Token: Sendable {
    /// The public part, which lists and logs may show.
    public var identifier: [UInt8]
    /// SHA-256 of the secret part.
    public var digest: Digest
    public var app: [UInt8]
    public var user: [UInt8]
    /// The only device that may use it; nil for any.
    public var device: [UInt8]?
    /// Unix seconds from which on it is refused; `UInt64.max` for never.
    public var expiresUnixSeconds: UInt64
    /// What it was made with, to find and revoke together.
    public var batch: [UInt8]

    public init(
        identifier: [UInt8], digest: Digest, app: [UInt8], user: [UInt8], device: [UInt8]?,
        expiresUnixSeconds: UInt64, batch: [UInt8] = []
    ) {
        self.identifier = identifier
        self.digest = digest
        self.app = app
        self.user = user
        self.device = device
        self.expiresUnixSeconds = expiresUnixSeconds
        self.batch = batch
    }
}

/// All tokens, by their public part.
struct TokenTable: ~Copyable {
    private var tokens = Slab<Token>()
    private var identifiers = ByteKeyTable()

    var count: Int { tokens.count }

    /// How many tokens an app has. Walks over all of them.
    func count(ofApp app: [UInt8]) -> Int {
        (0..<tokens.endIndex).count { tokens.contains($0) && tokens[$0].app == app }
    }

    func contains(_ identifier: [UInt8]) -> Bool {
        identifier.withUnsafeBytes { identifiers.value(for: $0) != nil }
    }

    mutating func insert(_ token: Token) {
        let index = tokens.insert(token).index
        token.identifier.withUnsafeBytes { identifiers.insert(index, for: $0) }
    }

    /// The token with this public part, if the digest of the presented secret is its own. The
    /// comparison takes the same time wherever the digests differ.
    func token(_ identifier: UnsafeRawBufferPointer, digest: Digest) -> Token? {
        guard let index = identifiers.value(for: identifier) else { return nil }
        return tokens[index].digest == digest ? tokens[index] : nil
    }
}

extension Records {
    static func token(_ token: Token) -> RecordChange {
        var row = RecordWriter(version: 1)
        row.write(token.digest)
        row.write(token.app)
        row.write(token.user)
        row.write(UInt8(token.device == nil ? 0 : 1))
        row.write(token.device ?? [])
        row.write(token.expiresUnixSeconds)
        row.write(token.batch)
        return RecordChange(table: .tokens, key: token.identifier, value: row.bytes)
    }

    static func readToken(key: [UInt8], value: [UInt8]) throws(RestoreError) -> Token {
        var row = try RecordReader(value, version: 1, table: .tokens, key: key)
        let digest = try row.readDigest()
        let app = try row.readString()
        let user = try row.readString()
        let isBound = try row.read(UInt8.self) == 1
        let device = try row.readString()
        return Token(
            identifier: key, digest: digest, app: app, user: user, device: isBound ? device : nil,
            expiresUnixSeconds: try row.read(UInt64.self), batch: try row.readString())
    }
}

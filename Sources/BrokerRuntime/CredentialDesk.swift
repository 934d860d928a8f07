// What clients present, turned into claims that the core can look up: hashes are made here, outside
// the core's lock, so that no secret and no cryptography enters it.

import BrokerCore
import Credentials
import Dialects
import Primitives

/// Reads credentials and draws random numbers for one lane.
struct CredentialDesk: Doorkeeper, ~Copyable {
    mutating func claim(token: ByteRange, in bytes: UnsafeRawBufferPointer) -> Claim? {
        guard let presented = OpaqueToken(presented: token.bytes(in: bytes).bytes) else {
            return nil
        }
        let identifier = ByteRange(
            offset: Int(token.offset) + OpaqueToken.prefix.utf8.count, count: TokenID.symbolCount)
        return .token(identifier: identifier, digest: Digest(presented.digest))
    }

    mutating func claim(
        app: ByteRange, key: ByteRange, user: ByteRange, in bytes: UnsafeRawBufferPointer
    ) -> Claim? {
        guard let presented = AppKey(presented: key.bytes(in: bytes).bytes) else { return nil }
        return .appKey(app: app, digest: Digest(presented.digest), user: user)
    }

    mutating func makeRandomNumber() -> UInt64 { SystemRandom.number() }
}

extension Digest {
    /// The core's form of a digest.
    init(_ digest: SHA256Digest) {
        self = digest.bytes.withUnsafeBytes { Digest(bytes: $0) }
    }
}

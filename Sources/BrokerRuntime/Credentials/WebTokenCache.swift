// The web tokens that an event loop has verified lately: a program sends its token with each
// request, and to verify one costs 0.4 to 0.8 ms of the loop's time.

import BrokerCore
import Credentials

/// Verified web tokens of one event loop, by their digests.
///
/// A token is found until it expires or the keys are replaced. The core examines with each request
/// whether its key is still trusted.
struct WebTokenCache {
    private struct Entry {
        let identity: VerifiedIdentity
        /// Of the keys (``ClientTrust/generation``).
        let generation: UInt64
    }

    /// Tokens that were used since ``earlier`` was replaced. At half of ``countMaximum`` they
    /// replace the earlier ones, so that unused tokens are forgotten.
    private var recent: [[UInt8]: Entry] = [:]
    private var earlier: [[UInt8]: Entry] = [:]

    /// Tokens of a loop. One needs about 400 bytes, and with the longest list of rights 8 KiB.
    static let countMaximum = 1_024

    var count: Int { recent.count + earlier.count }

    /// The identity that a token proves; nil if it has to be verified.
    ///
    /// - Parameters:
    ///   - generation: of the keys now.
    ///   - now: in Unix seconds.
    mutating func find(
        _ digest: SHA256Digest, generation: UInt64, unixSeconds now: UInt64
    ) -> VerifiedIdentity? {
        let key = digest.bytes
        guard let entry = recent[key] ?? earlier[key] else { return nil }
        guard entry.generation == generation, entry.identity.expiresUnixSeconds > now else {
            recent[key] = nil
            earlier[key] = nil
            return nil
        }
        if earlier.removeValue(forKey: key) != nil { insert(entry, key) }
        return entry.identity
    }

    /// Keeps a token that was verified.
    ///
    /// - Parameter generation: of the keys, as it was before they verified the token.
    mutating func add(_ identity: VerifiedIdentity, digest: SHA256Digest, generation: UInt64) {
        insert(Entry(identity: identity, generation: generation), digest.bytes)
    }

    private mutating func insert(_ entry: Entry, _ key: [UInt8]) {
        recent[key] = entry
        guard recent.count >= Self.countMaximum / 2 else { return }
        earlier = recent
        recent = [:]
    }
}

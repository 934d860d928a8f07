// Web tokens that an event loop has verified are verified again when they must be.

import Credentials
import Testing

@testable import BrokerCore
@testable import BrokerRuntime

@Suite struct `Verified web tokens` {
    private static func digest(_ number: Int) -> SHA256Digest {
        SHA256Digest(of: Array("token \(number)".utf8).span.bytes)
    }

    private static func identity(_ user: Int, expires: UInt64 = 100) -> VerifiedIdentity {
        VerifiedIdentity(
            proof: .webToken, app: [97], user: Array("\(user)".utf8), expiresUnixSeconds: expires,
            voucher: [107], key: .named)
    }

    @Test func `are found until they expire`() {
        var cache = WebTokenCache()
        #expect(cache.find(Self.digest(1), generation: 0, unixSeconds: 1) == nil)
        cache.add(Self.identity(1), digest: Self.digest(1), generation: 0)
        let found = cache.find(Self.digest(1), generation: 0, unixSeconds: 99)
        #expect(found?.user == [UInt8(ascii: "1")])
        #expect(cache.find(Self.digest(2), generation: 0, unixSeconds: 99) == nil)
        #expect(cache.find(Self.digest(1), generation: 0, unixSeconds: 100) == nil)
        #expect(cache.count == 0)
    }

    @Test func `are not found after the keys were replaced`() {
        var cache = WebTokenCache()
        cache.add(Self.identity(1), digest: Self.digest(1), generation: 0)
        #expect(cache.find(Self.digest(1), generation: 1, unixSeconds: 1) == nil)
        // Keys that were replaced meanwhile have verified it.
        cache.add(Self.identity(1), digest: Self.digest(1), generation: 0)
        #expect(cache.find(Self.digest(1), generation: 1, unixSeconds: 1) == nil)
        cache.add(Self.identity(1), digest: Self.digest(1), generation: 1)
        #expect(cache.find(Self.digest(1), generation: 1, unixSeconds: 1) != nil)
    }

    @Test func `leave when they are too many, those that are not used first`() {
        var cache = WebTokenCache()
        cache.add(Self.identity(0), digest: Self.digest(0), generation: 0)
        for number in 1...5 * WebTokenCache.countMaximum {
            cache.add(Self.identity(number), digest: Self.digest(number), generation: 0)
            #expect(cache.count <= WebTokenCache.countMaximum)
            #expect(cache.find(Self.digest(0), generation: 0, unixSeconds: 1) != nil)
        }
        #expect(cache.find(Self.digest(1), generation: 0, unixSeconds: 1) == nil)
    }

    @Test func `get another generation with other keys`() {
        let trust = ClientTrust(TrustMaterial())
        let before = trust.generation
        trust.replace(with: TrustMaterial())
        #expect(trust.generation != before)
    }
}

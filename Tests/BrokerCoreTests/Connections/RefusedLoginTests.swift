// Whom the log names where a login is refused.

import Primitives
import Testing

@testable import BrokerCore

@Suite struct `The log of a refused login` {
    let world = World()

    init() {
        for name in ["sealed", "open"] {
            let isNew = try! world.broker.addToken(
                Token(
                    identifier: Array(name.utf8), digest: World.tokenDigest, app: World.app,
                    user: Array("ann".utf8), device: name == "sealed" ? Array("pump".utf8) : nil,
                    expiresUnixSeconds: .max))
            precondition(isNew)
        }
        world.settle()
        world.showsNotes = true
    }

    private func login(_ device: String, token: String, digest: Digest = World.tokenDigest) {
        world.connect(
            "x/\(device)",
            claim: { .token(identifier: $0.appendRange(token), digest: digest) })
        world.settle()
    }

    @Test func `names the user whose credential was valid`() {
        login("valve", token: "sealed")
        world.limits.sessionsMaximum = 0
        login("valve", token: "open")
        #expect(
            world.lines() == [
                "note: connectRefused, ann/valve, clientIdentifierNotValid, pump",
                "x/valve: refused, clientIdentifierNotValid",
                "note: connectRefused, ann/valve, quotaExceeded", "x/valve: refused, quotaExceeded",
            ])
    }

    @Test func `names the public half of a token that is not valid`() {
        login("valve", token: "open", digest: World.keyDigest)
        #expect(
            world.lines() == [
                "note: connectRefused, open/valve, badUserNameOrPassword",
                "x/valve: refused, badUserNameOrPassword",
            ])
    }

    @Test func `names the user of a key that is not trusted any more`() {
        let identity = VerifiedIdentity(
            proof: .preSharedKey, app: World.app, user: Array("ann".utf8),
            expiresUnixSeconds: .max, voucher: Array("app/ann".utf8), key: .mark(7))
        let reference = world.identities.append(identity)
        world.connect("x/pump", claim: { _ in .verified(reference) })
        #expect(
            world.lines() == [
                "note: connectRefused, ann/pump, badUserNameOrPassword",
                "x/pump: refused, badUserNameOrPassword",
            ])
    }
}

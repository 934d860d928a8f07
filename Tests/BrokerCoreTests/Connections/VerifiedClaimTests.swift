// Claims that the edge has verified: each event refers to its own identity.

import Primitives
import Testing

@testable import BrokerCore

@Suite struct `A verified claim` {
    let world = World()

    private func identity(_ user: String) -> VerifiedIdentity {
        VerifiedIdentity(
            proof: .webToken, app: World.app, user: Array(user.utf8), voucher: [], key: .named)
    }

    @Test func `refers to the identity of its own event, and to nobody once the turn is over`() {
        var identities = TurnIdentities()
        let ann = identities.append(identity("ann"))
        let bob = identities.append(identity("bob"))
        #expect(identities[ann]?.user == Array("ann".utf8))
        #expect(identities[bob]?.user == Array("bob".utf8))
        identities.endTurn()
        #expect(identities[ann] == nil)
        let carol = identities.append(identity("carol"))
        #expect(identities[ann] == nil)
        #expect(identities[carol]?.user == Array("carol".utf8))
    }

    @Test func `without an identity is refused, and the broker goes on`() {
        var identities = TurnIdentities()
        let lost = identities.append(identity("ann"))
        identities.endTurn()
        world.connect("ann/phone", claim: { _ in .verified(lost) })
        #expect(world.lines() == ["ann/phone: refused, unspecifiedError"])
        world.begin("bob/pc")
        world.step(.credentialPresented(world.connections["bob/pc"]!, .verified(lost)))
        #expect(world.lines() == ["bob/pc: credential, unspecifiedError"])
    }
}

// Users who register by themselves.

import Primitives
import Testing

@testable import BrokerCore

extension World {
    fileprivate func register(_ name: String) -> UserRegistration {
        defer { collect() }
        return try! broker.registerUser(
            with: RegisteredPassword(
                name: Array(name.utf8), hash: Array("$6$c2FsdA==$aGFzaA==".utf8), mark: 1,
                user: Array(name.utf8), device: nil, rights: nil, madeUnixSeconds: 5,
                expiresUnixSeconds: .max), app: World.app, at: now, effects: &effects)
    }

    fileprivate func isNamed(_ user: String) -> Bool {
        var search = NameSearch(user: Array(user.utf8), app: World.app)
        while broker.advance(&search) {}
        return search.isNamed
    }
}

@Suite struct `A registration` {
    let world = World()

    private func isKnown(_ name: String) -> (user: Bool, password: Bool) {
        let name = Array(name.utf8)
        return (
            world.broker.hasUser(name, app: World.app),
            world.broker.password(name, app: World.app) != nil
        )
    }

    @Test func `is one batch, so that a crash leaves a user and a password, or none`() {
        #expect(world.register("rosa") == .done)
        world.crash()
        #expect(isKnown("rosa") == (false, false))
        #expect(world.register("rosa") == .done)
        world.settle()
        world.crash()
        #expect(isKnown("rosa") == (true, true))
        #expect(world.register("rosa") == .taken)
        world.addUser("emil")
        #expect(world.register("emil") == .taken)
    }

    @Test func `does not take a name that allow lists or rights have`() {
        _ = world.operatorGroup(owner: "ann", allowed: ["bob"])
        world.addToken("t", user: "ann", rights: ["send:carol", "publish:dora/#", "!send:emil"])
        world.addToken("u", user: "ann", rights: ["attach:50%%", "send:frank*"])
        for name in ["bob", "carol", "50%"] { #expect(world.isNamed(name), "\(name)") }
        for name in ["ann", "dora", "emil", "frank", "frank*x", "t"] {
            #expect(!world.isNamed(name), "\(name)")
        }
    }

    @Test func `does not take the name of a relay`() {
        world.allowWakes()
        world.limits.appPolicy.events = BrokerEventPolicy(relay: Array("watch".utf8), kinds: [])
        for name in ["relay", "watch"] { #expect(world.isNamed(name), "\(name)") }
        #expect(!world.isNamed("relay2"))
    }

    @Test func `reads many groups in slices`() {
        for number in 0..<20 {
            _ = world.operatorGroup(owner: "u\(number)", allowed: (0..<900).map { "n\($0)" })
        }
        _ = world.operatorGroup(owner: "ann", allowed: ["bob"])
        var search = NameSearch(user: Array("bob".utf8), app: World.app)
        var sliceCount = 1
        while world.broker.advance(&search) { sliceCount += 1 }
        #expect(search.isNamed && sliceCount > 3, "\(sliceCount)")
        #expect(!world.isNamed("zoe"))
    }
}

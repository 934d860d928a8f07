// Passwords of apps: who is believed with one, until it is set again, expires or is revoked.

import BrokerTerms
import Primitives
import Testing

@testable import BrokerCore

extension World {
    /// Sets a password under a mark.
    @discardableResult
    func setPassword(
        _ name: String, mark: UInt64 = 7, user: String? = nil, device: String? = nil,
        rights: [String]? = nil, expiresUnixSeconds: UInt64 = .max
    ) -> PasswordChange {
        defer { collect() }
        return try! broker.setPasswords(
            [
                RegisteredPassword(
                    name: Array(name.utf8), hash: Array("$6$c2FsdA==$aGFzaA==".utf8), mark: mark,
                    user: Array((user ?? name).utf8), device: device.map { Array($0.utf8) },
                    rights: rights.map { try! Rights($0.map { Array($0.utf8) }) },
                    madeUnixSeconds: 5, expiresUnixSeconds: expiresUnixSeconds)
            ], app: World.app, at: now, effects: &effects)
    }

    /// The identity that the edge makes of a verified password.
    fileprivate func identity(_ name: String, mark: UInt64 = 7) -> VerifiedIdentity? {
        broker.password(Array(name.utf8), app: World.app).map {
            VerifiedIdentity(
                proof: .password, app: World.app, user: $0.user, device: $0.device,
                rights: $0.rights, expiresUnixSeconds: $0.expiresUnixSeconds, voucher: $0.name,
                key: .mark(mark))
        }
    }

    fileprivate func isValid(_ identity: VerifiedIdentity?) -> Bool {
        guard let identity else { return false }
        return broker.holder(of: .verified(identity), unixSeconds: now.unixMilliseconds / 1000)
            != nil
    }

    fileprivate func passwords(
        of user: String? = nil, after: String? = nil, countMaximum: Int = 100
    ) -> (names: [String], mayHaveMore: Bool) {
        var search = PasswordSearch(
            app: World.app, user: user.map { Array($0.utf8) }, after: after.map { Array($0.utf8) },
            countMaximum: countMaximum)
        while broker.advance(&search) {}
        return (
            search.page.passwords.map { String(decoding: $0.name, as: UTF8.self) },
            search.page.mayHaveMore
        )
    }

    fileprivate func revokePassword(_ name: String, app: [UInt8] = World.app) -> PasswordEnd {
        defer { collect() }
        return broker.revokePassword(Array(name.utf8), app: app, at: now, effects: &effects)
    }

    fileprivate func expirePassword(_ name: String, atUnixSeconds: UInt64) -> PasswordEnd {
        defer { collect() }
        return broker.expirePassword(
            Array(name.utf8), app: World.app, atUnixSeconds: atUnixSeconds, at: now,
            effects: &effects)
    }
}

@Suite struct `The passwords of an app` {
    let world = World()

    private var unixSeconds: UInt64 { world.now.unixMilliseconds / 1000 }

    @Test func `are changed in a full store, and no further one is set`() {
        world.setPassword("pump", mark: 1)
        world.settle()
        world.fillStore()
        #expect(world.setPassword("pump", mark: 2) == .set(connectionCount: 0))
        world.settle()
        #expect(world.isValid(world.identity("pump", mark: 2)))
        // The commit has told that there is room again.
        world.fillStore()
        #expect(throws: NoRoom.self) {
            try world.broker.setPasswords(
                [
                    RegisteredPassword(
                        name: Array("other".utf8), hash: Array("$6$c2FsdA==$aGFzaA==".utf8),
                        mark: 3, user: Array("other".utf8), device: nil, rights: nil,
                        madeUnixSeconds: 5, expiresUnixSeconds: .max)
                ], app: World.app, at: world.now, effects: &world.effects)
        }
    }

    @Test func `are believed until they are set again, also after a restart`() {
        #expect(world.setPassword("pump/1", mark: 1, user: "pump") == .set(connectionCount: 0))
        world.settle()
        for _ in 0..<2 {
            #expect(world.isValid(world.identity("pump/1", mark: 1)))
            #expect(!world.isValid(world.identity("pump/1", mark: 2)))
            world.crash()
        }
        world.setPassword("pump/1", mark: 2, user: "pump")
        #expect(!world.isValid(world.identity("pump/1", mark: 1)))
        #expect(world.isValid(world.identity("pump/1", mark: 2)))
        world.broker.checkInvariants()
    }

    @Test func `expire and are revoked, also after a restart`() {
        world.setPassword("a", expiresUnixSeconds: unixSeconds + 10)
        world.setPassword("b")
        world.settle()
        let first = world.identity("a")
        #expect(world.isValid(first))
        world.pass(seconds: 10)
        #expect(!world.isValid(first))
        #expect(world.expirePassword("a", atUnixSeconds: .max) == .done(connectionCount: 0))
        #expect(world.isValid(world.identity("a")))
        #expect(world.revokePassword("b") == .done(connectionCount: 0))
        #expect(world.revokePassword("b") == .unknownName)
        #expect(world.revokePassword("b", app: [1]) == .unknownApp)
        #expect(world.expirePassword("b", atUnixSeconds: 1) == .unknownName)
        world.settle()
        world.crash()
        #expect(world.passwords().names == ["a"])
        #expect(world.isValid(world.identity("a")))
    }

    /// A login may be under way while the operator decides: it has the expiry of before.
    @Test func `whose expiry comes earlier are verified anew`() {
        world.setPassword("a")
        world.settle()
        let verified = world.identity("a")
        #expect(world.isValid(verified))
        _ = world.expirePassword("a", atUnixSeconds: unixSeconds + 10)
        #expect(!world.isValid(verified))
    }

    @Test func `are listed in the order of their names, in pages and by user`() {
        for name in ["d", "b", "e", "a", "c"] {
            world.setPassword(name, user: name < "c" ? "ann" : "bob")
        }
        #expect(world.passwords().names == ["a", "b", "c", "d", "e"])
        let page = world.passwords(countMaximum: 2)
        #expect(page.names == ["a", "b"] && page.mayHaveMore)
        #expect(world.passwords(after: "b", countMaximum: 9).names == ["c", "d", "e"])
        #expect(world.passwords(of: "ann").names == ["a", "b"])
    }

    @Test func `make their users known and tell whose rights decide`() {
        world.setPassword("pump/1", user: "pump", rights: ["send:*", "!send:boss"])
        let explanation = Array("boss".utf8).withUnsafeBytes {
            world.explain("pump/1", .send(user: $0))
        }
        #expect(explanation.decision == .denied(Array("!send:boss".utf8)))
        #expect(explanation.origin == .verified(.password, voucher: Array("pump/1".utf8)))
        let app = world.broker.app(named: World.app)!
        #expect(world.broker.user(named: Array("pump".utf8), app: app) != nil)
    }

    @Test func `of a name of another app are another's`() {
        world.setPassword("a", mark: 1)
        #expect(world.broker.password(Array("a".utf8), app: [9]) == nil)
        var identity = world.identity("a", mark: 1)
        identity?.app = [9]
        #expect(!world.isValid(identity))
    }
}

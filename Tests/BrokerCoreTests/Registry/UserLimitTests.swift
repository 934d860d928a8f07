// How many users may be known: the limits apply wherever a user is made.

import Primitives
import Testing

@testable import BrokerCore

@Suite struct `The limits on users` {
    let world = World()
    private static let other = Array("other".utf8)

    init() {
        _ = try! world.broker.addApp(Self.other, keyDigest: nil)
        for user in ["ann", "bob"] { world.addUser(user) }
        _ = try! world.broker.addUser(Array("eve".utf8), app: Self.other)
        world.settle()
    }

    /// The ways in which a user is made.
    enum Way: CaseIterable {
        case registration, token, login, anonymousLogin, gateway
    }

    /// Tries to make a user of the app, or of the other app. Returns whether it is known then.
    private func make(_ user: String, _ way: Way, app: [UInt8] = World.app) -> Bool {
        let name = Array(user.utf8)
        switch way {
        case .registration: _ = try? world.broker.addUser(name, app: app)
        case .token:
            _ = try? world.broker.addToken(
                Token(
                    identifier: name, digest: World.tokenDigest, app: app, user: name, device: nil,
                    expiresUnixSeconds: .max))
        case .login: world.connect("\(user)/d", outbox: (epoch: 7, seen: 0, used: 0))
        case .anonymousLogin:
            world.broker.registry.anonymousApp = app
            world.connect("\(user)/d", outbox: (epoch: 7, seen: 0, used: 0)) {
                .anonymous(user: $0.appendRange(user))
            }
        case .gateway:
            world.setRights("attach:*")
            world.connect("\(user)/d", gateway: "bob/gateway")
        }
        world.settle()
        return world.broker.hasUser(name, app: app)
    }

    @Test(arguments: Way.allCases) func `apply to all apps, whatever makes a user`(way: Way) {
        if way == .gateway { world.begin("bob/gateway") }
        world.limits.usersMaximum = 4
        #expect(make("carl", way))
        #expect(!make("dora", way))
        #expect(world.gauges.users == 4)
        // Those who are known get tokens and log in.
        #expect(make("ann", way))
        world.limits.usersMaximum = 5
        #expect(make("dora", way))
    }

    @Test(arguments: Way.allCases) func `apply to each app alone`(way: Way) {
        if way == .gateway { world.begin("bob/gateway") }
        world.limits.usersPerAppMaximum = 3
        #expect(make("carl", way))
        #expect(!make("dora", way))
        #expect(make("finn", .token, app: Self.other))
        #expect(world.gauges.users == 5)
    }

    @Test func `are reported and counted`() {
        let names = ["carl", "dora", "dora", "ann"]
        let tokens = names.enumerated().map { number, user in
            Token(
                identifier: [UInt8(number)], digest: World.tokenDigest, app: World.app,
                user: Array(user.utf8), device: nil, expiresUnixSeconds: .max)
        }
        world.limits.usersPerAppMaximum = 3
        #expect(throws: NoRoom(limit: .usersOfApp)) {
            try world.broker.checkRoom(for: tokens, ofApp: World.app)
        }
        #expect(world.counters.usersRefused == 2)
        world.limits.usersPerAppMaximum = 4
        #expect(throws: Never.self) {
            try world.broker.checkRoom(for: tokens, ofApp: World.app)
        }
        world.limits.usersMaximum = 3
        #expect(throws: NoRoom(limit: .users)) {
            _ = try world.broker.addUser(Array("carl".utf8), app: World.app)
        }
        #expect(throws: NoRoom(limit: .users)) { _ = try world.broker.addToken(tokens[0]) }
        #expect(world.counters.usersRefused == 4)
        #expect(throws: Never.self) { _ = try world.broker.addToken(tokens[3]) }
        _ = make("carl", .login)
        #expect(world.counters.usersRefused == 4 && world.counters.connectsOverQuota == 1)
    }

    @Test func `let a store of more users start`() {
        world.limits.usersMaximum = 2
        world.limits.usersPerAppMaximum = 1
        world.crash()
        #expect(world.gauges.users == 3)
        world.begin("ann/phone")
        #expect(world.gauges.connections == 1)
    }
}

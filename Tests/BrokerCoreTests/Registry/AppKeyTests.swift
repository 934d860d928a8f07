// Keys of apps: who may log in with them and what for, until they expire or are revoked; and stores
// in which an app has one key in its own row.

import BrokerTerms
import Primitives
import Testing

@testable import BrokerCore

extension World {
    fileprivate static func digest(_ number: UInt64) -> Digest {
        Digest(words: (number, 100, 100, 100))
    }

    @discardableResult
    fileprivate func addKey(
        _ name: String, _ number: UInt64, rights: [String]? = nil,
        role: RegisteredKey.Role = .operate, expiresUnixSeconds: UInt64 = .max
    ) -> KeyAddition {
        let key = RegisteredKey(
            name: Array(name.utf8), digest: World.digest(number), role: role,
            rights: rights.map { try! Rights($0.map { Array($0.utf8) }) }, madeUnixSeconds: 5,
            expiresUnixSeconds: expiresUnixSeconds)
        return try! broker.addKey(key, app: World.app)
    }

    /// Logs a device in with a key.
    fileprivate func enter(_ name: String, key number: UInt64, expiry: UInt32? = 3600) {
        connect(name, expiry: expiry, outbox: (epoch: 7, seen: 0, used: 0)) {
            .appKey(
                app: $0.appendRange("app"), digest: World.digest(number),
                user: $0.appendRange(World.split(name).user))
        }
        settle()
    }

    fileprivate var keys: [RegisteredKey] { broker.keys(ofApp: World.app) ?? [] }

    fileprivate var rowContainsKey: Bool {
        broker.registry.apps[broker.app(named: World.app)!].rowContainsKey
    }

    fileprivate var keyNames: [String] {
        (broker.keys(ofApp: World.app) ?? []).map { String(decoding: $0.name, as: UTF8.self) }
    }

    fileprivate var unixSeconds: UInt64 { now.unixMilliseconds / 1000 }
}

@Suite struct `The keys of an app` {
    let world = World()

    init() {
        world.showsNotes = true
        world.addUser("bob")
        world.settle()
    }

    private func isConnected(_ name: String) -> Bool {
        let (user, device) = World.split(name)
        return world.sessions(
            matching: SessionFilter(
                app: World.app, user: Array(user.utf8), device: Array(device.utf8))
        ).sessions.first?.connection != nil
    }

    @Test func `are several, each of which logs in, also after a restart`() {
        world.addKey("ci", 1)
        world.addKey("shop", 2)
        world.addKey("watch", 4, role: .view)
        #expect(world.addKey("ci", 3) == .exists)
        world.settle()
        for _ in 0..<2 {
            world.enter("ann/a", key: 1)
            world.enter("ann/b", key: 2)
            world.begin("ann/c")
            #expect(isConnected("ann/a") && isConnected("ann/b") && isConnected("ann/c"))
            #expect(world.keyNames == ["ci", "default", "shop", "watch"])
            world.enter("ann/d", key: 3)
            #expect(!isConnected("ann/d"))
            world.crash()
        }
        let keys = world.keys
        #expect(keys.map(\.role) == [.operate, .operate, .operate, .view])
        #expect(keys.first?.madeUnixSeconds == 5)
        world.broker.checkInvariants()
    }

    @Test func `are at most as many as the limit says`() {
        for number in 1..<CoreLimits.appKeysMaximum {
            #expect(world.addKey("k\(number)", UInt64(number)) == .added)
        }
        #expect(world.addKey("more", 1_000) == .tooMany)
        #expect(world.revokeKey("k7") == .revoked(connectionCount: 0))
        #expect(world.addKey("more", 1_000) == .added)
        #expect(world.keyNames.count == CoreLimits.appKeysMaximum)
        world.settle()
        world.crash()
        #expect(world.keyNames.count == CoreLimits.appKeysMaximum)
        #expect(world.keyNames.contains("more") && !world.keyNames.contains("k7"))
    }

    @Test func `belong to one app`() {
        let other = Array("other".utf8)
        _ = try! world.broker.addApp(other, keyDigest: World.digest(1))
        world.settle()
        world.enter("ann/a", key: 1)
        #expect(!isConnected("ann/a"))
        #expect(world.revokeKey("ci") == .unknownKey)
        #expect(world.revokeKey("default", app: [1]) == .unknownApp)
        #expect(world.broker.keys(ofApp: [1]) == nil)
    }

    @Test func `end their connections when they are revoked, and no others`() {
        world.addKey("ci", 1)
        world.settle()
        world.enter("ann/a", key: 1)
        world.enter("bob/b", key: 1)
        world.begin("carl/c")
        _ = world.lines()
        #expect(world.revokeKey("ci") == .revoked(connectionCount: 2))
        world.settle()
        let closed = world.lines().filter { $0.contains("notAuthorized") }
        #expect(closed.contains { $0.hasPrefix("ann/a") })
        #expect(closed.contains { $0.hasPrefix("bob/b") })
        #expect(!isConnected("ann/a") && !isConnected("bob/b") && isConnected("carl/c"))
        world.enter("ann/a", key: 1)
        #expect(!isConnected("ann/a"))
        world.crash()
        world.enter("ann/a", key: 1)
        #expect(!isConnected("ann/a"))
        #expect(world.keyNames == ["default"])
    }

    @Test(arguments: [false, true], [false, true])
    func `take the wills of their devices with them`(isAway: Bool, isRestarted: Bool) {
        world.addKey("ci", 1)
        world.begin("bob/d")
        world.enter("ann/d", key: 1)
        world.setWill("ann/d", to: .user("bob"), "gone", delay: isAway ? 100 : 0)
        world.settle()
        if isAway {
            world.lose("ann/d")
            world.settle()
        }
        if isRestarted {
            world.crash()
            world.begin("bob/d")
        }
        _ = world.lines()
        _ = world.revokeKey("ci")
        // Another key of the same name is another key.
        world.addKey("ci", 2)
        world.settle()
        world.pass(seconds: 3600)
        world.settle()
        #expect(!world.lines().contains { $0.contains("gone") })
        #expect(world.gauges.wills == 0)
    }

    @Test func `leave the wills of the devices of other keys`() {
        world.addKey("ci", 1)
        world.addKey("shop", 2)
        world.begin("bob/d")
        world.enter("ann/d", key: 2)
        world.setWill("ann/d", to: .user("bob"), "gone", delay: 10)
        world.settle()
        world.lose("ann/d")
        world.settle()
        _ = world.lines()
        _ = world.revokeKey("ci")
        world.pass(seconds: 10)
        world.settle()
        #expect(world.lines().contains { $0.contains("gone") })
    }

    @Test func `are refused when they have expired, and their connections end`() {
        world.addKey("ci", 1, expiresUnixSeconds: world.unixSeconds + 10)
        world.settle()
        world.enter("ann/a", key: 1)
        #expect(isConnected("ann/a"))
        _ = world.lines()
        world.pass(seconds: 9)
        #expect(isConnected("ann/a"))
        world.pass(seconds: 2)
        world.settle()
        #expect(!isConnected("ann/a"))
        #expect(world.lines().contains { $0.contains("maximumConnectTime") })
        world.enter("ann/a", key: 1)
        #expect(!isConnected("ann/a"))
        #expect(
            world.broker.holder(
                of: .appKey(World.digest(1)), unixSeconds: world.unixSeconds) == nil)
    }

    @Test func `have rights of their own, or those of the app as they are now`() {
        world.addKey("ci", 1, rights: ["send:bob", "attach:ann"])
        world.addKey("shop", 2)
        world.begin("bob/d")
        world.enter("ann/a", key: 1)
        world.enter("ann/b", key: 2)
        world.setRights("send:carl")
        world.addUser("carl")
        world.settle()
        _ = world.lines()
        world.send("ann/a", 1, to: .user("bob"), "from ci")
        world.send("ann/a", 2, to: .user("carl"), "no")
        world.send("ann/b", 1, to: .user("bob"), "no")
        world.settle()
        let lines = world.lines()
        #expect(lines.filter { $0.contains("\"") }.map { $0.contains("from ci") } == [true])
        #expect(lines.filter { $0.contains("result") && $0.contains("notAuthorized") }.count == 2)
        let bob = Array("bob".utf8)
        let own = bob.withUnsafeBytes { world.explain("ann/a", .send(user: $0)) }
        #expect(own.origin == .appKey(Array("ci".utf8)) && own.decision.isAllowed)
        let others = bob.withUnsafeBytes { world.explain("ann/b", .send(user: $0)) }
        #expect(others.origin == .app && !others.decision.isAllowed)
    }

    /// Keys, and the users as whom they log in.
    private static let admissions: [(rights: [String]?, RegisteredKey.Role, users: [String])] = [
        (nil, .view, []), (["attach:*", "send:*"], .view, []),
        (nil, .operate, ["ann", "kiosk-1", "kiosk-", "%u", "d"]), ([], .operate, []),
        (["send:*", "publish:#", "subscribe:#", "presence:*", "group:create"], .operate, []),
        (["send:bob", "attach:kiosk-*"], .operate, ["kiosk-1", "kiosk-"]),
        (["attach:ann", "attach:d"], .operate, ["ann", "d"]),
        // A key has no user and no device.
        (["attach:%u", "attach:%d", "attach:*%u"], .operate, []),
        (["attach:*"], .operate, ["ann", "kiosk-1", "kiosk-", "%u", "d"]),
    ]

    @Test func `log in as the users whom their role and their rights allow, and explain it`() {
        for (number, (rights, role, _)) in Self.admissions.enumerated() {
            world.addKey("k\(number)", UInt64(number + 1), rights: rights, role: role)
        }
        world.settle()
        world.crash()
        var refusedCount: UInt64 = 0
        for (number, (_, _, users)) in Self.admissions.enumerated() {
            for user in ["ann", "kiosk-1", "kiosk-", "%u", "d"] {
                _ = world.lines()
                world.enter("\(user)/d", key: UInt64(number + 1))
                let isAllowed = users.contains(user)
                #expect(isConnected("\(user)/d") == isAllowed, "key \(number) as \(user)")
                let explanation = world.broker.explain(
                    app: World.app, key: Array("k\(number)".utf8), attaching: Array(user.utf8))
                #expect(explanation?.decision.isAllowed == isAllowed)
                if isAllowed { world.lose("\(user)/d") } else { refusedCount += 1 }
                let isRefused = world.lines().contains { $0.contains("notAuthorized") }
                #expect(isRefused != isAllowed)
                world.settle()
            }
        }
        #expect(world.counters.rightsRefusals == refusedCount)
        #expect(world.counters.connectsRefused == refusedCount)
        #expect(world.broker.explain(app: World.app, key: [1], attaching: [1]) == nil)
    }

    @Test func `do not replace the credential of a user as whom they do not log in`() {
        world.addKey("watch", 1, role: .view)
        world.addKey("kiosk", 2, rights: ["attach:kiosk"])
        world.begin("ann/a")
        for number in [1, 2] as [UInt64] {
            var bytes: [UInt8] = []
            let claim = Claim.appKey(
                app: bytes.appendRange("app"), digest: World.digest(number),
                user: bytes.appendRange("ann"))
            world.step(
                .credentialPresented(world.connections["ann/a"]!, claim), bytes: bytes)
        }
        #expect(world.counters.credentialsRefused == 2)
        #expect(world.revokeKey("watch") == .revoked(connectionCount: 0))
        #expect(isConnected("ann/a"))
    }

    /// Earlier versions let a key with the role `view` log in.
    @Test(arguments: [false, true])
    func `send no will of a device as whom they do not log in any more`(isChanged: Bool) {
        world.addKey("ci", 1)
        world.begin("bob/d")
        world.enter("ann/d", key: 1)
        world.setWill("ann/d", to: .user("bob"), "gone", delay: 100)
        world.settle()
        world.lose("ann/d")
        world.settle()
        // The role is behind the version and the digest.
        if isChanged { world.rewriteRows(of: .appKeys) { $0[33] = 0 } }
        world.crash()
        #expect(world.keys.first?.role == (isChanged ? .view : .operate))
        world.pass(seconds: 200)
        world.settle()
        #expect(world.gauges.queuedMessages == (isChanged ? 0 : 1))
        #expect(world.counters.willsRefused == (isChanged ? 1 : 0))
    }

    @Test func `record their last use by the hour`() {
        world.addKey("ci", 1)
        world.settle()
        #expect(world.keys.first?.lastUsedUnixSeconds == 0)
        world.enter("ann/a", key: 1)
        let first = world.unixSeconds
        world.pass(seconds: 3_599)
        world.enter("ann/a", key: 1)
        #expect(world.keys.first?.lastUsedUnixSeconds == first)
        world.pass(seconds: 2)
        world.broker.noteUse(
            of: .appKey(World.digest(1)), unixSeconds: world.unixSeconds)
        let second = world.unixSeconds
        world.pass(seconds: 60)
        world.settle()
        world.crash()
        #expect(world.keys.first?.lastUsedUnixSeconds == second)
    }

    /// The row with the last use waits for a batch with another reason, which may be that of the
    /// revocation.
    @Test(arguments: [false, true])
    func `or a token, used and revoked within one batch, stay revoked`(isToken: Bool) {
        world.addKey("ci", 1)
        world.addToken("tok", user: "ann", rights: nil)
        world.settle()
        if isToken {
            world.broker.noteUse(
                of: .token(identifier: Array("tok".utf8), World.tokenDigest),
                unixSeconds: world.unixSeconds)
            world.revoke("tok")
        } else {
            world.broker.noteUse(of: .appKey(World.digest(1)), unixSeconds: world.unixSeconds)
            _ = world.revokeKey("ci")
        }
        world.settle()
        world.crash()
        #expect(world.keyNames == (isToken ? ["ci", "default"] : ["default"]))
        #expect(world.gauges.tokens == (isToken ? 0 : 1))
    }

    @Test func `are not added to a full store`() {
        world.fillStore()
        world.settle()
        let key = RegisteredKey(name: [1], digest: World.digest(1), role: .view)
        #expect(throws: NoRoom()) { _ = try world.broker.addKey(key, app: World.app) }
        #expect(world.keyNames == ["default"])
    }
}

// MARK: - Stores of earlier versions

@Suite struct `A store whose apps have one key in their rows` {
    /// The row that the version before this one wrote for the app of ``World``.
    private static let row = Records.app(
        World.app, keyDigest: World.keyDigest, rights: .everything)

    /// A world that starts from such a store.
    private func world() -> World {
        let world = World()
        _ = world.revokeKey("default")
        world.rewriteRows(of: .apps) { $0 = Self.row.value! }
        world.crash()
        return world
    }

    @Test func `has the layout of version 2`() {
        let text = Self.row.value!.map { String(0x100 + Int($0), radix: 16).dropFirst() }.joined()
        #expect(
            text.hasPrefix(
                "0201"
                    + "0100000000000000020000000000000003000000000000000400000000000000"
                    + "09" + "0600" + "73656e643a2a"))
    }

    @Test func `gives the key the name default and a row of its own`() {
        let world = world()
        for _ in 0..<2 {
            let keys = world.keys
            #expect(keys.map(\.name) == [RegisteredKey.defaultName])
            #expect(keys[0].digest == World.keyDigest && keys[0].role == .operate)
            #expect(keys[0].rights == nil && keys[0].expiresUnixSeconds == .max)
            world.begin("ann/phone")
            world.settle()
            #expect(!world.rowContainsKey)
            world.crash()
        }
    }

    @Test(arguments: [false, true])
    func `keeps the key where it is while the store is full`(isRevoked: Bool) throws {
        let world = World()
        _ = world.revokeKey("default")
        world.rewriteRows(of: .apps) { $0 = Self.row.value! }
        world.broker = Broker(limits: world.limits, loopCount: 2, at: world.now)
        var state = world.store.restore(into: &world.broker)
        state.isFull = true
        try world.broker.finishRestoring(state, newEpochSeed: 1, at: world.now)
        #expect(world.rowContainsKey && world.keyNames == ["default"])
        // The app's row is written again, with the key or without.
        world.setRights("send:carl")
        if isRevoked { #expect(world.revokeKey("default") == .revoked(connectionCount: 0)) }
        world.settle()
        world.crash()
        #expect(world.keyNames == (isRevoked ? [] : ["default"]))
        #expect(!world.rowContainsKey)
    }

    @Test func `loses the key for good when it is revoked`() {
        let world = world()
        world.begin("ann/phone")
        #expect(world.revokeKey("default") == .revoked(connectionCount: 1))
        world.settle()
        world.crash()
        #expect(world.keys == [])
        world.addKey("default", 1)
        world.settle()
        world.crash()
        #expect(world.keys.map(\.digest) == [World.digest(1)])
    }

    @Test func `that has been edited so that two keys are one does not start`() {
        let world = World()
        world.rewriteRows(of: .apps) { $0 = Self.row.value! }
        var broker = Broker(at: world.now)
        let state = world.store.restore(into: &broker)
        #expect(throws: RestoreError.self) {
            try broker.finishRestoring(state, newEpochSeed: 1, at: world.now)
        }
    }
}

// MARK: - Credentials without a connection

@Suite struct `A credential that is presented alone` {
    let world = World()

    private func holder(_ credential: PresentedCredential) -> CredentialHolder? {
        world.broker.holder(of: credential, unixSeconds: world.unixSeconds)
    }

    @Test func `has the holder and the rights of its login`() throws {
        world.addKey("ci", 1, rights: ["send:bob"], role: .view)
        world.addToken("tok", user: "ann", rights: ["send:eve"])
        world.addToken("plain", user: "ann", rights: nil)
        let key = try #require(holder(.appKey(World.digest(1))))
        #expect(key.kind == .appKey(name: Array("ci".utf8), role: .view) && key.app == World.app)
        #expect(key.ownRights == key.rights && key.rights.texts == [Array("send:bob".utf8)])
        let standard = try #require(holder(.appKey(World.keyDigest)))
        #expect(standard.ownRights == nil && standard.rights == .everything)
        let token = try #require(
            holder(.token(identifier: Array("tok".utf8), World.tokenDigest)))
        #expect(token.kind == .user(Array("ann".utf8), device: nil))
        #expect(token.rights.texts == [Array("send:eve".utf8)])
        #expect(
            holder(.token(identifier: Array("plain".utf8), World.tokenDigest))?.rights
                == .everything)
        #expect(holder(.token(identifier: Array("tok".utf8), World.keyDigest)) == nil)
        #expect(holder(.token(identifier: Array("no".utf8), World.tokenDigest)) == nil)
        #expect(holder(.appKey(World.tokenDigest)) == nil)
        world.revoke("tok")
        #expect(holder(.token(identifier: Array("tok".utf8), World.tokenDigest)) == nil)
    }

    @Test func `by a web token is believed while its key is trusted`() {
        let identity = VerifiedIdentity(
            proof: .webToken, app: World.app, user: Array("ann".utf8),
            expiresUnixSeconds: world.unixSeconds + 10, voucher: [1], key: .mark(7))
        #expect(holder(.verified(identity)) == nil)
        _ = world.replaceTrust(
            VoucherTrust(
                webTokenKeys: [VoucherTrust.WebTokenKey(app: World.app, voucher: [1]): 7],
                preSharedIdentities: [:], revokedCertificates: []))
        #expect(holder(.verified(identity))?.kind == .user(Array("ann".utf8), device: nil))
        world.pass(seconds: 10)
        #expect(holder(.verified(identity)) == nil)
    }

    /// The same sends by a connection and without one: what the one is refused, the other is too.
    @Test func `may send what a connection with it may send`() throws {
        let rights = try Rights(
            ["send:bob", "send:%u", "publish:site/%u/#", "publish:dev/%d"].map { Array($0.utf8) })
        for user in ["ann", "bob", "eve"] { world.addUser(user) }
        _ = world.addToken(
            Token(
                identifier: Array("tok".utf8), digest: World.tokenDigest, app: World.app,
                user: Array("ann".utf8), device: Array("d".utf8), expiresUnixSeconds: .max,
                rights: rights))
        world.connect("ann/d", outbox: (epoch: 7, seen: 0, used: 0)) {
            .token(identifier: $0.appendRange("tok"), digest: World.tokenDigest)
        }
        world.settle()
        let group = world.operatorGroup(owner: "ann")
        let others = world.operatorGroup(owner: "eve")
        let targets: [(Target, Bool)] = [
            (.user("bob"), true), (.user("eve"), false), (.user("ann"), true),
            (.users(["bob", "eve"]), true), (.users(["eve"]), false), (.everybody, false),
            (.topic("site/ann/x"), true), (.topic("site/bob/x"), false), (.topic("dev/d"), true),
            (.topic("dev/e"), false), (.group(group), true), (.group(others), false),
        ]
        for (number, (target, isAllowed)) in targets.enumerated() {
            _ = world.lines()
            world.send("ann/d", UInt64(number + 1), to: target, "x")
            world.settle()
            let result = try #require(world.lines().first { $0.contains("result") })
            let send = world.send(
                as: "ann", to: target, "x", grade: .transient, rights: rights, device: "d")
            guard case .complete(let alone)? = send else {
                Issue.record("\(target): \(String(describing: send))")
                continue
            }
            #expect(alone.reason.isFailure == !isAllowed, "\(target): \(alone)")
            // Of a list that is sent to some, both say who was refused.
            let refuses = alone.reason.isFailure || !alone.refusals.isEmpty
            #expect(
                refuses == result.contains("notAuthorized"), "\(target): \(alone), \(result)")
            if case .users(let names) = target, isAllowed {
                #expect(names.count == 2 && alone.refusals.map(\.reason) == [.notAuthorized])
            }
        }
    }
}

// The deletion of apps and users: in pieces, between any two of which the broker may die, and with
// nothing left of them.

import BrokerTerms
import Primitives
import Testing

@testable import BrokerCore

extension World {
    /// One piece, which is not committed; false when nothing is left.
    fileprivate func delete(_ deletion: inout Deletion) -> Bool {
        defer { collect() }
        return broker.delete(&deletion, at: now, effects: &effects)
    }

    /// All pieces.
    @discardableResult
    func deleteAll(_ scope: DeletionScope) -> DeletionCounts {
        if scope.user == nil { #expect(beginDeletion(scope.app)) }
        var deletion = Deletion(of: scope)
        var pieces = 0
        while delete(&deletion) {
            settle()
            pieces += 1
            precondition(pieces < 10_000, "the deletion never ends")
        }
        settle()
        return deletion.counts
    }

    fileprivate func losses(_ scope: DeletionScope) -> DeletionLosses {
        var search = DeletionLossSearch(of: scope)
        while broker.advance(&search) {}
        return search.losses
    }

    fileprivate func beginDeletion(_ app: [UInt8] = World.app) -> Bool {
        broker.beginDeletion(ofApp: app)
    }

    fileprivate func addApp(_ name: [UInt8]) -> Bool {
        try! broker.addApp(name, keyDigest: name == World.app ? World.keyDigest : nil)
    }

    fileprivate func addUser(_ name: String, app: [UInt8]) -> Bool? {
        try! broker.addUser(Array(name.utf8), app: app)
    }

    fileprivate func hasUser(_ name: String, app: [UInt8] = World.app) -> Bool {
        broker.hasUser(Array(name.utf8), app: app)
    }

    fileprivate var hasApp: Bool {
        broker.hasApp(World.app) || broker.isBeingDeleted(app: World.app)
    }

    fileprivate func memberCount(_ group: String) -> Int {
        broker.groupMembers(
            app: World.app, Array(group.utf8), after: [], countMaximum: 9
        ).count
    }

    fileprivate static func user(_ name: String) -> DeletionScope {
        DeletionScope(app: app, user: Array(name.utf8))
    }

    /// Adds some of everything that an app may have.
    fileprivate func fill() {
        begin("ann/1", "bob/1", "cid/1")
        beginMQTT("dan/1", "dan/2")
        addUser("eve")
        addToken("annstoken", user: "ann", rights: nil)
        addToken("evestoken", user: "eve", rights: ["send:*"])
        allowWakes()
        setTarget("ann")
        setTarget("eve", device: "pc")
        setPassword("bob")
        setPassword("spare", user: "bob")
        let group = makeGroup(owner: "ann/1", members: ["bob/1", "cid/1"])
        _ = makeGroup(owner: "bob/1", members: ["ann/1"])
        subscribeMQTT("dan/1", "$share/s/site/#", grade: .durable)
        subscribeMQTT("dan/2", "other/#")
        setWill("cid/1", to: .user("ann"), "lost", delay: 100)
        settle()
        lose("cid/1", "dan/1")
        send("ann/1", 1, to: .group(group), "all", isKept: true)
        send(
            "ann/1", 2, to: .users(["bob", "cid", "eve"]), "many", isKept: true,
            asks: [.delivered])
        publish("dan/2", 1, "site/1", "shared")
        publish("dan/2", 2, "site/2", "kept", isRetained: true)
        settle()
        _ = send(
            as: "bob", to: .user("eve"), "with a key", grade: .durable,
            key: SendKey(
                name: Digest(words: (1, 7, 0, 0)), content: Digest(words: (1, 0, 0, 0)),
                isOfUser: true))
        settle()
        disconnect("ann/1", expiry: 3_600)
        settle()
        _ = lines()
    }

    /// Tables with rows, besides those of whole brokers.
    fileprivate var filledTables: [RecordTable] {
        RecordTable.allCases.filter { $0 != .counters && !rows(of: $0).isEmpty }
    }
}

@Suite struct `The deletion of an app` {
    let world = World()

    @Test func `counts first what it would lose`() {
        #expect(world.losses(DeletionScope(app: World.app)).isEmpty)
        world.addUser("ann")
        world.addToken("another", user: "ann", rights: nil)
        #expect(world.losses(DeletionScope(app: World.app)).tokens == 1)
        #expect(world.losses(World.user("ann")).isEmpty)
        world.fill()
        let losses = world.losses(DeletionScope(app: World.app))
        #expect(losses.connectedSessions == 2 && losses.groups == 2)
        #expect(losses.retainedMessages == 1 && losses.conversations == 4)
        #expect(losses.queuedMessages == world.gauges.queuedMessages && losses.queuedMessages > 0)
        let user = world.losses(World.user("ann"))
        #expect(user.groups == 1 && user.conversations == 3 && user.connectedSessions == 0)
        #expect(user.retainedMessages == 0)
    }

    @Test(arguments: 1...24 as ClosedRange<UInt64>)
    func `leaves nothing, wherever the broker dies between two pieces`(seed: UInt64) {
        var random = WalkRandom(seed: seed)
        let other = Array("other".utf8)
        #expect(world.addApp(other) && world.addUser("zoe", app: other) == true)
        world.settle()
        world.fill()
        #expect(world.filledTables.count >= 14)
        var deaths = 0
        var isComplete = false
        while !isComplete {
            #expect(world.beginDeletion())
            var deletion = Deletion(of: DeletionScope(app: World.app))
            deletion.unitsMaximum = Int(random.below(64)) + 1
            var pieces = 0
            var dies = false
            while !dies, world.delete(&deletion) {
                pieces += 1
                precondition(pieces < 10_000, "seed \(seed): the deletion never ends")
                dies = deaths < 12 && random.below(8) == 0
                if dies, random.below(2) == 0 { _ = world.beginCommit() } else { world.settle() }
            }
            isComplete = deletion.isComplete
            if dies {
                deaths += 1
                world.crash(committing: random.below(2) == 0)
                world.settle()
                if !world.hasApp { isComplete = true }
            }
        }
        world.settle()
        #expect(!world.hasApp)
        #expect(world.filledTables == [.apps, .users], "seed \(seed)")
        #expect(world.rows(of: .apps).count == 1 && world.rows(of: .users).count == 1)
        let gauges = world.gauges
        #expect(gauges.apps == 1 && gauges.users == 1 && gauges.sessions == 0)
        #expect(gauges.queuedMessages == 0 && gauges.wills == 0 && gauges.groups == 0)
        #expect(world.store.heldMessages == [], "seed \(seed)")
        world.crash()
        #expect(world.hasUser("zoe", app: other))
    }

    @Test func `admits nobody and sends nothing from its beginning on`() {
        world.begin("ann/1", "bob/1")
        world.showsNotes = true
        #expect(world.beginDeletion())
        #expect(world.beginDeletion())
        world.send("ann/1", 1, to: .user("bob"), "late")
        #expect(world.lines().contains { $0.contains("notAuthorized") })
        world.connect("cid/1")
        #expect(world.lines().contains { $0.contains("refuse") && $0.contains("badUserName") })
        #expect(world.addUser("dan", app: World.app) == nil)
        #expect(!world.addApp(World.app))
        #expect(world.send(as: "ann", to: .user("bob"), "x", grade: .durable) == nil)
        let counts = world.deleteAll(DeletionScope(app: World.app))
        #expect(counts.users == 2 && counts.sessions == 2 && counts.credentials == 1)
        #expect(world.addApp(World.app))
        world.begin("ann/1")
        #expect(world.gauges.users == 1 && world.gauges.apps == 1)
        world.crash()
        #expect(world.gauges.users == 1 && world.gauges.sessions == 1)
    }

    @Test func `empties what ended sessions had from shared subscriptions`() {
        world.beginMQTT("dan/1", "dan/2")
        world.subscribeMQTT("dan/1", "$share/s/site/#", grade: .durable)
        world.lose("dan/1")
        for number in 1...40 { world.publish("dan/2", UInt16(number), "site/1", "\(number)") }
        world.settle()
        // The share has a session that is full: the leftover waits.
        world.deleteSessions(
            matching: SessionFilter(app: World.app, user: Array("dan".utf8)))
        world.settle()
        world.deleteAll(DeletionScope(app: World.app))
        #expect(world.broker.queues.leftovers.count == 0)
        #expect(world.gauges.queuedMessages == 0 && world.store.heldMessages == [])
    }
}

@Suite struct `The deletion of a user` {
    let world = World()

    @Test(arguments: 1...12 as ClosedRange<UInt64>)
    func `leaves nothing of the user, and the others whole`(seed: UInt64) {
        var random = WalkRandom(seed: seed)
        world.fill()
        let before = world.gauges
        for name in ["ann", "bob"] {
            var isComplete = false
            while !isComplete {
                var deletion = Deletion(of: World.user(name))
                deletion.unitsMaximum = Int(random.below(64)) + 1
                while world.delete(&deletion) {
                    world.settle()
                    if random.below(6) == 0 { break }
                }
                isComplete = deletion.isComplete
                world.settle()
                if random.below(2) == 0 { world.crash() }
                world.settle()
            }
            #expect(!world.hasUser(name))
        }
        let gauges = world.gauges
        #expect(gauges.users == before.users - 2 && gauges.groups == 0)
        #expect(gauges.conversations == 0)
        #expect(world.rows(of: .tokens).count == 1 && world.rows(of: .passwords).isEmpty)
        #expect(gauges.retainedMessages == 1, "the retained message of another user")
        world.crash()
        world.settle()
        #expect(world.gauges.users == gauges.users)
        // Sends of others that name them end at their time.
        world.pass(seconds: world.limits.queueAgeSecondsMaximum + 3_600)
        world.settle()
        #expect(world.rows(of: .trackedSends).isEmpty)
    }

    @Test func `ends sessions and memberships, and tells the others`() {
        world.begin("ann/1", "bob/1")
        let group = world.makeGroup(owner: "ann/1", members: ["bob/1"])
        let counts = world.deleteAll(World.user("bob"))
        #expect(counts.users == 1 && counts.sessions == 1)
        #expect(world.lines().contains { $0.contains("ann/1") && $0.contains("bob") })
        #expect(world.memberCount(group) == 1)
        // A sender that has just sent to the user has its place in memory.
        world.send("ann/1", 1, to: .user("bob"), "gone")
        world.settle()
        #expect(world.lines().contains { $0.contains("topicNameInvalid") })
    }

    @Test func `lets the name be used again by another user`() {
        world.begin("ann/1")
        world.addUser("bob")
        world.send("ann/1", 1, to: .user("bob"), "old")
        world.settle()
        world.deleteAll(World.user("bob"))
        world.addUser("bob")
        world.settle()
        world.send("ann/1", 2, to: .user("bob"), "new")
        world.settle()
        let queue = world.broker.offlineQueueDescription(app: World.app, user: Array("bob".utf8))
        #expect(queue?.count == 1)
        world.crash()
        world.begin("bob/1")
        #expect(world.gauges.users == 2)
    }

    @Test func `takes the user off the lists of groups`() {
        for name in ["ann", "bob", "cid"] { world.addUser(name) }
        let group = world.operatorGroup(owner: "ann", allowed: ["bob", "cid"])
        let open = world.operatorGroup(owner: "ann")
        world.settle()
        world.deleteAll(World.user("bob"))
        func allowed(_ group: String) -> [[UInt8]]? {
            world.broker.groupDescription(app: World.app, Array(group.utf8))?.allowed
        }
        #expect(allowed(group) == [Array("cid".utf8)])
        #expect(allowed(open) == nil)
        world.crash()
        #expect(allowed(group) == [Array("cid".utf8)])
    }

    @Test func `sends no will, and tells a receipt to nobody`() {
        world.begin("ann/1", "bob/1", "cid/1")
        world.setWill("bob/1", to: .user("ann"), "lost")
        world.send("bob/1", 1, to: .user("cid"), "asked", asks: [.delivered])
        world.settle()
        _ = world.lines()
        world.deleteAll(World.user("bob"))
        #expect(!world.lines().contains { $0.contains("lost") })
        world.acknowledge("cid/1", through: 1)
        world.settle()
        world.pass(seconds: 60)
        world.settle()
        #expect(world.gauges.users == 2 && world.gauges.wills == 0)
        world.crash()
        world.settle()
        #expect(world.gauges.users == 2)
    }

    @Test func `leaves no send that another user of its name could recall`() {
        world.begin("ann/1", "bob/1")
        world.send("bob/1", 1, to: .user("ann"), "old", asks: [.reference])
        world.send("ann/1", 1, to: .user("bob"), "other", asks: [.reference])
        world.settle()
        #expect(world.gauges.trackedSends == 2)
        world.deleteAll(World.user("bob"))
        #expect(world.gauges.trackedSends == 1)
        world.crash()
        world.addUser("bob")
        #expect(world.gauges.trackedSends == 1)
    }

    @Test func `of one that comes back meanwhile begins again`() {
        world.begin("ann/1")
        var deletion = Deletion(of: World.user("ann"))
        deletion.unitsMaximum = 1
        #expect(world.delete(&deletion))
        world.settle()
        world.connect("ann/2", expiry: 100)
        world.settle()
        deletion.unitsMaximum = Deletion.unitsPerPiece
        var pieces = 0
        while world.delete(&deletion) {
            world.settle()
            pieces += 1
        }
        world.settle()
        #expect(deletion.isComplete && pieces < 8)
        #expect(world.gauges.users == 0 && world.gauges.sessions == 0)
    }
}

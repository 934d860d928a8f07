// Sessions of another broker: they come in pieces, go on after an interruption and never twice.

import BrokerTerms
import Primitives
import Testing

@testable import BrokerCore

extension World {
    fileprivate func take(
        _ position: UInt64, _ topics: [String], filters: [String]? = nil, user: String = "ann",
        payloadByteCount: Int = 2, expirySeconds: UInt64? = nil
    ) -> SessionImport {
        defer { collect() }
        return broker.importSession(
            ImportedSession(
                app: World.app, user: Array(user.utf8), device: Array("d1".utf8),
                expirySeconds: nil, epoch: 7, sender: Array("old".utf8), position: position,
                messages: topics.map {
                    ImportedSession.Message(
                        topic: Array($0.utf8),
                        payload: [UInt8](repeating: 1, count: payloadByteCount), properties: [],
                        grade: .durable, expirySeconds: expirySeconds)
                },
                filters: filters.map {
                    $0.map {
                        ImportedSession.Filter(
                            filter: Array($0.utf8), grade: .durable, options: [], identifier: 0)
                    }
                }), at: now, effects: &effects)
    }
}

@Suite("A session of another broker")
struct SessionImportTests {
    private let world = World()

    init() { world.addUser("ann") }

    private var found: [SessionDescription] {
        world.sessions(matching: SessionFilter(app: World.app)).sessions
    }

    @Test func `comes in pieces, with its subscriptions last`() {
        #expect(
            world.take(0, ["a/1", "a/2"]) == .taken(count: 2, refusedCount: 0, refusedFilters: []))
        #expect(found.map(\.filterCount) == [0])
        // An import that was interrupted is told where it goes on.
        #expect(world.take(0, ["a/1"]) == .elsewhere(position: 2, count: 2))
        #expect(world.take(3, []) == .elsewhere(position: 2, count: 2))
        #expect(
            world.take(2, ["a/3"], filters: ["a/#", "$SYS/#", "$share/g/b"])
                == .taken(count: 3, refusedCount: 0, refusedFilters: [Array("$SYS/#".utf8)]))
        #expect(world.take(3, ["a/4"]) == .exists)
        world.settle()
        let session = found[0]
        #expect(session.queue.count == 3 && session.filterCount == 2 && session.isPersistent)
        world.checkStore()
    }

    @Test func `is there after a crash, and goes on`() {
        _ = world.take(0, ["a/1", "a/2"])
        world.settle()
        world.crash()
        #expect(world.take(0, []) == .elsewhere(position: 2, count: 2))
        #expect(
            world.take(2, ["a/3"], filters: ["a/#"])
                == .taken(count: 3, refusedCount: 0, refusedFilters: []))
        world.settle()
        world.checkStore()
    }

    @Test func `of an unknown user, or of a client that is there, is not taken`() {
        #expect(world.take(0, [], user: "nobody") == .unknownUser)
        #expect(world.take(1, []) == .elsewhere(position: 0, count: 0))
        world.begin("ann/d1")
        #expect(world.take(0, []) == .exists)
    }

    @Test func `tells what is too large or has no room`() {
        let large = Int(world.broker.limits.payloadMaximum) + 1
        #expect(
            world.take(0, ["a"], payloadByteCount: large)
                == .taken(count: 0, refusedCount: 1, refusedFilters: []))
        // The refused one counts: the next piece begins after it.
        #expect(world.take(0, ["a"]) == .elsewhere(position: 1, count: 0))
        #expect(world.take(1, ["a"]) == .taken(count: 1, refusedCount: 0, refusedFilters: []))
    }

    @Test func `goes on after what was refused, has expired or was removed`() {
        let large = Int(world.broker.limits.payloadMaximum) + 1
        _ = world.take(0, ["a/1", "a/2"], payloadByteCount: large)
        _ = world.take(2, ["a/3", "a/4", "a/5"])
        world.settle()
        world.purgeQueues(matching: SessionFilter(app: World.app))
        world.settle()
        for _ in 0..<2 {
            #expect(world.take(0, ["a/1"]) == .elsewhere(position: 5, count: 0))
            world.crash()
        }
        #expect(
            world.take(5, ["a/6"], filters: [])
                == .taken(count: 1, refusedCount: 0, refusedFilters: []))
        world.settle()
        world.crash()
        // A session without subscriptions is not taken twice either, and its client may come.
        #expect(world.take(0, ["a/1"]) == .exists)
        world.beginMQTT("ann/d1")
        #expect(found.map { $0.connection != nil } == [true])
    }

    @Test func `counts a message that has expired, and does not take it`() {
        #expect(
            world.take(0, ["a/1", "a/2"], expirySeconds: 0)
                == .taken(count: 0, refusedCount: 0, refusedFilters: []))
        #expect(world.take(0, []) == .elsewhere(position: 2, count: 0))
    }

    @Test func `is taken again where the store had no room`() {
        _ = world.take(0, ["a/1"])
        world.settle()
        world.store.isFull = true
        _ = world.take(1, ["a/2", "a/3"])
        world.settle()
        #expect(world.take(0, []) == .elsewhere(position: 1, count: 1))
        world.store.isFull = false
        world.forgetFullStore()
        #expect(
            world.take(1, ["a/2", "a/3"], filters: ["a/#"])
                == .taken(count: 3, refusedCount: 0, refusedFilters: []))
        world.settle()
        world.crash()
        #expect(found.map(\.queue.count) == [3])
    }

    /// It would take the session for complete, and subscribe to nothing.
    @Test func `keeps its client waiting until it is complete`() {
        _ = world.take(0, ["a/1", "a/2"])
        world.settle()
        for dialect in [SessionDialect.mqtt5, .mqtt3, .mrt] {
            world.connect("ann/d1", expiry: 3_600, dialect: dialect)
            world.settle()
            #expect(world.lines().contains("ann/d1: refused, serverBusy"), "\(dialect)")
        }
        world.crash()
        world.connect("ann/d1", expiry: 3_600, dialect: .mqtt5)
        world.settle()
        #expect(world.lines().contains("ann/d1: refused, serverBusy"))
        #expect(
            world.take(2, ["a/3"], filters: ["a/#"])
                == .taken(count: 3, refusedCount: 0, refusedFilters: []))
        world.connect("ann/d1", expiry: 3_600, dialect: .mqtt5)
        world.settle()
        #expect(world.lines().contains("ann/d1: accepted, present"))
        world.lose("ann/d1")
        world.settle()
        #expect(world.take(3, ["a/4"]) == .exists)
        world.crash()
        #expect(world.take(0, ["a/1"]) == .exists)
    }

    @Test func `ends when its client starts anew`() {
        _ = world.take(0, ["a/1", "a/2"])
        world.settle()
        world.beginMQTT("ann/d1", clean: true)
        #expect(world.take(2, ["a/3"]) == .exists)
        world.lose("ann/d1")
        world.settle()
        #expect(found.map(\.queue.count) == [0])
    }

    @Test func `is among the deepest queues`() {
        world.addUser("bob")
        _ = world.take(0, ["a/1", "a/2"])
        _ = world.take(0, ["a/1"], user: "bob")
        world.begin("carl/d1")
        var search = DeepestQueues(countMaximum: 1)
        while world.broker.advance(&search) {}
        #expect(search.found.map(\.user) == [Array("ann".utf8)])
        #expect(search.found.map(\.count) == [2])
        search = DeepestQueues(countMaximum: 10)
        while world.broker.advance(&search) {}
        #expect(search.found.map(\.count) == [2, 1])
    }
}

// Users of anonymous clients that gave no name: how many there are, and when one is used again.

import Primitives
import Testing

@testable import BrokerCore

@Suite struct `An anonymous client without a client id` {
    let world = World()

    init() { world.broker.anonymousApp = World.app }

    /// Logs in, and returns the name that the client is told.
    @discardableResult
    private func connect(_ client: String = "it", expiry: UInt32 = 0) -> String {
        world.connect(
            "\(client)/", clean: true, expiry: expiry, dialect: .mqtt5,
            claim: { .anonymous(user: $0.appendRange("")) }, adjust: { $0.assignsDevice = true })
        world.settle()
        return world.assignedDevice
    }

    private func leave(_ client: String = "it") {
        world.disconnect("\(client)/")
        world.settle()
    }

    @Test func `leaves one user after a thousand logins`() {
        for _ in 0..<1_000 {
            connect()
            leave()
        }
        #expect(world.gauges.users == 1)
        #expect(world.gauges.connections == 0)
    }

    @Test func `has a user of its own while others are connected`() {
        let names = Set((0..<3).map { connect("client-\($0)") })
        #expect(names.count == 3 && names.allSatisfy { $0.hasPrefix("auto-") })
        leave("client-1")
        #expect(!names.contains(connect("client-3")))
        #expect(world.gauges.users == 3)
    }

    @Test func `gets the user of a session that has expired`() {
        let first = connect(expiry: 60)
        leave()
        connect("second")
        #expect(world.gauges.users == 2)
        world.pass(milliseconds: 61_000)
        world.settle()
        #expect(connect("third") != first)
        #expect(world.gauges.users == 2)
    }

    @Test func `gets no user to whom something belongs`() {
        // A message that waits.
        let first = connect()
        leave()
        world.begin("ann/phone")
        world.send("ann/phone", 1, to: .user(first), "late")
        world.settle()
        let second = connect()
        #expect(second != first)
        // A token.
        leave()
        world.addToken("token", user: second, rights: nil)
        let third = connect()
        #expect(![first, second].contains(third))
        #expect(world.gauges.users == 4)
    }

    private func connect(named name: String) {
        world.connect(
            "\(name)/\(name)", clean: true, expiry: 0, dialect: .mqtt5,
            claim: { .anonymous(user: $0.appendRange(name)) })
        world.settle()
    }

    @Test func `gets no name that somebody else knows`() {
        var known = ["auto-chosen", connect()]
        leave()
        for name in known {
            connect(named: name)
            world.disconnect("\(name)/\(name)")
            world.settle()
        }
        for number in 0..<4 {
            let name = connect("client-\(number)")
            #expect(!known.contains(name))
            known.append(name)
        }
        #expect(world.gauges.users == 4)
        // Who logs in with a former name is another user.
        for name in known.prefix(2) { connect(named: name) }
        #expect(world.gauges.users == 6 && world.gauges.connections == 6)
    }

    @Test func `gets a user of an earlier process`() {
        let name = connect()
        world.crash()
        world.broker.anonymousApp = World.app
        #expect(connect() != name)
        #expect(world.gauges.users == 1)
        world.crash()
        world.broker.anonymousApp = World.app
        #expect(world.gauges.users == 1)
    }

    @Test func `that is refused takes no user from the next one`() {
        connect()
        leave()
        world.limits.sessionsMaximum = 0
        connect()
        world.limits.sessionsMaximum = 10
        connect()
        #expect(world.gauges.users == 1)
    }
}

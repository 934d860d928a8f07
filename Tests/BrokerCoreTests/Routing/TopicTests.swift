// Plain topics: which filters match, and that overlapping ones deliver once.

import Primitives
import Testing

@testable import BrokerCore

@Suite struct `A topic` {
    let world = World()

    /// Whether a message on a topic comes to a session with these subscriptions.
    func matches(_ filters: [String], _ topic: String) -> Bool {
        world.begin("bob/pc", "ann/phone")
        for filter in filters { world.subscribe("ann/phone", filter) }
        world.settle()
        _ = world.lines()
        world.send("bob/pc", 0, to: .topic(topic), "x", grade: .transient, isRaw: true)
        return world.lines().contains { $0.hasPrefix("ann/phone: #-") }
    }

    // The examples of MQTT 5.0, section 4.7, and what lies beside them.
    @Test(arguments: [
        ("sport/tennis/player1/#", "sport/tennis/player1", true),
        ("sport/tennis/player1/#", "sport/tennis/player1/ranking", true),
        ("sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon", true),
        ("sport/tennis/player1/#", "sport/tennis/player2", false),
        ("sport/#", "sport", true), ("sport/#", "sports", false), ("#", "a/b/c", true),
        ("sport/tennis/+", "sport/tennis/player1", true),
        ("sport/tennis/+", "sport/tennis/player1/ranking", false),
        ("sport/+", "sport", false), ("sport/+", "sport/", true), ("+", "a", true),
        ("+/+", "/finance", true), ("/+", "/finance", true), ("+", "/finance", false),
        ("+/tennis/#", "sport/tennis", true), ("+/+/#", "a", false), ("a/+/c", "a//c", true),
        ("a/b", "a/b", true), ("a/b", "a/B", false), ("a/b", "a/b/", false), ("a//b", "a//b", true),
        ("a", "a/b", false), ("/", "/", true), ("+/+", "/", true), ("#", "/", true),
    ])
    func `matches filters as MQTT says`(filter: String, topic: String, isMatch: Bool) {
        #expect(matches([filter], topic) == isMatch)
    }

    // Where a topic led is remembered: filters that come and go in between have to count.
    @Test func `that came before is heard by who asks for it later, and by nobody afterwards`() {
        world.begin("bob/pc", "ann/phone", "eve/pc")
        func receivers(_ topic: String) -> [String] {
            _ = world.lines()
            world.send("bob/pc", 0, to: .topic(topic), "x", grade: .transient, isRaw: true)
            return world.lines().map { String($0.prefix { $0 != ":" }) }
        }
        // The second is too long to be remembered.
        for topic in ["a/b", "a/" + String(repeating: "b", count: 80)] {
            #expect(receivers(topic).isEmpty)
            world.subscribe("ann/phone", topic)
            world.settle()
            #expect(receivers(topic) == ["ann/phone"])
            #expect(receivers(topic) == ["ann/phone"])
            world.subscribe("eve/pc", "+/+")
            world.settle()
            #expect(receivers(topic).sorted() == ["ann/phone", "eve/pc"])
            world.unsubscribe("ann/phone", topic)
            world.settle()
            #expect(receivers(topic) == ["eve/pc"])
            #expect(receivers(topic) == ["eve/pc"])
            world.unsubscribe("eve/pc", "+/+")
            world.settle()
            #expect(receivers(topic).isEmpty)
        }
    }

    @Test func `is one among many, each with its own receiver`() {
        // More than are remembered at a time, so that they push each other out, twice over.
        let topics = (0..<600).map { "site/\($0 % 60)/sensor\($0)" }
        world.begin("bob/pc", "ann/phone", "eve/pc")
        for (index, topic) in topics.enumerated() where index % 3 != 0 {
            world.subscribe(index % 3 == 1 ? "ann/phone" : "eve/pc", topic)
        }
        world.settle()
        _ = world.lines()
        for _ in 0..<2 {
            for (index, topic) in topics.enumerated() {
                world.send("bob/pc", 0, to: .topic(topic), "x", grade: .transient, isRaw: true)
                let receivers = world.lines().map { String($0.prefix { $0 != ":" }) }
                #expect(receivers == [[], ["ann/phone"], ["eve/pc"]][index % 3])
            }
        }
    }

    @Test func `that begins with a dollar sign is an address and no topic`() {
        world.begin("bob/pc", "ann/phone")
        world.subscribe("ann/phone", "#")
        world.subscribe("ann/phone", "$u/bob", id: 2)
        world.settle()
        world.send("bob/pc", 1, to: .topic("$u/ann"), "x")
        #expect(
            world.lines() == [
                "ann/phone: response 2, notAuthorized", "ann/phone: response 1, success",
                "bob/pc: result 1, topicNameInvalid",
            ])
    }

    @Test func `filter with wildcards does not read messages to users`() {
        world.begin("bob/pc", "ann/phone", "eve/pc")
        world.subscribe("eve/pc", "#")
        world.subscribe("eve/pc", "+/ann")
        world.settle()
        _ = world.lines()
        world.send("bob/pc", 1, to: .user("ann"), "private")
        #expect(world.lines() == ["ann/phone: #1 \"private\" from bob"])
    }

    @Test func `that several filters match is delivered once, at the highest grade`() {
        world.begin("bob/pc", "ann/phone", "carl/pc")
        world.subscribe("ann/phone", "a/b", grade: .transient)
        world.subscribe("ann/phone", "a/+", grade: .durable)
        world.subscribe("ann/phone", "#", grade: .transient)
        world.subscribe("carl/pc", "a/#", grade: .transient)
        world.settle()
        _ = world.lines()
        world.send("bob/pc", 1, to: .topic("a/b"), "x", isRaw: true)
        #expect(
            world.lines().sorted() == [
                "ann/phone: #1 \"x\" from bob on a/b", "carl/pc: #- \"x\" from bob on a/b",
            ])
        world.send("bob/pc", 0, to: .topic("a/b"), "y", grade: .transient, isRaw: true)
        #expect(
            world.lines().sorted() == [
                "ann/phone: #- \"y\" from bob on a/b", "carl/pc: #- \"y\" from bob on a/b",
            ])
    }

    @Test func `comes in the lower of the send's grade and the subscription's`() {
        world.begin("bob/pc", "ann/0", "ann/1", "ann/2")
        world.subscribe("ann/0", "t", grade: .transient)
        world.subscribe("ann/1", "t", grade: .durable)
        world.subscribe("ann/2", "t", grade: .once)
        world.settle()
        _ = world.lines()
        world.send("bob/pc", 1, to: .topic("t"), "x", grade: .once, isRaw: true)
        world.settle()
        #expect(
            world.lines().sorted() == [
                "ann/0: #- \"x\" from bob on t", "ann/1: #1 \"x\" from bob on t",
                "ann/2: #1 \"x\" from bob on t, once", "bob/pc: result 1, sent",
            ])
    }

    @Test func `that nobody subscribes to is accepted, and the sender told so`() {
        world.begin("bob/pc")
        world.send("bob/pc", 1, to: .topic("t"), "x", isRaw: true)
        #expect(world.lines() == ["bob/pc: result 1, noMatchingSubscribers"])
        world.send("bob/pc", 1, to: .topic("t"), "x", isRaw: true)
        #expect(world.lines() == ["bob/pc: result 1, noMatchingSubscribers"])
    }

    @Test func `comes back to the sender who subscribed to it`() {
        world.begin("bob/pc")
        world.subscribe("bob/pc", "t")
        world.settle()
        _ = world.lines()
        world.send("bob/pc", 1, to: .topic("t"), "x", isRaw: true)
        #expect(world.lines() == ["bob/pc: #1 \"x\" from bob on t"])
    }

    @Test func `waits for a subscriber who is away`() {
        world.begin("bob/pc", "ann/phone")
        world.subscribe("ann/phone", "t")
        world.settle()
        world.lose("ann/phone")
        world.send("bob/pc", 1, to: .topic("t"), "x", isRaw: true)
        world.settle()
        world.connect("ann/phone")
        world.settle()
        #expect(world.lines().last == "ann/phone: #1 \"x\" from bob on t")
    }

    @Test func `subscription is confirmed when it is committed, and so is its end`() {
        world.begin("ann/phone")
        world.subscribe("ann/phone", "t", id: 5)
        #expect(world.lines() == [])
        world.commit()
        world.unsubscribe("ann/phone", "t", id: 6)
        // That it has none is true for good only when its end is committed.
        world.unsubscribe("ann/phone", "t", id: 7)
        #expect(world.lines() == ["ann/phone: response 5, success"])
        world.commit()
        #expect(
            world.lines() == [
                "ann/phone: response 6, success", "ann/phone: response 7, noSubscriptionExisted",
            ])
        #expect(!matches([], "t"))
    }

    @Test func `subscription of a session in memory is confirmed at once`() {
        world.connect("ann/phone", expiry: 0)
        world.settle()
        _ = world.lines()
        world.subscribe("ann/phone", "t", id: 5)
        #expect(world.lines() == ["ann/phone: response 5, success"])
        #expect(!world.hasBatch)
    }

    @Test func `subscription that is repeated takes the new grade, and counts once`() {
        world.begin("bob/pc", "ann/phone")
        world.subscribe("ann/phone", "t", grade: .once)
        world.subscribe("ann/phone", "t", grade: .transient)
        world.settle()
        #expect(world.gauges.subscriptions == 1)
        world.crash()
        world.begin("bob/pc", "ann/phone")
        #expect(world.gauges.subscriptions == 1)
        world.send("bob/pc", 1, to: .topic("t"), "x", isRaw: true)
        #expect(
            world.lines() == ["ann/phone: #- \"x\" from bob on t", "bob/pc: result 1, sent"])
    }

    @Test func `subscription that is repeated at the limit is still taken`() {
        world.begin("ann/phone")
        world.limits.subscriptionsMaximum = 1
        world.subscribe("ann/phone", "t", grade: .once)
        world.subscribe("ann/phone", "t", grade: .durable, id: 2)
        world.subscribe("ann/phone", "u", id: 3)
        world.settle()
        #expect(
            world.lines() == [
                "ann/phone: response 3, quotaExceeded", "ann/phone: response 1, success",
                "ann/phone: response 2, success",
            ])
    }

    @Test func `of too many levels is refused`() {
        world.begin("bob/pc")
        world.limits.topicLevelsMaximum = 3
        world.subscribe("bob/pc", "a/b/c/d", id: 1)
        world.send("bob/pc", 1, to: .topic("a/b/c/d"), "x", isRaw: true)
        world.send("bob/pc", 2, to: .topic("a/b/c"), "x", isRaw: true)
        #expect(
            world.lines() == [
                "bob/pc: response 1, topicFilterInvalid", "bob/pc: result 1, topicNameInvalid",
                "bob/pc: result 2, noMatchingSubscribers",
            ])
    }

    @Test func `subscriptions end with their session, and the tree is empty again`() {
        world.begin("ann/phone", "ann/watch", expiry: 10)
        let filters = ["a/b/c", "a/+/c", "a/#", "#", "+/+", "/", "a//b"]
        for name in ["ann/phone", "ann/watch"] {
            for filter in filters { world.subscribe(name, filter) }
        }
        world.settle()
        world.lose("ann/phone", "ann/watch")
        world.pass(seconds: 10)
        #expect(world.gauges.sessions == 0)
        #expect(world.gauges.subscriptions == 0)
        let isEmpty = world.broker.registry.apps[Index(place: 0)].topics.isEmpty
        #expect(isEmpty)
    }
}

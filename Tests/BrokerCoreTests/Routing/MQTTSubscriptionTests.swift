// What MQTT clients subscribe to: options, identifiers, overlaps, addresses, shares.

import Primitives
import Testing

@testable import BrokerCore

@Suite struct `A subscription of an MQTT client` {
    let world = World()

    init() {
        world.beginMQTT("bob/pc", "ann/phone")
        _ = world.lines()
    }

    @Test func `is answered for all filters of its packet at once`() {
        let codes = world.subscribeMQTT("ann/phone", "a", "$u/bob", "b/#", grade: .durable)
        #expect(codes == [1, 0x87, 1])
        #expect(world.lines() == ["ann/phone: subscribe 1"])
    }

    @Test func `does not bring back what its session sends, if it does not want to`() {
        world.subscribeMQTT("bob/pc", "t", options: .noLocal)
        world.subscribeMQTT("ann/phone", "t")
        _ = world.lines()
        world.publish("bob/pc", 1, "t", "x")
        world.publish("bob/pc", "t", "y", grade: .transient)
        #expect(
            world.lines() == [
                "ann/phone: #1 \"x\" from bob on t", "ann/phone: #- \"y\" from bob on t",
            ])
    }

    @Test func `tells of a retained message as it was published, if it wants to`() {
        world.subscribeMQTT("ann/phone", "t")
        world.subscribeMQTT("bob/pc", "t", options: .retainsAsPublished)
        _ = world.lines()
        world.publish("ann/phone", 1, "t", "x", isRetained: true)
        #expect(
            world.lines() == [
                "ann/phone: #1 \"x\" from ann on t", "bob/pc: #1 \"x\" from ann on t, retained",
            ])
    }

    @Test func `brings a message once, however many filters match`() {
        world.subscribeMQTT("ann/phone", "t", grade: .transient)
        world.subscribeMQTT("ann/phone", "#", grade: .durable)
        _ = world.lines()
        world.publish("bob/pc", 1, "t", "x", grade: .once)
        world.settle()
        #expect(world.lines(of: "ann/phone") == ["#1 \"x\" from bob on t"])
    }

    @Test(arguments: [Grade.transient, .durable, .once])
    func `with an identifier of its own is told of beside the others`(grade: Grade) {
        world.subscribeMQTT("ann/phone", "t/u", grade: .durable, identifier: 5)
        world.subscribeMQTT("ann/phone", "+/u", identifier: 6)
        world.subscribeMQTT("ann/phone", "t/#", grade: .transient, identifier: 6)
        world.subscribeMQTT("ann/phone", "#", grade: .durable)
        world.subscribeMQTT("ann/phone", "t/u/#", grade: .durable, identifier: 268_435_455)
        world.subscribeMQTT("ann/phone", "t", "u/#", "$share/s/t/u", identifier: 7)
        world.unsubscribe("ann/phone", "$share/s/t/u")
        world.subscribeMQTT("bob/pc", "t/u", grade: .durable, identifier: 9)
        world.settle()
        _ = world.lines()
        world.publish("bob/pc", grade == .transient ? 0 : 1, to: .topic("t/u"), "x", grade: grade)
        world.settle()
        let number = grade == .transient ? "#-" : "#1"
        let once = grade == .once ? ", once" : ""
        #expect(
            world.lines(of: "ann/phone") == [
                "\(number) \"x\" from bob on t/u\(once), by 5 and 6 and 268435455"
            ])
    }

    @Test func `is told of beside the others after the broker's end, unless it has ended`() {
        world.subscribeMQTT("ann/phone", "t", grade: .durable, identifier: 5)
        world.subscribeMQTT("ann/phone", "+", grade: .durable, identifier: 6)
        world.subscribeMQTT("ann/phone", "#", grade: .durable, identifier: 7)
        world.lose("ann/phone")
        for number in 1...2 { world.publish("bob/pc", UInt16(number), "t", "\(number)") }
        world.settle()
        world.crash()
        world.connect("ann/phone", expiry: 3600, window: 1, dialect: .mqtt5)
        world.settle()
        #expect(world.lines(of: "ann/phone").last == "#1 \"1\" from bob on t, by 5 and 6 and 7")
        world.unsubscribe("ann/phone", "+")
        world.unsubscribe("ann/phone", "#")
        world.settle()
        _ = world.lines()
        world.answer("ann/phone", .accepted, 1)
        world.settle()
        #expect(world.lines(of: "ann/phone") == ["#2 \"2\" from bob on t, by 5"])
    }

    @Test func `outlives the broker with its options and identifier`() {
        world.subscribeMQTT("ann/phone", "t", grade: .durable, identifier: 5)
        world.crash()
        world.beginMQTT("ann/phone", "bob/pc")
        world.publish("bob/pc", 1, "t", "x")
        #expect(world.unnumberedLines() == ["ann/phone: \"x\" from bob on t, by 5"])
    }

    // MARK: - Addresses

    @Test func `is needed to receive one's own messages`() {
        world.publish("bob/pc", 1, to: .user("ann"), "waits")
        world.settle()
        #expect(world.lines(of: "ann/phone") == [])
        #expect(world.subscribeMQTT("ann/phone", "$u/ann", grade: .durable) == [1])
        #expect(
            world.lines(of: "ann/phone") == ["subscribe 1", "#1 \"waits\" from bob"])
        world.publish("bob/pc", 2, to: .user("ann"), "hi")
        #expect(world.lines(of: "ann/phone") == ["#2 \"hi\" from bob"])
    }

    @Test func `inherits what waits behind what the session has, in one transaction`() {
        world.subscribeMQTT("ann/phone", "t", grade: .durable)
        world.lose("ann/phone")
        world.publish("bob/pc", 1, "t", "topic")
        for identifier in 2...4 as ClosedRange<UInt16> {
            world.publish("bob/pc", identifier, to: .user("ann"), "msg \(identifier)")
        }
        world.settle()
        world.connect("ann/phone", expiry: 3600, dialect: .mqtt5)
        world.settle()
        _ = world.lines()
        world.subscribeMQTT("ann/phone", "$u/ann", grade: .durable)
        let texts = world.lines(of: "ann/phone").filter { $0.hasPrefix("#") }
        #expect(
            texts.map { String($0.split(separator: "\"")[1]) } == ["msg 2", "msg 3", "msg 4"])
        world.crash()
        world.connect("ann/phone", expiry: 3600, dialect: .mqtt5)
        world.settle()
        #expect(world.lines(of: "ann/phone").filter { $0.hasPrefix("#") }.count == 4)
    }

    @Test func `inherits what waits, and not what the store takes back meanwhile`() {
        world.publish("bob/pc", 1, to: .user("ann"), "taken back")
        world.beginCommit()
        world.store.isFull = true
        world.subscribe("ann/phone", "$u/ann")
        world.finishCommit()
        world.settle()
        #expect(world.gauges.queuedMessages == 0)
        #expect(world.lines(of: "bob/pc") == ["accepted 1, quotaExceeded"])
    }

    @Test func `ends with the messages waiting again`() {
        world.subscribeMQTT("ann/phone", "$u/ann", grade: .durable)
        world.unsubscribe("ann/phone", "$u/ann")
        world.settle()
        _ = world.lines()
        world.publish("bob/pc", 1, to: .user("ann"), "waits")
        world.settle()
        #expect(world.lines(of: "ann/phone") == [])
        #expect(world.gauges.queuedMessages == 1)
    }

    @Test func `joins a group where the app lets it, whatever others do`() {
        world.begin("eve/pad")
        let group = world.makeGroup(owner: "eve/pad")
        world.limits.appPolicies[Array("app".utf8)] = AppPolicy()
        world.limits.appPolicies[Array("app".utf8)]!.joinsGroupsBySubscribing = false
        #expect(world.subscribeMQTT("ann/phone", "$g/\(group)") == [0x87])
        world.limits.appPolicies[Array("other".utf8)] = world.limits.appPolicies[Array("app".utf8)]
        world.limits.appPolicies[Array("app".utf8)] = nil
        #expect(world.subscribeMQTT("ann/phone", "$g/\(group)", grade: .durable) == [1])
    }

    @Test func `joins a group for good: told when it is stored, whatever the session is`() {
        world.begin("eve/pad")
        let group = world.makeGroup(owner: "eve/pad")
        world.beginMQTT("zoe/tab", clean: true, expiry: 0)
        world.step(
            subscribe: ["a/b", "$g/\(group)", "c"], under: 1, on: "zoe/tab", grade: .durable)
        #expect(world.lines(of: "zoe/tab") == [])
        world.settle()
        #expect(world.lines(of: "zoe/tab").count == 1)
        // Plain topics of such a session are stored nowhere, and need not wait.
        world.step(subscribe: ["d"], under: 2, on: "zoe/tab", grade: .durable)
        #expect(world.lines(of: "zoe/tab").count == 1)
    }

    @Test func `may be to everybody's messages, and to one's own groups`() {
        world.begin("eve/pad")
        world.limits.appPolicy.joinsGroupsBySubscribing = false
        let group = world.makeGroup(owner: "eve/pad")
        #expect(world.subscribeMQTT("ann/phone", "$b", "$g/\(group)") == [2, 0x87])
        world.groups("ann/phone") { .join($0.appendRange(group)) }
        world.settle()
        #expect(world.subscribeMQTT("ann/phone", "$g/\(group)", grade: .durable) == [1])
        _ = world.lines()
        world.send("eve/pad", 1, to: .group(group), "to the group")
        world.send("eve/pad", 2, to: .everybody, "to all")
        #expect(
            world.lines(of: "ann/phone") == [
                "#1 \"to the group\" from eve by group \(group)",
                "#2 \"to all\" from eve by broadcast",
            ])
        world.groups("eve/pad") { bytes in
            .kick(bytes.appendRange(group), user: bytes.appendRange("ann"))
        }
        world.settle()
        _ = world.lines()
        world.send("eve/pad", 3, to: .group(group), "without ann")
        #expect(world.lines(of: "ann/phone") == [])
    }

    @Test func `to a group joins it, where its owner and the operator allow that`() {
        world.begin("eve/pad")
        let open = world.makeGroup(owner: "eve/pad")
        #expect(world.subscribeMQTT("ann/phone", "$g/\(open)", grade: .durable) == [1])
        world.crash()
        world.begin("eve/pad")
        world.beginMQTT("ann/phone")
        world.send("eve/pad", 1, to: .group(open), "hello")
        #expect(world.lines(of: "ann/phone").filter { $0.contains("hello") }.count == 1)
        world.groups("eve/pad") { bytes in
            .setAllowed(bytes.appendRange(open), allowed: bytes.appendList(["eve"]))
        }
        world.groups("eve/pad", id: 2) { bytes in
            .kick(bytes.appendRange(open), user: bytes.appendRange("ann"))
        }
        world.settle()
        #expect(world.subscribeMQTT("ann/phone", "$g/\(open)") == [0x87])
        #expect(world.subscribeMQTT("ann/phone", "$g/nosuchgroup") == [0x87])
    }

    @Test func `has a filter of bounded length and depth`() {
        world.limits.filterBytesMaximum = 8
        world.limits.topicLevelsMaximum = 3
        #expect(
            world.subscribeMQTT("ann/phone", "12345678", "123456789", "a/b/c", "a/b/c/d")
                == [2, 0x8F, 2, 0x8F])
    }

    @Test func `leaves the session of another dialect alone`() {
        world.subscribeMQTT("ann/phone", "$u/ann")
        world.lose("ann/phone")
        world.publish("bob/pc", 1, to: .user("ann"), "msg")
        world.settle()
        _ = world.lines()
        world.connect("ann/phone")
        world.settle()
        #expect(
            world.lines(of: "ann/phone") == ["accepted, new", "#1 \"msg\" from bob"])
    }

    // MARK: - Shares

    @Test func `that is shared brings each message to one of its sessions, in turn`() {
        world.beginMQTT("eve/pad")
        for name in ["ann/phone", "eve/pad"] {
            world.subscribeMQTT(name, "$share/workers/jobs/+", grade: .durable)
        }
        world.subscribeMQTT("bob/pc", "$share/others/jobs/#", grade: .durable)
        _ = world.lines()
        for number in 1...4 as ClosedRange<UInt16> {
            world.publish("bob/pc", number, "jobs/\(number)", "x")
        }
        let receivers = world.lines().map { $0.split(separator: ":")[0] }
        #expect(receivers.filter { $0 == "ann/phone" }.count == 2)
        #expect(receivers.filter { $0 == "eve/pad" }.count == 2)
        #expect(receivers.filter { $0 == "bob/pc" }.count == 4)
    }

    @Test func `that is shared passes by who is away, while somebody is there`() {
        world.beginMQTT("eve/pad")
        for name in ["ann/phone", "eve/pad"] {
            world.subscribeMQTT(name, "$share/w/t", grade: .durable)
        }
        world.lose("ann/phone")
        _ = world.lines()
        for number in 1...3 as ClosedRange<UInt16> { world.publish("bob/pc", number, "t", "x") }
        #expect(world.lines(of: "eve/pad").count == 3)
        world.lose("eve/pad")
        world.publish("bob/pc", 4, "t", "waits")
        world.publish("bob/pc", "t", "is lost", grade: .transient)
        world.settle()
        world.crash()
        world.beginMQTT("bob/pc")
        world.connect("ann/phone", expiry: 3600, dialect: .mqtt5)
        world.connect("eve/pad", expiry: 3600, dialect: .mqtt5)
        world.settle()
        #expect(world.lines().filter { $0.contains("waits") }.count == 1)
    }

    @Test func `that was shared ends with its last session`() {
        world.subscribeMQTT("ann/phone", "$share/w/t", grade: .durable)
        world.unsubscribe("ann/phone", "$share/w/t")
        world.settle()
        _ = world.lines()
        world.publish("bob/pc", 1, "t", "x")
        #expect(world.lines() == ["bob/pc: accepted 1, noMatchingSubscribers"])
    }
}

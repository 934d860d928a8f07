// What the devices of a user hear when another of its devices has read.

import Primitives
import Testing

@testable import BrokerCore

@Suite struct `A read mark` {
    let world = World()

    init() {
        world.begin("ann/1", "ann/2", "bob/pc")
        for number in 1...3 as ClosedRange<UInt64> {
            world.send("bob/pc", number, to: .user("ann"), "x", isKept: true)
        }
        world.settle()
        for device in ["ann/1", "ann/2"] { world.acknowledge(device, through: 3) }
        world.settle()
        _ = world.lines()
    }

    private func heard() -> [String] {
        world.settle()
        return world.lines().filter { !$0.contains(": response ") }
    }

    private func event(_ text: String, to device: String) -> String {
        #"\#(device): #- "{"event":"UNREAD_MESSAGES_COUNT_UPDATE",\#(text)}" from ann "#
            + "on $unread/ann"
    }

    @Test func `is told to the other devices that subscribe, once it is on disk`() {
        for device in ["ann/1", "ann/2"] { world.subscribe(device, "$unread/ann") }
        #expect(heard() == [])
        world.markRead("ann/1", of: .user("bob"), through: 2)
        #expect(world.lines() == [], "not before the commit")
        #expect(heard() == [event(#""user":"bob","last":3,"read":2,"unread":1"#, to: "ann/2")])
        world.markRead("ann/2", of: .user("bob"), through: 3)
        #expect(heard() == [event(#""user":"bob","last":3,"read":3,"unread":0"#, to: "ann/1")])
        world.markRead("ann/2", of: .user("bob"), through: 1)
        #expect(heard() == [], "a lower number changes nothing")
        #expect(world.counters.unreadEvents == 2)
    }

    @Test func `of a group is told with its id, and the last one of a batch stands for all`() {
        world.subscribe("ann/2", "$unread/ann")
        let group = world.makeGroup(owner: "bob/pc", members: ["ann/1"])
        for number in 4...5 as ClosedRange<UInt64> {
            world.send("bob/pc", number, to: .group(group), "x", isKept: true)
        }
        world.settle()
        for device in ["ann/1", "ann/2"] { world.acknowledge(device, through: 5) }
        _ = heard()
        world.markRead("ann/1", of: .group(group), through: 1)
        world.markRead("ann/1", of: .group(group), through: 2)
        #expect(
            heard() == [
                event(#""group":"\#(group)","last":2,"read":2,"unread":0"#, to: "ann/2")
            ])
    }

    @Test func `costs nothing where nobody subscribes`() {
        world.markRead("ann/1", of: .user("bob"), through: 3)
        #expect(heard() == [])
        #expect(world.counters.unreadEvents == 0)
    }

    @Test func `is told to nobody else`() {
        for filter in ["$unread/ann", "$unread/+", "$unread/#", "$unread/", "$unread"] {
            world.subscribe("bob/pc", filter)
            world.settle()
            #expect(world.lines() == ["bob/pc: response 1, notAuthorized"], "\(filter)")
        }
        world.subscribe("bob/pc", "#")
        world.subscribe("ann/2", "$unread/ann")
        _ = heard()
        world.markRead("ann/1", of: .user("bob"), through: 3)
        #expect(heard().count == 1)
        world.send("bob/pc", 9, to: .topic("$unread/ann"), "x", isRaw: true)
        world.settle()
        #expect(world.lines() == ["bob/pc: result 9, topicNameInvalid"])
    }

    @Test func `of a conversation that ends before the commit is told to nobody`() {
        world.subscribe("ann/2", "$unread/ann")
        let group = world.makeGroup(owner: "bob/pc", members: ["ann/1"])
        world.send("bob/pc", 4, to: .group(group), "x", isKept: true)
        world.settle()
        for device in ["ann/1", "ann/2"] { world.acknowledge(device, through: 4) }
        _ = heard()
        world.markRead("ann/1", of: .group(group), through: 1)
        #expect(world.operate(group, .leave(user: Array("ann".utf8))) == .success)
        #expect(heard().filter { $0.contains("UNREAD") } == [])
    }
}

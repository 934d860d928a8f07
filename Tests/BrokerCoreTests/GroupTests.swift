// Groups: who may send and receive, who may come in, and what members are told.

import Primitives
import Testing

@testable import BrokerCore

@Suite struct `A group` {
    let world = World()

    func lines() -> [String] {
        world.settle()
        return world.lines()
    }

    @Test func `message reaches the members' sessions, but not the one it came from`() {
        world.begin("ann/phone", "ann/watch", "bob/pc", "carl/pc")
        let group = world.makeGroup(owner: "ann/phone", members: ["bob/pc"])
        world.send("ann/phone", 1, to: .group(group), "hi")
        #expect(
            lines().map { $0.replacing(group, with: "G") }.filter { $0.contains("hi") }.sorted()
                == [
                    "ann/watch: #2 \"hi\" from ann by group G",
                    "bob/pc: #1 \"hi\" from ann by group G",
                ])
    }

    @Test func `message waits for a member who has no session`() {
        world.begin("ann/phone", "bob/pc")
        let group = world.makeGroup(owner: "ann/phone", members: ["bob/pc"])
        world.disconnect("bob/pc", expiry: 0)
        _ = lines()
        world.send("ann/phone", 1, to: .group(group), "hi")
        world.crash()
        world.begin("ann/phone")
        world.send("ann/phone", 1, to: .group(group), "hi")
        world.settle()
        world.connect("bob/new")
        #expect(lines().last == "bob/new: #1 \"hi\" from ann by group \(group)")
    }

    @Test func `takes sends of members only, and of nobody where it does not exist`() {
        world.begin("ann/phone", "bob/pc")
        let group = world.makeGroup(owner: "ann/phone")
        world.send("bob/pc", 1, to: .group(group), "hi")
        world.send("bob/pc", 2, to: .group("none"), "hi")
        #expect(
            world.lines() == [
                "bob/pc: result 1, notAuthorized", "bob/pc: result 2, topicNameInvalid",
            ])
    }

    @Test func `with a list lets in who is on it, by an answer after the commit`() {
        world.begin("ann/phone", "bob/pc", "carl/pc")
        let group = world.makeGroup(owner: "ann/phone", allowed: ["bob"])
        world.groups("carl/pc") { .join($0.appendRange(group)) }
        #expect(world.lines() == ["carl/pc: response 1, notAuthorized"])
        world.groups("bob/pc") { .join($0.appendRange(group)) }
        #expect(
            world.lines() == ["ann/phone: #1 joined from bob by groupEvent \(group)"])
        #expect(lines() == ["bob/pc: response 1, success"])
    }

    @Test func `member who is kicked is told, keeps the mail it has and gets no more`() {
        world.begin("ann/phone", "bob/pc")
        let group = world.makeGroup(owner: "ann/phone", members: ["bob/pc"])
        world.lose("bob/pc")
        world.send("ann/phone", 1, to: .group(group), "before")
        world.settle()
        world.groups("ann/phone", id: 9) {
            .kick($0.appendRange(group), user: $0.appendRange("bob"))
        }
        world.send("ann/phone", 2, to: .group(group), "after")
        world.settle()
        _ = world.lines()
        world.connect("bob/pc")
        #expect(
            lines() == [
                "bob/pc: accepted, present", "bob/pc: #1 \"before\" from ann by group \(group)",
                "bob/pc: #2 from ann by kicked \(group)",
            ])
    }

    @Test func `answers a kick with its own reason, and only its owner's`() {
        world.begin("ann/phone", "bob/pc", "carl/pc")
        let group = world.makeGroup(owner: "ann/phone", members: ["bob/pc", "carl/pc"])
        world.groups("carl/pc", id: 8) { .kick($0.appendRange(group), user: $0.appendRange("bob")) }
        world.groups("ann/phone", id: 9) {
            .kick($0.appendRange(group), user: $0.appendRange("ann"))
        }
        world.groups("ann/phone", id: 10) {
            .kick($0.appendRange(group), user: $0.appendRange("bob"))
        }
        #expect(
            lines().filter { $0.contains("response") } == [
                "carl/pc: response 8, notAuthorized", "ann/phone: response 9, notAuthorized",
                "ann/phone: response 10, kickedOut",
            ])
    }

    @Test func `keeps out who was banned`() {
        world.begin("ann/phone", "bob/pc", "carl/pc")
        let group = world.makeGroup(owner: "ann/phone", members: ["bob/pc", "carl/pc"])
        world.groups("ann/phone") { .ban($0.appendRange(group), user: $0.appendRange("bob")) }
        world.settle()
        world.crash()
        world.begin("ann/phone", "bob/pc", "carl/pc")
        _ = lines()
        world.groups("bob/pc", id: 2) { .join($0.appendRange(group)) }
        world.groups("carl/pc", id: 3) { .leave($0.appendRange(group)) }
        world.settle()
        world.groups("carl/pc", id: 4) { .join($0.appendRange(group)) }
        #expect(
            lines().filter { $0.contains("response") } == [
                "bob/pc: response 2, notAuthorized", "carl/pc: response 3, success",
                "carl/pc: response 4, success",
            ])
    }

    @Test func `is there again after a restart, with its members`() {
        world.begin("ann/phone", "bob/pc")
        let group = world.makeGroup(owner: "ann/phone", members: ["bob/pc"])
        world.crash()
        world.begin("ann/phone", "bob/pc")
        world.send("ann/phone", 1, to: .group(group), "hi")
        world.settle()
        #expect(world.lines().contains { $0.hasPrefix("bob/pc") && $0.contains("\"hi\"") })
    }

    @Test func `is heard by a member's new device, and not by who left`() {
        world.begin("ann/phone", "bob/pc")
        let group = world.makeGroup(owner: "ann/phone", members: ["bob/pc"])
        world.begin("bob/watch")
        world.send("ann/phone", 1, to: .group(group), "hi")
        #expect(lines().filter { $0.contains("\"hi\"") }.count == 2)
        world.groups("bob/pc") { .leave($0.appendRange(group)) }
        _ = lines()
        world.send("ann/phone", 2, to: .group(group), "there")
        #expect(lines() == ["ann/phone: result 2, noMatchingSubscribers"])
    }
}

// Groups: who may send and receive, who may come in, what is remembered, and what members are told.

import BrokerTerms
import Testing

@testable import BrokerCore

@Suite struct `A group` {
    let world = World()

    init() {
        world.begin("ann/phone", "bob/pc", "carl/pc")
    }

    private func lines() -> [String] {
        world.settle()
        return world.lines()
    }

    private func answers() -> [String] {
        lines().filter { $0.contains("response") }
    }

    private func join(_ name: String, _ group: String, id: UInt64? = nil) {
        world.groups(name, id: id) { .join($0.appendRange(group)) }
    }

    private func leave(_ name: String, _ group: String, id: UInt64? = nil) {
        world.groups(name, id: id) { .leave($0.appendRange(group)) }
    }

    private func kick(_ name: String, _ group: String, _ user: String, id: UInt64? = nil) {
        world.groups(name, id: id) { .kick($0.appendRange(group), user: $0.appendRange(user)) }
    }

    private func ban(_ name: String, _ group: String, _ user: String, id: UInt64? = nil) {
        world.groups(name, id: id) { .ban($0.appendRange(group), user: $0.appendRange(user)) }
    }

    // MARK: - What its list and its text may take

    /// A list of so many names takes 58 bytes for each.
    private func names(_ count: Int) -> [String] { (0..<count).map { "\($0 + 1_000_000_000)" } }

    private func setAllowed(_ group: String, _ names: [String]) -> ReasonCode {
        world.operate(group, .setAllowed(names.map { Array($0.utf8) }))
    }

    @Test func `has a list and a text as long as its owner's others leave room for`() {
        world.showsNotes = true
        world.limits.groupBytesPerUserMaximum = 1_000
        let group = world.operatorGroup(owner: "ann", allowed: names(10))
        #expect(setAllowed(group, names(17)) == .success)
        #expect(setAllowed(group, names(18)) == .quotaExceeded)
        #expect(world.operate(group, .setMeta([UInt8](repeating: 1, count: 9))) == .success)
        #expect(
            world.operate(group, .setMeta([UInt8](repeating: 1, count: 10))) == .quotaExceeded)
        _ = lines()
        world.createGroup("ann/phone", key: 8, meta: "x", id: 3)
        let refused = lines()
        #expect(refused.contains("ann/phone: response 3, quotaExceeded"), "\(refused)")
        #expect(refused.contains { $0.hasPrefix("note: requestRefused") }, "\(refused)")
        #expect(world.counters.requestsOverQuota == 1)
        // Another user's are counted apart, and what gets shorter makes room.
        _ = world.operatorGroup(owner: "bob", allowed: names(17))
        #expect(setAllowed(group, names(5)) == .success)
        _ = world.operatorGroup(owner: "ann", allowed: names(11))
    }

    @Test(arguments: [false, true])
    func `counts for its owner, also where the owner has left it`(afterRestart: Bool) {
        world.limits.groupBytesPerUserMaximum = 1_000
        world.limits.groupsPerUserMaximum = 3
        let group = world.operatorGroup(owner: "ann", allowed: names(10))
        world.addUser("bob")
        #expect(world.operate(group, .join(user: Array("bob".utf8))) == .success)
        #expect(world.operate(group, .leave(user: Array("ann".utf8))) == .success)
        if afterRestart {
            world.settle()
            world.crash()
        }
        #expect(setAllowed(group, names(18)) == .quotaExceeded)
        #expect(setAllowed(group, []) == .success)
        for _ in 0..<2 { _ = world.operatorGroup(owner: "ann") }
        world.begin("ann/phone")
        world.createGroup("ann/phone", key: 8, id: 3)
        #expect(lines().contains("ann/phone: response 3, quotaExceeded"))
    }

    @Test func `has them as long as those of its app leave room for, also after a restart`() {
        world.limits.groupBytesPerAppMaximum = 1_000
        let first = world.operatorGroup(owner: "ann", allowed: names(10))
        let other = world.operatorGroup(owner: "bob", allowed: names(7))
        #expect(setAllowed(other, names(8)) == .quotaExceeded)
        world.settle()
        world.crash()
        #expect(setAllowed(other, names(8)) == .quotaExceeded)
        world.limits.groupBytesPerAppMaximum = 100
        #expect(setAllowed(first, names(9)) == .success)
        #expect(setAllowed(first, names(10)) == .quotaExceeded)
        world.limits.groupBytesPerAppMaximum = 500
        #expect(world.operate(first, .leave(user: Array("ann".utf8))) == .success)
        #expect(setAllowed(other, names(8)) == .success)
    }

    // MARK: - Made and ended

    @Test func `is made by an answer after the commit, and its maker is in it`() {
        world.createGroup("ann/phone", key: 7, id: 3)
        #expect(world.lines() == [])
        #expect(lines() == ["ann/phone: response 3, success"])
        let group = world.lastBody
        #expect(group.utf8.count == 13)
        world.send("ann/phone", 1, to: .group(group), "hi")
        #expect(lines() == ["ann/phone: result 1, noMatchingSubscribers"])
    }

    @Test func `is made once, however often the request comes`() {
        world.createGroup("ann/phone", key: 7)
        // The connection is lost before the answer, and the request is repeated.
        world.lose("ann/phone")
        world.connect("ann/phone")
        world.createGroup("ann/phone", key: 7, id: 2)
        world.settle()
        let group = world.lastBody
        world.crash()
        world.begin("ann/phone", "bob/pc")
        world.createGroup("ann/phone", key: 7, id: 3)
        world.settle()
        #expect(world.lastBody == group)
        #expect(world.gauges.groups == 1)
        world.createGroup("ann/phone", key: 8)
        world.createGroup("bob/pc", key: 7)
        world.settle()
        #expect(world.gauges.groups == 3)
    }

    @Test func `is refused where it breaks a limit`() {
        world.limits.groupsPerUserMaximum = 1
        world.createGroup("ann/phone", key: 1, meta: String(repeating: "x", count: 5121))
        world.createGroup("ann/phone", key: 2, title: String(repeating: "x", count: 129))
        let many = (0...1000).map { "u\($0)" }
        world.createGroup("ann/phone", key: 3, allowed: many)
        world.createGroup("ann/phone", key: 4, meta: String(repeating: "x", count: 5120), id: 2)
        world.createGroup("ann/phone", key: 5, id: 3)
        #expect(
            lines() == [
                "ann/phone: response 1, packetTooLarge", "ann/phone: response 1, packetTooLarge",
                "ann/phone: response 1, quotaExceeded", "ann/phone: response 3, quotaExceeded",
                "ann/phone: response 2, success",
            ])
        world.limits.groupsPerAppMaximum = 1
        world.createGroup("bob/pc", key: 1)
        #expect(lines() == ["bob/pc: response 1, quotaExceeded"])
        #expect(world.counters.requestsRefused == 5)
    }

    @Test func `is not made, and takes nobody in, while the store is full`() {
        let group = world.makeGroup(owner: "ann/phone")
        world.fillStore()
        world.createGroup("ann/phone", key: 1)
        join("bob/pc", group)
        #expect(
            world.lines() == [
                "ann/phone: response 1, quotaExceeded", "bob/pc: response 1, quotaExceeded",
            ])
    }

    @Test func `ends with its last member, also after a restart`() {
        let group = world.makeGroup(owner: "ann/phone", members: ["bob/pc"])
        leave("ann/phone", group)
        _ = lines()
        #expect(world.gauges.groups == 1)
        leave("bob/pc", group, id: 2)
        #expect(answers() == ["bob/pc: response 2, success"])
        #expect(world.gauges.groups == 0)
        world.crash()
        #expect(world.gauges.groups == 0)
        world.begin("bob/pc")
        join("bob/pc", group)
        #expect(lines() == ["bob/pc: response 1, topicNameInvalid"])
    }

    // MARK: - Messages

    @Test func `message reaches the members' sessions, but not the one it came from`() {
        world.begin("ann/watch")
        let group = world.makeGroup(owner: "ann/phone", members: ["bob/pc"])
        world.send("ann/phone", 1, to: .group(group), "hi")
        #expect(
            lines().filter { $0.contains("hi") }.sorted() == [
                "ann/watch: #3 \"hi\" from ann by group \(group)",
                "bob/pc: #1 \"hi\" from ann by group \(group)",
            ])
    }

    @Test func `message waits for a member who has no session`() {
        let group = world.makeGroup(owner: "ann/phone", members: ["bob/pc"])
        world.disconnect("bob/pc", expiry: 0)
        _ = lines()
        world.send("ann/phone", 1, to: .group(group), "first")
        world.settle()
        world.crash()
        world.begin("ann/phone")
        world.send("ann/phone", 2, to: .group(group), "second")
        world.settle()
        _ = world.lines()
        world.connect("bob/new")
        world.settle()
        #expect(
            world.unnumberedLines() == [
                "bob/new: accepted, new", "bob/new: \"first\" from ann by group \(group)",
                "bob/new: \"second\" from ann by group \(group)",
            ])
    }

    @Test func `message of every grade goes to the same members`() {
        let group = world.makeGroup(owner: "ann/phone", members: ["bob/pc"])
        for (number, grade) in [(0, Grade.transient), (1, .durable), (2, .once)] {
            world.send("ann/phone", UInt64(number), to: .group(group), "hi", grade: grade)
        }
        #expect(
            lines().filter { $0.contains("\"hi\"") }.map { String($0.prefix(6)) }
                == ["bob/pc", "bob/pc", "bob/pc"])
        world.send("carl/pc", 0, to: .group(group), "hi", grade: .transient)
        #expect(world.lines() == ["carl/pc: result 0, notAuthorized"])
    }

    @Test func `takes sends of members only, and of nobody where it does not exist`() {
        let group = world.makeGroup(owner: "ann/phone")
        world.send("bob/pc", 1, to: .group(group), "hi")
        world.send("bob/pc", 2, to: .group("none"), "hi")
        #expect(
            world.lines() == [
                "bob/pc: result 1, notAuthorized", "bob/pc: result 2, topicNameInvalid",
            ])
    }

    @Test func `is heard by a member's new device, and not by who left`() {
        let group = world.makeGroup(owner: "ann/phone", members: ["bob/pc"])
        world.begin("bob/watch")
        world.send("ann/phone", 1, to: .group(group), "hi")
        #expect(lines().filter { $0.contains("\"hi\"") }.count == 2)
        leave("bob/pc", group)
        _ = lines()
        world.send("ann/phone", 2, to: .group(group), "there")
        #expect(lines() == ["ann/phone: result 2, noMatchingSubscribers"])
    }

    // MARK: - Who comes in

    @Test func `with a list lets in who is on it, by an answer after the commit`() {
        let group = world.makeGroup(owner: "ann/phone", allowed: ["bob", "later"])
        join("carl/pc", group)
        #expect(world.lines() == ["carl/pc: response 1, notAuthorized"])
        join("bob/pc", group)
        #expect(world.lines() == ["ann/phone: #1 joined from bob by groupEvent \(group)"])
        #expect(lines() == ["bob/pc: response 1, success"])
        world.begin("later/pc")
        join("later/pc", group)
        #expect(answers() == ["later/pc: response 1, success"])
    }

    @Test func `lets its owner in again, whatever the list says`() {
        let group = world.makeGroup(owner: "ann/phone", members: ["bob/pc"], allowed: ["bob"])
        leave("ann/phone", group)
        join("ann/phone", group, id: 2)
        #expect(
            answers() == ["ann/phone: response 1, success", "ann/phone: response 2, success"])
    }

    @Test func `is joined twice without harm, and confirmed only when the first is stored`() {
        let group = world.makeGroup(owner: "ann/phone")
        join("bob/pc", group)
        world.beginCommit()
        join("bob/pc", group, id: 2)
        #expect(world.lines().filter { $0.contains("response") } == [])
        world.finishCommit()
        #expect(answers() == ["bob/pc: response 1, success", "bob/pc: response 2, success"])
    }

    @Test func `takes no more members than it may have, nor a user more groups`() {
        world.limits.groupMembersMaximum = 2
        let group = world.makeGroup(owner: "ann/phone", members: ["bob/pc"])
        join("carl/pc", group)
        #expect(lines() == ["carl/pc: response 1, quotaExceeded"])
        world.limits.groupMembersMaximum = 10
        world.limits.groupsPerUserMaximum = 1
        let other = world.makeGroup(owner: "carl/pc")
        join("bob/pc", other)
        #expect(lines() == ["bob/pc: response 1, quotaExceeded"])
    }

    @Test func `is left with 0x11 by who is not in it`() {
        let group = world.makeGroup(owner: "ann/phone")
        leave("bob/pc", group)
        leave("bob/pc", "none", id: 2)
        #expect(
            lines() == [
                "bob/pc: response 2, topicNameInvalid",
                "bob/pc: response 1, noSubscriptionExisted",
            ])
    }

    // MARK: - Kicks and bans

    @Test func `member who is kicked is told, keeps the messages it has and gets no more`() {
        let group = world.makeGroup(owner: "ann/phone", members: ["bob/pc"])
        world.lose("bob/pc")
        world.send("ann/phone", 1, to: .group(group), "before")
        world.settle()
        kick("ann/phone", group, "bob", id: 9)
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
        let group = world.makeGroup(owner: "ann/phone", members: ["bob/pc", "carl/pc"])
        kick("carl/pc", group, "bob", id: 8)
        kick("ann/phone", group, "ann", id: 9)
        kick("ann/phone", group, "nobody", id: 10)
        kick("ann/phone", group, "bob", id: 11)
        kick("ann/phone", group, "bob", id: 12)
        #expect(
            answers() == [
                "carl/pc: response 8, notAuthorized", "ann/phone: response 9, notAuthorized",
                "ann/phone: response 10, topicNameInvalid", "ann/phone: response 11, kickedOut",
                "ann/phone: response 12, noSubscriptionExisted",
            ])
        join("bob/pc", group)
        #expect(answers() == ["bob/pc: response 1, success"])
    }

    @Test func `obeys its owner also after the owner has left`() {
        let group = world.makeGroup(owner: "ann/phone", members: ["bob/pc"])
        leave("ann/phone", group)
        kick("ann/phone", group, "bob", id: 2)
        #expect(
            answers() == ["ann/phone: response 1, success", "ann/phone: response 2, kickedOut"])
        // Nobody was left in it.
        #expect(world.gauges.groups == 0)
    }

    @Test func `that everybody may join keeps out who was banned, by a list of the others`() {
        let group = world.makeGroup(owner: "ann/phone", members: ["bob/pc", "carl/pc"])
        ban("ann/phone", group, "bob")
        #expect(answers() == ["ann/phone: response 1, kickedOut"])
        world.crash()
        world.begin("ann/phone", "bob/pc", "carl/pc")
        _ = lines()
        join("bob/pc", group, id: 2)
        leave("carl/pc", group, id: 3)
        join("carl/pc", group, id: 4)
        #expect(
            answers() == [
                "bob/pc: response 2, notAuthorized", "carl/pc: response 3, success",
                "carl/pc: response 4, success",
            ])
    }

    @Test func `keeps out who was banned before coming`() {
        let group = world.makeGroup(owner: "ann/phone", allowed: ["bob", "carl", "unborn"])
        ban("ann/phone", group, "bob", id: 2)
        ban("ann/phone", group, "unborn", id: 3)
        ban("ann/phone", group, "ann", id: 4)
        join("bob/pc", group, id: 5)
        join("carl/pc", group, id: 6)
        #expect(
            answers().sorted() == [
                "ann/phone: response 2, noSubscriptionExisted",
                "ann/phone: response 3, noSubscriptionExisted",
                "ann/phone: response 4, notAuthorized", "bob/pc: response 5, notAuthorized",
                "carl/pc: response 6, success",
            ])
    }

    // MARK: - What is told

    @Test func `tells its members what happens, but not the session that did it`() {
        world.begin("ann/watch")
        let group = world.makeGroup(owner: "ann/phone", members: ["carl/pc"])
        join("bob/pc", group)
        leave("bob/pc", group)
        join("bob/pc", group)
        kick("ann/phone", group, "bob")
        world.groups("ann/phone") { .setMeta($0.appendRange(group), meta: $0.appendRange("{}")) }
        world.groups("ann/phone") {
            .setAllowed($0.appendRange(group), allowed: $0.appendList(["carl"]))
        }
        world.settle()
        let told = world.unnumberedLines().filter { !$0.contains("response") }
        let events = [
            "joined from bob", "left from bob", "joined from bob", "kicked from ann",
            "metaUpdated from ann", "allowListUpdated from ann",
        ].map { "\($0) by groupEvent \(group)" }
        #expect(told.filter { $0.hasPrefix("carl") } == events.map { "carl/pc: \($0)" })
        #expect(told.filter { $0.hasPrefix("ann/watch") } == events.map { "ann/watch: \($0)" })
        #expect(told.filter { $0.hasPrefix("ann/phone") }.count == 3)
        #expect(
            told.filter { $0.hasPrefix("bob") } == ["bob/pc: from ann by kicked \(group)"])
    }

    @Test func `tells a member's other devices that they have joined or left`() {
        world.begin("bob/watch")
        let group = world.makeGroup(owner: "ann/phone")
        join("bob/pc", group)
        leave("bob/pc", group)
        world.settle()
        #expect(
            world.unnumberedLines().filter { $0.hasPrefix("bob/watch") } == [
                "bob/watch: added to \"title\"  of ann, 2 members from bob by groupEvent \(group)",
                "bob/watch: joined from bob by groupEvent \(group)",
                "bob/watch: left from bob by groupEvent \(group)",
                "bob/watch: removed from bob by groupEvent \(group)",
            ])
    }

    @Test func `changes nothing, and tells nobody, where it is as it should be`() {
        let group = world.makeGroup(
            owner: "ann/phone", members: ["bob/pc"], allowed: ["bob"], meta: "{}")
        world.groups("ann/phone", id: 2) {
            .setMeta($0.appendRange(group), meta: $0.appendRange("{}"))
        }
        world.groups("ann/phone", id: 3) {
            .setAllowed($0.appendRange(group), allowed: $0.appendList(["bob"]))
        }
        world.beginCommit()
        #expect(world.lastBatch.records.isEmpty)
        world.finishCommit()
        #expect(
            lines() == ["ann/phone: response 2, success", "ann/phone: response 3, success"])
    }

    @Test func `is changed by its owner alone, and within the limits`() {
        let group = world.makeGroup(owner: "ann/phone", members: ["bob/pc"])
        world.groups("bob/pc") { .setMeta($0.appendRange(group), meta: $0.appendRange("{}")) }
        world.groups("bob/pc") { .setAllowed($0.appendRange(group), allowed: nil) }
        world.groups("bob/pc") { .ban($0.appendRange(group), user: $0.appendRange("ann")) }
        let long = String(repeating: "x", count: 5121)
        world.groups("ann/phone") { .setMeta($0.appendRange(group), meta: $0.appendRange(long)) }
        let many = (0...1000).map { "u\($0)" }
        world.groups("ann/phone") {
            .setAllowed($0.appendRange(group), allowed: $0.appendList(many))
        }
        #expect(
            lines() == [
                "bob/pc: response 1, notAuthorized", "bob/pc: response 1, notAuthorized",
                "bob/pc: response 1, notAuthorized", "ann/phone: response 1, packetTooLarge",
                "ann/phone: response 1, quotaExceeded",
            ])
    }

    @Test func `does not kick who is taken off the list, and is open again without one`() {
        let group = world.makeGroup(
            owner: "ann/phone", members: ["bob/pc"], allowed: ["bob", "carl"])
        world.groups("ann/phone") {
            .setAllowed($0.appendRange(group), allowed: $0.appendList(["nobody"]))
        }
        _ = lines()
        world.send("ann/phone", 1, to: .group(group), "hi")
        #expect(lines().contains { $0.hasPrefix("bob/pc") && $0.contains("hi") })
        world.groups("ann/phone") { .setAllowed($0.appendRange(group), allowed: nil) }
        join("carl/pc", group)
        #expect(answers().last == "carl/pc: response 1, success")
    }

    @Test func `joined writes the member's row, and nothing of the group's`() {
        let group = world.makeGroup(owner: "ann/phone", allowed: ["bob"])
        join("bob/pc", group)
        world.beginCommit()
        let tables = world.lastBatch.records.map(\.table)
        #expect(tables.filter { $0 == .members }.count == 1)
        #expect(!tables.contains(.groups))
        world.finishCommit()
    }

    @Test func `is there again after a restart, with all that is known of it`() {
        let group = world.makeGroup(
            owner: "ann/phone", members: ["bob/pc"], allowed: ["bob", "carl"], meta: "{}")
        world.crash()
        world.begin("ann/phone", "bob/pc", "carl/pc")
        world.groups("bob/pc", id: 2) {
            .describe($0.appendRange(group), after: .empty, byteCountMaximum: .max)
        }
        #expect(
            world.lines() == [
                "bob/pc: group 2, \"title\" by ann, limited, 2 [ann, bob], meta {}"
            ])
        join("carl/pc", group, id: 3)
        #expect(answers() == ["carl/pc: response 3, success"])
        world.send("ann/phone", 1, to: .group(group), "hi")
        #expect(lines().filter { $0.contains("\"hi\"") }.count == 2)
    }
}

@Suite struct `A page about groups` {
    let world = World()

    init() {
        world.begin("ann/phone", "bob/pc")
    }

    private func list(_ name: String, after: String = "", byteCountMaximum: Int = .max) -> String {
        world.groups(name, id: 5) {
            .list(after: $0.appendRange(after), byteCountMaximum: byteCountMaximum)
        }
        return world.lines().joined()
    }

    private func describe(
        _ name: String, _ group: String, after: String = "", byteCountMaximum: Int = .max
    ) -> String {
        world.groups(name, id: 5) {
            .describe(
                $0.appendRange(group), after: $0.appendRange(after),
                byteCountMaximum: byteCountMaximum)
        }
        return world.lines().joined()
    }

    @Test func `lists the user's groups in order, and marks the user's own`() {
        #expect(list("bob/pc") == "bob/pc: groups 5 []")
        let groups = (0..<3).map { _ in world.makeGroup(owner: "ann/phone", members: ["bob/pc"]) }
        let own = world.makeGroup(owner: "bob/pc")
        let names = (groups + ["\(own)*"]).sorted()
        #expect(list("bob/pc") == "bob/pc: groups 5 [\(names.joined(separator: ", "))]")
    }

    @Test func `goes on behind a group, also where the user has left it`() {
        let groups = (0..<3).map { _ in world.makeGroup(owner: "ann/phone") }.sorted()
        // One entry: 13 bytes of id, 5 of title, 3 beside them; and one byte for all.
        #expect(
            list("ann/phone", byteCountMaximum: 43)
                == "ann/phone: groups 5 [\(groups[0])*, \(groups[1])*] and more")
        world.groups("ann/phone") { .leave($0.appendRange(groups[1])) }
        world.settle()
        _ = world.lines()
        #expect(
            list("ann/phone", after: groups[1], byteCountMaximum: 43)
                == "ann/phone: groups 5 [\(groups[2])*]")
        #expect(list("ann/phone", after: groups[2]) == "ann/phone: groups 5 []")
    }

    @Test func `that has no room for one entry is refused instead of repeated for ever`() {
        let group = world.makeGroup(owner: "ann/phone")
        #expect(
            list("ann/phone", byteCountMaximum: 20) == "ann/phone: response 5, packetTooLarge")
        #expect(
            describe("ann/phone", group, byteCountMaximum: 20)
                == "ann/phone: response 5, packetTooLarge")
    }

    @Test func `of members is in order, whoever comes and goes meanwhile`() {
        world.begin("a/1", "b/1", "c/1", "d/1", "e/1")
        let group = world.makeGroup(owner: "c/1", members: ["e/1", "a/1", "d/1", "b/1"])
        // Fixed parts: 1 of owner, 5 of title, 10 beside; 2 for each member.
        #expect(
            describe("a/1", group, byteCountMaximum: 20)
                == "a/1: group 5, \"title\" by c, 5 [a, b] and more")
        world.groups("b/1") { .leave($0.appendRange(group)) }
        world.groups("d/1") { .leave($0.appendRange(group)) }
        world.settle()
        _ = world.lines()
        #expect(
            describe("c/1", group, after: "b", byteCountMaximum: 20)
                == "c/1: group 5, \"title\" by c, own, 3 [c, e]")
    }

    @Test func `about a group is for members and the owner`() {
        let group = world.makeGroup(owner: "ann/phone", members: ["bob/pc"])
        world.begin("carl/pc")
        #expect(describe("carl/pc", group) == "carl/pc: response 5, notAuthorized")
        #expect(describe("carl/pc", "none") == "carl/pc: response 5, topicNameInvalid")
        world.groups("ann/phone") { .leave($0.appendRange(group)) }
        world.settle()
        _ = world.lines()
        #expect(
            describe("ann/phone", group) == "ann/phone: group 5, \"title\" by ann, own, 1 [bob]")
    }

    @Test func `is never larger than its limit, and all pages together are all members`() {
        let names = (0..<1_000).map { "member-with-a-long-name-\($0)" }
        let group = world.makeGroup(owner: "ann/phone")
        world.addMembers(names, to: group)
        var found: [String] = []
        var pages = 0
        while found.count < 1_001, pages < 10 {
            let line = describe("ann/phone", group, after: found.last ?? "")
            let start = line.firstIndex(of: "[")!
            let end = line.firstIndex(of: "]")!
            let page = line[line.index(after: start)..<end].split(separator: ", ").map(String.init)
            #expect(page.reduce(0) { $0 + $1.utf8.count + 1 } <= CoreLimits.groupAnswerMaximum)
            found += page
            pages += 1
        }
        #expect(found == (names + ["ann"]).sorted())
        #expect(pages == 2)
    }
}

// Groups as an operator handles them: in the owner's name, past the policy of joining, within the
// limits, and remembered like everything else.

import Primitives
import Testing

@testable import BrokerCore

@Suite struct `An operator` {
    let world = World()

    init() {
        world.begin("ann/phone", "bob/pc")
    }

    private func describe(_ group: String) -> GroupDescription? {
        world.broker.groupDescription(app: World.app, Array(group.utf8))
    }

    private func members(_ group: String) -> [String] {
        world.broker.groupMembers(
            app: World.app, Array(group.utf8), after: [], countMaximum: 100
        ).map { String(decoding: $0, as: UTF8.self) }
    }

    private func user(_ name: String) -> [UInt8] { Array(name.utf8) }

    @Test func `makes groups for owners nobody knew, and a restart remembers them`() {
        let group = world.operatorGroup(owner: "zoe", allowed: ["bob"])
        #expect(world.operate(group, .join(user: user("bob"))) == .success)
        #expect(world.operate(group, .setMeta(user("{}"))) == .success)
        world.settle()
        let before = describe(group)
        #expect(before?.owner == user("zoe") && before?.memberCount == 2)
        world.crash()
        #expect(describe(group) == before)
        #expect(members(group) == ["bob", "zoe"])
    }

    @Test func `puts in whom the policy keeps out, and everybody in it is told`() {
        let group = world.operatorGroup(owner: "ann", allowed: [])
        #expect(world.operate(group, .join(user: user("bob"))) == .success)
        #expect(world.operate(group, .join(user: user("nobody"))) == .topicNameInvalid)
        world.settle()
        #expect(
            world.lines() == [
                "ann/phone: #1 added to \"title\"  of ann, 1 members from ann by groupEvent "
                    + group,
                "bob/pc: #1 added to \"title\"  of ann, 2 members from bob by groupEvent \(group)",
                "ann/phone: #2 joined from bob by groupEvent \(group)",
                "bob/pc: #2 joined from bob by groupEvent \(group)",
            ])
        #expect(world.operate(group, .leave(user: user("ann"))) == .success)
        #expect(members(group) == ["bob"])
        #expect(world.operate(group, .leave(user: user("ann"))) == .noSubscriptionExisted)
    }

    @Test func `kicks and bans in the owner's name, but not the owner`() {
        let group = world.makeGroup(owner: "ann/phone", members: ["bob/pc"])
        #expect(world.operate(group, .kick(user: user("ann"))) == .notAuthorized)
        #expect(world.operate(group, .ban(user: user("bob"))) == .kickedOut)
        world.settle()
        let lines = world.lines()
        #expect(lines.contains { $0.contains("bob/pc") && $0.contains("from ann by kicked") })
        #expect(describe(group)?.allowed == [user("ann")])
        world.groups("bob/pc") { .join($0.appendRange(group)) }
        world.settle()
        #expect(world.lines() == ["bob/pc: response 1, notAuthorized"])
        #expect(world.operate(group, .setAllowed(nil)) == .success)
        #expect(describe(group)?.allowed == nil)
    }

    @Test func `is held to the limits, and a group ends with its last member`() {
        let group = world.operatorGroup(owner: "ann")
        let long = [UInt8](repeating: 0x61, count: CoreLimits.groupMetaMaximum + 1)
        #expect(world.operate(group, .setMeta(long)) == .packetTooLarge)
        #expect(world.operate(group, .leave(user: user("ann"))) == .success)
        #expect(describe(group) == nil)
        #expect(world.operate(group, .join(user: user("bob"))) == .topicNameInvalid)
    }

    @Test func `deletes a group in slices, tells each member once, and leaves their queues`() {
        let group = world.operatorGroup(owner: "ann")
        // Zed joins last, so that its window has room for what comes.
        let names = ["bob"] + (0..<299).map { "m\($0)" } + ["zed"]
        world.begin("zed/1")
        for name in names {
            world.addUser(name)
            #expect(world.operate(group, .join(user: user(name))) == .success)
        }
        world.settle()
        world.send("bob/pc", 1, to: .group(group), "all", isKept: true)
        world.settle()
        _ = world.lines()
        func queued() -> Int? {
            world.broker.offlineQueueDescription(app: World.app, user: user("m298"))
                .map { Int($0.count) }
        }
        let before = queued() ?? 0
        #expect(before > 0)
        let first = world.deleteGroup(group)
        #expect(first == GroupDeletion(memberCount: 256, hasMore: true))
        world.settle()
        #expect(
            world.lines().count { $0.contains("zed/1") && $0.contains("from ann by kicked") } == 1)
        #expect(describe(group)?.memberCount == 46)
        let last = world.deleteGroup(group)
        #expect(last == GroupDeletion(memberCount: 46, hasMore: false))
        world.settle()
        #expect(describe(group) == nil && world.deleteGroup(group) == nil)
        world.crash()
        #expect(describe(group) == nil)
        #expect(queued() == before + 1)
    }

    @Test func `deletes a group of which a part is deleted when the broker stops`() {
        let group = world.operatorGroup(owner: "ann")
        for number in 0..<260 {
            world.addUser("m\(number)")
            #expect(world.operate(group, .join(user: user("m\(number)"))) == .success)
        }
        world.settle()
        #expect(world.deleteGroup(group)?.hasMore == true)
        world.settle()
        world.crash()
        #expect(describe(group)?.memberCount == 5)
        #expect(world.deleteGroup(group) == GroupDeletion(memberCount: 5, hasMore: false))
        world.settle()
        world.crash()
        #expect(describe(group) == nil)
    }

    @Test func `nobody fills the groups of another`() {
        world.limits.groupsPerUserMaximum = 20
        world.addUser("eve")
        func takes(_ name: String, by owner: String) -> Bool {
            world.broker.takesMembership(of: user(name), by: user(owner), app: World.app)
        }
        for count in 1...2 {
            #expect(takes("bob", by: "ann"), "\(count)")
            let group = world.operatorGroup(owner: "ann")
            #expect(world.operate(group, .join(user: user("bob"))) == .success)
        }
        #expect(!takes("bob", by: "ann"))
        #expect(takes("bob", by: "eve"))
        for _ in 1...8 {
            let group = world.operatorGroup(owner: "ann")
            #expect(world.operate(group, .join(user: user("bob"))) == .success)
        }
        #expect(!takes("bob", by: "eve"))
        // Those of one's own do not count.
        for _ in 1...10 { _ = world.operatorGroup(owner: "eve") }
        #expect(takes("eve", by: "ann"))
        // An app may leave it to everybody to join.
        world.limits.appPolicies[World.app] = {
            var policy = AppPolicy()
            policy.addsMembers = false
            return policy
        }()
        #expect(!takes("eve", by: "ann"))
    }

    @Test func `few owners do not hide the open groups of others`() {
        for owner in ["eve", "mal"] {
            world.addUser(owner)
            for _ in 1...6 { _ = world.operatorGroup(owner: owner) }
        }
        let other = world.operatorGroup(owner: "ann")
        _ = world.operatorGroup(owner: "bob")
        func owners(_ count: Int, ofOwner ownerCount: Int = 100) -> [String] {
            world.broker.openGroups(
                app: World.app, countMaximum: count, ownerCountMaximum: ownerCount
            ).map { String(decoding: $0.owner, as: UTF8.self) }
        }
        #expect(owners(4) == ["eve", "mal", "ann", "bob"])
        #expect(owners(7) == ["eve", "eve", "eve", "mal", "mal", "ann", "bob"])
        #expect(owners(3) == ["eve", "mal", "ann"])
        #expect(owners(100).count == 14)
        #expect(owners(100, ofOwner: 2).count == 6)
        #expect(describe(other)?.name == user(other))
    }

    @Test func `lists the groups of a member, and those that everybody may join`() {
        let open = world.operatorGroup(owner: "ann")
        let closed = world.operatorGroup(owner: "ann", allowed: [])
        #expect(world.operate(closed, .join(user: user("bob"))) == .success)
        func names(_ groups: [GroupDescription]) -> Set<String> {
            Set(groups.map { String(decoding: $0.name, as: UTF8.self) })
        }
        func own(_ name: String, _ count: Int = 100) -> [GroupDescription] {
            world.broker.groups(ofMember: user(name), app: World.app, countMaximum: count)
        }
        #expect(names(own("ann")) == [open, closed])
        #expect(own("ann", 1).count == 1)
        #expect(names(own("bob")) == [closed])
        #expect(own("nobody").isEmpty)
        func openGroups(_ count: Int, ofOwner ownerCount: Int = 100) -> Set<String> {
            names(
                world.broker.openGroups(
                    app: World.app, countMaximum: count, ownerCountMaximum: ownerCount))
        }
        #expect(openGroups(100) == [open])
        #expect(openGroups(0).isEmpty)
        // One owner hides no groups of others, and a list closes and opens a group.
        let other = world.operatorGroup(owner: "ann")
        let third = world.operatorGroup(owner: "bob")
        #expect(openGroups(100) == [open, other, third])
        #expect(openGroups(2, ofOwner: 1) == [open, third])
        #expect(world.operate(open, .setAllowed([])) == .success)
        #expect(openGroups(100) == [other, third])
        #expect(world.operate(open, .setAllowed(nil)) == .success)
        #expect(openGroups(100) == [open, other, third])
        func isMember(_ name: String, _ group: String) -> Bool {
            world.broker.isMember(user(name), ofGroup: user(group), app: World.app)
        }
        #expect(isMember("bob", closed) && !isMember("bob", open))
        #expect(!isMember("nobody", open) && !isMember("ann", "no such group"))
        // A page of a group is for its members.
        #expect(world.historyPage(.group(open), seenBy: "bob") == nil)
        #expect(world.historyPage(.group(open), seenBy: "ann")?.messages == [])
    }

    @Test func `lists groups page by page, or those of one user`() {
        let groups = (0..<5).map { _ in world.operatorGroup(owner: "ann") }
        let one = world.operatorGroup(owner: "bob")
        var listed: [String] = []
        var after: UInt32?
        while true {
            let page = world.broker.groupDescriptions(
                app: World.app, of: nil, after: after, countMaximum: 2)
            listed += page.map { String(decoding: $0.name, as: UTF8.self) }
            after = page.last?.cursor
            if page.count < 2 { break }
        }
        #expect(Set(listed) == Set(groups + [one]) && listed.count == 6)
        let own = world.broker.groupDescriptions(
            app: World.app, of: user("bob"), after: nil, countMaximum: 10)
        #expect(own.map { String(decoding: $0.name, as: UTF8.self) } == [one])
    }
}

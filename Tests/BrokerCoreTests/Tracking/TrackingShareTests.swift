// Who may have how many tracked sends and remembered members: no user and no app takes the places
// of others, and a send that is being recalled does not keep settled ones from making room.

import BrokerTerms
import Primitives
import Testing

@testable import BrokerCore

@Suite struct `Shares of tracked sends` {
    let world = World()

    private func apply(_ name: String, _ reference: UInt64) {
        world.step(
            .appliedReported(
                world.connections[name]!, requestIdentifier: world.freeRequest(name),
                AppliedRequest(reference: reference, code: 0, text: .empty)))
    }

    private func results(of name: String) -> [String] {
        world.settleAll()
        return world.lines().filter { $0.hasPrefix(name + ": result") }
    }

    @Test(arguments: [false, true])
    func `a settled send makes room while an older one is being recalled`(isOfApp: Bool) {
        if isOfApp {
            world.limits.trackedSendsPerAppMaximum = 2
        } else {
            world.limits.trackedSendsPerUserMaximum = 2
        }
        world.begin("ann/1", "bob/pc")
        world.disconnect("bob/pc")
        for number in 1...2 as ClosedRange<UInt64> {
            world.send("ann/1", number, to: .user("bob"), "on", asks: .reference)
        }
        world.settle()
        _ = world.lines()
        world.recall("ann/1", 0xA1)
        world.beginCommit()
        // The recall is under way, and the second one is settled.
        world.send("ann/1", 3, to: .user("bob"), "on", asks: .reference)
        world.finishCommit()
        #expect(results(of: "ann/1") == ["ann/1: result 3, sent, reference a3"])
        #expect(world.broker.tracking.find(0xA2) == nil)
        #expect(world.broker.tracking.find(0xA1) != nil)
        // The first one makes room again when the recall is done.
        world.send("ann/1", 4, to: .user("bob"), "on", asks: .reference)
        world.send("ann/1", 5, to: .user("bob"), "on", asks: .reference)
        #expect(results(of: "ann/1").allSatisfy { $0.contains("sent") })
        #expect(world.gauges.trackedSends == 2)
        world.broker.checkInvariants()
    }

    @Test func `a send that took the place of another one settles, and so does the other`() {
        world.limits.trackedSendsPerUserMaximum = 2
        world.begin("ann/1", "bob/pc")
        world.disconnect("bob/pc")
        for number in 1...5 as ClosedRange<UInt64> {
            world.sendCollapsing("ann/1", number, to: .user("bob"), "\(number)", key: "k")
            #expect(results(of: "ann/1").map { $0.contains("sent") } == [true])
        }
        #expect(world.gauges.trackedSends == 2)
    }

    @Test func `users with many leave the last tenth of an app to those with few`() {
        world.limits.trackedSendsPerAppMaximum = 20
        world.limits.trackedSendsPerUserMaximum = 20
        world.begin("ann/1", "carl/1", "bob/pc")
        world.disconnect("bob/pc")
        for number in 1...19 as ClosedRange<UInt64> {
            world.send("ann/1", number, to: .user("bob"), "on", asks: .delivered)
        }
        #expect(results(of: "ann/1").last == "ann/1: result 18, sent, reference b2")
        #expect(world.gauges.trackedSends == 18)
        #expect(world.counters.trackedRefused == 1)
        world.send("carl/1", 1, to: .user("bob"), "on", asks: .delivered)
        #expect(results(of: "carl/1").map { $0.contains("sent") } == [true])
        world.send("carl/1", 2, to: .user("bob"), "on", asks: .delivered)
        #expect(results(of: "carl/1") == ["carl/1: result 2, quotaExceeded"])
    }

    @Test(arguments: [false, true])
    func `members are remembered up to the share of the sender, and of the app`(isOfApp: Bool) {
        if isOfApp {
            world.limits.trackedMembersPerAppMaximum = 2
        } else {
            world.limits.trackedMembersPerUserMaximum = 2
        }
        let names = ["bob/1", "carl/1", "dora/1"]
        world.begin("ann/1", "eve/1", "bob/1", "carl/1", "dora/1")
        let group = world.makeGroup(owner: "ann/1", members: names + ["eve/1"])
        world.send("ann/1", 1, to: .group(group), "on", asks: .applied)
        world.send("eve/1", 1, to: .group(group), "on", asks: .applied)
        world.settleAll()
        _ = world.lines()
        for name in names { apply(name, 0xA1) }
        apply("dora/1", 0xA2)
        world.settleAll()
        let answers = world.lines().filter { $0.contains("response") }
        #expect(answers.count { $0.hasSuffix("quotaExceeded") } == (isOfApp ? 2 : 1))
        #expect(answers.count { $0.hasSuffix("success") } == (isOfApp ? 2 : 3))
        #expect(world.counters.membersRefused == (isOfApp ? 2 : 1))
        world.broker.checkInvariants()
    }

    @Test func `apps have shares of their own`() {
        var tracking = TrackedSends()
        let (app, other) = (Index<App>(place: 1), Index<App>(place: 2))
        let user = Index<User>(place: 1)
        var send = TrackedSend(
            reference: 1, app: app, sender: user, session: 0, number: 1, messageIdentifier: [],
            asks: .delivered, grade: .durable, targetKind: .group, address: [1],
            acceptedUnixMilliseconds: 1, deadline: Instant(milliseconds: 1))
        send.memberCount = 3
        let index = tracking.insert(send)
        _ = tracking.note(.delivered, by: Index(place: 2), of: index, remembers: true)
        var counts = [tracking.memberCount(ofApp: app), tracking.memberCount(ofApp: other)]
        #expect(counts == [1, 0])
        var awaits = [app, other].map { tracking.mayAwaitDelivery(toGroupsOf: $0) }
        #expect(awaits == [true, false])
        tracking.checkInvariants()
        _ = tracking.remove(index)
        counts = [tracking.memberCount(ofApp: app), tracking.memberCount(ofUser: user)]
        #expect(counts == [0, 0])
        awaits = [app, other].map { tracking.mayAwaitDelivery(toGroupsOf: $0) }
        #expect(awaits == [false, false])
        tracking.checkInvariants()
    }
}

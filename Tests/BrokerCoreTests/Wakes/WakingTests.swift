// When the relay is asked to wake a user, and when it is told that this is over.

import BrokerTerms
import Primitives
import Testing

@testable import BrokerCore

@Suite struct `A wake-up` {
    let world = World()

    init() {
        world.allowWakes()
        world.begin("relay/1", "ann/1", "bob/pc")
        world.setTarget("bob")
        _ = world.told()
    }

    private func leave(_ name: String = "bob/pc") {
        world.disconnect(name)
        _ = world.told()
    }

    @Test func `is asked for when a message waits for an absent user`() {
        leave()
        world.send("ann/1", 1, to: .user("bob"), "on")
        let expires = 1_700_000_000_000 + 604_800_000
        #expect(
            world.told()
                == [
                    #"{"event":"WAKE_REQUEST","user":"bob","targets":[{"id":1,"kind":"udp","#
                        + #""address":"10.0.0.9:7000","environment":"production"}],"#
                        + #""time":1700000000000,"count":1,"expires":\#(expires),"from":"ann"}"#
                ].map { $0.replacing("\"id\":1,", with: "\"id\":\(target),") })
        #expect(world.counters.wakesRequested == 1)
    }

    private var target: UInt64 {
        world.broker.wakeTargets(app: World.app, user: Array("bob".utf8))![0].identifier
    }

    @Test func `is not asked for while a device is connected`() {
        world.connect("bob/phone")
        leave()
        world.send("ann/1", 1, to: .user("bob"), "on")
        #expect(world.news() == [])
    }

    @Test func `is not asked for users without targets`() {
        world.begin("eve/1")
        leave("eve/1")
        world.send("ann/1", 1, to: .user("eve"), "on")
        #expect(world.news() == [])
    }

    @Test func `is asked for once an interval, with the newest message`() {
        leave()
        world.send("ann/1", 1, to: .user("bob"), "on")
        #expect(world.news() == ["wake bob 1 from ann"])
        world.begin("eve/1")
        world.send("ann/1", 2, to: .user("bob"), "on")
        world.send("eve/1", 1, to: .user("bob"), "on")
        #expect(world.news() == [])
        world.pass(seconds: 59)
        #expect(world.news() == [])
        world.pass(seconds: 1)
        #expect(world.news() == ["wake bob 3 from eve"])
        world.pass(seconds: 600)
        #expect(world.news() == [])
        #expect(world.counters.wakesJoined == 2)
    }

    @Test func `is withdrawn once when a device connects`() {
        leave()
        world.send("ann/1", 1, to: .user("bob"), "on")
        world.send("ann/1", 2, to: .user("bob"), "on")
        #expect(world.news() == ["wake bob 1 from ann"])
        world.connect("bob/pc")
        #expect(world.news() == ["withdrawn bob"])
        world.acknowledge("bob/pc", through: 2)
        leave()
        world.pass(seconds: 600)
        #expect(world.news() == [])
        world.connect("bob/pc")
        #expect(world.news() == [])
    }

    @Test func `of a user without a session is asked for too`() {
        world.addUser("zoe")
        world.setTarget("zoe")
        world.send("ann/1", 1, to: .user("zoe"), "on")
        #expect(world.news() == ["wake zoe 1 from ann"])
    }

    @Test func `is withdrawn when the message is recalled`() {
        leave()
        world.send("ann/1", 1, to: .user("bob"), "on", asks: .reference)
        #expect(world.news() == ["wake bob 1 from ann"])
        world.recall("ann/1", 0xA1)
        world.settleAll()
        #expect(world.news() == ["withdrawn bob"])
    }

    @Test func `is withdrawn when the message expires`() {
        leave()
        world.send("ann/1", 1, to: .user("bob"), "on", expiry: 5)
        #expect(world.news() == ["wake bob 1 from ann"])
        for _ in 0..<90 {
            world.pass(seconds: 10)
            world.settle()
        }
        #expect(world.news() == ["withdrawn bob"])
    }

    /// The milliseconds for which the requests told by now hold.
    private func validities() -> [Int] {
        world.told().map { text in
            let start = text.firstRange(of: "\"expires\":")!.upperBound
            return Int(text[start...].prefix(while: \.isNumber))! - Int(world.now.unixMilliseconds)
        }
    }

    @Test func `holds as long as the message that waits longest`() {
        leave()
        world.send("ann/1", 1, to: .user("bob"), "on", expiry: 5)
        #expect(validities() == [5_000])
        world.send("ann/1", 2, to: .user("bob"), "on", expiry: 500)
        world.send("ann/1", 3, to: .user("bob"), "on", expiry: 1)
        world.pass(seconds: 60)
        #expect(validities() == [440_000])
        world.send("ann/1", 4, to: .user("bob"), "on", expiry: 61)
        world.pass(seconds: 60)
        #expect(validities() == [380_000])
    }

    @Test func `holds for a week after a restart, whatever comes then`() {
        leave()
        world.send("ann/1", 1, to: .user("bob"), "on")
        world.settle()
        world.crash()
        world.begin("relay/1", "ann/1")
        _ = world.told()
        world.pass(seconds: 60)
        world.send("ann/1", 2, to: .user("bob"), "on", expiry: 1)
        world.pass(seconds: 60)
        #expect(validities().allSatisfy { $0 > 600_000_000 })
    }

    @Test func `tells nothing of a message that has expired`() {
        leave()
        world.send("ann/1", 1, to: .user("bob"), "on")
        world.send("ann/1", 2, to: .user("bob"), "on", expiry: 1)
        _ = world.told()
        world.pass(seconds: 60)
        #expect(world.news() == ["wake bob 2"])
    }

    @Test(arguments: [nil, "off"] as [String?])
    func `tells nothing of a message that was recalled or replaced`(content: String?) {
        world.allowWakes { $0.hasContents = true }
        world.begin("eve/1")
        leave()
        world.send("ann/1", 1, to: .user("bob"), "on", asks: .reference)
        _ = world.told()
        world.send("eve/1", 1, to: .user("bob"), "other")
        world.send("ann/1", 2, to: .user("bob"), "secret", asks: .reference)
        world.recall("ann/1", 0xA2, with: content)
        world.settleAll()
        _ = world.told()
        world.pass(seconds: 60)
        let told = world.told()
        #expect(told.count == 1 && !told[0].contains("secret") && !told[0].contains("from"))
    }

    @Test func `names the group, and heeds its setting and the member's`() {
        world.begin("owner/1")
        let group = world.makeGroup(owner: "owner/1")
        world.addMembers(["bob", "ann"], to: group)
        _ = world.told()
        leave()
        world.send("ann/1", 1, to: .group(group), "on")
        let text = world.told()
        #expect(text.count == 1 && text[0].contains("\"group\":\"\(group)\""))
        world.connect("bob/pc")
        world.settle()
        #expect(world.operate(group, .mute(user: Array("bob".utf8), true)) == .success)
        world.acknowledgeAll("bob/pc")
        world.settle()
        leave()
        world.send("ann/1", 2, to: .group(group), "on")
        #expect(world.news() == [])
        #expect(world.operate(group, .mute(user: Array("bob".utf8), false)) == .success)
        #expect(world.operate(group, .setWaking(false)) == .success)
        world.send("ann/1", 3, to: .group(group), "on")
        #expect(world.news() == [])
        #expect(world.operate(group, .setWaking(true)) == .success)
        world.send("ann/1", 4, to: .group(group), "on")
        #expect(world.news() == ["wake bob 3 from ann"])
    }

    @Test func `is not asked for by messages that say no, and has what others give`() {
        leave()
        world.sendWaking("ann/1", 1, to: .user("bob"), "on", push: "", wakes: false)
        #expect(world.news() == [])
        world.sendWaking("ann/1", 2, to: .user("bob"), "on", push: #"{"badge":1}"#)
        let told = world.told()
        #expect(told.count == 1 && told[0].hasSuffix(#","from":"ann","push":{"badge":1}}"#))
        world.connect("bob/pc")
        world.settle()
        #expect(
            world.lines().filter { $0.hasPrefix("bob/pc: #") } == [
                #"bob/pc: #1 "on" from ann"#, #"bob/pc: #2 "on" from ann"#,
            ])
    }

    @Test func `has the text only where the app says so`() {
        world.allowWakes { $0.hasContents = true }
        leave()
        world.send("ann/1", 1, to: .user("bob"), "\"on\"")
        let told = world.told()
        #expect(told.count == 1 && told[0].hasSuffix(#","from":"ann","t":0,"b":"\"on\""}"#))
    }

    @Test func `is not asked for by wills and transient messages unless the app says so`() {
        leave()
        world.send("ann/1", 0, to: .user("bob"), "on", grade: .transient)
        world.setWill("ann/1", to: .user("bob"), "gone")
        world.settle()
        world.lose("ann/1")
        #expect(world.news() == [])
        world.allowWakes {
            $0.wakesForTransient = true
            $0.wakesForWills = true
        }
        world.begin("ann/1")
        world.setWill("ann/1", to: .user("bob"), "gone")
        world.settle()
        world.lose("ann/1")
        #expect(world.news() == ["wake bob 2 from ann"])
        world.connect("bob/pc")
        #expect(world.news() == ["withdrawn bob"])
        world.acknowledge("bob/pc", through: 2)
        leave()
        world.begin("ann/1")
        world.send("ann/1", 0, to: .user("bob"), "on", grade: .transient)
        #expect(world.news() == ["wake bob 1 from ann"])
    }

    @Test func `is asked for when a connection is lost with messages on it`() {
        world.send("ann/1", 1, to: .user("bob"), "on")
        #expect(world.news() == [])
        world.lose("bob/pc")
        #expect(world.news() == [])
        world.pass(seconds: 10)
        #expect(world.news() == ["wake bob 1 from ann"])
    }

    @Test func `is not asked for when the device is back in time`() {
        world.send("ann/1", 1, to: .user("bob"), "on")
        world.lose("bob/pc")
        world.pass(seconds: 5)
        world.connect("bob/pc")
        world.pass(seconds: 60)
        #expect(world.news() == [])
    }

    @Test func `does not go to a device that has logged out until it is back`() {
        let own = world.setTarget("bob", device: "pc", .fcm, "token").identifier
        let any = target
        world.disconnect("bob/pc", expiry: 0)
        _ = world.told()
        world.send("ann/1", 1, to: .user("bob"), "on")
        #expect(world.news() == [])
        world.connect("bob/phone")
        _ = world.told()
        world.disconnect("bob/phone")
        world.send("ann/1", 2, to: .user("bob"), "on")
        let told = world.told()
        #expect(told.count == 1)
        #expect(told[0].contains("\"id\":\(any),") && !told[0].contains("\"id\":\(own),"))
        world.connect("bob/pc")
        #expect(world.news() == ["withdrawn bob"])
        world.disconnect("bob/pc")
        world.send("ann/1", 3, to: .user("bob"), "on")
        #expect(world.told().first?.contains("\"id\":\(own),") == true)
    }

    @Test func `survives a crash with its message`() {
        leave()
        world.send("ann/1", 1, to: .user("bob"), "on")
        world.settle()
        _ = world.lines()
        world.crash()
        world.connect("relay/1")
        world.settle()
        #expect(world.news() == ["wake bob 1 from ann"])
        // The row says that the relay was asked.
        world.pass(seconds: 120)
        #expect(world.news() == [])
        world.connect("bob/pc")
        #expect(world.news() == ["withdrawn bob"])
    }

    @Test func `that waited for the interval is asked for after a crash`() {
        leave()
        world.send("ann/1", 1, to: .user("bob"), "on")
        world.send("ann/1", 2, to: .user("bob"), "on")
        _ = world.told()
        world.crash()
        world.connect("relay/1")
        #expect(world.news() == [])
        world.pass(seconds: 60)
        #expect(world.news() == ["wake bob 2"])
    }

    @Test func `is asked for after a crash though a full store refused its row before`() {
        leave()
        world.send("ann/1", 1, to: .user("bob"), "on")
        #expect(world.news() == ["wake bob 1 from ann"])
        world.store.isFull = true
        world.send("ann/1", 2, to: .user("bob"), "on")
        world.settle()
        #expect(world.lines().contains { $0.hasPrefix("ann/1: result 2, quotaExceeded") })
        world.store.isFull = false
        world.forgetFullStore()
        world.send("ann/1", 3, to: .user("bob"), "on")
        world.settle()
        #expect(world.lines().contains("ann/1: result 3, sent"))
        world.crash()
        world.connect("relay/1")
        _ = world.news()
        world.pass(seconds: 60)
        #expect(world.news() == ["wake bob 2"])
    }

    @Test func `of a later message has nothing that an earlier one gave`() {
        leave()
        world.sendWaking("ann/1", 1, to: .user("bob"), "on", push: #"{"badge":1}"#)
        #expect(world.told().count == 1)
        #expect(world.broker.wakes.push.isEmpty)
    }

    @Test func `of a device that was connected is asked for after a crash`() {
        world.send("ann/1", 1, to: .user("bob"), "on")
        world.settle()
        world.crash()
        world.connect("relay/1")
        #expect(world.news() == [])
        world.pass(seconds: 60)
        #expect(world.news() == ["wake bob 1"])
    }

    @Test func `is lost and counted where the relay's queue is full, and harms no message`() {
        world.disconnect("relay/1")
        world.limits.queueCountMaximum = 1
        leave()
        world.begin("eve/1")
        world.setTarget("eve")
        world.disconnect("eve/1")
        world.send("ann/1", 1, to: .user("bob"), "on")
        world.send("ann/1", 2, to: .user("eve"), "on")
        world.settle()
        #expect(world.lines().filter { $0.hasPrefix("ann/1: result") }.count == 2)
        #expect(world.counters.wakesLost == 1)
        #expect(world.counters.wakesRequested == 1)
    }

    @Test func `is not displaced by messages to the relay: nobody but the broker sends to it`() {
        leave()
        world.send("ann/1", 1, to: .user("relay"), "on")
        world.send("ann/1", 2, to: .users(["relay", "bob"]), "on")
        world.settle()
        #expect(
            world.lines().filter { $0.hasPrefix("relay/1: #") }.allSatisfy {
                $0.contains("WAKE_REQUEST")
            })
    }

    @Test func `of many members is asked for in turns`() {
        world.begin("owner/1")
        let group = world.makeGroup(owner: "owner/1")
        let names = (0..<200).map { "u\($0)" }
        for name in names {
            world.addUser(name)
            world.setTarget(name)
        }
        world.addMembers(names + ["ann"], to: group)
        _ = world.told()
        world.send("ann/1", 1, to: .group(group), "on")
        #expect(world.counters.wakesRequested == UInt64(CoreLimits.wakesPerMessageMaximum))
        var told: [String] = []
        for _ in 0..<10 { told += world.news() }
        #expect(told.count == 200)
        #expect(told.allSatisfy { $0.hasSuffix("from ann") })
    }

    private func remove(_ target: UInt64) {
        _ = world.broker.removeWakeTarget(
            target, app: World.app, user: Array("bob".utf8), at: world.now,
            effects: &world.effects)
        world.collect()
    }

    @Test func `is withdrawn from a target that is removed, once`() {
        let other = world.setTarget("bob", device: "pc", .fcm, "token").identifier
        leave()
        remove(world.setTarget("bob", device: "tv", .fcm, "token").identifier)
        #expect(world.news() == [])
        world.send("ann/1", 1, to: .user("bob"), "on")
        #expect(world.news() == ["wake bob 1 from ann"])
        remove(other)
        #expect(world.news() == ["withdrawn bob at one target"])
        // One that no request has named says nothing, however often it comes and goes.
        remove(world.setTarget("bob", device: "pc", .fcm, "token").identifier)
        #expect(world.news() == [])
        world.crash()
        world.connect("relay/1")
        _ = world.told()
        remove(target)
        #expect(world.news() == ["withdrawn bob at one target"])
    }

    @Test func `is asked for once an interval, however often the last target comes and goes`() {
        leave()
        world.send("ann/1", 1, to: .user("bob"), "on")
        #expect(world.news() == ["wake bob 1 from ann"])
        for number in 2...4 as ClosedRange<UInt64> {
            remove(target)
            #expect(world.gauges.wakeUsers == 0)
            world.send("ann/1", number + 10, to: .user("bob"), "nobody is woken")
            world.setTarget("bob")
            world.send("ann/1", number, to: .user("bob"), "on")
        }
        #expect(world.news() == ["withdrawn bob at one target"])
        world.pass(seconds: 60)
        #expect(world.news() == ["wake bob 7 from ann"])
        remove(target)
        _ = world.news()
        world.pass(seconds: 60)
        world.setTarget("bob")
        world.send("ann/1", 20, to: .user("bob"), "on")
        #expect(world.news() == ["wake bob 8 from ann"])
    }

    @Test func `is asked for at once when a device was there since the last target was removed`() {
        leave()
        world.send("ann/1", 1, to: .user("bob"), "on")
        remove(target)
        world.connect("bob/pc")
        world.settleAll()
        world.acknowledgeAll("bob/pc")
        world.settleAll()
        leave()
        world.setTarget("bob")
        _ = world.news()
        world.send("ann/1", 2, to: .user("bob"), "on")
        #expect(world.news() == ["wake bob 1 from ann"])
    }

    @Test func `of a test is withdrawn from a target that is removed after a restart`() {
        _ = world.broker.testWake(
            app: World.app, user: Array("bob".utf8), target: target, at: world.now,
            effects: &world.effects)
        world.collect()
        _ = world.told()
        world.crash()
        world.connect("relay/1")
        _ = world.told()
        remove(target)
        #expect(world.news() == ["withdrawn bob at one target"])
    }

    @Test func `is withdrawn when its user is deleted, and so is a test`() {
        world.setTarget("bob", device: "pc", .fcm, "token")
        _ = world.broker.testWake(
            app: World.app, user: Array("bob".utf8), target: target, at: world.now,
            effects: &world.effects)
        world.collect()
        _ = world.told()
        var deletion = Deletion(of: DeletionScope(app: World.app, user: Array("bob".utf8)))
        while world.broker.delete(&deletion, at: world.now, effects: &world.effects) {
            world.collect()
        }
        world.collect()
        #expect(world.news() == ["withdrawn bob at one target"])
    }

    @Test func `for a message that is in no queue survives a restart, and what else expires`() {
        world.allowWakes { $0.wakesForTransient = true }
        leave()
        world.send("ann/1", 0, to: .user("bob"), "on", grade: .transient)
        #expect(world.news() == ["wake bob 1 from ann"])
        world.sendWaking("ann/1", 1, to: .user("bob"), "on", push: "", wakes: false, expiry: 5)
        for _ in 0..<90 {
            world.pass(seconds: 10)
            world.settle()
        }
        #expect(world.news() == [])
        world.crash()
        world.connect("relay/1")
        world.pass(seconds: 120)
        #expect(world.news() == [])
    }

    @Test func `of a test has a mark, and one target if one is named`() {
        let other = world.setTarget("bob", device: "pc", .fcm, "token").identifier
        func test(_ identifier: UInt64?) -> Int? {
            let count = world.broker.testWake(
                app: World.app, user: Array("bob".utf8), target: identifier, at: world.now,
                effects: &world.effects)
            world.collect()
            return count
        }
        #expect(test(nil) == 2)
        #expect(world.told().first?.contains("\"test\":true") == true)
        #expect(test(other) == 1)
        #expect(world.told().first?.contains("\"id\":\(target),") == false)
        #expect(test(99_999) == nil)
        // Messages that have expired end no test.
        leave()
        world.send("ann/1", 1, to: .user("bob"), "on", expiry: 1)
        _ = world.told()
        world.pass(seconds: 2)
        _ = world.told()
        #expect(test(nil) == 2)
        #expect(validities() == [604_800_000])
    }
}

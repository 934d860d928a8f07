// What few sends ask for: attributes and mentions, which their receivers get, a priority, and a
// time of a reading that could not be sent earlier.

import BrokerTerms
import Primitives
import Testing

@testable import BrokerCore

@Suite struct `A send with fields` {
    let world = World()

    init() {
        world.begin("ann/1", "bob/pc", "carl/1", "dora/1")
    }

    private func lines(_ prefixes: String...) -> [String] {
        world.settle()
        return world.lines().filter { line in
            prefixes.isEmpty || prefixes.contains { line.hasPrefix($0) }
        }
    }

    private var now: UInt64 { world.now.unixMilliseconds }

    // MARK: - Attributes

    @Test func `gives every receiver its attributes, also one who was away`() {
        world.lose("ann/1")
        world.sendFields(
            "bob/pc", 1, to: .users(["ann", "carl"]), "hot", attributes: ["site": "7", "unit": "C"])
        #expect(lines("carl") == [#"carl/1: #1 "hot" from bob, site=7, unit=C"#])
        world.connect("ann/1")
        #expect(lines("ann").contains(#"ann/1: #1 "hot" from bob, site=7, unit=C"#))
    }

    @Test func `keeps them over a restart, and in the grade transient`() {
        world.lose("ann/1")
        world.sendFields("bob/pc", 1, to: .user("ann"), "hot", attributes: ["site": "7"])
        world.settle()
        world.crash()
        world.begin("bob/pc", "carl/1")
        world.connect("ann/1")
        #expect(lines("ann").contains(#"ann/1: #1 "hot" from bob, site=7"#))
        world.sendFields(
            "bob/pc", 0, to: .user("carl"), "x", grade: .transient, attributes: ["a": ""])
        #expect(lines("carl") == [#"carl/1: #- "x" from bob, a="#])
    }

    @Test func `has no fields if it asks for none`() {
        world.send("bob/pc", 1, to: .user("ann"), "plain")
        #expect(lines("ann") == [#"ann/1: #1 "plain" from bob"#])
    }

    // MARK: - Mentions

    private func group() -> String {
        world.makeGroup(owner: "bob/pc", members: ["ann/1", "carl/1"])
    }

    @Test func `tells all members of a group whom it mentions`() {
        let group = group()
        world.sendFields("bob/pc", 1, to: .group(group), "look", mentions: ["ann", "nobody"])
        let told = #"#2 "look" from bob by group \#(group), mentions ann nobody"#
        let received = lines("ann", "carl")
        #expect(received.filter { $0.hasSuffix(told.dropFirst(2)) }.count == 2, "\(received)")
    }

    @Test func `is delivered only to those whom it mentions, if it says so`() {
        let group = group()
        world.sendFields(
            "bob/pc", 1, to: .group(group), "you", mentions: ["carl", "dora", "nobody", "carl"],
            .only)
        let received = lines()
        #expect(received.filter { $0.contains("\"you\"") }.map { $0.prefix(6) } == ["carl/1"])
        #expect(received.contains { $0.contains("mentioned byName") })
        #expect(received.contains("bob/pc: result 1, sent"))
    }

    @Test func `waits for a mentioned member who is away, and for no other`() {
        let group = group()
        for name in ["ann/1", "carl/1"] { world.disconnect(name, expiry: 0) }
        world.settle()
        _ = world.lines()
        world.sendFields("bob/pc", 1, to: .group(group), "you", mentions: ["carl"], .only)
        #expect(lines() == ["bob/pc: result 1, sent"])
        for name in ["ann/1", "carl/1"] { world.connect(name, expiry: 100) }
        let received = lines().filter { $0.contains("\"you\"") }
        #expect(received.map { $0.prefix(6) } == ["carl/1"], "\(received)")
    }

    @Test func `reaches the MQTT subscriptions of those whom it mentions only`() {
        let group = group()
        world.connect("ann/m", dialect: .mqtt3)
        world.connect("carl/m", dialect: .mqtt3)
        for name in ["ann/m", "carl/m"] { world.subscribe(name, "$g/\(group)") }
        _ = lines()
        world.sendFields("bob/pc", 1, to: .group(group), "you", mentions: ["ann"], .only)
        let received = lines().filter { $0.contains("\"you\"") }
        #expect(Set(received.map { $0.prefix(5) }) == ["ann/1", "ann/m"], "\(received)")
    }

    @Test func `to all who are mentioned together is one to the group`() {
        let group = group()
        world.sendFields("bob/pc", 1, to: .group(group), "all", [.all, .only])
        let received = lines("ann", "carl").filter { $0.contains("\"all\"") }
        #expect(received.count == 2)
        #expect(received.allSatisfy { $0.hasSuffix(", mentions all ") }, "\(received)")
    }

    @Test func `that mentions nobody who is a member reaches nobody`() {
        let group = group()
        world.sendFields("bob/pc", 1, to: .group(group), "you", mentions: ["dora"], .only)
        #expect(lines() == ["bob/pc: result 1, noMatchingSubscribers"])
    }

    @Test func `mentions only in a group, and keeps no message that not all members get`() {
        let group = group()
        world.sendFields("bob/pc", 1, to: .user("ann"), "x", mentions: ["ann"])
        world.sendFields("bob/pc", 2, to: .everybody, "x", .all)
        world.sendFields(
            "bob/pc", 3, to: .group(group), "x", isKept: true, mentions: ["ann"], .only)
        #expect(
            lines() == [
                "bob/pc: result 1, topicNameInvalid", "bob/pc: result 2, topicNameInvalid",
                "bob/pc: result 3, topicNameInvalid",
            ])
        world.sendFields("bob/pc", 4, to: .group(group), "x", isKept: true, mentions: ["ann"])
        #expect(lines("bob") == ["bob/pc: result 4, sent"])
    }

    // MARK: - Priority

    @Test func `of grade transient has a priority, and of another grade none`() {
        world.sendFields("bob/pc", 0, to: .user("ann"), "a", grade: .transient, priority: .low)
        world.sendFields("bob/pc", 0, to: .user("ann"), "b", grade: .transient, priority: .high)
        #expect(
            lines("ann") == [#"ann/1: #- "a" from bob, low"#, #"ann/1: #- "b" from bob, high"#])
        world.sendFields("bob/pc", 1, to: .user("ann"), "c", priority: .high)
        #expect(lines() == ["bob/pc: result 1, qosNotSupported"])
    }

    // MARK: - Late readings

    /// What receivers are told of the time of a reading, and whether it is late.
    private func timesAreRefused(_ times: [UInt64]) -> [Bool] {
        times.enumerated().map { index, time in
            world.sendFields(
                "bob/pc", UInt64(index) + 1, to: .user("ann"), "x", time: time, isLate: true)
            world.settle()
            return world.lines().contains { $0.contains("payloadFormatInvalid") }
        }
    }

    @Test func `has the time of its reading up to the age that messages may have`() {
        let age = world.limits.queueAgeSecondsMaximum * 1_000
        let refused = timesAreRefused([
            now, now + 5_000, now - 6_000, now - age, now - age - 1, now + 5_001, 0,
        ])
        #expect(refused == [false, false, false, false, true, true, true])
        #expect(world.counters.senderClocksRejected == 3)
    }

    @Test func `tells that its reading is late, and its time`() {
        world.sendFields("bob/pc", 1, to: .user("ann"), "x", time: now - 3_600_000, isLate: true)
        #expect(lines("ann") == [#"ann/1: #1 "x" from bob, late, at \#(now - 3_600_000)"#])
        // Without the word the broker's time replaces it.
        world.sendFields("bob/pc", 2, to: .user("ann"), "y", time: now - 3_600_000)
        #expect(lines("ann") == [#"ann/1: #2 "y" from bob"#])
    }
}

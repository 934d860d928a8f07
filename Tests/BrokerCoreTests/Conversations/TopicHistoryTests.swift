// Publications that are kept because a filter of their app's settings matches their topic.

import Primitives
import Testing

@testable import BrokerCore

@Suite struct `History of topics` {
    let world = World()

    init() { keep("plant/+/alarm", "log/#") }

    private func keep(_ filters: String...) {
        var policy = AppPolicy()
        policy.historyTopics = filters.map { Array($0.utf8) }
        world.limits.appPolicies[World.app] = policy
    }

    private func texts(_ topic: String) -> [String] {
        world.history(.topic(topic)).map(\.text)
    }

    private func page(_ user: String, of topic: String) -> String {
        _ = world.lines()
        world.requestHistory(user, of: .topic(topic))
        world.settle()
        return world.lines().last ?? ""
    }

    // MARK: - Keeping

    @Test func `has the numbered publications on topics that match, one conversation for each`() {
        world.begin("ann/1", "bob/pc")
        world.send("ann/1", 1, to: .topic("plant/1/alarm"), "hot")
        world.send("bob/pc", 1, to: .topic("plant/2/alarm"), "cold", grade: .once)
        world.send("bob/pc", 2, to: .topic("plant/1/alarm"), "hotter", grade: .once)
        world.send("ann/1", 2, to: .topic("plant/1"), "elsewhere")
        world.send("ann/1", 3, to: .topic("log"), "parent")
        world.send("ann/1", 0, to: .topic("plant/1/alarm"), "transient", grade: .transient)
        world.send("ann/1", 4, to: .topic("plant/1/alarm"), "refused", isKept: false)
        world.settle()
        #expect(texts("plant/1/alarm") == ["hotter", "hot"])
        #expect(texts("plant/2/alarm") == ["cold"])
        #expect(texts("plant/1") == [] && texts("log") == ["parent"])
        #expect(world.counters.sendsRefused == 0)
        #expect(world.gauges.conversations == 3 && world.gauges.keptTopics == 3)
        #expect(world.history(.topic("plant/1/alarm")).map(\.number) == [2, 1])
    }

    @Test func `is in the commit for which the result waits, and outlives the broker`() {
        world.begin("ann/1")
        world.send("ann/1", 1, to: .topic("log/1"), "one")
        #expect(world.lines() == [])
        world.settle()
        #expect(world.lines() == ["ann/1: result 1, noMatchingSubscribers"])
        world.crash()
        #expect(texts("log/1") == ["one"])
        world.begin("ann/1")
        world.send("ann/1", 2, to: .topic("log/1"), "two")
        world.settle()
        world.crash()
        #expect(world.history(.topic("log/1")).map(\.number) == [2, 1])
    }

    @Test func `follows the settings, and keeps what it has when a filter goes`() {
        world.begin("ann/1")
        world.send("ann/1", 1, to: .topic("log/1"), "one")
        world.settle()
        keep("plant/+/alarm")
        world.send("ann/1", 2, to: .topic("log/1"), "two")
        world.send("ann/1", 3, to: .topic("log/1"), "asked for", isKept: true)
        world.settle()
        #expect(texts("log/1") == ["one"])
        #expect(world.lines().contains("ann/1: result 3, topicNameInvalid"))
        #expect(page("ann/1", of: "log/1").contains("one"))
        keep("log/1")
        world.send("ann/1", 4, to: .topic("log/1"), "three", isKept: true)
        world.settle()
        #expect(texts("log/1") == ["three", "one"])
    }

    @Test func `needs a filter, of which one app's are none of another's`() {
        _ = try! world.broker.addApp(
            Array("other".utf8), keyDigest: Digest(words: (9, 9, 9, 9)), rights: .everything)
        #expect(
            world.broker.keptTopics(ofApp: Array("other".utf8), after: 0, countMaximum: 1)?.topics
                .isEmpty == true)
        #expect(world.broker.keptTopics(ofApp: [], after: 0, countMaximum: 1) == nil)
        world.begin("ann/1")
        world.limits.appPolicies[World.app] = nil
        world.send("ann/1", 1, to: .topic("log/1"), "one")
        world.settle()
        #expect(world.gauges.conversations == 0)
    }

    @Test func `of a topic that is longer than such topics may be is not kept`() {
        world.begin("ann/1")
        let maximum = CoreLimits.historyTopicBytesMaximum
        let topic = "log/" + String(repeating: "x", count: maximum - 4)
        world.send("ann/1", 1, to: .topic(topic), "one")
        world.send("ann/1", 2, to: .topic(topic + "x"), "two")
        world.settle()
        #expect(world.gauges.keptTopics == 1 && world.gauges.keptMessages == 1)
    }

    @Test func `without delivery reaches no subscriber`() {
        world.begin("ann/1", "bob/pc")
        world.subscribe("bob/pc", "log/#")
        world.settle()
        _ = world.lines()
        world.insert("ann/1", 1, to: .topic("log/1"), "from the card")
        world.settle()
        #expect(world.lines().filter { $0.hasPrefix("bob") } == [])
        #expect(texts("log/1") == ["from the card"])
    }

    // MARK: - Limits

    @Test func `beyond the topics of an app is delivered, and not kept`() {
        world.limits.historyTopicsPerAppMaximum = 2
        world.begin("ann/1")
        for number in 1...3 as ClosedRange<UInt64> {
            world.send("ann/1", number, to: .topic("log/\(number)"), "\(number)")
        }
        world.settle()
        #expect(world.lines().filter { $0.contains("noMatchingSubscribers") }.count == 3)
        #expect(texts("log/3") == [] && world.counters.historyRefused == 1)
        world.send("ann/1", 4, to: .topic("log/3"), "asked for", isKept: true)
        #expect(world.lines() == ["ann/1: result 4, quotaExceeded"])
        // Users and groups have the rest of the conversations.
        world.send("ann/1", 5, to: .user("ann"), "note", isKept: true)
        world.settle()
        #expect(world.history(of: "ann", and: "ann").count == 1)
    }

    @Test func `of a topic without messages makes room for another one`() {
        world.limits.historyTopicsPerAppMaximum = 1
        world.limits.historyAgeSecondsMaximum = 10
        world.begin("ann/1")
        world.send("ann/1", 1, to: .topic("log/1"), "old")
        world.settle()
        world.pass(seconds: 60)
        world.settle()
        #expect(texts("log/1") == [] && world.gauges.keptTopics == 1)
        world.send("ann/1", 2, to: .topic("log/2"), "new")
        world.settle()
        #expect(texts("log/2") == ["new"] && world.gauges.keptTopics == 1)
        world.crash()
        #expect(texts("log/2") == ["new"] && world.gauges.keptTopics == 1)
    }

    @Test func `gives up its oldest messages beyond its count, and the largest one for the app`() {
        world.limits.historyCountMaximum = 2
        world.begin("ann/1")
        for number in 1...4 as ClosedRange<UInt64> {
            world.send("ann/1", number, to: .topic("log/1"), "\(number)")
            world.settle()
        }
        #expect(texts("log/1") == ["4", "3"])
        #expect(world.counters.historyDropped == 2)
    }

    // MARK: - Reading

    @Test func `is read by who may subscribe to the topic`() {
        world.begin("ann/1", "bob/pc")
        world.send("ann/1", 1, to: .topic("plant/1/alarm"), "hot")
        world.settle()
        #expect(page("bob/pc", of: "plant/1/alarm").contains("#1 hot of ann"))
        world.setRights("publish:#", "subscribe:log/%u/#")
        world.begin("bob/pc")
        #expect(page("bob/pc", of: "plant/1/alarm").hasSuffix("notAuthorized"))
        // It does not learn whether anything is kept.
        #expect(page("bob/pc", of: "plant").hasSuffix("notAuthorized"))
        #expect(page("bob/pc", of: "log/bob/x").contains("history"))
        // An operator who asks for the reason gets the same answer.
        for (topic, isAllowed) in [("plant/1/alarm", false), ("log/bob/x", true)] {
            let decision = Array(topic.utf8).withUnsafeBytes {
                world.explain("bob/pc", .subscribe(filter: $0)).decision
            }
            #expect(decision.isAllowed == isAllowed)
        }
    }

    @Test(arguments: ["$SYS/broker/uptime", "$u/ann", "plant/1", "log/+"])
    func `of other topics is refused`(topic: String) {
        world.begin("ann/1")
        let line = page("ann/1", of: topic)
        #expect(line.hasSuffix("topicNameInvalid") || topic == "log/+", "\(line)")
    }

    @Test func `has no read marks, and is in no list of a user`() {
        world.begin("ann/1", "bob/pc")
        world.send("ann/1", 1, to: .topic("log/1"), "one")
        world.settle()
        #expect(world.conversations(of: "ann").isEmpty && world.conversations(of: "bob").isEmpty)
        _ = world.lines()
        world.markRead("bob/pc", of: .topic("log/1"), through: 1)
        world.settle()
        #expect(world.lines().last?.hasSuffix("topicNameInvalid") == true)
    }

    @Test func `is listed in pages, in the order in which it began, and removed by operators`() {
        world.begin("ann/1")
        for number in 1...3 as ClosedRange<UInt64> {
            world.send("ann/1", number, to: .topic("log/\(4 - number)"), "\(number)")
        }
        world.send("ann/1", 4, to: .topic("log/3"), "more")
        world.settle()
        world.crash()
        let first = world.broker.keptTopics(ofApp: World.app, after: 0, countMaximum: 2)!
        #expect(first.topics.map(\.topic) == ["log/3", "log/2"].map { Array($0.utf8) })
        #expect(first.topics.map(\.messageCount) == [2, 1])
        #expect(first.topics.map(\.lastNumber) == [2, 1])
        let second = world.broker.keptTopics(
            ofApp: World.app, after: first.next ?? 0, countMaximum: 2)!
        #expect(second.topics.map(\.topic) == [Array("log/1".utf8)] && second.next == nil)
        let drop = world.broker.removeFromHistory(2, of: .topic("log/3"))
        #expect(drop != nil && drop != .absent)
        world.settle()
        #expect(texts("log/3") == ["1"])
        world.crash()
        world.begin("ann/1")
        world.send("ann/1", 5, to: .topic("log/3"), "next")
        world.settle()
        #expect(world.history(.topic("log/3")).map(\.number) == [3, 1])
    }
}

// Retained messages as an operator lists, shows and deletes them.

import Primitives
import Testing

@testable import BrokerCore

@Suite struct `Retained messages of an operator` {
    let world = World()

    private func retain(_ topics: String..., expiry: UInt64? = nil) {
        if world.connections["bob/pc"] == nil { world.beginMQTT("bob/pc") }
        for (index, topic) in topics.enumerated() {
            world.publish(
                "bob/pc", UInt16(index + 1), topic, "kept", isRetained: true, expiry: expiry)
            world.settle()
        }
    }

    private func page(
        _ filter: String, after cursor: UInt32? = nil, count: Int = 100, app: [UInt8] = World.app
    ) -> (topics: [String], next: UInt32?) {
        var search = RetainedSearch(
            app: app, matching: Array(filter.utf8), after: cursor, countMaximum: count)
        while world.broker.advance(&search, at: world.now) {}
        let topics = search.found.map { String(decoding: $0.topic, as: UTF8.self) }
        return (topics.sorted(), search.next)
    }

    private func delete(_ filter: String, count: Int = 100) -> (count: Int, next: UInt32?) {
        var search = RetainedSearch(
            app: World.app, matching: Array(filter.utf8), after: nil, countMaximum: count)
        while world.broker.deleteRetained(&search, at: world.now) { world.settle() }
        world.settle()
        return (search.count, search.next)
    }

    @Test func `are listed by a filter, without those that expired`() {
        retain("a/1", "a/2", "b/1", "a")
        retain("a/old", expiry: 10)
        world.now.instant = world.now.instant.advanced(bySeconds: 10)
        #expect(page("#").topics == ["a", "a/1", "a/2", "b/1"])
        #expect(page("a/#").topics == ["a", "a/1", "a/2"])
        #expect(page("+/1").topics == ["a/1", "b/1"])
        #expect(page("b/1").topics == ["b/1"])
        #expect(page("a/old").topics == [] && page("b/2").topics == [])
        #expect(page("#", app: Array("other".utf8)).topics == [])
    }

    @Test func `are listed in pages, each topic once, though others come and go`() {
        retain("a/1", "a/2", "a/3", "a/4", "a/5")
        var topics: [String] = []
        var cursor: UInt32?
        repeat {
            let part = page("#", after: cursor, count: 2)
            topics += part.topics
            cursor = part.next
            // A topic that is replaced keeps its place, and a free place may be used again.
            retain("a/1", "a/5")
            _ = delete("b/#")
            retain("b/1")
        } while cursor != nil
        topics.removeAll { !$0.hasPrefix("a") }
        #expect(topics.sorted() == ["a/1", "a/2", "a/3", "a/4", "a/5"])
        #expect(page("a/1", after: 7).topics == [])
    }

    @Test func `are read in slices`() {
        world.limits.retainedPerAppMaximum = 10_000
        world.beginMQTT("bob/pc")
        for number in 0..<RetainedSearch.sliceCount + 10 {
            world.publish("bob/pc", "t/\(number)", "x", grade: .transient, isRetained: true)
        }
        world.settle()
        var search = RetainedSearch(
            app: World.app, matching: Array("t/#".utf8), after: nil, countMaximum: 10_000)
        #expect(world.broker.advance(&search, at: world.now))
        #expect(search.count == RetainedSearch.sliceCount)
        #expect(!world.broker.advance(&search, at: world.now))
        #expect(search.count == RetainedSearch.sliceCount + 10 && search.next == nil)
        var deletion = RetainedSearch(
            app: World.app, matching: Array("t/#".utf8), after: nil, countMaximum: 1_500)
        #expect(world.broker.deleteRetained(&deletion, at: world.now))
        #expect(deletion.count == RetainedSearch.deletionSliceCount)
        #expect(!world.broker.deleteRetained(&deletion, at: world.now))
        #expect(deletion.count == 1_500 && deletion.next != nil)
        #expect(delete("#", count: 10_000).count == RetainedSearch.sliceCount + 10 - 1_500)
        #expect(page("#").topics == [])
        let app = world.broker.app(named: World.app)!
        #expect(world.broker.retainedByteCount(ofApp: app) == 0)
    }

    @Test func `fill a page by the bytes of their topics`() {
        world.beginMQTT("bob/pc")
        for number in 0..<8 {
            let topic = String(repeating: "x", count: 60_000) + "\(number)"
            world.publish("bob/pc", topic, "x", grade: .transient, isRetained: true)
        }
        let first = page("#")
        #expect(first.topics.count == 5 && first.next != nil)
        #expect(page("#", after: first.next).topics.count == 3)
    }

    @Test func `are shown with their content`() throws {
        retain("a/1", expiry: 60)
        func show(_ topic: String, contentMaximum: Int = 10) -> RetainedDescription? {
            world.broker.retainedMessage(
                of: Array(topic.utf8), app: World.app, contentMaximum: contentMaximum,
                at: world.now)
        }
        let message = try #require(show("a/1"))
        #expect(message.sender == Array("bob".utf8) && message.content == Array("kept".utf8))
        #expect(message.type == nil && message.deadline < .never)
        #expect(show("a/1", contentMaximum: 1)?.content == Array("k".utf8))
        #expect(show("a/1", contentMaximum: 1)?.contentByteCount == 4)
        #expect(show("a") == nil && show("a/+") == nil)
        world.now.instant = world.now.instant.advanced(bySeconds: 60)
        #expect(show("a/1") == nil)
    }

    @Test(arguments: [false, true])
    func `are deleted with a commit, or not at all`(isCommitted: Bool) {
        retain("a/1", "a/2", "b/1")
        var search = RetainedSearch(
            app: World.app, matching: Array("a/#".utf8), after: nil, countMaximum: 10)
        #expect(!world.broker.deleteRetained(&search, at: world.now))
        #expect(search.count == 2)
        #expect(world.beginCommit())
        world.crash(committing: isCommitted)
        world.settle()
        #expect(page("#").topics == (isCommitted ? ["b/1"] : ["a/1", "a/2", "b/1"]))
    }

    @Test func `that are deleted are sent to nobody, and a replay goes on`() {
        retain("a/1", "a/2")
        world.beginMQTT("ann/1")
        #expect(delete("a/1").count == 1)
        #expect(world.lines() == [])
        world.subscribeMQTT("ann/1", "#")
        #expect(world.lines(of: "ann/1").filter { $0.contains("retained") }.count == 1)
        #expect(delete("a/1").count == 0)
    }

    /// The tree finds retained messages for subscriptions, and the levels for operators.
    @Test func `match like those that a subscription gets`() {
        var random = WalkRandom(seed: 7)
        for _ in 0..<300 {
            var tree = RetainedTree<Retained>()
            var topics: [String] = []
            for _ in 0..<12 {
                let levels = (0...random.below(3)).map { _ in
                    random.of(["a", "b", "", "$x", "+a"])
                }
                let topic = levels.joined(separator: "/")
                guard !topics.contains(topic) else { continue }
                _ = Array(topic.utf8).withUnsafeBytes {
                    tree.set($0, to: Index(place: UInt32(topics.count)))
                }
                topics.append(topic)
            }
            var parts = (0...random.below(3)).map { _ in random.of(["a", "b", "", "+", "+", "$x"]) }
            if random.below(2) == 0 { parts[parts.count - 1] = "#" }
            let filter = Array(parts.joined(separator: "/").utf8)
            let expected = tree.matches(filter).map { topics[Int($0.place)] }.sorted()
            let levels = FilterLevels(filter)
            let found = topics.filter { topic in
                Array(topic.utf8).withUnsafeBytes { levels.match(TopicLevels($0)) }
            }
            #expect(found.sorted() == expected, "\(parts): \(topics)")
        }
    }
}

// Messages that are kept and not delivered, and searches of users.

import Primitives
import Testing

@testable import BrokerCore

@Suite struct `A message that is only kept` {
    let world = World()
    /// The broker's time at the beginning.
    private let start: UInt64 = 1_700_000_000_000

    @Test func `is in the conversation, with the time of its sender, and in no inbox`() {
        world.begin("ann/1", "bob/pc")
        for (number, age) in [(1, 86_400_000), (2, 60_000)] as [(UInt64, UInt64)] {
            world.insert("bob/pc", number, to: .user("ann"), "\(number)", time: start - age)
        }
        world.insert("bob/pc", 3, to: .user("ann"), "3", grade: .once)
        world.insert("bob/pc", 4, to: .user("ann"), "4", time: start + 60_000)
        world.settle()
        #expect(world.lines() == (1...4).map { "bob/pc: result \($0), sent" })
        #expect(world.gauges.queuedMessages == 0)
        for _ in 1...2 {
            let page = world.historyPage(.pair("ann", "bob"))!
            #expect(
                page.messages.map { start - $0.unixMilliseconds } == [0, 0, 60_000, 86_400_000])
            #expect(world.conversations(of: "ann").map(\.unreadCount) == [4])
            world.crash()
        }
    }

    @Test func `repeated is not kept twice`() {
        world.begin("ann/1", "bob/pc")
        for _ in 1...2 { world.insert("bob/pc", 1, to: .user("ann"), "1", grade: .once) }
        world.settle()
        world.insert("bob/pc", 1, to: .user("ann"), "1", grade: .once)
        world.settle()
        #expect(world.history(of: "ann", and: "bob").count == 1)
    }

    @Test func `goes to conversations that exist, and is refused elsewhere`() {
        world.begin("ann/1", "bob/pc", "carl/1")
        let group = world.makeGroup(owner: "bob/pc", members: ["ann/1"])
        world.insert("bob/pc", 1, to: .group(group), "g")
        world.insert("bob/pc", 2, to: .users(["ann", "nobody"]), "l")
        world.insert("bob/pc", 3, to: .user("nobody"), "n")
        world.insert("carl/1", 1, to: .group(group), "foreign")
        world.insert("bob/pc", 4, to: .topic("a"), "t")
        world.settle()
        let lines = world.lines()
        #expect(lines.contains("bob/pc: result 1, sent"))
        #expect(lines.contains { $0.hasPrefix("bob/pc: result 2, sent, 1 refused") }, "\(lines)")
        #expect(lines.contains("bob/pc: result 3, topicNameInvalid"))
        #expect(lines.contains("carl/1: result 1, notAuthorized"))
        #expect(lines.contains("bob/pc: result 4, topicNameInvalid"))
        #expect(world.history(.group(group)).map(\.text) == ["g"])
        #expect(world.history(of: "ann", and: "bob").map(\.text) == ["l"])
    }

    @Test func `that the store has no room for is refused`() {
        world.begin("ann/1", "bob/pc")
        world.store.isFull = true
        world.insert("bob/pc", 1, to: .user("ann"), "1")
        world.settle()
        #expect(world.lines() == ["bob/pc: result 1, quotaExceeded"])
        world.store.isFull = false
        world.pass(seconds: 10)
        world.settle()
        world.insert("bob/pc", 1, to: .user("ann"), "1")
        world.settle()
        #expect(world.history(of: "ann", and: "bob").map(\.text) == ["1"])
    }
}

@Suite struct `A search of a user` {
    let world = World()

    private func found(_ change: (inout HistorySearch) -> Void) -> String? {
        var search = HistorySearch()
        change(&search)
        _ = world.lines()
        world.requestHistory("ann/1", of: .user("bob"), count: 2, search: search)
        world.settle()
        return world.lines().last.map { String($0.drop { $0 != "[" }) }
    }

    @Test func `finds by text, sender and time, in pages of what is read`() {
        world.begin("ann/1", "bob/pc")
        for (number, text) in ["valve open", "valve shut", "pump on"].enumerated() {
            world.insert(
                "bob/pc", UInt64(number + 1), to: .user("ann"), text,
                time: 1_600_000_000_000 + UInt64(number))
        }
        world.insert("ann/1", 1, to: .user("bob"), "valve?", time: 1_600_000_000_009)
        world.settle()
        #expect(found { $0.text = Array("valve".utf8) } == "[#4 valve? of ann] before 3")
        #expect(found { $0.text = Array("tank".utf8) } == "[] before 3")
        #expect(found { $0.sender = Array("bob".utf8) } == "[#3 pump on of bob] before 3")
        #expect(found { $0.since = 1_600_000_000_003 } == "[#4 valve? of ann] before 3")
        #expect(found { $0.until = 1_600_000_000_009 } == "[#3 pump on of bob] before 3")
        _ = world.lines()
        var search = HistorySearch()
        search.text = Array("open".utf8)
        world.requestHistory("ann/1", of: .user("bob"), before: 3, search: search)
        world.settle()
        #expect(world.lines().last?.hasSuffix("[#1 valve open of bob]") == true)
    }
}

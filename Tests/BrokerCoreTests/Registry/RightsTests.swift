// What rights allow, as tables: a right, who bears it, what is asked for, and the decision.
import Primitives
import Testing

@testable import BrokerCore

private func rights(_ texts: String...) throws -> Rights {
    try Rights(texts.map { Array($0.utf8) })
}

private enum Asked {
    case send(String), publish(String), subscribe(String), presence(String), receipts(String)
    case broadcast, createGroup
}

extension Rights {
    fileprivate func allows(
        _ asked: Asked, user: String = "alice", device: String = "d1"
    ) -> Bool {
        let names = PrincipalNames(
            user: Name(Array(user.utf8)), device: Name(Array(device.utf8)))
        func ask(_ text: String, _ action: (UnsafeRawBufferPointer) -> RightsAction) -> Bool {
            Array(text.utf8).withUnsafeBytes { isAllowed(action($0), names) }
        }
        switch asked {
        case .send(let user): return ask(user) { .send(user: $0) }
        case .publish(let topic): return ask(topic) { .publish(topic: $0) }
        case .subscribe(let filter): return ask(filter) { .subscribe(filter: $0) }
        case .presence(let user): return ask(user) { .presence(user: $0) }
        case .receipts(let name): return ask(name) { .receipts(of: $0) }
        case .broadcast: return isAllowed(.broadcast, names)
        case .createGroup: return isAllowed(.createGroup, names)
        }
    }

    private func isAllowed(_ action: RightsAction, _ names: PrincipalNames) -> Bool {
        var comparisons = 0
        if case .allowed = deciding(action, for: names, comparisons: &comparisons) { return true }
        return false
    }
}

@Suite struct RightsTests {
    @Test func `no right allows nothing`() {
        let none = Rights()
        for asked in [
            Asked.send("bob"), .publish("a"), .subscribe("a"), .presence("bob"), .broadcast,
            .createGroup,
        ] {
            #expect(!none.allows(asked))
        }
    }

    @Test func `an ordinary user may do everything but broadcast`() {
        for asked in [
            Asked.send("bob"), .publish("a/b"), .subscribe("#"), .presence("bob"), .createGroup,
        ] {
            #expect(Rights.ordinary.allows(asked))
        }
        #expect(!Rights.ordinary.allows(.broadcast))
        #expect(Rights.everything.allows(.broadcast))
    }

    @Test(arguments: [
        ("send:bob", "bob", true), ("send:bob", "bobby", false), ("send:bob", "", false),
        ("send:pump-*", "pump-7", true), ("send:pump-*", "pump-", true),
        ("send:pump-*", "pump", false), ("send:*-7", "pump-7", true),
        ("send:*-7", "pump-7-7", true), ("send:*-7", "pump-71", false),
        ("send:a*b*c", "a1b2b3c", true), ("send:a*b*c", "a1b2b3", false),
        ("send:**", "x", true), ("send:%u", "alice", true), ("send:%u", "alic", false),
        ("send:%u-*", "alice-2", true), ("send:%d", "d1", true), ("send:50%%", "50%", true),
    ])
    func `a pattern for names`(_ right: String, _ user: String, _ isAllowed: Bool) throws {
        #expect(try rights(right).allows(.send(user)) == isAllowed)
    }

    @Test(arguments: [
        ("publish:a/b", "a/b", true), ("publish:a/b", "a/b/c", false), ("publish:a/b", "a", false),
        ("publish:a/+", "a/x", true), ("publish:a/+", "a/x/y", false), ("publish:a/+", "a", false),
        ("publish:a/+", "a/", true), ("publish:a/#", "a", true), ("publish:a/#", "a/b/c", true),
        ("publish:a/#", "ab", false), ("publish:+/b", "/b", true), ("publish:a//b", "a//b", true),
        ("publish:a/b", "a/b/", false), ("publish:#", "anything/at/all", true),
        ("publish:site/%u/#", "site/alice/t", true), ("publish:site/%u/#", "site/bob/t", false),
        ("publish:dev-%d/+", "dev-d1/t", true), ("publish:*", "x", false),
    ])
    func `a filter for topics`(_ right: String, _ topic: String, _ isAllowed: Bool) throws {
        #expect(try rights(right).allows(.publish(topic)) == isAllowed)
    }

    @Test(arguments: [
        ("subscribe:a/#", "a/#", true), ("subscribe:a/#", "a/+/c", true),
        ("subscribe:a/#", "#", false), ("subscribe:a/#", "+/b", false),
        ("subscribe:a/+", "a/+", true), ("subscribe:a/+", "a/b", true),
        ("subscribe:a/+", "a/#", false), ("subscribe:a/+/c", "a/+/+", false),
        ("subscribe:a/b", "a/+", false), ("subscribe:+/+", "a/#", false),
        ("subscribe:#", "#", true), ("subscribe:%u/#", "alice/#", true),
        ("subscribe:%u/#", "+/#", false),
    ])
    func `a filter has to cover the filter asked for`(
        _ right: String, _ filter: String, _ isAllowed: Bool
    ) throws {
        #expect(try rights(right).allows(.subscribe(filter)) == isAllowed)
    }

    @Test func `a name that looks like a pattern stands for itself alone`() throws {
        let own = try rights("send:%u", "publish:%d/#")
        #expect(own.allows(.send("*"), user: "*"))
        #expect(!own.allows(.send("bob"), user: "*"))
        #expect(!own.allows(.send("alice"), user: "%u"))
    }

    @Test(arguments: ["", "a/b", "+", "#", "a#"])
    func `a device that would change a filter gets nothing from it`(_ device: String) throws {
        let own = try rights("publish:dev/%d/#", "send:%d*")
        #expect(!own.allows(.publish("dev/\(device)/t"), device: device))
        #expect(!own.allows(.publish("dev/x/t"), device: device))
        #expect(!own.allows(.send(device + "x"), device: device))
    }

    @Test(arguments: [
        ("subscribe:%d/#", "$SYS/#"), ("subscribe:%u/#", "$SYS/#"), ("publish:%d/x", "$SYS/x"),
        ("subscribe:$%d/#", "$$SYS/#"), ("subscribe:$S%d/#", "$S$SYS/#"),
        ("subscribe:%d%u/#", "$SYS$SYS/#"),
    ])
    func `what stands for a name is no first level of the broker's own`(
        _ right: String, _ asked: String
    ) throws {
        let own = try rights(right)
        #expect(!own.allows(.subscribe(asked), user: "$SYS", device: "$SYS"))
        #expect(!own.allows(.publish(asked), user: "$SYS", device: "$SYS"))
    }

    @Test func `a name with a dollar sign is a name behind the first level`() throws {
        let own = try rights("publish:site/%d/#", "send:%u")
        #expect(own.allows(.publish("site/$SYS/x"), user: "$SYS", device: "$SYS"))
        #expect(own.allows(.send("$SYS"), user: "$SYS", device: "$SYS"))
    }

    @Test(arguments: ["", "a/b", "+", "#", "a#"])
    func `a user who would change a filter gets nothing from it`(_ user: String) throws {
        let own = try rights("subscribe:site/%u/#", "send:%u*")
        #expect(!own.allows(.subscribe("site/\(user)/#"), user: user))
        #expect(!own.allows(.send(user + "x"), user: user))
    }

    @Test func `one kind of right says nothing of another`() throws {
        let sender = try rights("send:*")
        #expect(!sender.allows(.presence("bob")))
        #expect(!sender.allows(.publish("bob")))
        #expect(!sender.allows(.createGroup))
    }

    @Test func `the right that decides is told`() throws {
        let several = try rights("send:pump-*", "send:bob")
        let names = PrincipalNames(user: Name([]), device: Name([]))
        var comparisons = 0
        let deciding = Array("bob".utf8).withUnsafeBytes {
            several.deciding(.send(user: $0), for: names, comparisons: &comparisons)
        }
        #expect(deciding == .allowed(Array("send:bob".utf8)))
    }

    @Test(arguments: [
        ("!publish:a/b", "a/b", false), ("!publish:a/b", "a/c", true),
        ("!publish:a/#", "a", false), ("!publish:a/#", "ab", true), ("!publish:#", "x", false),
        ("!publish:+/b", "a/b", false), ("!publish:+/b", "a/b/c", true),
        ("!publish:site/%u/#", "site/alice/x", false), ("!publish:site/%u/#", "site/bob/x", true),
        ("!publish:dev/%d", "dev/d1", false), ("!subscribe:#", "a/b", true),
    ])
    func `a denial counts before what allows`(
        _ denial: String, _ topic: String, _ isAllowed: Bool
    ) throws {
        #expect(try rights("publish:#", denial).allows(.publish(topic)) == isAllowed)
        #expect(try rights(denial, "publish:#", "publish:a/b").allows(.publish(topic)) == isAllowed)
        #expect(try !rights(denial).allows(.publish(topic)))
    }

    @Test(arguments: [
        ("!subscribe:a/b", "a/b", false), ("!subscribe:a/b", "a/+", false),
        ("!subscribe:a/b", "a/#", false), ("!subscribe:a/b", "#", false),
        ("!subscribe:a/b", "+/b", false), ("!subscribe:a/b", "+/+/#", false),
        ("!subscribe:a/b", "+", true), ("!subscribe:a/b", "a/b/#", false),
        ("!subscribe:a/b", "a/b/+", true), ("!subscribe:a/b", "+/c", true),
        ("!subscribe:a/#", "a", false), ("!subscribe:a/#", "+", false),
        ("!subscribe:a/#", "b/#", true), ("!subscribe:a/+", "a/#", false),
        ("!subscribe:a/+", "a", true), ("!subscribe:+/x", "a/+", false),
        ("!subscribe:+/x", "a/y", true), ("!subscribe:$SYS/#", "#", true),
        ("!subscribe:$SYS/#", "+/x", true), ("!subscribe:$SYS/#", "$SYS/x", false),
        ("!subscribe:%u/secret", "+/secret", false), ("!subscribe:%u/secret", "bob/secret", true),
    ])
    func `a filter is denied if one of its topics is`(
        _ denial: String, _ filter: String, _ isAllowed: Bool
    ) throws {
        let own = try rights("subscribe:#", "subscribe:$SYS/#", denial)
        #expect(own.allows(.subscribe(filter)) == isAllowed)
    }

    @Test func `names, broadcasts and groups can be denied`() throws {
        let own = try rights(
            "send:*", "!send:boss-*", "presence:*", "!presence:bob", "broadcast", "!broadcast",
            "group:create", "!group:create", "receipts:*", "!receipts:%u")
        #expect(own.allows(.send("bob")))
        #expect(!own.allows(.send("boss-1")))
        #expect(!own.allows(.presence("bob")))
        #expect(own.allows(.presence("carol")))
        #expect(!own.allows(.broadcast))
        #expect(!own.allows(.createGroup))
        #expect(!own.allows(.receipts("alice")))
        #expect(own.decidingAll(.presence) == .denied(Array("!presence:bob".utf8)))
    }

    @Test(arguments: ["x/y", "x+y", "#", "/"])
    func `a denial with a name that adds levels or wildcards denies everything of its kind`(
        _ device: String
    ) throws {
        let own = try rights("publish:dev/#", "!publish:dev/%d/config", "subscribe:#", "send:*")
        #expect(own.allows(.publish("dev/z/config"), device: "d1"))
        #expect(!own.allows(.publish("dev/\(device)/config"), device: device))
        #expect(!own.allows(.publish("dev/a"), device: device))
        #expect(own.allows(.subscribe("dev/a"), device: device))
        #expect(!(try rights("send:*", "!send:%d-boss").allows(.send("bob"), device: device)))
        #expect(!(try rights("send:*", "!send:%u").allows(.send("bob"), user: device)))
    }

    @Test func `the denial is told, wherever it is written`() throws {
        let several = try rights("send:*", "!send:b*", "!send:bob")
        let names = PrincipalNames(user: Name([]), device: Name([]))
        var comparisons = 0
        let deciding = Array("bob".utf8).withUnsafeBytes {
            several.deciding(.send(user: $0), for: names, comparisons: &comparisons)
        }
        #expect(deciding == .denied(Array("!send:b*".utf8)))
    }

    @Test func `a denied filter of the broker's own topics needs no name`() throws {
        let own = try rights("subscribe:$SYS/#", "!subscribe:#")
        let names = PrincipalNames(user: Name([]), device: Name([]))
        var comparisons = 0
        let deciding = Array("$SYS/broker".utf8).withUnsafeBytes {
            own.decidingByName(.subscribe(filter: $0), for: names, comparisons: &comparisons)
        }
        #expect(deciding == .denied(Array("!subscribe:#".utf8)))
    }

    @Test(arguments: [
        "", "send", "send:", "!", "!send", "!!send:a", "! send:a", "fly:*", "broadcast:",
        "broadcast:x", "group:", "group:delete",
        "publish:a/#/b", "publish:a+", "subscribe:#a", "send:%", "send:%x", "Send:*",
        "send:" + String(repeating: "x", count: Rights.textByteCountMaximum),
    ])
    func `what is not a right is refused`(_ text: String) {
        #expect(throws: RightsError.self) { try rights(text) }
    }

    @Test func `more rights than the maximum are refused`() throws {
        let most = Array(repeating: Array("send:a".utf8), count: Rights.countMaximum)
        #expect(try Rights(most).texts == most)
        #expect(throws: RightsError.tooLarge) { try Rights(most + [Array("send:a".utf8)]) }
    }

    @Test func `a pattern of stars against the longest name ends soon`() throws {
        let pattern = "send:" + String(repeating: "a*", count: 60) + "b"
        let longest = String(repeating: "a", count: 64)
        #expect(try !rights(pattern).allows(.send(longest)))
    }
}

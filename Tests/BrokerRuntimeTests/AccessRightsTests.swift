// Rights on real connections: a request without a right is refused by name, logged, and explained.
import Administration
import Testing

@testable import BrokerRuntime

@Suite struct AccessRightsTests {
    private let broker: RunningBroker

    init() throws {
        broker = try RunningBroker()
        try broker.makeApp()
        _ = try broker.makeTokens("bob", "carol")
    }

    /// A peer logged in with a token of these rights, or of the app's.
    private func peer(
        _ user: String = "alice", device: String = "d1", rights: [String]? = nil
    ) throws -> Peer {
        let minted = try broker.administrator().send(
            MintTokens(app: "demo", users: [user], rights: rights))
        let peer = try Peer(port: broker.port)
        #expect(peer.login(token: minted.tokens[0].token, device: device) == .connected)
        return peer
    }

    private func refusal(_ event: String) throws -> String {
        try #require(broker.log.line { $0.contains("event=\(event)") })
    }

    @Test func `a send without a right is refused, and the log names the receiver`() throws {
        let alice = try peer(rights: ["send:b*"])
        #expect(alice.send("x", to: "bob") == .sent)
        #expect(alice.send("x", to: "carol") == .notAuthorized)
        let line = try refusal("send_refused")
        #expect(LogPipe.value("subject", in: line) == "carol")
        #expect(LogPipe.value("reason", in: line) == "not-authorized")
        // Whether a user is known is nothing for who may not send there.
        #expect(alice.send("x", to: "nobody") == .notAuthorized)
    }

    @Test func `a list is delivered to the allowed receivers only`() throws {
        let bob = try peer("bob")
        let alice = try peer(rights: ["send:bob"])
        let result = alice.sendText("x") { source in
            source.bytes = [3] + Array("bob".utf8) + [5] + Array("carol".utf8)
            return .list(count: 2, ids: .init(offset: 0, count: source.bytes.count))
        }
        #expect(result == .sent)
        #expect(bob.delivery() == "x")
        #expect(LogPipe.value("subject", in: try refusal("send_refused")) == "carol")
    }

    @Test func `topics, filters, presence and broadcast each require their right`() throws {
        let alice = try peer(
            rights: ["publish:site/%u/#", "subscribe:dev/%d/+", "presence:bob"])
        #expect(alice.publish("x", on: "site/alice/t") == .noMatchingSubscribers)
        #expect(alice.publish("x", on: "site/bob/t") == .notAuthorized)
        #expect(alice.subscribe("dev/d1/+") == .success)
        #expect(alice.subscribe("dev/+/+") == .notAuthorized)
        #expect(LogPipe.value("subject", in: try refusal("subscribe_refused")) == "dev/+/+")
        #expect(alice.presence("bob") == .success)
        #expect(alice.presence("carol") == .notAuthorized)
        #expect(LogPipe.value("subject", in: try refusal("presence_refused")) == "carol")
        #expect(alice.broadcast("x") == .notAuthorized)
        let statistics = try broker.administrator().send(ReadStatistics())
        #expect(statistics.counters.first { $0.name == "rights/refused" }?.value == 4)
    }

    @Test func `by default the users of an app have all rights except broadcast`()
        throws
    {
        let alice = try peer()
        #expect(alice.send("x", to: "bob") == .sent)
        #expect(alice.subscribe("#") == .success)
        #expect(alice.broadcast("x") == .notAuthorized)
    }

    @Test func `changed rights of an app apply to connected clients and end subscriptions`() throws
    {
        let alice = try peer()
        let free = try peer("dora", rights: ["subscribe:#", "publish:#"])
        #expect(alice.subscribe("a/#") == .success)
        #expect(alice.subscribe("b/#") == .success)
        #expect(free.subscribe("a/#") == .success)
        _ = try broker.administrator().send(
            SetAppRights(app: "demo", rights: ["subscribe:b/#", "broadcast"]))
        #expect(LogPipe.value("subject", in: try refusal("subscribe_refused")) == "a/#")
        #expect(free.publish("x", on: "a/1") == .sent)
        #expect(free.publish("y", on: "b/1") == .sent)
        #expect(alice.delivery() == "y")
        #expect(alice.send("x", to: "bob") == .notAuthorized)
        #expect(alice.broadcast("x") == .sent)
        // They are on disk too.
        for peer in [alice, free] { peer.close() }
        try broker.restart()
        #expect(
            try broker.administrator().send(ShowApp(app: "demo")).rights
                == ["subscribe:b/#", "broadcast"])
    }

    @Test func `a subscription that the new token does not allow ends at login`() throws {
        let first = try peer(rights: ["subscribe:#"])
        #expect(first.subscribe("a/#") == .success)
        first.close()
        let second = try peer(rights: ["subscribe:b/#", "publish:a/#"])
        #expect(LogPipe.value("subject", in: try refusal("subscribe_refused")) == "a/#")
        #expect(second.publish("x", on: "a/1") == .noMatchingSubscribers)
    }

    @Test func `explain gives the reason why a request is allowed or refused`() throws {
        func ask(
            _ user: String, _ action: ExplainRights.Action, _ target: String
        ) throws -> ExplainRights.Reply {
            try broker.administrator().send(
                ExplainRights(app: "demo", user: user, device: "d1", action: action, target: target)
            )
        }
        let peer = try peer(rights: ["send:car*", "publish:%d/#"])
        let allowed = try ask("alice", .send, "carol")
        #expect(allowed.right == "send:car*")
        #expect(allowed.isConnected)
        #expect(allowed.origin.hasPrefix("token "))
        #expect(try ask("alice", .send, "bob").right == nil)
        #expect(try ask("alice", .publish, "d1/t").right == "publish:%d/#")
        let ordinary = try ask("bob", .send, "alice")
        #expect(ordinary.right == "send:*")
        #expect(ordinary.origin == "app demo")
        #expect(!ordinary.isConnected)
        _ = peer
    }

    @Test func `an invalid right is refused with the valid forms`() throws {
        #expect(throws: AdministrationError.self) {
            try broker.administrator().send(SetAppRights(app: "demo", rights: ["fly:*"]))
        }
        #expect(throws: AdministrationError.self) {
            try broker.administrator().send(
                MintTokens(app: "demo", users: ["x"], rights: ["publish:a/#/b"]))
        }
    }
}

// Who can be the moderator of an app, and the ways of messages that could lead around it.

import BrokerTerms
import Primitives
import Testing

@testable import BrokerCore

@Suite struct `A moderator` {
    let world = World()

    init() {
        world.moderate()
        world.begin("ann/1", "bob/pc")
    }

    @Test func `logs in with a token of its own, and with nothing that is others' too`() {
        // A key of the app acts for all users.
        world.connect("censor/1")
        #expect(world.lines() == ["censor/1: refused, notAuthorized"])
        world.broker.anonymousApp = World.app
        world.connect("censor/2", claim: { .anonymous(user: $0.appendRange("censor")) })
        #expect(world.lines() == ["censor/2: refused, notAuthorized"])
        // The name of a device becomes that of a user without one.
        world.connect("censor/censor", claim: { _ in .anonymous(user: .empty) })
        #expect(world.lines() == ["censor/censor: refused, notAuthorized"])
        world.setRights("attach:*", "send:*")
        world.connect("censor/3", gateway: "bob/pc")
        #expect(world.lines() == ["censor/3: refused, notAuthorized"])
        world.beginModerator("censor/4")
        world.setRights("send:*")
        world.send("ann/1", 1, to: .user("bob"), "hello")
        world.decide(world.questions().numbers[0], "accept", by: "censor/4")
        #expect(world.outcome().contains("ann/1: result 1, sent"))
    }

    @Test func `gets no credential that is others' too in the place of its own`() {
        world.broker.anonymousApp = World.app
        world.beginModerator()
        var bytes: [UInt8] = []
        let claim = Claim.anonymous(user: bytes.appendRange("censor"))
        world.step(.credentialPresented(world.connections["censor/1"]!, claim), bytes: bytes)
        #expect(world.lines() == ["censor/1: credential, notAuthorized"])
        world.send("ann/1", 1, to: .user("bob"), "hello")
        world.decide(world.questions().numbers[0], "accept")
        #expect(world.outcome().contains("ann/1: result 1, sent"))
    }

    @Test func `is disconnected if it has logged in otherwise before it was the moderator`() {
        let policy = world.limits.appPolicy.moderation
        world.limits.appPolicy.moderation = nil
        world.begin("censor/1")
        world.limits.appPolicy.moderation = policy
        world.beginModerator("censor/2")
        world.send("ann/1", 1, to: .user("bob"), "hello")
        let (numbers, others) = world.questions()
        #expect(numbers.count == 1 && others == ["censor/1: closed, notAuthorized"])
    }

    @Test func `that has logged in otherwise before neither decides nor sends`() {
        let policy = world.limits.appPolicy.moderation
        world.limits.appPolicy.moderation = nil
        world.begin("censor/1")
        world.limits.appPolicy.moderation = policy
        world.send("censor/1", 1, to: .user("bob"), "hello")
        #expect(world.outcome() == ["censor/1: closed, notAuthorized"])
    }

    @Test func `may say that nobody can decide now`() {
        world.moderate { $0.acceptsWhenSilent = true }
        world.beginModerator()
        world.send("ann/1", 1, to: .user("bob"), "hello")
        world.decide(world.questions().numbers[0], "later")
        #expect(world.outcome() == ["ann/1: result 1, quotaExceeded"])
        #expect(world.counters.moderatorSilences == 1)
    }

    @Test func `does not decide on wills, so they are refused`() {
        world.beginModerator()
        world.setWill("ann/1", to: .user("bob"), "gone", id: 5)
        #expect(world.outcome() == ["ann/1: response 5, notAuthorized"])
        world.setWill("ann/1", to: .topic("plain"), "gone", id: 6)
        #expect(world.outcome() == ["ann/1: response 6, success"])
        #expect(world.questions().numbers == [])
    }

    @Test func `does not decide on a will that was set before, so it is not sent`() {
        let policy = world.limits.appPolicy.moderation
        world.limits.appPolicy.moderation = nil
        world.setWill("ann/1", to: .user("bob"), "gone", id: 5)
        _ = world.outcome()
        world.limits.appPolicy.moderation = policy
        world.lose("ann/1")
        #expect(world.outcome().filter { $0.hasPrefix("bob") } == [])
        #expect(world.counters.willsRefused == 1)
    }

    @Test func `is told what receivers get beside the content`() {
        world.beginModerator()
        var bytes: [UInt8] = []
        var request = SendRequest(
            number: 1, grade: .durable, target: .user(bytes.appendRange("bob")),
            payload: bytes.appendRange("\0hi"), messageByteCount: 20)
        request.attributes = bytes.appendRange("\u{1}k\u{3}a\"b")
        request.push = bytes.appendRange(#"{"a":1}"#)
        request.properties = bytes.appendRange("xyz")
        world.step(.sendReceived(world.connections["ann/1"]!, request), bytes: bytes)
        world.settle()
        #expect(
            world.lines().contains {
                $0.contains(#""attributes":{"k":"a\"b"},"push":"{\"a\":1}","properties":"eHl6""#)
            })
    }
}

@Suite struct `A moderated request` {
    let world = World()

    init() {
        world.moderate()
        world.addUser("ops")
        world.beginModerator()
        world.begin("bob/pc")
    }

    private func send(
        _ text: String, as user: String = "ops", _ moderation: SendingUser.Moderation = .holds,
        key: SendKey? = nil, isProved: Bool = false
    ) -> OperatorSend? {
        world.send(as: user, to: .user("bob"), text, grade: .durable, key: key) {
            $0.moderation = moderation
            $0.isProved = isProved
        }
    }

    private func outcomes() -> [OperatorSend] {
        world.broker.takeHeldOutcomes().map(\.outcome)
    }

    @Test func `waits for its verdict`() {
        #expect(send("hello") == .held(number: 1))
        let question = world.questions().numbers[0]
        #expect(outcomes() == [])
        world.decide(question, "rewrite/3", "bye")
        #expect(world.outcome() == ["bob/pc: #1 \"bye\" from ops"])
        guard case .pending(let number)? = outcomes().first else {
            Issue.record("it is not sent")
            return
        }
        #expect(world.broker.takeResult(ofOperatorSend: number)?.verdict?.code == 3)
    }

    @Test func `is refused with the moderator's code`() {
        _ = send("hello")
        world.decide(world.questions().numbers[0], "refuse/-9", "no")
        #expect(world.outcome() == [])
        guard case .complete(let result)? = outcomes().first else {
            Issue.record("it has no outcome")
            return
        }
        #expect(
            result.reason == .implementationSpecificError && result.limit == .moderatorRefused
                && result.verdict?.code == -9)
    }

    @Test func `meets the verdict of silence`() {
        _ = send("hello")
        _ = world.questions()
        world.pass(milliseconds: 2_000)
        #expect(world.outcome() == [])
        #expect(
            outcomes() == [
                .complete(OperatorSendResult(reason: .quotaExceeded, limit: .moderatorSilent))
            ])
    }

    @Test func `leaves nothing behind where nobody waits`() {
        _ = send("hello", .holdsUnanswered)
        world.decide(world.questions().numbers[0], "accept")
        #expect(world.outcome() == ["bob/pc: #1 \"hello\" from ops"])
        #expect(outcomes() == [])
    }

    @Test func `is refused if its sender cannot wait, and not asked about for an operator`() {
        #expect(
            send("hello", .refuses)
                == .complete(OperatorSendResult(reason: .notAuthorized, limit: .moderatedInterface))
        )
        _ = send("hello", .none)
        #expect(world.outcome() == ["bob/pc: #1 \"hello\" from ops"])
    }

    @Test func `of the moderator passes with its token, and waits with a key of the app`() {
        _ = send("hello", as: "censor", isProved: true)
        #expect(world.outcome() == ["bob/pc: #1 \"hello\" from censor"])
        #expect(send("hello", as: "censor") == .held(number: 1))
    }

    @Test func `is not sent for a user who was deleted meanwhile`() {
        _ = send("hello")
        let question = world.questions().numbers[0]
        world.deleteAll(DeletionScope(app: World.app, user: Array("ops".utf8)))
        world.addUser("eve")
        world.decide(question, "accept")
        #expect(world.outcome().filter { $0.hasPrefix("bob") } == [])
        #expect(
            outcomes() == [.complete(OperatorSendResult(reason: .notAuthorized))])
    }

    @Test func `counts towards the bound of its user`() {
        for _ in 0..<5_000 { _ = send("hello", .holdsUnanswered) }
        #expect(world.gauges.heldMessages == CoreLimits.heldOfSenderMaximum)
        world.begin("ops/d")
        world.send("ops/d", 1, to: .user("bob"), "hello")
        #expect(world.outcome().contains("ops/d: result 1, quotaExceeded"))
    }
}

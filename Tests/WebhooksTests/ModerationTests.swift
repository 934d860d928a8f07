// Deciding on messages, as a value: which endpoint is asked, what its answers mean, and what holds
// when it is silent.

import ClientProgram
import MartletClient
import Primitives
import Testing

@testable import Relay
@testable import Webhooks

/// A dispatcher without sockets, and the verdicts that it has told.
private struct ModelModerator {
    var dispatcher: ModerationDispatcher
    var time: UInt64 = 1_000
    var attempts: [ModerationDispatcher.Attempt] = []
    var told: [String] = []
    var lines: [String] = []

    var now: Moment { Fixture.moment(time) }

    init(_ deciders: DeciderSettings...) {
        dispatcher = ModerationDispatcher(deciders, seed: 1)
    }

    /// The broker asks.
    @discardableResult
    mutating func ask(
        _ number: Int, _ content: String = #""to":["bob"],"t":0,"b":"hi""#,
        from user: String = "ann",
        left: Int = 2_000
    ) -> Bool {
        let json =
            #"{"event":"MESSAGE_QUESTION","user":"\#(user)","number":\#(number),"left":\#(left),"#
            + content + #","time":5}"#
        let isQuestion = dispatcher.accept(
            IncomingMessage(
                kind: .brokerEvent(json: json), from: "m", time: 5, content: .bytes([])),
            now: now)
        run()
        return isQuestion
    }

    mutating func run() {
        dispatcher.timePassed(now: now.instant)
        while let attempt = dispatcher.nextAttempt(user: "m", now: now) {
            attempts.append(attempt)
        }
        take()
    }

    mutating func answer(_ json: String, status: Int = 200, at index: Int = 0) {
        finish(.answered(status: status, retryAfterSeconds: 0), json, at: index)
    }

    mutating func finish(_ result: AttemptResult, _ json: String = "", at index: Int = 0) {
        dispatcher.finish(
            attempts.remove(at: index), with: result, answer: Array(json.utf8), now: now.instant)
        run()
    }

    private mutating func take() {
        for decision in dispatcher.takeDecisions() {
            let (topic, payload) = decision.verdict.publication(about: decision.number)
            told.append(
                topic.dropFirst("$verdict/".count)
                    + (payload.isEmpty ? "" : " " + String(decoding: payload, as: UTF8.self)))
        }
        lines += dispatcher.takeLines().map(\.event)
    }
}

@Suite struct ModerationTests {
    private static func decider(
        _ name: String = "a", _ silent: SilentVerdict = .refuse,
        _ change: (inout DeciderSettings) -> Void = { _ in }
    ) -> DeciderSettings {
        var decider = DeciderSettings(
            name: name, url: "http://x/\(name)", secrets: [Fixture.secret], silent: silent)
        change(&decider)
        return decider
    }

    @Test(arguments: [
        (#"{"verdict":"accept"}"#, "7/accept"),
        (#"{"verdict":"refuse"}"#, "7/refuse/-1"),
        (#"{"verdict":"refuse","code":-4408,"reason":"no\nway"}"#, "7/refuse/-4408 no way"),
        (#"{"verdict":"rewrite","b":"***"}"#, "7/rewrite ***"),
        (#"{"verdict":"rewrite","code":5,"b":""}"#, "7/rewrite/5"),
        // Nonsense.
        ("", "7/later"), ("[]", "7/later"), (#"{"verdict":1}"#, "7/later"),
        (#"{"verdict":"Accept"}"#, "7/later"), (#"{"verdict":"refuse","code":5}"#, "7/later"),
        (#"{"verdict":"refuse","code":-99999999999}"#, "7/later"),
        (#"{"verdict":"refuse","reason":5}"#, "7/later"),
        (#"{"verdict":"rewrite","payload":"x"}"#, "7/later"),
        (#"{"verdict":"rewrite","code":-1,"b":"x"}"#, "7/later"),
    ])
    func `an answer becomes a verdict`(answer: String, told: String) {
        var moderator = ModelModerator(Self.decider())
        moderator.ask(7)
        moderator.answer(answer)
        #expect(moderator.told == [told])
    }

    @Test func `a new payload may be a text or base64`() {
        var moderator = ModelModerator(Self.decider())
        for answer in [
            #"{"verdict":"rewrite","payload":"x"}"#, #"{"verdict":"rewrite","base64":"eQ=="}"#,
        ] {
            moderator.ask(1, #""topic":"chat/a","payload":"p""#)
            moderator.answer(answer)
        }
        #expect(moderator.told == ["1/rewrite x", "1/rewrite y"])
    }

    @Test func `the reason is cut to what the broker takes`() {
        var moderator = ModelModerator(Self.decider())
        moderator.ask(1)
        moderator.answer(
            #"{"verdict":"refuse","reason":"\#(String(repeating: "ä", count: 100))"}"#)
        #expect(
            moderator.told == ["1/refuse/-1 " + String(repeating: "ä", count: 64)])
    }

    @Test func `the request has the message, and an id that is the same for each relay`() {
        var moderator = ModelModerator(Self.decider())
        moderator.ask(7)
        let attempt = moderator.attempts[0]
        let body = String(decoding: attempt.body, as: UTF8.self)
        #expect(
            body.hasSuffix(
                #""data":{"user":"m","from":"ann","number":7,"to":["bob"],"t":0,"b":"hi","time":5,"#
                    + #""left":1500}}"#))
        #expect(body.contains(#""type":"message.question""#))
        #expect(attempt.identifier == EventIdentifier.of(user: "m", epoch: 0, number: 7))
        #expect(attempt.milliseconds == 1_500)
    }

    @Test func `other events of the broker are not taken`() {
        var moderator = ModelModerator(Self.decider())
        let other = IncomingMessage(
            kind: .brokerEvent(json: #"{"event":"SESSION_LOST"}"#), from: "m", time: 5,
            content: .bytes([]))
        let now = moderator.now
        let isOtherTaken = moderator.dispatcher.accept(other, now: now)
        #expect(!isOtherTaken)
        let broken = IncomingMessage(
            kind: .brokerEvent(json: #"{"event":"MESSAGE_QUESTION","number":-1"#), from: "m",
            time: 5, content: .bytes([]))
        let isBrokenTaken = moderator.dispatcher.accept(broken, now: now)
        #expect(isBrokenTaken)
        #expect(moderator.dispatcher.totals.unmatched == 1)
    }

    @Test func `the first endpoint that selects a message is asked`() {
        var moderator = ModelModerator(
            Self.decider("users") { $0.kinds = [.messageUser] },
            Self.decider("g") { $0.groups = [ExactText("g1")] },
            Self.decider("topics") { $0.topics = [TopicFilter("chat/+")!] })
        moderator.ask(1)
        moderator.ask(2, #""group":"g1","t":0,"b":"hi""#)
        moderator.ask(3, #""topic":"chat/a","payload":"hi""#)
        #expect(moderator.attempts.map(\.decider) == [0, 1, 2])
        moderator.ask(4, #""group":"g2","t":0,"b":"hi""#)
        moderator.ask(5, #""everybody":true,"t":0,"b":"hi""#)
        #expect(moderator.attempts.count == 3 && moderator.told == [])
        #expect(moderator.dispatcher.totals.unmatched == 2)
    }

    @Test(arguments: [(SilentVerdict.accept, "accept"), (.refuse, "later")])
    func `silence has its verdict, and one line`(silent: SilentVerdict, word: String) {
        var moderator = ModelModerator(Self.decider("a", silent))
        moderator.ask(1)
        moderator.finish(.failed("timeout"))
        moderator.ask(2)
        moderator.answer("", status: 503)
        #expect(moderator.told == ["1/\(word)", "2/\(word)"])
        #expect(moderator.lines == ["decider_silent"])
        #expect(moderator.dispatcher.totals.silent == 2)
    }

    @Test(arguments: [(SilentVerdict.accept, "accept"), (.refuse, "later")])
    func `a verdict that the broker does not take is silence`(silent: SilentVerdict, word: String) {
        var moderator = ModelModerator(Self.decider("a", silent))
        moderator.ask(1)
        moderator.answer(#"{"verdict":"rewrite","b":"too long"}"#)
        moderator.dispatcher.noteUntaken(about: 1, of: 0)
        moderator.run()
        #expect(moderator.told == ["1/rewrite too long", "1/\(word)"])
        #expect(moderator.dispatcher.totals.untaken == 1)
    }

    @Test func `an open circuit answers at once, and tries again soon`() {
        var moderator = ModelModerator(Self.decider())
        for number in 1...5 {
            moderator.ask(number)
            moderator.finish(.failed("timeout"))
        }
        moderator.ask(6)
        #expect(moderator.attempts.isEmpty && moderator.told.last == "6/later")
        moderator.time += 600
        moderator.ask(7)
        moderator.ask(8)
        // One tries it, and the others do not wait.
        #expect(moderator.attempts.count == 1 && moderator.told.last == "8/later")
        moderator.answer(#"{"verdict":"accept"}"#)
        #expect(moderator.told.last == "7/accept")
        #expect(moderator.lines.last == "decider_recovered")
        moderator.ask(9)
        #expect(moderator.attempts.count == 1)
    }

    @Test func `a question without a turn is answered in time`() {
        var moderator = ModelModerator(
            Self.decider { $0.concurrency = 1 }, Self.decider("b"))
        moderator.ask(1)
        moderator.ask(2)
        #expect(moderator.attempts.count == 1)
        #expect(
            moderator.dispatcher.nextDeadline
                == moderator.now.instant.advanced(byMilliseconds: 1_500))
        moderator.time += 1_500
        moderator.run()
        #expect(moderator.told == ["2/later"])
    }

    @Test func `senders take turns`() {
        var moderator = ModelModerator(Self.decider { $0.concurrency = 1 })
        for number in 1...5 { moderator.ask(number) }
        moderator.ask(11, from: "eve")
        moderator.ask(21, from: "zoe")
        moderator.ask(12, from: "eve")
        for _ in 0..<8 { moderator.answer(#"{"verdict":"accept"}"#) }
        #expect(
            moderator.told == [1, 2, 11, 21, 3, 12, 4, 5].map { "\($0)/accept" })
        // A sender that had none has its turn again.
        moderator.ask(6)
        moderator.ask(7)
        moderator.ask(13, from: "eve")
        #expect(moderator.attempts.count == 1)
        for _ in 0..<3 { moderator.answer(#"{"verdict":"accept"}"#) }
        #expect(moderator.told.suffix(3) == [6, 7, 13].map { "\($0)/accept" })
    }

    @Test func `a question whose time is over is not asked, whoever has the turn`() {
        var moderator = ModelModerator(Self.decider { $0.concurrency = 1 })
        for number in 1...3 { moderator.ask(number) }
        moderator.time += 500
        // The broker gives less time since a reload.
        moderator.ask(11, from: "eve", left: 600)
        moderator.ask(12, from: "eve")
        moderator.time += 500
        moderator.run()
        moderator.answer(#"{"verdict":"accept"}"#)
        #expect(moderator.told == ["1/accept", "11/later"])
        moderator.time += 500
        moderator.run()
        #expect(moderator.told.last == "3/later")
        moderator.answer(#"{"verdict":"accept"}"#)
        #expect(moderator.told.last == "2/accept" && moderator.attempts.count == 1)
        moderator.answer(#"{"verdict":"accept"}"#)
        #expect(moderator.told.last == "12/accept")
        #expect(moderator.dispatcher.nextDeadline == .never)
    }

    @Test func `one sender does not take the room of others`() {
        var moderator = ModelModerator(Self.decider { $0.concurrency = 1 })
        for number in 0...(WebhookLimits.questionsOfSenderMaximum + 1) { moderator.ask(number) }
        #expect(moderator.told == ["\(WebhookLimits.questionsOfSenderMaximum + 1)/later"])
        moderator.ask(9_999, from: "eve")
        #expect(moderator.told.count == 1)
    }

    @Test func `a stop answers what waits`() {
        var moderator = ModelModerator(Self.decider { $0.concurrency = 1 })
        moderator.ask(1)
        moderator.ask(2)
        moderator.dispatcher.drain(now: moderator.now.instant)
        moderator.run()
        #expect(moderator.told == ["2/later"] && moderator.dispatcher.inFlightCount == 1)
        moderator.answer(#"{"verdict":"accept"}"#)
        #expect(moderator.told.last == "1/accept")
    }
}

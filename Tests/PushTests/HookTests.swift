// The hook that is asked for contents: what its answers and its silence mean for wake-ups.

import MartletClient
import Primitives
import Testing

@testable import Push
@testable import Relay

@Suite struct HookTests {
    private func relay(isTemplateOnSilence: Bool) -> ModelRelay {
        ModelRelay(
            Fixture.settings {
                $0.hook = HookSettings(isTemplateOnSilence: isTemplateOnSilence)
            })
    }

    private func finish(_ relay: inout ModelRelay, _ answer: HookAnswer) {
        let next = relay.dispatcher.finish(
            hook: relay.attempts.removeFirst(), with: answer, now: relay.now)
        if let next { relay.attempts.append(next) }
    }

    private func content(_ relay: ModelRelay) -> String {
        guard case .send(let content)? = relay.attempts.first?.phase else { return "" }
        return String(decoding: content.content.json, as: UTF8.self)
    }

    @Test func `the hook's content comes before the sender's and the template`() {
        var relay = relay(isTemplateOnSilence: true)
        relay.accept(Fixture.request(more: #","push":{"x":1}"#))
        relay.begin()
        finish(&relay, .content(.object([("y", .number(2))])))
        #expect(content(relay) == #"{"y":2}"#)
        // A repeated attempt asks no more.
        relay.finish(.down)
        relay.time += 100
        relay.begin()
        #expect(content(relay) == #"{"y":2}"#)
        #expect(relay.dispatcher.totals.hookAsked == 1)
    }

    @Test func `the hook may leave it to the sender, or say no`() {
        var relay = relay(isTemplateOnSilence: true)
        relay.accept(Fixture.request(ids: [1, 2], more: #","push":{"x":1}"#))
        relay.begin()
        finish(&relay, .template)
        finish(&relay, .drop)
        #expect(content(relay) == #"{"x":1}"#)
        #expect(relay.attempts.count == 1 && relay.dispatcher.totals.suppressed == 1)
        relay.finish(.delivered)
        #expect(relay.dispatcher.waitingCount == 0 && relay.dispatcher.inFlightCount == 0)
    }

    @Test(arguments: [true, false])
    func `silence has a verdict, and a hook that stays silent is asked less`(
        isTemplateOnSilence: Bool
    ) {
        var relay = relay(isTemplateOnSilence: isTemplateOnSilence)
        for _ in 0..<20 {
            relay.accept(Fixture.request())
            relay.begin()
            if case .hook? = relay.attempts.first?.phase {
                finish(&relay, .silent("timeout", isWell: false))
            }
            #expect(relay.attempts.count == (isTemplateOnSilence ? 1 : 0))
            if isTemplateOnSilence { relay.finish(.delivered) }
            #expect(relay.dispatcher.waitingCount == 0)
        }
        #expect(relay.dispatcher.totals.hookAsked == 5)
        #expect(relay.dispatcher.totals.hookSilent == 20)
        // Nobody was asked about fifteen of them.
        #expect(relay.dispatcher.deadLetters.count == (isTemplateOnSilence ? 0 : 15))
        #expect(
            relay.dispatcher.deadLetters.all.allSatisfy {
                $0.cause == .hook && $0.reason == "not-asked"
            })
    }

    @Test func `a hook that takes no question of one sender is asked those of others`() {
        var relay = relay(isTemplateOnSilence: false)
        for _ in 0..<20 {
            relay.accept(Fixture.request("eve"))
            relay.begin()
            finish(&relay, .silent("status 400", isWell: true))
        }
        relay.accept(Fixture.request())
        relay.begin()
        finish(&relay, .template)
        #expect(relay.ids == [1] && relay.dispatcher.totals.suppressed == 20)
        #expect(relay.dispatcher.deadLetters.isEmpty && relay.dispatcher.totals.hookAsked == 21)
    }

    @Test func `a silent hook is asked again after ten seconds at most`() {
        var relay = ModelRelay(
            Fixture.settings {
                $0.hook = HookSettings(isTemplateOnSilence: true)
                $0.relay.retrySecondsMaximum = 300
            })
        for number in 1...30 {
            relay.accept(Fixture.request("u\(number)"))
            relay.begin()
            guard case .hook? = relay.attempts.first?.phase else {
                Issue.record("question \(number) after \(relay.time) ms")
                return
            }
            finish(&relay, .silent("timeout", isWell: false))
            relay.finish(.delivered)
            if number >= RelayLimits.circuitFailuresMaximum {
                relay.time += 10_000
            }
        }
    }

    @Test(arguments: [
        (301, "", true), (400, "", true), (404, "", true), (200, "no JSON", true),
        (201, "{}", true), (408, "", false), (425, "", false), (429, "", false), (500, "", false),
        (503, "", false),
    ])
    func `an answer tells whether the hook is well`(status: Int, text: String, isWell: Bool) {
        let answer = RequestSender.answer(
            DestinationAnswer(
                result: .answered(status: status, retryAfterSeconds: 0),
                content: Array(text.utf8)))
        guard case .silent(_, isWell) = answer else {
            Issue.record("\(answer)")
            return
        }
    }

    @Test func `the hook is asked for a wake-up that came while it said no to the older one`() {
        var relay = relay(isTemplateOnSilence: true)
        relay.accept(Fixture.request(count: 1))
        relay.begin()
        relay.accept(Fixture.request(count: 2))
        finish(&relay, .drop)
        relay.begin()
        guard case .hook? = relay.attempts.first?.phase else {
            Issue.record("\(relay.attempts)")
            return
        }
        #expect(relay.attempts.map(\.wake.count) == [2])
    }

    @Test func `a device that comes while the hook thinks ends the wake-up`() {
        var relay = relay(isTemplateOnSilence: true)
        relay.accept(Fixture.request())
        relay.begin()
        relay.accept(Fixture.withdrawn())
        finish(&relay, .template)
        #expect(relay.attempts.isEmpty && relay.dispatcher.inFlightCount == 0)
    }
}

// A hook whose destination answered 410: it keeps its events, and goes on when it is enabled.

import MartletClient
import Primitives
import Testing

@testable import Relay
@testable import Webhooks

@Suite struct DisabledHookTests {
    /// Three events of three senders, of which the second was answered with 410.
    private func disabled(
        _ change: (inout HookSettings) -> Void = { _ in }
    ) -> ModelRelay {
        var relay = ModelRelay(Fixture.settings([Fixture.hook("a", change), Fixture.hook("b")]))
        for number in 1...3 {
            relay.accept(Fixture.message("\(number)", from: "u\(number)", number: UInt64(number)))
        }
        relay.begin()
        while let index = relay.attempts.firstIndex(where: { $0.hook == 1 }) {
            relay.finish(200, at: index)
        }
        relay.finish(410, at: 1)
        return relay
    }

    @Test func `410 keeps the events, and begins no more requests`() {
        var relay = disabled()
        #expect(relay.dispatcher.hooks[0].isDisabled)
        // Open requests end as others do.
        relay.finish(200)
        relay.finish(500)
        relay.accept(Fixture.message("4", number: 4))
        relay.time += 10_000
        relay.begin()
        #expect(relay.attempts.map(\.hook) == [1])
        #expect(relay.dispatcher.hooks[0].count == 3)
        relay.save()
        #expect(relay.acknowledged?.number == 4)
        #expect(relay.content.deadLetters.isEmpty)
        #expect(relay.content.deliveries.filter { $0.hook == "a" }.count == 3)
        #expect(relay.dispatcher.totals.delivered == 4)
    }

    @Test func `a second 410 is told once`() {
        var relay = disabled()
        relay.finish(410)
        let lines = relay.dispatcher.takeLines()
        #expect(lines == ["event=hook_disabled hook=a status=410 waiting=3"])
    }

    @Test func `the next start delivers them in order`() {
        var relay = disabled()
        relay.dispatcher.requestRecord()
        relay.save()
        var next = ModelRelay(
            Fixture.settings([Fixture.hook("a"), Fixture.hook("b")]), content: relay.content)
        next.begin()
        #expect(next.texts == ["1", "2", "3"])
    }

    @Test func `a request for all enables it, and one for a dead letter of it too`() {
        var relay = disabled { $0.validitySeconds = 60 }
        relay.finish(500)
        relay.finish(500)
        var other = relay
        relay.dispatcher.resend([EventDispatcher.everyHook], now: relay.now)
        relay.time += 1_000
        relay.begin()
        #expect(relay.texts.sorted() == ["1", "2", "3"])
        other.save()
        other.time += 60_000
        other.begin()
        other.save()
        #expect(
            other.dispatcher.deadLetters.all.map(\.cause) == [.expired, .expired, .expired])
        other.dispatcher.resend(
            [other.dispatcher.deadLetters.all[0].delivery.sequence], now: other.now)
        other.begin()
        #expect(other.texts.count == 1)
    }

    @Test func `its queue has its limits`() {
        var relay = disabled { $0.queueMaximum = 3 }
        relay.accept(Fixture.message("4", number: 4))
        #expect(relay.dispatcher.hooks[0].count == 3)
        #expect(relay.dispatcher.deadLetters.all.map(\.cause) == [.queueFull])
    }

    @Test func `a backlog of any length survives one 410`() {
        var settings = Fixture.settings([Fixture.hook()])
        settings.deadLettersMaximum = 10
        var relay = ModelRelay(settings)
        for number in 1...500 {
            relay.accept(Fixture.message("\(number)", number: UInt64(number)))
            relay.save()
        }
        relay.begin()
        relay.finish(410)
        relay.dispatcher.requestRecord()
        relay.save()
        #expect(relay.content.deliveries.count == 500)
        #expect(relay.dispatcher.totals.discarded == 0)
    }
}

// The dispatcher as a value: order, batches, retries, the circuit, dead letters, and when the
// broker is told.

import MartletClient
import Primitives
import Testing

@testable import Relay
@testable import Webhooks

@Suite struct DispatcherTests {
    @Test func `an event that is delivered at once is acknowledged and never written`() {
        var relay = ModelRelay(Fixture.settings([Fixture.hook()]))
        relay.accept(Fixture.message("1", number: 5))
        relay.begin()
        relay.save()
        #expect(relay.acknowledged == nil)
        relay.finish(200)
        relay.save()
        #expect(relay.acknowledged == InboxRecord(epoch: 1, number: 5))
        #expect(relay.content.entries == [.filters([])])
    }

    @Test func `a message that no hook wants is acknowledged`() {
        var relay = ModelRelay(Fixture.settings([Fixture.hook { $0.kinds = [.receipt] }]))
        relay.accept(Fixture.message("1", number: 5))
        relay.save()
        #expect(relay.acknowledged?.number == 5)
        #expect(relay.dispatcher.totals.unmatched == 1)
    }

    @Test func `events of a key wait for each other, those of others do not`() {
        var relay = ModelRelay(Fixture.settings([Fixture.hook()]))
        for (index, from) in ["a", "a", "b", "a", "c"].enumerated() {
            relay.accept(Fixture.message("\(index)", from: from, number: UInt64(index + 1)))
        }
        relay.begin()
        #expect(relay.texts == ["0", "2", "4"])
        relay.finish(200)
        relay.begin()
        #expect(relay.texts == ["2", "4", "1"])
    }

    @Test func `no more requests are under way than the hook permits`() {
        var relay = ModelRelay(Fixture.settings([Fixture.hook { $0.concurrency = 2 }]))
        for number in 1...5 {
            relay.accept(Fixture.message("", from: "u\(number)", number: UInt64(number)))
        }
        relay.begin()
        #expect(relay.attempts.count == 2)
        var ordered = ModelRelay(Fixture.settings([Fixture.hook { $0.order = .hook }]))
        for number in 1...5 {
            ordered.accept(Fixture.message("", from: "u\(number)", number: UInt64(number)))
        }
        ordered.begin()
        #expect(ordered.attempts.count == 1)
    }

    @Test func `a batch has events of one key, and the same ones in each attempt`() {
        var relay = ModelRelay(Fixture.settings([Fixture.hook { $0.batchMaximum = 3 }]))
        for number in 1...2 { relay.accept(Fixture.message("\(number)", number: UInt64(number))) }
        relay.begin()
        let identifier = relay.attempts[0].identifier
        #expect(relay.texts == ["1+2"])
        relay.accept(Fixture.message("3", number: 3))
        relay.finish(500)
        relay.time += 1_000
        relay.begin()
        #expect(relay.texts == ["1+2"])
        #expect(relay.attempts[0].identifier == identifier)
        relay.finish(200)
        relay.begin()
        #expect(relay.texts == ["3"])
    }

    @Test func `a refused batch is sent in single events`() {
        var relay = ModelRelay(Fixture.settings([Fixture.hook { $0.batchMaximum = 3 }]))
        for number in 1...3 { relay.accept(Fixture.message("\(number)", number: UInt64(number))) }
        relay.begin()
        relay.finish(400)
        relay.time += 1_000
        relay.begin()
        #expect(relay.texts == ["1"])
    }

    @Test func `a slow event is written with its position, and acknowledged then`() {
        var relay = ModelRelay(Fixture.settings([Fixture.hook()]))
        relay.accept(Fixture.message("1", number: 1))
        relay.accept(Fixture.message("2", from: "bob", number: 2))
        relay.begin()
        relay.finish(200, at: 1)
        relay.save()
        #expect(relay.acknowledged == nil)
        relay.time += WebhookLimits.recordMilliseconds
        relay.save()
        #expect(relay.acknowledged?.number == 2)
        #expect(relay.content.position?.number == 2)
        #expect(relay.content.deliveries.map(\.key) == ["user alice"])
        // After a restart it is delivered under the same id.
        var next = ModelRelay(Fixture.settings([Fixture.hook()]), content: relay.content)
        next.begin()
        #expect(next.texts == ["1"])
        #expect(next.attempts[0].identifier == relay.attempts[0].identifier)
        next.finish(200)
        next.dispatcher.requestRecord()
        next.save()
        #expect(next.content.deliveries.isEmpty)
    }

    @Test func `half of the window without an answer is written`() {
        var settings = Fixture.settings([Fixture.hook()])
        settings.relay.inFlightMaximum = 8
        var relay = ModelRelay(settings)
        for number in 1...4 { relay.accept(Fixture.message("", number: UInt64(number))) }
        relay.save()
        #expect(relay.acknowledged?.number == 4)
        #expect(relay.content.deliveries.count == 4)
    }

    @Test func `failures in a row open the circuit, one request tries it, success closes it`() {
        var relay = ModelRelay(Fixture.settings([Fixture.hook { $0.concurrency = 8 }]))
        for number in 1...7 {
            relay.accept(Fixture.message("\(number)", from: "u\(number)", number: UInt64(number)))
        }
        relay.begin()
        for _ in 1...7 { relay.finish(503) }
        #expect(relay.dispatcher.hooks[0].circuit.openUntil != nil)
        relay.begin()
        #expect(relay.attempts.isEmpty)
        relay.time += 20_000
        relay.begin()
        #expect(relay.attempts.count == 1)
        relay.finish(200)
        #expect(relay.dispatcher.hooks[0].circuit.openUntil == nil)
        relay.begin()
        #expect(relay.attempts.count == 6)
    }

    @Test func `a dead destination delays no other`() {
        var relay = ModelRelay(Fixture.settings([Fixture.hook("a"), Fixture.hook("b")]))
        for number in 1...100 {
            relay.accept(Fixture.message("\(number)", number: UInt64(number)))
            relay.begin()
            while let index = relay.attempts.firstIndex(where: { $0.hook == 1 }) {
                relay.finish(200, at: index)
                relay.begin()
            }
        }
        #expect(relay.dispatcher.hooks[1].count == 0)
        #expect(relay.dispatcher.hooks[0].count == 100)
        #expect(relay.attempts.count == 1)
    }

    @Test func `Retry-After is heeded, up to a limit`() {
        var relay = ModelRelay(Fixture.settings([Fixture.hook()]))
        relay.accept(Fixture.message("1", number: 1))
        relay.begin()
        relay.finish(429, retryAfter: 30)
        relay.time += 29_999
        relay.begin()
        #expect(relay.attempts.isEmpty)
        relay.time += 1
        relay.begin()
        #expect(relay.attempts.count == 1)
        relay.finish(503, retryAfter: .max)
        relay.time += RelayLimits.retryAfterSecondsMaximum * 1_000
        relay.begin()
        #expect(relay.attempts.count == 1)
    }

    @Test func `answers in parallel that advise a wait open a circuit once`() {
        var circuit = Circuit()
        let now = Instant(milliseconds: 1_000)
        func opens(advised: UInt64) -> Bool {
            circuit.failed(advised: advised, now: now) { 1_000 << UInt64($0) }
        }
        #expect(opens(advised: 1_000))
        let until = circuit.openUntil
        for _ in 0..<30 { #expect(!opens(advised: 1_000)) }
        #expect(circuit.openUntil == until)
        #expect(!opens(advised: 60_000))
        #expect(circuit.openUntil == now.advanced(byMilliseconds: 60_000))
    }

    @Test func `an event that is refused again and again becomes a dead letter, others follow`() {
        var relay = ModelRelay(Fixture.settings([Fixture.hook { $0.refusalsMaximum = 3 }]))
        relay.accept(Fixture.message("1", number: 1))
        relay.accept(Fixture.message("2", number: 2))
        for _ in 1...3 {
            relay.time += 10_000
            relay.begin()
            #expect(relay.texts == ["1"])
            relay.finish(400)
        }
        relay.begin()
        #expect(relay.texts == ["2"])
        #expect(relay.dispatcher.deadLetters.all.map(\.status) == [400])
        #expect(relay.dispatcher.hooks[0].circuit.openUntil == nil)
    }

    @Test func `the first refusal of an event is logged, and of many events a few`() {
        var relay = ModelRelay(Fixture.settings([Fixture.hook { $0.concurrency = 2 }]))
        _ = relay.dispatcher.takeLines()
        func refusals() -> [String] {
            relay.dispatcher.takeLines().filter { $0.contains("event=refused") }
        }
        relay.accept(Fixture.message("1", number: 1))
        relay.accept(Fixture.message("2", from: "bob", number: 2))
        relay.begin()
        relay.finish(401)
        relay.finish(401)
        let lines = refusals()
        #expect(lines.count == 1)
        #expect(lines.first?.contains("status=401 attempt=1 attempts_maximum=8") == true)
        // The second refusal of the same events tells nothing new.
        relay.time += 60_000
        relay.begin()
        relay.finish(401)
        relay.finish(401)
        #expect(refusals().isEmpty)
    }

    @Test func `of many dead letters those that are asked for are sent again`() {
        var relay = ModelRelay(Fixture.settings([Fixture.hook { $0.queueMaximum = 1 }]))
        for number in 1...4 { relay.accept(Fixture.message("\(number)", number: UInt64(number))) }
        relay.save()
        relay.begin()
        relay.finish(200)
        relay.dispatcher.resend([4, 2, 9], now: relay.now)
        #expect(relay.dispatcher.deadLetters.all.map(\.delivery.sequence) == [3])
        #expect(relay.dispatcher.totals.resent == 2)
        #expect(
            relay.dispatcher.deadLetters.byteCount
                == relay.dispatcher.deadLetters.all[0].delivery.byteCount)
    }

    @Test func `an event whose validity ends becomes a dead letter`() {
        var relay = ModelRelay(Fixture.settings([Fixture.hook { $0.validitySeconds = 10 }]))
        relay.accept(Fixture.message("1", number: 1))
        relay.begin()
        relay.finish(500)
        relay.accept(Fixture.message("2", from: "bob", number: 2))
        relay.time += 10_000
        relay.begin()
        #expect(relay.attempts.isEmpty)
        #expect(relay.dispatcher.deadLetters.all.map(\.cause) == [.expired, .expired])
    }

    @Test(arguments: [-1_800_000_000_000, 8 * 86_400_000] as [Int64])
    func `a clock that is wrong for a while ends no validity`(error: Int64) {
        var relay = ModelRelay(Fixture.settings([Fixture.hook()]))
        for isBefore in [true, false] {
            // The clock is wrong when the event comes, or later.
            if isBefore { relay.clockError = error }
            relay.accept(Fixture.message("\(isBefore)", number: isBefore ? 1 : 2))
            relay.begin()
            relay.finish(503)
            relay.clockError = isBefore ? 0 : error
            relay.time += 60_000
            relay.begin()
            #expect(relay.texts == ["\(isBefore)"] && relay.dispatcher.deadLetters.isEmpty)
            relay.clockError = 0
            relay.finish(200)
        }
        relay.accept(Fixture.message("last", number: 3))
        relay.begin()
        relay.finish(503)
        relay.time += 604_800_000
        relay.begin()
        #expect(relay.dispatcher.deadLetters.all.map(\.cause) == [.expired])
    }

    @Test func `a full queue makes dead letters of new events`() {
        var relay = ModelRelay(Fixture.settings([Fixture.hook { $0.queueMaximum = 2 }]))
        for number in 1...3 { relay.accept(Fixture.message("\(number)", number: UInt64(number))) }
        #expect(relay.dispatcher.deadLetters.all.map(\.cause) == [.queueFull])
        relay.save()
        #expect(relay.acknowledged?.number == 3)
        #expect(relay.content.deadLetters.count == 1)
        #expect(relay.content.deliveries.count == 2)
    }

    @Test func `the oldest dead letter makes room for a newer one`() {
        var settings = Fixture.settings([Fixture.hook { $0.queueMaximum = 1 }])
        settings.deadLettersMaximum = 2
        var relay = ModelRelay(settings)
        for number in 1...5 { relay.accept(Fixture.message("\(number)", number: UInt64(number))) }
        relay.save()
        #expect(relay.dispatcher.totals.discarded == 2)
        #expect(relay.content.deadLetters.map(\.delivery.sequence) == [4, 5])
        #expect(relay.acknowledged?.number == 5)
    }

    @Test func `dead letters are sent again, also after a restart`() {
        var relay = ModelRelay(Fixture.settings([Fixture.hook { $0.refusalsMaximum = 1 }]))
        relay.accept(Fixture.message("1", number: 1))
        relay.begin()
        relay.finish(400)
        relay.save()
        relay.dispatcher.resend(
            relay.dispatcher.deadLetters.all.map(\.delivery.sequence), now: relay.now)
        relay.save()
        #expect(relay.content.deadLetters.isEmpty)
        #expect(relay.content.deliveries.map(\.sequence) == [2])
        relay.begin()
        #expect(relay.texts == ["1"])
        var next = ModelRelay(Fixture.settings([Fixture.hook()]), content: relay.content)
        next.begin()
        #expect(next.texts == ["1"])
    }

    @Test func `events of a hook that is configured no more become dead letters`() {
        var relay = ModelRelay(Fixture.settings([Fixture.hook("a")]))
        relay.accept(Fixture.message("1", number: 1))
        relay.dispatcher.requestRecord()
        relay.save()
        var next = ModelRelay(Fixture.settings([Fixture.hook("b")]), content: relay.content)
        next.save()
        #expect(next.content.deadLetters.map(\.cause) == [.hookRemoved])
    }

    @Test func `on a full disk nothing is acknowledged, and later everything is`() {
        var relay = ModelRelay(Fixture.settings([Fixture.hook()]))
        relay.accept(Fixture.message("1", number: 1))
        relay.time += 1_000
        #expect(relay.dispatcher.nextWrite(now: relay.now.instant) != nil)
        relay.dispatcher.notWritten("full", now: relay.now.instant)
        let early = relay.dispatcher.takeAcknowledgement()
        #expect(early == nil)
        relay.time += RelayLimits.fullDiskMilliseconds
        relay.save()
        #expect(relay.acknowledged?.number == 1)
        #expect(relay.content.deliveries.count == 1)
    }

    @Test func `a new session voids the numbers of the old one`() {
        var relay = ModelRelay(Fixture.settings([Fixture.hook()]))
        relay.accept(Fixture.message("old", number: 9))
        relay.accept(Fixture.message("new", from: "bob", number: 1, epoch: 2))
        relay.begin()
        relay.finish(200, at: 1)
        relay.save()
        #expect(relay.acknowledged == InboxRecord(epoch: 2, number: 1))
        relay.finish(200)
        relay.save()
        #expect(relay.acknowledged == InboxRecord(epoch: 2, number: 1))
    }

    @Test func `a quiet relay waits for nothing`() {
        var relay = ModelRelay(Fixture.settings([Fixture.hook()]))
        relay.begin()
        relay.save()
        #expect(relay.dispatcher.nextDeadline(now: relay.now.instant) == .never)
        relay.accept(Fixture.message("1", number: 1))
        relay.begin()
        relay.finish(200)
        relay.save()
        #expect(relay.dispatcher.nextDeadline(now: relay.now.instant) == .never)
    }
}

// What a wake-up has of an older one of its target: nothing. And which dead letters stay.

import JSON5
import Primitives
import Testing

@testable import Push
@testable import Relay

@Suite struct SuccessorTests {
    @Test func `a wake-up after a withdrawn one is asked about, and gets its own answer`() {
        var relay = ModelRelay(
            Fixture.settings { $0.hook = HookSettings(isTemplateOnSilence: true) })
        relay.accept(Fixture.request(count: 1))
        relay.begin()
        answer(&relay, .content(.object([("first", .number(1))])))
        // The device comes while the request is under way, and goes again.
        relay.accept(Fixture.withdrawn())
        relay.accept(Fixture.request(count: 2))
        relay.finish(.delivered)
        relay.begin()
        guard case .hook? = relay.attempts.first?.phase else {
            Issue.record("\(relay.attempts)")
            return
        }
        #expect(relay.attempts.map(\.wake.count) == [2])
    }

    @Test func `a wake-up after a withdrawn one has as many attempts as another`() {
        var relay = ModelRelay(Fixture.settings())
        relay.accept(Fixture.request())
        for _ in 1..<PushLimits.refusalsMaximum {
            relay.begin()
            relay.finish(.refused("status 404", isFinal: false))
            relay.time += 400_000
        }
        relay.begin()
        relay.accept(Fixture.withdrawn())
        relay.accept(Fixture.request(count: 2))
        relay.finish(.refused("status 404", isFinal: false))
        relay.begin()
        relay.finish(.refused("status 404", isFinal: false))
        #expect(relay.dispatcher.deadLetters.isEmpty && relay.dispatcher.waitingCount == 1)
    }

    @Test func `a dead letter takes the place of no newer wake-up`() {
        var relay = ModelRelay(Fixture.settings())
        relay.accept(Fixture.request(count: 1))
        relay.begin()
        relay.finish(.refused("no", isFinal: true))
        let letter = relay.dispatcher.deadLetters.all[0]
        relay.accept(Fixture.request(count: 2))
        relay.dispatcher.resend([letter.wake.sequence], now: relay.now)
        relay.begin()
        #expect(relay.attempts.map(\.wake.count) == [2])
        relay.finish(.delivered)
        relay.begin()
        #expect(relay.attempts.isEmpty && relay.dispatcher.deadLetters.isEmpty)
        #expect(relay.steps.contains("coalesced"))
    }

    @Test func `the dead letters of a target end with it`() {
        var relay = ModelRelay(Fixture.settings())
        relay.accept(Fixture.request(ids: [1, 2]))
        relay.begin()
        relay.finish(.refused("no", isFinal: true))
        relay.finish(.refused("no", isFinal: true))
        let sequences = relay.dispatcher.deadLetters.all.map(\.wake.sequence)
        relay.accept(Fixture.withdrawn(target: 1))
        #expect(relay.dispatcher.deadLetters.all.map(\.wake.target.id) == [2])
        relay.time += 1_000
        relay.save()
        #expect(relay.record.deadLetters.map(\.wake.target.id) == [2])
        relay.dispatcher.resend(sequences, now: relay.now)
        relay.begin()
        #expect(relay.ids == [2])
    }

    @Test func `one user's dead letters take the room of no other's`() {
        var relay = ModelRelay(
            Fixture.settings {
                $0.deadLettersMaximum = PushLimits.deadLettersOfUserMaximum + 1
            })
        relay.accept(Fixture.request("bob"))
        relay.begin()
        relay.finish(.refused("no", isFinal: true))
        for _ in 0..<PushLimits.deadLettersOfUserMaximum + 5 {
            relay.accept(Fixture.request("eve"))
            relay.begin()
            relay.finish(.refused("no", isFinal: true))
        }
        let users = relay.dispatcher.deadLetters.all.map(\.wake.user)
        #expect(users.count == PushLimits.deadLettersOfUserMaximum + 1)
        #expect(users.first == "bob" && relay.dispatcher.totals.discarded == 5)
    }

    @Test func `a restart with a lower bound removes the oldest dead letters`() {
        var relay = ModelRelay(Fixture.settings())
        for user in ["u1", "u2", "u3"] {
            relay.accept(Fixture.request(user))
            relay.begin()
            relay.finish(.refused("no", isFinal: true))
        }
        relay.time += 500
        relay.save()
        var next = ModelRelay(
            Fixture.settings { $0.deadLettersMaximum = 1 }, record: relay.record, time: relay.time)
        #expect(next.dispatcher.deadLetters.all.map(\.wake.user) == ["u3"])
        next.time += 20
        next.save()
        #expect(next.record.deadLetters.map(\.wake.user) == ["u3"])
        #expect(next.dispatcher.totals.discarded == 2)
    }

    /// A kind that was taken out of the file, while many users had wake-ups of it.
    @Test func `many dead letters at once, of many users, are kept as fast as few`() {
        var record = PushRecord()
        for number in 1...20_000 as ClosedRange<UInt64> {
            var wake = Fixture.wake()
            wake.sequence = number
            wake.user = "u\(number)"
            record.apply(.wake(wake))
        }
        let relay = ModelRelay(
            Fixture.settings {
                $0.webhook = nil
                $0.deadLettersMaximum = 15_000
            }, record: record)
        #expect(relay.dispatcher.deadLetters.count == 15_000)
        #expect(relay.dispatcher.deadLetters.all.first?.wake.sequence == 5_001)
    }

    private func answer(_ relay: inout ModelRelay, _ answer: HookAnswer) {
        let attempt = relay.attempts.remove(at: 0)
        if let next = relay.dispatcher.finish(hook: attempt, with: answer, now: relay.now) {
            relay.attempts.append(next)
        }
    }
}

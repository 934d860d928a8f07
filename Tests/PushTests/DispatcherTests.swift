// The relay's decisions as transcripts: events and results go in, attempts and the record come out.

import MartletClient
import Primitives
import Testing

@testable import Push
@testable import Relay

@Suite struct DispatcherTests {
    @Test func `a wake-up is sent at once, and acknowledged when it is on disk`() {
        var relay = ModelRelay(Fixture.settings())
        relay.accept(Fixture.request(ids: [1, 2]))
        relay.begin()
        #expect(relay.ids == [1, 2])
        relay.save()
        #expect(relay.acknowledged == nil)
        relay.time += 20
        relay.save()
        #expect(relay.acknowledged == InboxRecord(epoch: 7, number: 1))
        #expect(relay.record.wakes.map(\.target.id) == [1, 2])
        relay.finish(.delivered)
        relay.finish(.delivered)
        relay.time += 500
        relay.save()
        #expect(relay.record.wakes.isEmpty)
        #expect(relay.steps == ["asked", "asked", "sent", "sent"])
        #expect(relay.dispatcher.waitingCount == 0)
    }

    @Test func `a newer wake-up replaces one that waits, and follows one in flight`() {
        var relay = ModelRelay(Fixture.settings())
        relay.accept(Fixture.request(count: 1))
        relay.begin()
        relay.accept(Fixture.request(count: 2))
        relay.accept(Fixture.request(count: 3))
        relay.begin()
        #expect(relay.attempts.map(\.wake.count) == [1])
        relay.finish(.delivered)
        relay.begin()
        #expect(relay.attempts.map(\.wake.count) == [3])
        relay.finish(.down)
        relay.accept(Fixture.request(count: 4))
        relay.time += 200
        relay.begin()
        #expect(relay.attempts.map(\.wake.count) == [4])
        #expect(relay.dispatcher.totals.coalesced == 3)
    }

    @Test func `a withdrawn wake-up is sent no more`() {
        var relay = ModelRelay(Fixture.settings())
        relay.accept(Fixture.request(ids: [1, 2]))
        relay.begin()
        relay.finish(.delivered)
        relay.accept(Fixture.withdrawn())
        // One was in flight; its failure is not repeated.
        relay.finish(.down)
        relay.time += 20_000
        relay.begin()
        #expect(relay.attempts.isEmpty && relay.dispatcher.waitingCount == 0)
        relay.save()
        #expect(relay.record.wakes.isEmpty)
        #expect(relay.steps == ["asked", "asked", "sent", "withdrawn", "failed down"])
        // A test is for a user who may be there.
        relay.accept(Fixture.request(more: #","test":true"#))
        relay.accept(Fixture.withdrawn())
        relay.begin()
        #expect(relay.ids == [1])
    }

    @Test func `nothing is sent to a target that was removed, and no test`() {
        var relay = ModelRelay(Fixture.settings())
        relay.accept(Fixture.request(ids: [1, 2]))
        relay.accept(Fixture.request(ids: [1], more: #","test":true"#))
        relay.begin()
        relay.accept(Fixture.withdrawn(target: 1))
        relay.finish(.down)
        relay.time += 20_000
        relay.begin()
        #expect(relay.ids == [2])
        relay.save()
        #expect(relay.record.wakes.map(\.target.id) == [2])
    }

    @Test func `a newer wake-up has as many attempts as the one that it replaces`() {
        var relay = ModelRelay(Fixture.settings())
        relay.accept(Fixture.request())
        for _ in 1..<PushLimits.refusalsMaximum {
            relay.begin()
            relay.finish(.refused("status 404", isFinal: false))
            relay.time += 400_000
        }
        relay.accept(Fixture.request(count: 2))
        for _ in 1..<PushLimits.refusalsMaximum {
            relay.begin()
            relay.finish(.refused("status 404", isFinal: false))
            relay.time += 400_000
        }
        #expect(relay.dispatcher.deadLetters.isEmpty && relay.dispatcher.waitingCount == 1)
    }

    @Test func `the wait doubles with each failure, also after a newer wake-up came`() {
        for seed in 0..<20 as Range<UInt64> {
            var relay = ModelRelay(Fixture.settings(), seed: seed)
            relay.accept(Fixture.request())
            relay.begin()
            relay.accept(Fixture.request(count: 2))
            relay.finish(.failed("429", retryAfterSeconds: 0, isDestination: false))
            // The first wait is at most 100 ms, and the second one at least that.
            relay.time += 100
            relay.begin()
            #expect(relay.attempts.map(\.wake.count) == [2])
            relay.finish(.failed("429", retryAfterSeconds: 0, isDestination: false))
            relay.time += 99
            relay.begin()
            #expect(relay.attempts.isEmpty, "seed \(seed)")
            relay.time += 101
            relay.begin()
            #expect(relay.ids == [1])
        }
    }

    @Test func `a user whose name only looks the same withdraws nothing`() {
        var relay = ModelRelay(Fixture.settings())
        relay.accept(Fixture.request("jos\u{E9}"))
        relay.accept(Fixture.withdrawn("jose\u{301}"))
        relay.begin()
        #expect(relay.ids == [1])
        relay.accept(Fixture.withdrawn("jos\u{E9}"))
        relay.finish(.down)
        #expect(relay.dispatcher.waitingCount == 0)
    }

    @Test func `datagrams are repeated until the device comes`() {
        var relay = ModelRelay(
            Fixture.settings {
                $0.udp = DatagramSettings(key: DatagramKey(String(repeating: "0b", count: 32))!)
            })
        let request = { (more: String) in
            Fixture.request(kind: "udp", address: { _ in "h:1" }, more: more)
        }
        relay.accept(request(""))
        relay.begin()
        relay.finish(.sentOnce)
        relay.begin()
        #expect(relay.attempts.isEmpty)
        relay.time += 2_000
        relay.begin()
        #expect(relay.ids == [1])
        relay.accept(Fixture.withdrawn())
        relay.finish(.sentOnce)
        relay.time += 20_000
        relay.begin()
        #expect(relay.attempts.isEmpty && relay.dispatcher.waitingCount == 0)
        // A test is for a device that may be there.
        relay.accept(request(#","test":true"#))
        for number in 1...PushLimits.datagramsDefault {
            relay.begin()
            #expect(relay.ids == [1], "datagram \(number)")
            relay.accept(Fixture.withdrawn())
            relay.finish(.sentOnce)
            relay.time += 2_000
        }
        relay.begin()
        #expect(relay.attempts.isEmpty && relay.dispatcher.waitingCount == 0)
    }

    @Test func `failures are repeated with growing waits, and Retry-After is heeded`() {
        var relay = ModelRelay(Fixture.settings())
        relay.accept(Fixture.request())
        relay.begin()
        relay.finish(.failed("429", retryAfterSeconds: 7, isDestination: false))
        relay.time += 6_999
        relay.begin()
        #expect(relay.attempts.isEmpty)
        relay.time += 1
        relay.begin()
        #expect(relay.ids == [1])
        relay.finish(.failed("503", retryAfterSeconds: 9, isDestination: true))
        relay.time += 8_999
        relay.begin()
        #expect(relay.attempts.isEmpty)
        relay.time += 1
        relay.begin()
        #expect(relay.ids == [1])
    }

    @Test func `a destination that is down delays no other`() {
        var relay = ModelRelay(Fixture.settings { $0.concurrency = 4 })
        relay.accept(Fixture.request(ids: Array(1...8), address: { _ in "https://dead.example/" }))
        relay.begin()
        // Half of the requests are for destinations that were never tried.
        #expect(relay.ids == [1, 2])
        for _ in 0..<20 {
            while !relay.attempts.isEmpty { relay.finish(.down) }
            relay.time += 100
            relay.begin()
        }
        #expect(relay.attempts.count <= 1)
        relay.accept(Fixture.request("carol", ids: [9]))
        relay.begin()
        #expect(relay.ids.contains(9))
        relay.dispatcher.logTotals()
        #expect(relay.dispatcher.totals.openCircuits == 1)
    }

    @Test func `a wake-up ends at its validity as a dead letter, and can be sent again`() throws {
        var relay = ModelRelay(Fixture.settings())
        relay.accept(Fixture.request(more: #","expires":1800000002000"#))
        relay.begin()
        relay.finish(.down)
        relay.time += 60_000
        relay.begin()
        #expect(relay.attempts.isEmpty)
        let letter = try #require(relay.dispatcher.deadLetters.all.first)
        #expect(letter.cause == .expired)
        relay.save()
        #expect(relay.record.deadLetters == [letter] && relay.record.wakes.isEmpty)
        relay.dispatcher.resend([letter.wake.sequence, 99], now: relay.now)
        relay.begin()
        #expect(relay.ids == [1] && relay.dispatcher.deadLetters.isEmpty)
        relay.time += 20
        relay.save()
        #expect(relay.record.deadLetters.isEmpty && relay.record.wakes.count == 1)
    }

    @Test(arguments: [-1_800_000_000_000, 8 * 86_400_000] as [Int64])
    func `a clock that is wrong for a while ends no validity`(error: Int64) {
        var relay = ModelRelay(Fixture.settings())
        for isBefore in [true, false] {
            // The clock is wrong when the event comes, or later.
            if isBefore { relay.clockError = error }
            relay.accept(Fixture.request(time: Fixture.moment(relay.time).unixMilliseconds))
            relay.begin()
            relay.finish(.down)
            relay.clockError = isBefore ? 0 : error
            relay.time += 60_000
            relay.begin()
            #expect(relay.ids == [1] && relay.dispatcher.deadLetters.isEmpty)
            relay.clockError = 0
            relay.finish(.delivered)
        }
    }

    @Test func `a request from before the broker's clock was set has its time from its arrival`() {
        var relay = ModelRelay(Fixture.settings())
        relay.accept(Fixture.request(time: 5_000, more: #","expires":605000"#))
        relay.begin()
        #expect(relay.ids == [1])
        relay.finish(.down)
        relay.time += 540_000
        relay.begin()
        #expect(relay.ids == [1])
        relay.finish(.down)
        relay.time += 60_000
        relay.begin()
        #expect(relay.dispatcher.deadLetters.all.map(\.cause) == [.expired])
    }

    /// A broker whose clock stands in 1970 asks for a wake-up that is valid for ten minutes, and
    /// whose destination is down.
    private func relayOf1970() -> ModelRelay {
        var relay = ModelRelay(Fixture.settings())
        relay.dispatcher.connected(as: "relay", serverTime: 10_000, now: relay.now.instant)
        relay.accept(Fixture.request(time: 10_000, more: #","expires":610000"#))
        relay.begin()
        relay.finish(.down)
        relay.time += 60_000
        relay.save()
        return relay
    }

    @Test(arguments: [false, true])
    func `a wake-up that waits while the broker's clock is set keeps its time`(isRestarted: Bool) {
        var relay = relayOf1970()
        if isRestarted {
            relay = ModelRelay(Fixture.settings(), record: relay.record, time: relay.time)
        } else {
            relay.dispatcher.connected(
                as: "relay", serverTime: relay.now.unixMilliseconds, now: relay.now.instant)
        }
        relay.begin()
        #expect(relay.ids == [1])
        relay.finish(.down)
        #expect(relay.dispatcher.totals.renewed == 1)
        // The new end is in the record.
        relay.dispatcher.progress.needSync(relay.now.instant)
        relay.time += 20
        relay.save()
        let left = relay.record.wakes.map { Int($0.expiry) - Int(relay.now.unixMilliseconds) }
        #expect(left.allSatisfy { $0 > 500_000 && $0 <= 600_000 } && left.count == 1, "\(left)")
        relay.time += 660_000
        relay.begin()
        #expect(relay.dispatcher.deadLetters.all.map(\.cause) == [.expired])
    }

    @Test func `a wake-up whose time ends while the relay is away is not renewed`() {
        var relay = ModelRelay(Fixture.settings())
        relay.accept(Fixture.request(more: #","expires":1800000600000"#))
        relay.time += 20
        relay.save()
        relay = ModelRelay(
            Fixture.settings(), record: relay.record, time: relay.time + 86_400_000)
        relay.begin()
        #expect(relay.ids == [] && relay.dispatcher.deadLetters.all.map(\.cause) == [.expired])
        #expect(relay.dispatcher.totals.renewed == 0)
    }

    @Test func `the validity ends by the broker's clock, at most a week after its time`() {
        // The end that a request names is a year away.
        var relay = ModelRelay(Fixture.settings())
        relay.accept(Fixture.request(more: #","expires":1831536000000"#))
        relay.begin()
        relay.finish(.down)
        relay.time += PushLimits.validityMilliseconds - 120_000
        relay.begin()
        #expect(relay.ids == [1])
        relay.finish(.down)
        relay.time += 120_000
        relay.begin()
        #expect(relay.dispatcher.deadLetters.all.map(\.cause) == [.expired])
        // Sent again, it is valid as long, also if the relay's clock is wrong.
        relay.clockError = -1_800_000_000_000
        relay.dispatcher.resend([relay.dispatcher.deadLetters.all[0].wake.sequence], now: relay.now)
        relay.clockError = 0
        relay.time += PushLimits.validityMilliseconds - 60_000
        relay.begin()
        #expect(relay.ids == [1] && relay.dispatcher.deadLetters.isEmpty)
    }

    @Test func `before a login the broker has reached the newest time of the record`() {
        let start = Fixture.moment(1_000)
        var time = BrokerTime(start.instant, atLeast: 5_000)
        let later = Moment(
            instant: start.instant.advanced(byMilliseconds: 100),
            unixMilliseconds: 1_800_000_000_000)
        #expect(time.agreed(later) == 5_100)
        time.loggedIn(serverTime: 1_900_000_000_000, now: start.instant)
        #expect(time.agreed(later) == 1_800_000_000_000)
        #expect(time.unixMilliseconds(later.instant) == 1_900_000_000_100)
        #expect(BrokerTime.sum(.max - 1, 7) == .max)
    }

    @Test func `refusals end, at once where they are final`() {
        var relay = ModelRelay(Fixture.settings())
        relay.accept(Fixture.request(ids: [1, 2]))
        relay.begin()
        relay.finish(.refused("BadTopic", isFinal: true))
        for _ in 0..<PushLimits.refusalsMaximum {
            relay.finish(.refused("status 404", isFinal: false))
            relay.time += 10_000
            relay.begin()
        }
        #expect(relay.dispatcher.deadLetters.all.map(\.cause) == [.refused, .refused])
        #expect(relay.dispatcher.deadLetters.all.map(\.reason) == ["BadTopic", "status 404"])
        #expect(relay.dispatcher.waitingCount == 0)
    }

    private func content(_ relay: ModelRelay) -> String {
        guard case .send(let content)? = relay.attempts.first?.phase else { return "" }
        return String(decoding: content.content.json, as: UTF8.self)
    }

    @Test func `what a sender gives and nobody takes has the template in its place, once`() {
        var relay = ModelRelay(Fixture.settings())
        let push = #","push":{"x":1}"#
        relay.accept(Fixture.request(more: push))
        relay.begin()
        #expect(content(relay) == #"{"x":1}"#)
        relay.finish(.refused("BadPayload", isFinal: true))
        relay.time += 10_000
        relay.begin()
        #expect(content(relay).contains("alice"))
        relay.finish(.refused("BadPayload", isFinal: true))
        #expect(relay.dispatcher.deadLetters.count == 1 && relay.dispatcher.waitingCount == 0)
        // The same after refusals that are not final; a fault of the address has no second attempt.
        relay.accept(Fixture.request(more: push))
        for number in 1...PushLimits.refusalsMaximum + 1 {
            relay.begin()
            #expect(content(relay).contains("alice") == (number > PushLimits.refusalsMaximum))
            relay.finish(.refused("status 400", isFinal: false))
            relay.time += 20_000
        }
        #expect(relay.dispatcher.deadLetters.count == 2)
        relay.accept(Fixture.request(more: push))
        relay.begin()
        relay.dispatcher.finish(
            relay.attempts.removeFirst(), with: .refused("no-url", isFinal: true), isLocal: true,
            now: relay.now)
        #expect(relay.dispatcher.deadLetters.count == 3 && relay.dispatcher.waitingCount == 0)
    }

    @Test func `a newer wake-up has its own content again`() {
        var relay = ModelRelay(Fixture.settings())
        relay.accept(Fixture.request(more: #","push":{"x":1}"#))
        relay.begin()
        relay.finish(.refused("BadPayload", isFinal: true))
        relay.accept(Fixture.request(more: #","push":{"x":2}"#))
        relay.time += 10_000
        relay.begin()
        #expect(content(relay) == #"{"x":2}"#)
    }

    @Test func `dead letters are sent again together`() {
        var relay = ModelRelay(Fixture.settings())
        for user in ["u1", "u2", "u3"] {
            relay.accept(Fixture.request(user))
            relay.begin()
            relay.finish(.refused("no", isFinal: true))
        }
        let sequences = relay.dispatcher.deadLetters.all.map(\.wake.sequence)
        relay.dispatcher.resend([sequences[2], sequences[0]], now: relay.now)
        #expect(relay.dispatcher.deadLetters.all.map(\.wake.user) == ["u2"])
        relay.begin()
        #expect(relay.attempts.map(\.wake.user) == ["u1", "u3"])
    }

    @Test func `a target that is gone is removed at the broker, also after a restart`() {
        var relay = ModelRelay(Fixture.settings())
        relay.accept(Fixture.request())
        relay.begin()
        relay.finish(.gone("Unregistered"))
        // Until the broker knows, it may ask again.
        relay.accept(Fixture.request())
        relay.begin()
        #expect(relay.attempts.isEmpty)
        relay.time += 500
        relay.save()
        var next = ModelRelay(relay.settings, record: relay.record, time: relay.time)
        let key = WakeKey(user: "bob", id: 1)
        #expect(next.dispatcher.nextRemoval(now: next.now.instant) == key)
        #expect(next.dispatcher.nextRemoval(now: next.now.instant) == nil)
        next.dispatcher.finish(removal: key, refusal: "not-authorized", now: next.now)
        #expect(next.dispatcher.nextRemoval(now: next.now.instant) == nil)
        next.time += PushLimits.removalMilliseconds
        #expect(next.dispatcher.nextRemoval(now: next.now.instant) == key)
        next.dispatcher.finish(removal: key, refusal: nil, now: next.now)
        next.accept(Fixture.request())
        next.time += 500
        next.save()
        #expect(next.record.gone.isEmpty)
        next.begin()
        #expect(next.ids == [1])
    }

    @Test func `what was not delivered survives a restart, the newest of each target`() {
        var relay = ModelRelay(Fixture.settings())
        relay.accept(Fixture.request(ids: [1, 2], count: 1))
        relay.begin()
        relay.accept(Fixture.request(ids: [2], count: 5))
        relay.finish(.delivered)
        relay.time += 500
        relay.save()
        var next = ModelRelay(relay.settings, record: relay.record, time: relay.time)
        next.begin()
        #expect(next.attempts.map(\.wake.count) == [5])
        #expect(next.attempts[0].wake.identifier == relay.record.wakes[0].identifier)
        // The short form has the same state.
        var short = PushRecord()
        for entry in relay.dispatcher.snapshot { short.apply(entry) }
        #expect(short.wakes == relay.record.wakes && short.log == relay.record.log)
        #expect(short.position == relay.record.position)
    }

    @Test func `a full disk acknowledges nothing, and loses nothing`() {
        var relay = ModelRelay(Fixture.settings())
        relay.accept(Fixture.request())
        relay.time += 20
        #expect(relay.dispatcher.nextWrite(now: relay.now.instant) != nil)
        relay.dispatcher.notWritten("full", now: relay.now.instant)
        #expect(relay.dispatcher.nextWrite(now: relay.now.instant) == nil)
        #expect(relay.dispatcher.takeAcknowledgement() == nil)
        relay.begin()
        #expect(relay.ids == [1])
        relay.time += 1_000
        relay.save()
        #expect(relay.acknowledged == InboxRecord(epoch: 7, number: 1))
    }

    @Test func `a kind that the file does not have, and too many targets, are dead letters`() {
        var relay = ModelRelay(Fixture.settings { $0.waitingMaximum = 1 })
        relay.accept(Fixture.request(ids: [1], kind: "apns", address: { _ in "00" }))
        relay.accept(Fixture.request(ids: [2, 3]))
        #expect(relay.dispatcher.deadLetters.all.map(\.cause) == [.notConfigured, .queueFull])
        relay.begin()
        #expect(relay.ids == [2])
    }

    @Test func `a kind that was taken out of the file leaves dead letters at the next start`() {
        var relay = ModelRelay(Fixture.settings())
        relay.accept(Fixture.request())
        relay.time += 500
        relay.save()
        #expect(relay.record.wakes.count == 1)
        var next = ModelRelay(
            Fixture.settings { $0.webhook = nil }, record: relay.record, time: relay.time)
        #expect(next.dispatcher.deadLetters.all.map(\.cause) == [.notConfigured])
        #expect(next.dispatcher.waitingCount == 0)
        next.begin()
        #expect(next.attempts.isEmpty)
        next.time += 500
        next.save()
        #expect(next.record.wakes.isEmpty && next.record.deadLetters.count == 1)
    }

    @Test(arguments: [
        (#"{"a":"\ud800"}"#, "{\"a\":\"\u{FFFD}\"}"),
        (#"{"a":"\ud800\u0041"}"#, "{\"a\":\"\u{FFFD}A\"}"),
        (#"{"a":1,"a":2}"#, #"{"a":2}"#),
        ("{\"\u{E9}\":1,\"e\u{301}\":2}", "{\"\u{E9}\":1,\"e\u{301}\":2}"),
    ])
    func `all of JSON that the broker takes from a sender is read`(push: String, sent: String) {
        var relay = ModelRelay(Fixture.settings())
        relay.accept(Fixture.request(more: #","push":\#(push)"#))
        relay.begin()
        #expect(Array(content(relay).utf8) == Array(sent.utf8))
    }

    @Test(arguments: [
        "", "{", "[]", "{}", #"{"event":"WAKE_REQUEST"}"#, #"{"event":"OTHER","user":"b"}"#,
        #"{"event":"WAKE_REQUEST","user":"b","targets":[{}],"time":1}"#,
        #"{"event":"WAKE_REQUEST","user":"b","targets":{},"time":1}"#,
        #"{"event":"WAKE_REQUEST","user":"b","targets":[]}"#,
        Fixture.request(ids: [(1 << 53) + 1]), Fixture.request(time: 1 << 63),
        Fixture.request(more: #","expires":18446744073709551616"#),
        #"{"event":"WAKE_REQUEST","user":"b","targets":[],"time":1,"count":9007199254740993}"#,
    ])
    func `an event of another form changes nothing and is acknowledged`(_ json: String) {
        var relay = ModelRelay(Fixture.settings())
        relay.accept(json)
        relay.begin()
        #expect(relay.attempts.isEmpty && relay.dispatcher.totals.malformed == 1)
        relay.time += 20
        relay.save()
        #expect(relay.acknowledged?.number == 1)
    }

    @Test func `a target of a number that is none withdraws no other`() {
        var relay = ModelRelay(Fixture.settings())
        relay.accept(Fixture.request())
        relay.accept(
            #"{"event":"WAKE_WITHDRAWN","user":"bob","target":18446744073709551616,"time":1}"#)
        #expect(relay.dispatcher.totals.malformed == 1)
        relay.begin()
        #expect(relay.ids == [1])
    }

    @Test func `a message of a user is no event`() {
        var relay = ModelRelay(Fixture.settings())
        relay.dispatcher.accept(
            IncomingMessage(
                kind: .unicast, from: "mallory", time: 1, content: .text(Fixture.request()),
                record: InboxRecord(epoch: 7, number: 1)), now: relay.now)
        relay.begin()
        #expect(relay.attempts.isEmpty)
    }

    @Test func `no more attempts begin than the rate allows`() {
        var relay = ModelRelay(Fixture.settings { $0.ratePerSecond = 3 })
        for id in 1...8 as ClosedRange<UInt64> {
            relay.accept(Fixture.request("u\(id)", ids: [id]))
        }
        relay.begin()
        #expect(relay.attempts.count == 3)
        #expect(relay.dispatcher.nextDeadline(now: relay.now.instant).milliseconds <= 1_334)
        relay.time += 334
        relay.begin()
        #expect(relay.attempts.count == 4)
    }
}

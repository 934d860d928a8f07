// Whom slow and many requests delay: no user and no destination takes the requests of others.

import Primitives
import Testing
import WakeTemplates

@testable import Push
@testable import Relay

@Suite struct ShareTests {
    private func request(_ user: String, _ url: String, id: UInt64 = 1) -> String {
        Fixture.request(user, ids: [id], address: { _ in url })
    }

    @Test func `a destination that answers slowly has a quarter of the requests`() {
        var relay = ModelRelay(Fixture.settings { $0.concurrency = 8 })
        for milliseconds in [900, 5_000] as [UInt64] {
            let host = "https://h\(milliseconds).example/"
            relay.accept(request("u0", host))
            relay.begin()
            relay.time += milliseconds
            relay.finish(.delivered)
            for number in 1...8 { relay.accept(request("u\(number)", host)) }
            relay.begin()
            #expect(relay.attempts.count == (milliseconds < 1_000 ? 8 : 2))
            if milliseconds < 1_000 {
                while !relay.attempts.isEmpty { relay.finish(.delivered) }
            }
        }
        // The requests of the others are free.
        relay.accept(request("carol", "https://h900.example/"))
        relay.begin()
        #expect(relay.attempts.map(\.wake.user).contains("carol"))
        // Answers that come in time again give it more than the quarter.
        for _ in 0..<20 {
            while !relay.attempts.isEmpty { relay.finish(.delivered) }
            for number in 1...8 { relay.accept(request("u\(number)", "https://h5000.example/")) }
            relay.begin()
        }
        #expect(relay.attempts.count == 8)
    }

    @Test func `a target that hangs delays no other of its host`() {
        var relay = ModelRelay(Fixture.settings { $0.concurrency = 8 })
        relay.accept(request("bob", "https://h.example/a"))
        relay.begin()
        relay.finish(.delivered)
        relay.accept(request("eve", "https://h.example/hangs"))
        for _ in 1..<RelayLimits.circuitFailuresMaximum {
            relay.begin()
            #expect(relay.attempts.count == 1)
            relay.time += 10_000
            relay.finish(.hung("Timeout was reached"))
            relay.time += 10_000
        }
        for number in 1...7 { relay.accept(request("u\(number)", "https://h.example/a")) }
        relay.begin()
        #expect(relay.attempts.count == 8)
        relay.dispatcher.logTotals()
        #expect(relay.dispatcher.totals.openCircuits == 0)
        // Where all of them hang, the host has no more than a quarter of the requests.
        while !relay.attempts.isEmpty { relay.finish(.hung("Timeout was reached")) }
        relay.time += 10_000
        relay.begin()
        #expect(relay.attempts.count == 2)
        // One that answers says that the host is well.
        relay.finish(.delivered)
        relay.begin()
        #expect(relay.attempts.count > 2)
    }

    @Test func `a failure on a connection says something of the target only`() {
        func outcome(_ reason: String, _ wasConnected: Bool, isOfTarget: Bool) -> SendOutcome {
            RequestSender.outcome(
                DestinationAnswer(result: .failed(reason), wasConnected: wasConnected),
                isOfTarget: isOfTarget)
        }
        let failed = SendOutcome.failed("x", retryAfterSeconds: 0, isDestination: true)
        #expect(outcome("x", true, isOfTarget: true) == .hung("x"))
        #expect(outcome("x", false, isOfTarget: true) == failed)
        #expect(outcome("x", true, isOfTarget: false) == failed)
        #expect(
            outcome(AttemptResult.addressRefusal, false, isOfTarget: true)
                == .refused("address-not-allowed", isFinal: false))
    }

    @Test func `a user has two requests at a time to hosts that users choose`() {
        var relay = ModelRelay(Fixture.settings())
        relay.accept(Fixture.request("eve", ids: Array(1...8)))
        relay.accept(Fixture.request("bob", ids: [1]))
        relay.begin()
        #expect(relay.attempts.map(\.wake.user) == ["eve", "eve", "bob"])
        relay.finish(.delivered, at: 2)
        for left in (0...7).reversed() {
            relay.finish(.delivered)
            relay.begin()
            #expect(relay.attempts.count == min(left, 2), "\(left) are left")
        }
        #expect(relay.dispatcher.waitingCount == 0)
        // The operator's services have no such bound: a telephone does not wait for them.
        relay.accept(
            Fixture.request(
                "eve", ids: Array(11...14), kind: "sms-webhook", address: { "+49\($0)" }))
        relay.begin()
        #expect(relay.attempts.count { $0.wake.target.kind == .sms } == 4)
    }

    @Test func `a device that comes frees what waits for its user`() {
        var relay = ModelRelay(Fixture.settings())
        for round in 1...5 {
            relay.accept(Fixture.request("eve", ids: Array(1...8)))
            relay.begin()
            #expect(relay.attempts.count == 2, "round \(round)")
            relay.accept(Fixture.withdrawn("eve"))
            while !relay.attempts.isEmpty { relay.finish(.down) }
            relay.begin()
            #expect(relay.attempts.isEmpty && relay.dispatcher.waitingCount == 0)
            relay.time += 60_000
        }
    }

    @Test(arguments: [
        "https://h.example/", "http://h.example:81/", "https://H.EXAMPLE:0443/w",
        "https://h.example.",
    ])
    func `a host is one destination, whatever its port and its spelling`(url: String) {
        let target = PushTarget(id: 1, kind: .webhook, address: url)
        #expect(Fixture.settings().destination(of: target) == "webhook h.example")
    }

    @Test(arguments: [
        ("127.0.0.1", "127.0.0.1"), ("127.1", "127.0.0.1"), ("0x7f000001", "127.0.0.1"),
        ("2130706433", "127.0.0.1"), ("::FFFF:127.0.0.1", "127.0.0.1"),
        ("2001:DB8:0::1", "2001:db8::1"),
        ("A.example..", "a.example"),
    ])
    func `an address has one form`(text: String, normal: String) {
        #expect(HostName.normal(text) == normal)
    }

    @Test func `no host of a user is the destination of a service`() {
        let settings = Fixture.settings()
        let apple = settings.destination(of: PushTarget(id: 1, kind: .apns, address: "00"))
        for (kind, address) in [(.webhook, "https://apns/"), (.udp, "apns:1")]
            as [(WakeKind, String)]
        {
            #expect(
                settings.destination(of: PushTarget(id: 1, kind: kind, address: address)) != apple)
        }
    }

    @Test func `destinations without requests are forgotten, as many as are looked for`() {
        let maximum = PushLimits.destinationsMaximum
        var destinations = Destinations(concurrencyMaximum: 4)
        func add(_ number: Int) {
            let key = WakeKey(user: "u", id: UInt64(number))
            destinations.add(QueuePlace(key: key, ticket: 1), to: "h\(number)")
        }
        for number in 0..<maximum { add(number) }
        #expect(destinations.countMaximum == maximum)
        // None of them can be forgotten, and they are not looked through for each new one.
        for number in maximum..<maximum + 10_000 { add(number) }
        #expect(destinations.count == maximum + 10_000)
        #expect(destinations.countMaximum == 2 * maximum)
        let now = Instant(milliseconds: 1)
        while let (name, _) = destinations.next(now: now) {
            _ = destinations.finish(
                name, isFault: false, isHang: false, advised: 0, begun: now, now: now
            ) { _ in 1_000 }
        }
        for number in maximum + 10_000...2 * maximum { add(number) }
        #expect(destinations.count == maximum - 10_000 + 1)
        #expect(destinations.countMaximum == 2 * (maximum - 10_000))
    }
}

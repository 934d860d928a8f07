// The latest refusals: what is kept, and for how long.

import Administration
import Glibc
import Testing

@testable import BrokerRuntime

@Suite("The latest refusals")
struct RefusalRingTests {
    private var ring = RefusalRing()

    private mutating func take(
        _ event: LogEventName = .sendRefused, second: UInt64, subject: String = "x"
    ) {
        ring.take(
            event,
            [
                "address": "192.0.2.1:5", "user": "alice", "device": "", "reason": "not-authorized",
                "code": 135, "subject": .text(subject), "detail": "",
            ], unixMilliseconds: second * 1_000)
    }

    @Test mutating func `have the fields of the log that are not empty`() {
        take(second: 1)
        var expected = ListRefusals.Refusal(
            number: 1, unixMilliseconds: 1_000, event: "send_refused")
        expected.address = "192.0.2.1:5"
        expected.user = "alice"
        expected.reason = "not-authorized"
        expected.code = 135
        expected.subject = "x"
        #expect(ring.list(after: nil, limit: 10) == [expected])
        ring.take(
            .connectionRefused, ["address": "192.0.2.2:6", "cause": "total"], unixMilliseconds: 2)
        ring.take(
            .webRequestRefused, ["address": "192.0.2.3:7", "status": 400, "detail": "no Host"],
            unixMilliseconds: 3)
        let rest = ring.list(after: 1, limit: 10)
        #expect(rest.map(\.reason) == ["total", nil] && rest.map(\.code) == [nil, 400])
        #expect(rest.map(\.detail) == [nil, "no Host"])
    }

    @Test mutating func `are the latest of a bounded number`() {
        let count = UInt64(RefusalRing.countMaximum)
        for second in 1...(count + 10) { take(second: second) }
        #expect(ring.last == count + 10)
        let all = ring.list(after: 0, limit: .max)
        #expect(all.map(\.number) == Array(11...(count + 10)))
        #expect(ring.list(after: nil, limit: 3).map(\.number) == Array((count + 8)...(count + 10)))
        #expect(
            ring.list(after: count + 5, limit: 3).map(\.number) == Array((count + 6)...(count + 8)))
        #expect(ring.list(after: count + 10, limit: 3).isEmpty)
        // A number of an earlier life of the broker.
        #expect(ring.list(after: count + 11, limit: 1).map(\.number) == [count + 10])
    }

    @Test mutating func `a flood of one kind leaves the others`() {
        take(.operatorRefused, second: 1)
        for _ in 0..<100_000 { take(.authenticationFailed, second: 1) }
        take(.loginRefused, second: 1)
        let kept = ring.list(after: nil, limit: .max)
        #expect(kept.count == LogRateLimiter.linesPerSecondMaximum + 2)
        #expect(kept.first?.event == "operator_refused" && kept.last?.event == "login_refused")
        // The numbers tell how many were left out.
        #expect(kept.last?.number == 100_002)
    }

    @Test mutating func `have values of a bounded length`() throws {
        take(second: 1, subject: String(repeating: "ü", count: 40_000))
        let subject = try #require(ring.list(after: nil, limit: 1).first?.subject)
        #expect(subject.utf8.count <= RefusalRing.valueByteCountMaximum + 3)
        #expect(subject.hasSuffix("ü…"))
    }

    @Test func `are kept although the log leaves them out`() {
        let log = LogWriter(descriptor: open("/dev/null", O_WRONLY), level: .error)
        #expect(log.writes(.warning) && !log.writes(.info))
        log.write(.warning, .sendRefused, fields: ["address": "a", "user": "u"])
        log.write(.warning, .storeRepaired, fields: ["rows": 1])
        let reply = log.refusals(after: nil, limit: 10)
        #expect(reply.last == 1 && reply.refusals.map(\.user) == ["u"])
    }
}

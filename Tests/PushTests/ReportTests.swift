// What the relay reports to the broker, and what it does when the broker does not take it.

import MartletClient
import Testing

@testable import Push

@Suite struct ReportTests {
    private func next(_ relay: inout ModelRelay) -> [WakeReport]? {
        relay.dispatcher.nextReport(now: relay.now.instant)
    }

    @Test func `each step is reported once, in order, one request at a time`() {
        var relay = ModelRelay(Fixture.settings())
        #expect(next(&relay) == nil)
        relay.accept(Fixture.request(ids: [1, 2]))
        let first = next(&relay)
        #expect(first?.map(\.step) == [LogStep.asked.rawValue, LogStep.asked.rawValue])
        #expect(first?.map(\.target) == [1, 2])
        relay.begin()
        relay.finish(.refused("status 404", isFinal: true))
        #expect(next(&relay) == nil)
        relay.dispatcher.finish(report: .taken, now: relay.now)
        let second = next(&relay)
        #expect(second?.map(\.detail) == ["status 404", "refused"])
        #expect(second?.first?.number == first?.first?.number)
        #expect(second?.first?.kind == .webhook)
        relay.dispatcher.finish(report: .taken, now: relay.now)
        #expect(next(&relay) == nil)
    }

    @Test func `an answer that does not come is waited for, and a refusal is not repeated`() {
        var relay = ModelRelay(Fixture.settings())
        relay.accept(Fixture.request(ids: [1]))
        let report = next(&relay)
        relay.dispatcher.finish(report: .failed, now: relay.now)
        #expect(next(&relay) == nil)
        let deadline = relay.dispatcher.nextDeadline(now: relay.now.instant)
        #expect(deadline <= relay.now.instant.advanced(byMilliseconds: 2_000))
        relay.time += 2_000
        #expect(next(&relay) == report)
        relay.dispatcher.finish(report: .refused("not-authorized"), now: relay.now)
        relay.accept(Fixture.request("eve", ids: [2]))
        #expect(next(&relay) == nil)
        relay.time += 300_000
        #expect(next(&relay)?.map(\.user) == ["eve"])
        relay.dispatcher.finish(report: .refused("not-authorized"), now: relay.now)
        #expect(relay.dispatcher.totals.unreported == 2)
        let lines = relay.dispatcher.takeLines().filter { $0.contains("report_refused") }
        #expect(lines.count == 1, "\(lines)")
    }

    /// Gives the relay a record as its program does at the start.
    private func beginRecord(_ relay: inout ModelRelay) {
        relay.record = PushRecord()
        for entry in relay.dispatcher.snapshot { relay.record.apply(entry) }
    }

    @Test(arguments: [false, true])
    func `what the broker has not taken is reported after the next start`(isRenewed: Bool) {
        var relay = ModelRelay(Fixture.settings())
        beginRecord(&relay)
        relay.accept(Fixture.request(ids: [1]))
        #expect(next(&relay)?.count == 1)
        relay.dispatcher.finish(report: .taken, now: relay.now)
        relay.begin()
        relay.finish(.down)
        relay.time += 200
        relay.begin()
        relay.finish(.delivered)
        #expect(next(&relay)?.count == 2)
        relay.time += 500
        relay.save()
        if isRenewed { beginRecord(&relay) }
        // It is killed before the broker answers.
        var second = ModelRelay(Fixture.settings(), record: relay.record, time: relay.time)
        beginRecord(&second)
        #expect(
            next(&second)?.map(\.step) == [LogStep.failed.rawValue, LogStep.sent.rawValue])
        second.dispatcher.finish(report: .taken, now: second.now)
        second.time += 500
        second.save()
        var third = ModelRelay(Fixture.settings(), record: second.record, time: second.time)
        #expect(next(&third) == nil)
        #expect(third.steps == ["asked", "failed down", "sent"])
    }

    @Test func `the log of an earlier version is not reported again`() {
        var relay = ModelRelay(Fixture.settings())
        relay.accept(Fixture.request(ids: [1]))
        relay.time += 20
        relay.save()
        #expect(relay.record.log.count == 1)
        var second = ModelRelay(Fixture.settings(), record: relay.record, time: relay.time)
        #expect(next(&second) == nil)
    }

    @Test func `a relay that stops waits for a broker that takes reports, and for no other`() {
        for outcome in [ReportOutcome.taken, .failed, .refused("not-authorized")] {
            var relay = ModelRelay(Fixture.settings())
            relay.accept(Fixture.request(ids: [1]))
            relay.begin()
            relay.dispatcher.drain()
            relay.finish(.delivered)
            #expect(relay.dispatcher.hasReports)
            #expect(relay.dispatcher.nextDeadline(now: relay.now.instant) <= relay.now.instant)
            #expect(next(&relay)?.count == 2 && relay.dispatcher.hasReports)
            relay.dispatcher.finish(report: outcome, now: relay.now)
            #expect(!relay.dispatcher.hasReports)
        }
    }

    @Test func `a broker that is away costs bounded memory`() {
        var relay = ModelRelay(Fixture.settings())
        for number in 0..<UInt64(PushLimits.reportsMaximum + 5) {
            relay.accept(Fixture.request("u\(number)", ids: [number + 1]))
        }
        #expect(relay.dispatcher.totals.unreported == 5)
        let report = next(&relay)
        #expect(report?.count == WakeReport.countMaximum && report?.first?.target == 6)
    }
}

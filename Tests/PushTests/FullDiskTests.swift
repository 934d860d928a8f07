// A disk that the record itself has filled: obsolete entries make room, and the log does first.

import MartletClient
import TestSurroundings
import Testing

@testable import Push
@testable import Relay

@Suite struct FullDiskTests {
    private func write(_ relay: inout ModelRelay) {
        relay.time += 500
        relay.save()
    }

    @Test func `a record without wake-ups is empty but for its position and its badges`() throws {
        var relay = ModelRelay(Fixture.settings())
        relay.accept(Fixture.request("a", more: #","push":{"badge":5}"#))
        // The broker has the event yet.
        #expect(relay.dispatcher.emptyRecord == [.unreported(0)])
        write(&relay)
        #expect(relay.dispatcher.emptyRecord == nil)
        relay.begin()
        relay.finish(.delivered)
        relay.accept(Fixture.request("b"))
        let position = InboxRecord(epoch: 7, number: 1)
        let badge = PushEntry.badge(WakeKey(user: "a", id: 1), 5)
        #expect(relay.dispatcher.emptyRecord == [.position(position), badge, .unreported(0)])
        relay.dispatcher.emptied()
        relay.record = PushRecord()
        write(&relay)
        #expect(relay.record.wakes.map(\.user) == ["b"] && relay.record.badges.count == 1)
        #expect(relay.record.log.isEmpty && relay.acknowledged?.number == 2)
    }

    @Test func `what the broker does not have any more is never cut`() throws {
        var relay = ModelRelay(Fixture.settings())
        relay.accept(Fixture.request())
        write(&relay)
        relay.begin()
        relay.finish(.refused("no", isFinal: true))
        // The dead letter is of a wake-up that the record has.
        #expect(relay.dispatcher.emptyRecord == nil)
        write(&relay)
        let letter = try #require(relay.dispatcher.deadLetters.all.first)
        relay.dispatcher.resend([letter.wake.sequence], now: relay.now)
        #expect(relay.dispatcher.deadLetters.isEmpty && relay.dispatcher.emptyRecord == nil)
        write(&relay)
        #expect(relay.dispatcher.emptyRecord == nil)
        // A newer wake-up takes the place of one in the record.
        relay.accept(Fixture.request())
        #expect(relay.dispatcher.emptyRecord != nil)
    }

    @Test func `the log is left out first`() {
        var relay = ModelRelay(Fixture.settings())
        relay.accept(Fixture.request())
        let snapshot = relay.dispatcher.snapshot
        let short = relay.dispatcher.shortSnapshot ?? []
        #expect(snapshot.count == short.count + 2)
        #expect(
            !short.contains { entry in
                if case .log = entry { return true } else { return false }
            })
    }

    @Test(
        .enabled(
            if: TestDestination.isThere && SmallDisk.canBeMounted, TestDestination.reasonOfAbsence))
    func `a disk that the record has filled holds back no wake-up`() throws {
        let disk = try #require(SmallDisk(byteCount: 64 << 10))
        let far = try TestDestination("hook", [Fixture.secretText])
        var settings = try TestKeys().settings(
            #"webhook: { secretFiles: ["DIR/secret"], allowHttp: true }, ratePerSecond: 0,"#)
        settings.relay.stateFile = "\(disk.path)/state"
        var relay = TestRelay(settings)
        // About 30 KiB of the record in each round, and more than all of the disk in two.
        for round in 1...6 {
            if round == 4 {
                _ = try relay.stop()
                #expect(try relay.record().position?.number == 150)
                relay = TestRelay(settings)
            }
            for number in 1...50 {
                relay.accept(
                    Fixture.request(
                        "u\(number)", address: { _ in "http://127.0.0.1:\(far.port)/w" },
                        time: unixNow))
            }
            _ = try far.lines.line("path=/w step=200", count: 50 * round)
        }
        _ = try relay.stop()
        let record = try relay.record()
        #expect(record.wakes.isEmpty && record.deadLetters.isEmpty)
        #expect(record.position?.number == 150, "the second relay has as many events, from 1")
    }
}

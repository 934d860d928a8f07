// The dispatcher between a model broker and destinations that fail at random, with crashes between
// any two steps: the newest wake-up of each target arrives, unless it was withdrawn.

import Foundation
import MartletClient
import TestSurroundings
import Testing

@testable import Push
@testable import Relay

@Suite struct StormTests {
    private static let users = ["u0", "u1", "u2"]
    private static let windowMaximum = 8

    /// A broker that sends what is not acknowledged again after each login.
    private struct ModelBroker {
        /// All events with their numbers, from 1.
        var events: [String] = []
        var acknowledged: UInt64 = 0
        var sent: UInt64 = 0
    }

    @Test(arguments: 0..<60)
    func `the newest wake-up of each target arrives, whatever crashes`(_ seed: Int) {
        var random = SeededRandom(seed: UInt64(seed))
        let settings = Fixture.settings {
            $0.concurrency = 4
            if seed % 3 == 0 { $0.hook = HookSettings() }
        }
        var broker = ModelBroker()
        var relay = ModelRelay(settings)
        // What each target must get at least, as the number of the event.
        var wanted: [WakeKey: UInt64] = [:]
        var arrived: [WakeKey: UInt64] = [:]
        var steps = 0
        while broker.events.count < 60 || broker.acknowledged < broker.events.count
            || relay.dispatcher.waitingCount > 0
        {
            steps += 1
            guard steps < 50_000 else {
                Issue.record("seed \(seed) does not end")
                return
            }
            relay.time += UInt64(random.next(in: 0..<100))
            switch random.next(in: 0..<100) {
            case 0..<20 where broker.events.count < 60:
                let user = Self.users[random.next(in: 0..<3)]
                let number = UInt64(broker.events.count + 1)
                if random.next(in: 0..<5) == 0 {
                    broker.events.append(Fixture.withdrawn(user))
                    for id in 1...2 as ClosedRange<UInt64> {
                        wanted[WakeKey(user: user, id: id)] = nil
                    }
                } else {
                    broker.events.append(
                        Fixture.request(user, ids: [1, 2], count: Int(number)))
                    for id in 1...2 as ClosedRange<UInt64> {
                        wanted[WakeKey(user: user, id: id)] = number
                    }
                }
            case 20..<50:
                guard broker.sent < broker.events.count,
                    broker.sent - broker.acknowledged < Self.windowMaximum
                else { break }
                broker.sent += 1
                relay.dispatcher.accept(
                    Fixture.message(broker.events[Int(broker.sent) - 1], number: broker.sent),
                    now: relay.now)
            case 50..<75: relay.begin()
            case 75..<90:
                guard !relay.attempts.isEmpty else { break }
                finish(&relay, &random, &arrived)
            case 90..<98: relay.save()
            default:
                // What is not on disk is lost.
                relay = ModelRelay(settings, record: relay.record, time: relay.time)
                broker.sent = relay.record.position?.number ?? 0
            }
            if let position = relay.acknowledged {
                #expect(position.number <= broker.sent)
                broker.acknowledged = max(broker.acknowledged, position.number)
            }
        }
        for (key, number) in wanted {
            #expect(arrived[key] ?? 0 >= number, "\(key) of seed \(seed)")
        }
        #expect(relay.dispatcher.inFlightCount == relay.attempts.count)
    }

    private func finish(
        _ relay: inout ModelRelay, _ random: inout SeededRandom, _ arrived: inout [WakeKey: UInt64]
    ) {
        let index = random.next(in: 0..<relay.attempts.count)
        let attempt = relay.attempts[index]
        if case .hook = attempt.phase {
            relay.attempts.remove(at: index)
            let answer: HookAnswer =
                random.next(in: 0..<2) == 0 ? .template : .silent("timeout", isWell: false)
            let next = relay.dispatcher.finish(hook: attempt, with: answer, now: relay.now)
            if let next { relay.attempts.append(next) }
            return
        }
        switch random.next(in: 0..<4) {
        case 0: relay.finish(.down, at: index)
        case 1: relay.finish(.refused("status 404", isFinal: false), at: index)
        default:
            let key = attempt.wake.key
            arrived[key] = max(arrived[key] ?? 0, attempt.wake.count)
            relay.finish(.delivered, at: index)
        }
    }

    @Test(.enabled(if: TestDestination.isThere, TestDestination.reasonOfAbsence))
    func `a full disk loses nothing, and what waits is sent after a restart`() throws {
        guard let disk = SmallDisk(byteCount: 256 << 10) else { return }
        let far = try TestDestination("hook", ["--plan", "w=500", Fixture.secretText])
        let keys = TestKeys()
        var settings = try keys.settings(
            #"webhook: { secretFiles: ["DIR/secret"], allowHttp: true },"#)
        settings.relay.retryMilliseconds = 60_000
        settings.relay.retrySecondsMaximum = 60
        settings.relay.stateFile = "\(disk.path)/state"
        let relay = TestRelay(settings)
        relay.accept(
            Fixture.request(address: { _ in "http://127.0.0.1:\(far.port)/w" }, time: unixNow))
        _ = try far.lines.line("path=/w step=500")
        // The disk fills up; what is asked for then is sent, and not acknowledged.
        let filler = "\(disk.path)/filler"
        FileManager.default.createFile(atPath: filler, contents: nil)
        let handle = try #require(FileHandle(forWritingAtPath: filler))
        while (try? handle.write(contentsOf: Data(count: 512))) != nil {}
        try handle.close()
        relay.accept(
            Fixture.request(
                "carol", address: { _ in "http://127.0.0.1:\(far.port)/c" }, time: unixNow))
        _ = try far.lines.line("path=/c step=200")
        try FileManager.default.removeItem(atPath: filler)
        _ = try relay.stop()
        #expect(try relay.record().wakes.map(\.user) == ["bob"])
        settings.relay.retryMilliseconds = 20
        let next = TestRelay(settings)
        _ = try far.lines.line("path=/w step=200")
        _ = try next.stop()
        #expect(try next.record().wakes.isEmpty)
        let identifiers = far.lines.all.filter { $0.contains("path=/w") }
            .map { $0.split(separator: " ").first { $0.hasPrefix("id=") } }
        #expect(Set(identifiers).count == 1)
    }
}

// The record: every state survives its bytes, incomplete ends are cut, damage is refused; and the
// bounds of the log.

import MartletClient
import TestSurroundings
import Testing

@testable import Push
@testable import Relay

@Suite struct RecordTests {
    private var entries: [PushEntry] {
        let key = WakeKey(user: "bob", id: 1)
        let entry = LogEntry(
            time: 5, key: key, kind: .apns, step: .refused, sequence: 3, count: 2,
            detail: "BadTopic")
        return [
            .position(InboxRecord(epoch: 7, number: 3)),
            .wake(Fixture.wake(push: #"{"a":1}"#)), .wake(Fixture.wake(.udp, address: "h:1")),
            .badge(key, 4), .log(entry),
            .deadLetter(
                DeadLetter(wake: Fixture.wake(.fcm), cause: .refused, reason: "x", time: 9)),
            .gone(WakeKey(user: "eve", id: 9)), .gone(key), .removed(key), .badge(key, 5),
            .unreported(0),
        ]
    }

    private func bytes(_ entries: [PushEntry]) -> [UInt8] {
        entries.reduce(PushEntry.magic) { $0 + $1.encoded }
    }

    @Test func `entries survive their bytes`() throws {
        let (record, end) = try PushRecord.read(bytes(entries), path: "p")
        #expect(end == bytes(entries).count)
        #expect(record.position == InboxRecord(epoch: 7, number: 3))
        #expect(record.wakes == [Fixture.wake(.udp, address: "h:1")])
        #expect(record.deadLetters.map(\.wake) == [Fixture.wake(.fcm)])
        #expect(record.gone == [WakeKey(user: "eve", id: 9)])
        #expect(record.badges == [WakeKey(user: "bob", id: 1): 5])
        #expect(record.log.count == 1 && record.highestSequence == 3)
        for entry in entries {
            let copy = PushEntry.decode(PushEntry.magic + entry.encoded, at: 8)
            #expect(copy?.entry == entry)
        }
    }

    @Test func `every cut and every damaged byte is an error or the end`() {
        let all = bytes(entries)
        for count in 0..<all.count {
            let end = try? PushRecord.read(Array(all[..<count]), path: "p").end
            #expect(end.map { $0 <= count } == true)
        }
        let lastStart = bytes(entries.dropLast()).count
        for index in all.indices {
            var damaged = all
            damaged[index] ^= 0x40
            let isRead = (try? PushRecord.read(damaged, path: "p")) != nil
            #expect(isRead == (index >= lastStart), "byte \(index)")
        }
    }

    @Test func `a badge that an earlier version wrote without a bound is read`() throws {
        let key = WakeKey(user: "bob", id: 1)
        let all = bytes([.badge(key, 1 << 63), .settled(key)])
        let (record, end) = try PushRecord.read(all, path: "p")
        #expect(end == all.count && record.badges == [key: PushLimits.badgeMaximum])
    }

    @Test func `a count of entries that were not reported is that of the log at most`() throws {
        let key = WakeKey(user: "bob", id: 1)
        let log = [1, 2].map { number in
            PushEntry.log(
                LogEntry(
                    time: 5, key: key, kind: .apns, step: .asked, sequence: number, count: 1,
                    detail: ""))
        }
        let all = bytes([log[0], .unreported(UInt64(Int.max)), log[1]])
        let (record, end) = try PushRecord.read(all, path: "p")
        #expect(end == all.count && record.unreported.map(\.sequence) == [1, 2])
    }

    @Test func `an entry with a number of 64 bits is none`() {
        let large = UInt64(1) << 63
        var wake = Fixture.wake()
        wake.count = large
        let letter = DeadLetter(wake: Fixture.wake(), cause: .refused, reason: "", time: large)
        let entry = LogEntry(
            time: 5, key: WakeKey(user: "bob", id: 1), kind: .apns, step: .asked, sequence: 3,
            count: large, detail: "")
        for entry: PushEntry in [
            .wake(wake), .deadLetter(letter), .log(entry),
            .settled(WakeKey(user: "bob", id: large)),
        ] {
            #expect(PushEntry.decode(PushEntry.magic + entry.encoded, at: 8) == nil, "\(entry)")
        }
        // A validity may have no end.
        wake.count = 1
        wake.expiry = .max
        #expect(PushEntry.decode(PushEntry.magic + PushEntry.wake(wake).encoded, at: 8) != nil)
    }

    @Test func `names of different bytes are different users`() throws {
        let names = ["jos\u{E9}", "jose\u{301}"]
        let all = bytes(names.map { .badge(WakeKey(user: $0, id: 1), 4) })
        #expect(try PushRecord.read(all, path: "p").content.badges.count == 2)
    }

    @Test func `the record of another program is refused`() {
        #expect(throws: RecordFailure.self) {
            _ = try PushRecord.read(Array("MLHOOKS1".utf8), path: "p")
        }
    }

    @Test func `the log keeps the newest of each target and of all`() {
        var log = WakeLog(perTargetMaximum: 3, countMaximum: 10)
        for number in 1...1_000 as ClosedRange<UInt64> {
            let key = WakeKey(user: number % 2 == 0 ? "busy" : "u\(number % 20)", id: 1)
            log.add(
                LogEntry(
                    time: number, key: key, kind: .fcm, step: .sent, sequence: number, count: 1,
                    detail: ""))
            #expect(log.count <= 10)
        }
        let all = log.all
        #expect(all.count == log.count)
        #expect(all.filter { $0.key.user == "busy" }.map(\.time) == [996, 998, 1_000])
        #expect(all.last?.time == 1_000)
    }
}

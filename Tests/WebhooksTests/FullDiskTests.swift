// A disk that the record itself has filled: obsolete entries make room.

import Glibc
import MartletClient
import Primitives
import TestSurroundings
import Testing

@testable import Relay
@testable import Webhooks

@Suite struct FullDiskTests {
    @Test func `a record without live entries is empty but for its position and filters`() {
        var relay = ModelRelay(Fixture.settings([Fixture.hook()]))
        relay.accept(Fixture.message("1", number: 1))
        #expect(relay.dispatcher.emptyRecord == [.filters([])])
        relay.dispatcher.requestRecord()
        relay.save()
        // The event is in the record only.
        #expect(relay.dispatcher.emptyRecord == nil)
        relay.accept(Fixture.message("2", from: "bob", number: 2))
        #expect(relay.dispatcher.emptyRecord == nil)
        relay.begin()
        relay.finish(200)
        let position = InboxRecord(epoch: 1, number: 1)
        #expect(relay.dispatcher.emptyRecord == [.position(position), .filters([])])
        relay.dispatcher.emptied()
        relay.content = RecordContent()
        relay.save()
        #expect(relay.content.deliveries.map(\.key) == ["user bob"])
        #expect(relay.acknowledged?.number == 2)
    }

    @Test func `a record that is written anew has what no write had`() {
        var relay = ModelRelay(Fixture.settings([Fixture.hook { $0.queueMaximum = 2 }]))
        for number in 1...3 { relay.accept(Fixture.message("\(number)", number: UInt64(number))) }
        var content = RecordContent()
        for entry in relay.dispatcher.snapshot { content.apply(entry) }
        relay.dispatcher.rewritten()
        relay.save()
        #expect(relay.acknowledged?.number == 3)
        #expect(content.position?.number == 3)
        #expect(content.deliveries.count == 2 && content.deadLetters.count == 1)
        #expect(!relay.dispatcher.hasUnwritten)
    }

    @Test func `a file begins anew in place`() throws {
        let directory = try TemporaryDirectory("record")
        let path = "\(directory.path)/state"
        var file = try RecordFile<RecordContent>.open(path)
        try file.append((1...100).map { .done(sequence: $0) }, isSynced: true)
        try file.restart(with: [.filters(["a"])])
        try file.append([.position(InboxRecord(epoch: 1, number: 2))], isSynced: true)
        let content = try RecordFile<RecordContent>.content(of: path)
        #expect(content.filters == ["a"] && content.position?.number == 2)
        #expect(content.highestSequence == 0)
    }

    @Test func `no inode is no room`() throws {
        // Its root directory, the lock file and the record.
        guard let disk = SmallDisk(byteCount: 256 << 10, fileMaximum: 3) else { return }
        let path = "\(disk.path)/state"
        var file = try RecordFile<RecordContent>.open(path)
        try file.append([.filters(["a"])], isSynced: true)
        do throws(RecordFailure) {
            try file.replace(with: [.filters(["b"])])
            Issue.record("a third file was created")
        } catch {
            guard case .noRoom = error else { throw error }
        }
        try file.append([.position(InboxRecord(epoch: 1, number: 2))], isSynced: true)
        #expect(try RecordFile<RecordContent>.content(of: path).filters == ["a"])
    }
}

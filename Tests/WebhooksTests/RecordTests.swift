// The record: every state survives its bytes, incomplete ends are cut, damage is refused.

import Files
import Foundation
import MartletClient
import TestSurroundings
import Testing

@testable import Relay
@testable import Webhooks

@Suite struct RecordTests {
    private func delivery(_ sequence: UInt64) -> Delivery {
        Delivery(
            sequence: sequence, hook: "a", identifier: "msg_\(sequence)", key: "user u",
            expiry: 9, body: Array("{\"n\":\(sequence)}".utf8))
    }

    private var entries: [RecordEntry] {
        [
            .position(InboxRecord(epoch: 7, number: 3)), .filters(["a/#", "b"]),
            .event(delivery(1)), .event(delivery(2)), .event(delivery(3)), .done(sequence: 1),
            .dead(sequence: 2, cause: .refused, status: 400, time: 5),
            .dead(sequence: 3, cause: .expired, status: 410, time: 6),
            .resent(sequence: 2, newSequence: 4, expiry: 11),
        ]
    }

    private func bytes(_ entries: [RecordEntry]) -> [UInt8] {
        entries.reduce(RecordEntry.magic) { $0 + $1.encoded }
    }

    private func state(_ entries: [RecordEntry]) -> RecordContent {
        entries.reduce(into: RecordContent()) { $0.apply($1) }
    }

    @Test func `entries survive their bytes`() throws {
        let (content, end) = try RecordContent.read(bytes(entries), path: "p")
        #expect(content.entries == state(entries).entries)
        #expect(end == bytes(entries).count)
        #expect(content.position == InboxRecord(epoch: 7, number: 3))
        #expect(content.filters == ["a/#", "b"])
        #expect(content.deliveries.map(\.sequence) == [4])
        #expect(content.deliveries[0].expiry == 11)
        #expect(content.deadLetters.map(\.delivery.sequence) == [3])
        #expect(content.highestSequence == 4)
        // The short form has the same state.
        #expect(state(content.entries).entries == content.entries)
    }

    @Test func `an end that is cut anywhere is the state of an earlier write`() throws {
        let all = bytes(entries)
        for count in 0..<all.count {
            let (content, end) = try RecordContent.read(Array(all[..<count]), path: "p")
            #expect(end <= count)
            let complete = (0...entries.count).last { bytes(Array(entries[..<$0])).count <= count }
            #expect(content.entries == state(Array(entries[..<(complete ?? 0)])).entries)
        }
    }

    @Test func `a damaged byte is an error, or the end`() throws {
        let all = bytes(entries)
        let lastStart = bytes(entries.dropLast()).count
        for index in all.indices {
            var damaged = all
            damaged[index] ^= 0x40
            do throws(RecordFailure) {
                _ = try RecordContent.read(damaged, path: "p")
                #expect(index >= lastStart, "byte \(index)")
            } catch {
                #expect(index < lastStart, "byte \(index)")
            }
        }
    }

    @Test func `a file keeps what was appended, and is replaced as a whole`() throws {
        let directory = try TemporaryDirectory("record")
        let path = "\(directory.path)/state"
        do {
            var file = try RecordFile<RecordContent>.open(path)
            #expect(file.stored.deliveries.isEmpty)
            try file.append(entries, isSynced: true)
            // One relay at a time.
            #expect(throws: RecordFailure.self) { _ = try RecordFile<RecordContent>.open(path) }
            #expect(
                try RecordFile<RecordContent>.content(of: path).entries == state(entries).entries)
        }
        do {
            var file = try RecordFile<RecordContent>.open(path)
            #expect(file.stored.entries == state(entries).entries)
            try file.replace(with: file.stored.entries)
            try file.append([.event(delivery(5))], isSynced: false)
            #expect(file.byteCount < bytes(entries).count + 100)
        }
        // A write that was interrupted.
        let handle = try #require(FileHandle(forWritingAtPath: path))
        try handle.seekToEnd()
        try handle.write(contentsOf: RecordEntry.event(delivery(6)).encoded.dropLast(3))
        try handle.close()
        do {
            var file = try RecordFile<RecordContent>.open(path)
            #expect(file.stored.deliveries.map(\.sequence) == [4, 5])
            try file.append([.event(delivery(7))], isSynced: true)
        }
        #expect(
            try RecordFile<RecordContent>.content(of: path).deliveries.map(\.sequence) == [4, 5, 7])
    }

    @Test func `a file of something else is refused`() throws {
        let directory = try TemporaryDirectory("record")
        let path = "\(directory.path)/state"
        try Data("a letter to the editor".utf8).write(to: URL(filePath: path))
        #expect(throws: RecordFailure.self) { _ = try RecordFile<RecordContent>.open(path) }
    }

    @Test func `a request to send again is taken once`() throws {
        let directory = try TemporaryDirectory("record")
        let request = ResendRequest(stateFile: "\(directory.path)/state")
        #expect(request.read() == nil)
        try request.write([3, 5])
        #expect(throws: RecordFailure.self) { try request.write([7]) }
        #expect(request.read() == [3, 5])
        request.remove()
        #expect(request.read() == nil)
    }
}

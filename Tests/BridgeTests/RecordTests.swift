// The record of a bridge: its encoding, and a file that is complete at every moment.

import Foundation
import Primitives
import TestSurroundings
import Testing
import WireFormat

@testable import Bridge

@Suite struct RecordTests {
    private func record(_ number: UInt64 = 7) -> BridgeRecord {
        var record = BridgeRecord(clientIdentifier: "bridge-ü", outboxEpoch: 99)
        record.reservedThrough = 1_024
        record.inbox = MRT.Resume(epoch: 5, lastNumber: number)
        record.cookie = 3
        record.inward = [
            InwardNote(packetIdentifier: 1, digest: 2, number: 3, isSettled: false),
            InwardNote(packetIdentifier: 65_535, digest: .max, number: 0, isSettled: true),
        ]
        record.outward = [
            OutwardNote(number: 8, packetIdentifier: 4, step: .published),
            OutwardNote(number: 9, packetIdentifier: 5, step: .released),
            OutwardNote(number: 10, packetIdentifier: 0, step: .completed),
        ]
        record.foreignFilters = ["a/+": 2, "b": 1]
        record.martletFilters = ["c/#": 0]
        return record
    }

    private func withFile(_ body: (String) throws -> Void) throws {
        let directory = try TemporaryDirectory("record")
        try body(directory.file("state"))
    }

    @Test func `a record survives encoding and decoding`() throws {
        let decoded = try #require(BridgeRecord.decode(record().encoded(sequence: 12)))
        #expect(decoded.record == record())
        #expect(decoded.sequence == 12)
    }

    @Test func `a truncated or changed record is refused`() {
        let bytes = record().encoded(sequence: 1)
        for count in bytes.indices { #expect(BridgeRecord.decode(Array(bytes[..<count])) == nil) }
        for index in bytes.indices {
            var changed = bytes
            changed[index] ^= 0x40
            #expect(BridgeRecord.decode(changed) == nil, "byte \(index)")
        }
    }

    @Test func `the largest record with a thousand filters fits into a slot`() {
        var record = record()
        record.inward = (0..<UInt16(BridgeLimits.publicationsMaximum)).map {
            InwardNote(packetIdentifier: $0 + 1, digest: 2, number: 3, isSettled: true)
        }
        record.outward = (0..<UInt16(BridgeLimits.inFlightMaximum)).map {
            OutwardNote(number: 8, packetIdentifier: $0, step: .published)
        }
        for index in 0..<BridgeLimits.rulesMaximum {
            let filter = "\(index)/".padding(toLength: 64, withPad: "x", startingAt: 0)
            record.foreignFilters[filter] = 2
        }
        #expect(record.encoded(sequence: 1).count <= BridgeLimits.recordByteCountMaximum)
    }

    @Test func `a file has the last saved record, or the one before if the last is incomplete`()
        throws
    {
        try withFile { path in
            var first = try RecordFile.open(path)
            #expect(first.stored == nil)
            for number in 1...5 as ClosedRange<UInt64> { try first.save(record(number)) }
            _ = consume first
            let second = try RecordFile.open(path)
            #expect(second.stored == record(5))
            _ = consume second
            // The fifth write is in the second slot.
            let handle = try #require(FileHandle(forUpdatingAtPath: path))
            try handle.seek(toOffset: UInt64(BridgeLimits.recordByteCountMaximum) + 40)
            try handle.write(contentsOf: [0xAA, 0xAA, 0xAA, 0xAA])
            try handle.close()
            let third = try RecordFile.open(path)
            #expect(third.stored == record(4))
        }
    }

    @Test func `a first write that is incomplete at any byte counts as absent`() throws {
        try withFile { path in
            var first = try RecordFile.open(path)
            try first.save(record(1))
            _ = consume first
            let whole = record(1).encoded(sequence: 1)
            for count in stride(from: 0, to: whole.count, by: 3) {
                let handle = try #require(FileHandle(forUpdatingAtPath: path))
                try handle.seek(toOffset: UInt64(BridgeLimits.recordByteCountMaximum))
                try handle.write(
                    contentsOf: whole[..<count] + Array(repeating: 0, count: whole.count - count))
                try handle.close()
                #expect(try RecordFile.open(path).stored == nil, "torn at \(count)")
            }
        }
    }

    @Test func `numbers beyond their range are refused without a trap`() throws {
        var extreme = record()
        extreme.reservedThrough = .max
        #expect(BridgeRecord.decode(extreme.encoded(sequence: 1)) == nil)
        extreme = record()
        extreme.inbox = MRT.Resume(epoch: 1, lastNumber: .max)
        #expect(BridgeRecord.decode(extreme.encoded(sequence: 1)) == nil)
        #expect(BridgeRecord.decode(record().encoded(sequence: .max)) == nil)
        var highest = record()
        highest.reservedThrough = BridgeLimits.numberMaximum
        highest.inbox = MRT.Resume(epoch: 1, lastNumber: BridgeLimits.numberMaximum)
        let stored = try #require(BridgeRecord.decode(highest.encoded(sequence: 1))?.record)
        var bridge = MessageBridge(
            try modelSettings(), stored: stored, jitterSeed: 1, freshEpoch: 1)
        bridge.start(now: Instant(milliseconds: 1))
        bridge.work(now: Instant(milliseconds: 2))
        #expect(bridge.takeRecord() != nil)
    }

    @Test func `a foreign file is not overwritten, and a file in use is refused`()
        throws
    {
        try withFile { path in
            try Data("precious".utf8).write(to: URL(filePath: path))
            do {
                _ = try RecordFile.open(path)
                Issue.record("it was taken")
            } catch {
                #expect("\(error)".contains("no record of a bridge"))
            }
            #expect(try String(contentsOfFile: path, encoding: .utf8) == "precious")
            try FileManager.default.removeItem(atPath: path)
            let first = try RecordFile.open(path)
            do {
                _ = try RecordFile.open(path)
                Issue.record("it was taken twice")
            } catch {
                #expect("\(error)".contains("another bridge uses it"))
            }
            _ = first.stored
        }
    }

    @Test func `a closed file is free, although a child process still has it`() throws {
        try withFile { path in
            var copies: [Int32] = []
            defer { for copy in copies { close(copy) } }
            do {
                let file = try RecordFile.open(path)
                copies = try Self.descriptors(of: path).map { fcntl($0, F_DUPFD_CLOEXEC, 0) }
                #expect(!copies.isEmpty)
                _ = file.stored
            }
            _ = try RecordFile.open(path).stored
        }
    }

    /// The descriptors of this process that are open for a file.
    private static func descriptors(of path: String) throws -> [Int32] {
        let folder = "/proc/self/fd"
        return try FileManager.default.contentsOfDirectory(atPath: folder).filter {
            let target = try? FileManager.default.destinationOfSymbolicLink(
                atPath: "\(folder)/\($0)")
            return target == path
        }.compactMap { Int32($0) }
    }
}

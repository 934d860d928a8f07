// The encoded form of records: what comes back, and what damaged, foreign and newer bytes become.

import BrokerCore
import Primitives
import Testing

@testable import Replication

@Suite struct `A record of the log` {
    private let contents: [LogContent] = [
        .takeover(NodeLife(name: Array("node-a".utf8), life: 55)), .heartbeat,
        .batch(RecordFixture.decided.encoded!),
    ]

    @Test func `comes back as it was`() throws {
        for content in contents {
            let record = RecordFixture.record(content)
            let decoded = try LogRecord(decoding: record.encoded, cluster: RecordFixture.cluster)
            #expect(decoded == record)
        }
    }

    @Test func `is refused with any damaged bit, and with any missing or added byte`() throws {
        for content in contents {
            let bytes = RecordFixture.record(content).encoded
            for bit in 0..<8 * bytes.count {
                var damaged = bytes
                damaged[bit / 8] ^= 1 << UInt8(bit % 8)
                let error = #expect(throws: LogRecordError.self) {
                    try LogRecord(decoding: damaged, cluster: RecordFixture.cluster)
                }
                #expect(error == (bit < 32 ? .foreign : .damaged))
            }
            for count in 0..<bytes.count {
                #expect(throws: LogRecordError.self) {
                    try LogRecord(decoding: Array(bytes[..<count]), cluster: nil)
                }
            }
            #expect(throws: LogRecordError.damaged) {
                try LogRecord(decoding: bytes + [0], cluster: nil)
            }
        }
    }

    @Test func `of another cluster is recognised`() {
        let bytes = RecordFixture.record(.heartbeat).encoded
        #expect(throws: LogRecordError.otherCluster(RecordFixture.cluster)) {
            try LogRecord(decoding: bytes, cluster: StoreIdentity(high: 7, low: 8))
        }
    }

    @Test func `of a newer version is recognised`() {
        // A newer program's record: its own layout behind the prefix, and a right checksum.
        var bytes = RecordFixture.record(.heartbeat).encoded + [1, 2, 3]
        bytes[4] = 2
        LogRecord.seal(&bytes)
        #expect(throws: LogRecordError.newerVersion(2)) {
            try LogRecord(decoding: bytes, cluster: nil)
        }
    }

    @Test func `with a right checksum and wrong fields is malformed`() {
        for (offset, value) in [(6, 9), (4, 0)] as [(Int, UInt8)] {
            var bytes = RecordFixture.record(.heartbeat).encoded
            bytes[offset] = value
            LogRecord.seal(&bytes)
            #expect(throws: LogRecordError.malformed) {
                try LogRecord(decoding: bytes, cluster: nil)
            }
        }
    }

    @Test func `with a time that no clock has is malformed`() throws {
        let last = ReplicationLimits.momentMillisecondsMaximum
        for (instant, unix) in [(last + 1, 0), (0, last + 1), (.max, .max)] as [(UInt64, UInt64)] {
            var record = RecordFixture.record(.heartbeat)
            record.moment = Moment(
                instant: Instant(milliseconds: instant), unixMilliseconds: unix)
            #expect(throws: LogRecordError.malformed) {
                try LogRecord(decoding: record.encoded, cluster: nil)
            }
            var decided = RecordFixture.decided
            decided.batch.moment = record.moment
            #expect(throws: LogRecordError.malformed) {
                try DecidedBatch(decoding: decided.encoded!)
            }
        }
        var record = RecordFixture.record(.heartbeat)
        record.moment = Moment(instant: Instant(milliseconds: last), unixMilliseconds: last)
        #expect(try LogRecord(decoding: record.encoded, cluster: nil) == record)
    }

    @Test func `has a bound`() {
        let bytes = [UInt8](repeating: 0, count: ReplicationLimits.recordByteCountMaximum + 1)
        #expect(throws: LogRecordError.damaged) { try LogRecord(decoding: bytes, cluster: nil) }
        var batch = StoreBatch()
        batch.blocks = bytes
        #expect(DecidedBatch(batch, BatchOutcome()).encoded == nil)
    }
}

@Suite struct `A decided batch` {
    private let bytes = RecordFixture.decided.encoded!

    @Test func `comes back with each of its members`() throws {
        let decoded = try DecidedBatch(decoding: bytes)
        #expect(decoded.outcome == RecordFixture.decided.outcome)
        let members = Mirror(reflecting: decoded.batch).children
        let expected = Mirror(reflecting: RecordFixture.decided.batch).children
        #expect(members.count == expected.count)
        for (member, original) in zip(members, expected) {
            #expect(String(reflecting: member.value) == String(reflecting: original.value))
        }
    }

    /// A new member of `StoreBatch` fails here until the fixture has it, and then above until it is
    /// encoded, or it is named as one that changes nothing.
    @Test func `has a value for every member that is encoded`() {
        let empty = Mirror(reflecting: StoreBatch()).children
        for (member, initial) in zip(
            Mirror(reflecting: RecordFixture.decided.batch).children, empty)
        {
            let name = member.label ?? ""
            let isSet = String(reflecting: member.value) != String(reflecting: initial.value)
            #expect(isSet != DecidedBatch.unencodedMembers.contains(name), "\(name)")
        }
        let outcome = Mirror(reflecting: RecordFixture.refused.outcome).children
        for (member, initial) in zip(outcome, Mirror(reflecting: BatchOutcome()).children) {
            #expect(String(reflecting: member.value) != String(reflecting: initial.value))
        }
    }

    @Test func `has nothing of refused sends, and the new blocks of stored messages`() throws {
        let refused = RecordFixture.refused
        let decoded = try DecidedBatch(decoding: try #require(refused.encoded))
        #expect(decoded.outcome == refused.outcome)
        #expect(!decoded.batch.hasSends && decoded.batch.changesStore)
        #expect(decoded.batch.records.count == refused.batch.records.count - 1)
        #expect(decoded.batch.blocks == Array(10..<30))
        #expect(decoded.batch.replacements.map(\.block) == [ByteRange(offset: 0, count: 20)])
        #expect(decoded.batch.removals == refused.batch.removals)
        // However long they are.
        var long = refused
        long.batch.blocks += [UInt8](repeating: 1, count: ReplicationLimits.recordByteCountMaximum)
        long.batch.messages[0].block.count += UInt32(ReplicationLimits.recordByteCountMaximum)
        #expect(long.encoded == refused.encoded)
        long.outcome.refusesSends = false
        #expect(long.encoded == nil)
    }

    @Test func `is refused or read, and never trapped on, whatever its bytes are`() {
        for offset in bytes.indices {
            for value in [0, 1, 0x7F, 0x80, 0xFF] as [UInt8] {
                var changed = bytes
                changed[offset] = value
                _ = try? DecidedBatch(decoding: changed)
            }
            #expect(throws: LogRecordError.malformed) {
                try DecidedBatch(decoding: Array(bytes[..<offset]))
            }
        }
        #expect(throws: LogRecordError.malformed) { try DecidedBatch(decoding: bytes + [0]) }
    }

    @Test func `with a block outside its bytes, or without receivers, is malformed`() {
        var outside = RecordFixture.decided
        outside.batch.messages[1].block.count += 1
        var replaced = RecordFixture.decided
        replaced.batch.replacements[0].block.offset = 181
        var deserted = RecordFixture.decided
        deserted.batch.messages[0].receiverCount = 0
        var circular = RecordFixture.decided
        circular.batch.transfers[0].destination = circular.batch.transfers[0].source
        for wrong in [outside, replaced, deserted, circular] {
            #expect(throws: LogRecordError.malformed) {
                try DecidedBatch(decoding: wrong.encoded!)
            }
        }
    }
}

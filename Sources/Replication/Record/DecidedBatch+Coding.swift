// The encoded form of a batch and its outcomes. Whoever reads it checks every number that the store
// relies on: ranges of blocks, counts, tables.

import BrokerCore
import Primitives

extension DecidedBatch {
    /// Members of ``StoreBatch`` that are not encoded, because they change nothing.
    static let unencodedMembers: Set = ["loads", "sweepMaximum"]

    /// The bytes of ``LogContent/batch(_:)``; nil if they do not fit into a record. Sends that were
    /// refused are not in them, so that a batch which is decided without them has room.
    public var encoded: [UInt8]? {
        guard outcome.refusesSends, batch.hasSends else { return encodedWhole }
        return DecidedBatch(batch.withoutSends, outcome).encodedWhole
    }

    private var encodedWhole: [UInt8]? {
        var fields = FieldWriter()
        fields.write(batch.sequence)
        fields.write(batch.moment.instant.milliseconds)
        fields.write(batch.moment.unixMilliseconds)
        fields.write(batch.blocks)
        fields.write(list: batch.messages) { message, fields in
            fields.write(message.id.raw)
            fields.write(message.receiverCount)
            fields.write(message.block)
        }
        fields.write(list: batch.entries) { entry, fields in
            fields.write(entry.queue.raw)
            fields.write(entry.number)
            fields.write(entry.message.raw)
            fields.write(entry.deadline.milliseconds)
            fields.write(entry.byteCount)
            fields.write(entry.state)
        }
        writeChanges(&fields)
        writeTransfers(&fields)
        fields.write(list: batch.records) { change, fields in
            fields.write(change.table.rawValue)
            fields.write(change.part == .send)
            fields.write(change.key)
            fields.write(change.value != nil)
            if let value = change.value { fields.write(value) }
        }
        write(outcome, &fields)
        let room = ReplicationLimits.recordByteCountMaximum - LogRecord.headByteCount
        return fields.bytes.count <= room ? fields.bytes : nil
    }

    private func writeChanges(_ fields: inout FieldWriter) {
        fields.write(list: batch.moves) { move, fields in
            fields.write(move.queue.raw)
            fields.write(move.number)
            fields.write(move.destination.raw)
            fields.write(move.destinationNumber)
            fields.write(move.state)
        }
        fields.write(list: batch.removals) { removal, fields in
            fields.write(removal.queue.raw)
            fields.write(removal.number)
        }
        fields.write(list: batch.acknowledgements) { acknowledgement, fields in
            fields.write(acknowledgement.queue.raw)
            fields.write(acknowledgement.throughNumber)
            fields.write(acknowledgement.wantsTally)
            fields.write(UInt64(acknowledgement.followsTransfers))
        }
        fields.write(list: batch.trims) { trim, fields in
            fields.write(trim.queue.raw)
            fields.write(trim.afterNumber)
            fields.write(trim.count)
            fields.write(trim.byteCount)
        }
        fields.write(list: batch.states) { change, fields in
            fields.write(change.queue.raw)
            fields.write(change.number)
            fields.write(change.state)
        }
    }

    private func writeTransfers(_ fields: inout FieldWriter) {
        fields.write(list: batch.transfers) { transfer, fields in
            fields.write(transfer.source.raw)
            fields.write(transfer.destination.raw)
            fields.write(transfer.firstNumber)
            fields.write(transfer.countMaximum)
            fields.write(transfer.byteMaximum)
            fields.write(transfer.sentThrough)
            switch transfer.scope {
            case .all: fields.write(0 as UInt8)
            case .shared: fields.write(1 as UInt8)
            case .userMessages(let before):
                fields.write(2 as UInt8)
                fields.write(before.raw)
            }
        }
        fields.write(list: batch.replacements) { replacement, fields in
            fields.write(replacement.message.raw)
            fields.write(replacement.block)
        }
        fields.write(list: batch.withdrawals) { withdrawal, fields in
            fields.write(withdrawal.queue.raw)
            fields.write(withdrawal.message.raw)
            fields.write(withdrawal.afterNumber)
            fields.write(withdrawal.isProbe)
            fields.write(UInt64(withdrawal.followsTransfers))
        }
        fields.write(list: batch.deletedQueues) { queue, fields in fields.write(queue.raw) }
    }

    private func write(_ outcome: BatchOutcome, _ fields: inout FieldWriter) {
        fields.write(outcome.refusesSends)
        for names in [outcome.expired, outcome.setAside] {
            fields.write(list: names) { name, fields in
                fields.write(name.queue.raw)
                fields.write(name.number)
            }
        }
        fields.write(list: outcome.deletions) { deletion, fields in
            fields.write(deletion.queue.raw)
            fields.write(deletion.throughNumber)
            fields.write(deletion.isComplete)
        }
        fields.write(outcome.digest)
    }

    // MARK: Reading

    /// Reads the bytes of ``LogContent/batch(_:)``.
    ///
    /// Throws ``LogRecordError/malformed`` if they are not a batch that a store can carry out.
    public init(decoding bytes: [UInt8]) throws(LogRecordError) {
        do throws(MalformedRecord) {
            var fields = FieldReader(bytes)
            batch = StoreBatch()
            outcome = BatchOutcome()
            batch.sequence = try fields.read(UInt64.self)
            batch.moment = try fields.readMoment()
            batch.blocks = try fields.readString()
            try readSends(&fields)
            try readChanges(&fields)
            try readTransfers(&fields)
            try readRecords(&fields)
            try readOutcome(&fields)
            guard fields.isAtEnd else { throw MalformedRecord() }
        } catch {
            throw .malformed
        }
    }

    private mutating func readSends(_ fields: inout FieldReader) throws(MalformedRecord) {
        let blockByteCount = batch.blocks.count
        batch.messages = try fields.readList { (fields) throws(MalformedRecord) in
            let message = MessagePut(
                id: StoredMessageID(raw: try fields.read(UInt64.self)),
                receiverCount: try fields.read(UInt32.self),
                block: try fields.readRange(within: blockByteCount))
            guard message.receiverCount > 0 else { throw MalformedRecord() }
            return message
        }
        batch.entries = try fields.readList { (fields) throws(MalformedRecord) in
            EntryPut(
                queue: try fields.readQueue(), number: try fields.read(UInt64.self),
                message: StoredMessageID(raw: try fields.read(UInt64.self)),
                deadline: Instant(milliseconds: try fields.read(UInt64.self)),
                byteCount: try fields.read(UInt32.self), state: try fields.readState())
        }
    }

    private mutating func readChanges(_ fields: inout FieldReader) throws(MalformedRecord) {
        batch.moves = try fields.readList { (fields) throws(MalformedRecord) in
            EntryMove(
                queue: try fields.readQueue(), number: try fields.read(UInt64.self),
                destination: try fields.readQueue(),
                destinationNumber: try fields.read(UInt64.self), state: try fields.readState())
        }
        batch.removals = try fields.readList { (fields) throws(MalformedRecord) in
            EntryRemoval(queue: try fields.readQueue(), number: try fields.read(UInt64.self))
        }
        batch.acknowledgements = try fields.readList { (fields) throws(MalformedRecord) in
            QueueAcknowledgement(
                queue: try fields.readQueue(), throughNumber: try fields.read(UInt64.self),
                wantsTally: try fields.readFlag(), followsTransfers: try fields.readCount())
        }
        batch.trims = try fields.readList { (fields) throws(MalformedRecord) in
            QueueTrim(
                queue: try fields.readQueue(), afterNumber: try fields.read(UInt64.self),
                count: try fields.read(UInt64.self), byteCount: try fields.read(UInt64.self))
        }
        batch.states = try fields.readList { (fields) throws(MalformedRecord) in
            EntryStateChange(
                queue: try fields.readQueue(), number: try fields.read(UInt64.self),
                state: try fields.readState())
        }
    }

    private mutating func readTransfers(_ fields: inout FieldReader) throws(MalformedRecord) {
        let blockByteCount = batch.blocks.count
        batch.transfers = try fields.readList { (fields) throws(MalformedRecord) in
            var transfer = QueueTransfer(
                source: try fields.readQueue(), destination: try fields.readQueue(),
                firstNumber: try fields.read(UInt64.self),
                countMaximum: try fields.read(UInt64.self),
                byteMaximum: try fields.read(UInt64.self),
                sentThrough: try fields.read(UInt64.self))
            switch try fields.read(UInt8.self) {
            case 0: transfer.scope = .all
            case 1: transfer.scope = .shared
            case 2:
                transfer.scope = .userMessages(
                    before: StoredMessageID(raw: try fields.read(UInt64.self)))
            default: throw MalformedRecord()
            }
            guard transfer.source != transfer.destination else { throw MalformedRecord() }
            return transfer
        }
        batch.replacements = try fields.readList { (fields) throws(MalformedRecord) in
            BodyReplacement(
                message: StoredMessageID(raw: try fields.read(UInt64.self)),
                block: try fields.readRange(within: blockByteCount))
        }
        batch.withdrawals = try fields.readList { (fields) throws(MalformedRecord) in
            EntryWithdrawal(
                queue: try fields.readQueue(),
                message: StoredMessageID(raw: try fields.read(UInt64.self)),
                afterNumber: try fields.read(UInt64.self), isProbe: try fields.readFlag(),
                followsTransfers: try fields.readCount())
        }
        batch.deletedQueues = try fields.readList { (fields) throws(MalformedRecord) in
            try fields.readQueue()
        }
    }

    private mutating func readRecords(_ fields: inout FieldReader) throws(MalformedRecord) {
        batch.records = try fields.readList { (fields) throws(MalformedRecord) in
            guard let table = RecordTable(rawValue: try fields.read(UInt8.self)) else {
                throw MalformedRecord()
            }
            let part: RecordPart = try fields.readFlag() ? .send : .state
            let key = try fields.readString(countMaximum: RecordChange.keyByteCountMaximum)
            let value = try fields.readFlag() ? try fields.readString() : nil
            return RecordChange(table: table, key: key, value: value, part: part)
        }
    }

    private mutating func readOutcome(_ fields: inout FieldReader) throws(MalformedRecord) {
        outcome.refusesSends = try fields.readFlag()
        outcome.expired = try fields.readNames()
        outcome.setAside = try fields.readNames()
        outcome.deletions = try fields.readList { (fields) throws(MalformedRecord) in
            QueueDeletion(
                queue: try fields.readQueue(), throughNumber: try fields.read(UInt64.self),
                isComplete: try fields.readFlag())
        }
        outcome.digest = try fields.read(UInt64.self)
    }
}

extension StoreBatch {
    /// The batch without what a refusal leaves out: messages, entries, the records that are a part
    /// of sends, and the bytes that only messages refer to.
    fileprivate var withoutSends: StoreBatch {
        var rest = self
        rest.messages = []
        rest.entries = []
        rest.sendRecords = []
        rest.blocks = []
        for index in replacements.indices {
            let block = replacements[index].block
            rest.replacements[index].block = ByteRange(
                offset: rest.blocks.count, count: Int(block.count))
            rest.blocks += blocks[Int(block.offset)..<block.endOffset]
        }
        return rest
    }
}

extension FieldWriter {
    fileprivate mutating func write(_ range: ByteRange) {
        write(range.offset)
        write(range.count)
    }

    fileprivate mutating func write(_ state: EntryState) {
        write(state.grade.rawValue)
        write(state.options.rawValue)
        write(state.share)
        write(state.subscriptionIdentifier)
    }
}

extension FieldReader {
    fileprivate mutating func readQueue() throws(MalformedRecord) -> QueueID {
        QueueID(raw: try read(UInt64.self))
    }

    fileprivate mutating func readRange(
        within byteCount: Int
    ) throws(MalformedRecord) -> ByteRange {
        let offset = Int(try read(UInt32.self))
        let count = Int(try read(UInt32.self))
        guard offset + count <= byteCount else { throw MalformedRecord() }
        return ByteRange(offset: offset, count: count)
    }

    fileprivate mutating func readState() throws(MalformedRecord) -> EntryState {
        guard let grade = Grade(rawValue: try read(UInt8.self)) else { throw MalformedRecord() }
        return EntryState(
            grade: grade, options: EntryOptions(rawValue: try read(UInt8.self)),
            share: try read(UInt16.self), subscriptionIdentifier: try read(UInt32.self))
    }

    fileprivate mutating func readNames() throws(MalformedRecord) -> [EntryName] {
        try readList { (fields) throws(MalformedRecord) in
            EntryName(queue: try fields.readQueue(), number: try fields.read(UInt64.self))
        }
    }
}

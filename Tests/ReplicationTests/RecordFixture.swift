// A batch in which every list has elements with different fields.

import BrokerCore
import Primitives

@testable import Replication

enum RecordFixture {
    static let cluster = StoreIdentity(high: 7, low: 9)

    /// Every member that is encoded is not empty.
    static var decided: DecidedBatch {
        var batch = StoreBatch()
        batch.sequence = 77
        batch.moment = moment
        batch.blocks = [UInt8](0..<200)
        batch.messages = [
            MessagePut(
                id: StoredMessageID(raw: 5), receiverCount: 2,
                block: ByteRange(offset: 0, count: 120)),
            MessagePut(
                id: StoredMessageID(raw: 6), receiverCount: 1,
                block: ByteRange(offset: 120, count: 80)),
        ]
        batch.entries = [
            EntryPut(
                queue: QueueID(raw: 3), number: 4, message: StoredMessageID(raw: 5),
                deadline: .never, byteCount: 120, state: state),
            EntryPut(
                queue: QueueID(raw: 8), number: 1 << 40, message: StoredMessageID(raw: 6),
                deadline: Instant(milliseconds: 12), byteCount: 80,
                state: EntryState(grade: .once)),
        ]
        addChanges(&batch)
        addTransfers(&batch)
        batch.records = [
            RecordChange(table: .sessions, key: [1, 2], value: [3, 4, 5]),
            RecordChange(table: .outboxes, key: [0], value: [], part: .send),
            RecordChange(table: .passwords, key: [9], value: nil),
        ]
        var outcome = BatchOutcome()
        outcome.expired = [EntryName(queue: QueueID(raw: 1), number: 2)]
        outcome.setAside = [EntryName(queue: QueueID(raw: 3), number: 4)]
        outcome.deletions = [
            QueueDeletion(queue: QueueID(raw: 5), throughNumber: 6, isComplete: false)
        ]
        outcome.digest = 0x0123_4567_89AB_CDEF
        return DecidedBatch(batch, outcome)
    }

    /// The same with refused sends, which are not encoded.
    static var refused: DecidedBatch {
        var refused = decided
        refused.outcome.refusesSends = true
        return refused
    }

    static let moment = Moment(
        instant: Instant(milliseconds: 1_234), unixMilliseconds: 1_700_000_000_000)

    private static let state = EntryState(
        grade: .durable, options: [.shared, .kept], share: 300, subscriptionIdentifier: 70_000)

    private static func addChanges(_ batch: inout StoreBatch) {
        batch.moves = [
            EntryMove(
                queue: QueueID(raw: 1), number: 2, destination: QueueID(raw: 3),
                destinationNumber: 4, state: state)
        ]
        batch.removals = [EntryRemoval(queue: QueueID(raw: 5), number: 6)]
        batch.acknowledgements = [
            QueueAcknowledgement(
                queue: QueueID(raw: 7), throughNumber: 8, wantsTally: true, followsTransfers: 1)
        ]
        batch.trims = [QueueTrim(queue: QueueID(raw: 9), afterNumber: 10, count: 11, byteCount: 12)]
        batch.states = [EntryStateChange(queue: QueueID(raw: 13), number: 14, state: state)]
    }

    private static func addTransfers(_ batch: inout StoreBatch) {
        let scopes: [TransferScope] = [
            .all, .shared, .userMessages(before: StoredMessageID(raw: 99)),
        ]
        batch.transfers = scopes.map {
            QueueTransfer(
                source: QueueID(raw: 1), destination: QueueID(raw: 2), firstNumber: 3,
                countMaximum: 4, byteMaximum: 5, scope: $0, sentThrough: 6)
        }
        batch.replacements = [
            BodyReplacement(
                message: StoredMessageID(raw: 5), block: ByteRange(offset: 10, count: 20))
        ]
        batch.withdrawals = [
            EntryWithdrawal(
                queue: QueueID(raw: 1), message: StoredMessageID(raw: 5), afterNumber: 3,
                isProbe: true, followsTransfers: 2)
        ]
        batch.deletedQueues = [QueueID(raw: 20), QueueID(raw: 21)]
    }

    static func record(_ content: LogContent) -> LogRecord {
        LogRecord(
            cluster: cluster, term: Term(raw: 3), number: 8, moment: moment, content: content)
    }
}

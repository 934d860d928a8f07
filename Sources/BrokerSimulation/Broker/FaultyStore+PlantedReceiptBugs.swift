// Planted bugs of the store in receipts, recalls and replacements.

import BrokerCore
import Primitives

extension FaultyStore {
    /// Changes what a batch has of receipts.
    func tamperReceipts(_ batch: inout StoreBatch) {
        switch context.options.mutation {
        case .lostReceipt:
            let lost = Set(batch.messages.filter { isReceipt($0, in: batch) }.map(\.id))
            batch.entries.removeAll { lost.contains($0.message) }
            batch.messages.removeAll { lost.contains($0.id) }
        case .foreignReceipt:
            for message in batch.messages where isReceipt(message, in: batch) {
                // The last byte of the name of who gave it.
                let start = Int(message.block.offset)
                let end = start + MessageBlock.headerByteCount + Int(batch.blocks[start + 4])
                batch.blocks[end - 1] = batch.blocks[end - 1] == 0x30 ? 0x31 : 0x30
            }
        case .forgottenTelling:
            // That receipts are told is not stored, so they are told again after a restart.
            batch.records.removeAll { $0.table == .trackedSends && $0.part == .send }
        default: tamperRevisions(&batch)
        }
    }

    /// Changes what a batch has of recalls and replacements.
    private func tamperRevisions(_ batch: inout StoreBatch) {
        switch context.options.mutation {
        case .lostRecall:
            let lost = Set(batch.messages.filter { kind(of: $0, in: batch) == .recall }.map(\.id))
            batch.entries.removeAll { lost.contains($0.message) }
            batch.messages.removeAll { lost.contains($0.id) }
        case .keptContent: batch.replacements = []
        default: tamperWakes(&batch)
        }
    }

    /// Changes what a batch has of wake-ups.
    private func tamperWakes(_ batch: inout StoreBatch) {
        // The number 0 ends the key of what a user's requests are in, and the id of a target that
        // of the target.
        func isTarget(_ change: RecordChange) -> Bool {
            change.table == .wakeTargets && change.key.suffix(8).contains { $0 != 0 }
        }
        switch context.options.mutation {
        case .lostRequest:
            let lost = Set(
                batch.messages.filter { kind(of: $0, in: batch) == .brokerEvent }.map(\.id))
            batch.entries.removeAll { lost.contains($0.message) }
            batch.messages.removeAll { lost.contains($0.id) }
        case .forgottenTarget: batch.records.removeAll { isTarget($0) && $0.value != nil }
        case .forgottenAsking:
            let isAsking = { (change: RecordChange) in
                change.table == .wakeTargets && !isTarget(change) && change.value != nil
            }
            batch.records.removeAll(where: isAsking)
            batch.sendRecords.removeAll(where: isAsking)
        case .forgottenTemplate: batch.records.removeAll { $0.table == .wakeTemplates }
        case .forgottenLogout:
            // The last byte of a target's row says that its device has logged out.
            for index in batch.records.indices where isTarget(batch.records[index]) {
                guard let row = batch.records[index].value else { continue }
                batch.records[index].value = row.dropLast() + [0]
            }
        default: break
        }
    }

    private func isReceipt(_ message: MessagePut, in batch: StoreBatch) -> Bool {
        kind(of: message, in: batch) == .receipt
    }

    private func kind(of message: MessagePut, in batch: StoreBatch) -> MessageKind? {
        MessageKind(rawValue: batch.blocks[Int(message.block.offset) + 1])
    }
}

// Planted bugs of the store in conversations.

import BrokerCore
import Primitives

extension FaultyStore {
    /// Changes what a batch has of conversations.
    func tamperHistory(_ batch: inout StoreBatch) {
        switch context.options.mutation {
        case .lostHistory: loseKept(&batch)
        case .lostTopicHistory: loseTopics(&batch)
        case .swappedHistory: swapKept(&batch)
        case .forgottenMark:
            batch.records.removeAll { $0.table == .readers && $0.value != nil }
        case .ownIsUnread:
            // The number of own messages ends the row.
            for index in batch.records.indices where batch.records[index].table == .readers {
                guard let row = batch.records[index].value else { continue }
                batch.records[index].value = row.dropLast(8) + [UInt8](repeating: 0, count: 8)
            }
        case .forgottenPull:
            // The row of a session that pulls ends with the mark of it.
            for index in batch.records.indices where batch.records[index].table == .sessions {
                guard let row = batch.records[index].value, row.first == 3 else { continue }
                batch.records[index].value = row.dropLast() + [0]
            }
        case .forgottenNotices: loseNotices(&batch)
        default: break
        }
    }

    /// Leaves out the notices of new members.
    private func loseNotices(_ batch: inout StoreBatch) {
        let lost = batch.blocks.withUnsafeBytes { bytes in
            Set(
                batch.messages.filter { message in
                    let block = MessageBlock(message.block.bytes(in: bytes))
                    return block.kind == .groupEvent && block.payload.first == GroupNotice.added
                }.map(\.id))
        }
        batch.entries.removeAll { lost.contains($0.message) }
        batch.messages.removeAll { lost.contains($0.id) }
    }

    private func loseKept(_ batch: inout StoreBatch) {
        let lost = batch.entries.filter {
            $0.state.options.contains(.kept)
                && context.misbehaves(.lostHistory, perTenThousand: 1_000)
        }
        batch.entries.removeAll { lost.contains($0) }
        for entry in lost {
            guard let index = batch.messages.firstIndex(where: { $0.id == entry.message }) else {
                continue
            }
            batch.messages[index].receiverCount -= 1
            if batch.messages[index].receiverCount == 0 { batch.messages.remove(at: index) }
        }
    }

    /// Leaves out the rows of topics, so that their messages belong to nothing after a restart.
    private func loseTopics(_ batch: inout StoreBatch) {
        batch.records.removeAll { record in
            // The kind of the parties follows the version.
            record.table == .conversations && record.value.map { $0[1] } == 3
        }
    }

    private func swapKept(_ batch: inout StoreBatch) {
        let kept = batch.entries.indices.filter {
            batch.entries[$0].state.options.contains(.kept)
        }
        for (first, second) in zip(kept, kept.dropFirst())
        where batch.entries[first].queue == batch.entries[second].queue {
            let number = batch.entries[first].number
            batch.entries[first].number = batch.entries[second].number
            batch.entries[second].number = number
            return
        }
    }

    /// Omits the newest message of each page.
    func skipNewest(of batch: StoreBatch, _ result: inout StoreResult) {
        for index in result.loads.indices
        where batch.loads[index].beforeNumber != nil && result.loads[index].entries.count > 1 {
            result.loads[index].entries.removeFirst()
        }
    }
}

// The contents of a disk as the real store reads them. It knows no client and no broker.

import BrokerCore
import Foundation
import Primitives
import QueueStore
import TestSurroundings

/// What a disk holds of a store, in a directory that is gone with it.
final class StoreImage {
    private let files: TemporaryDirectory

    init(_ content: DiskContent) throws {
        files = try TemporaryDirectory("image")
        try content.write(to: files.path)
    }

    /// The texts of all entries of all queues.
    func texts() throws -> [String] {
        var store = try LMDBQueueStore(
            directory: files.path,
            options: StoreOptions(mapByteCount: 1 << 30, softLimitByteCount: 256 << 20))
        var queues = QueueList()
        _ = try store.restore(into: &queues)
        var batch = StoreBatch()
        batch.sequence = 1
        batch.loads = queues.queues.map {
            LoadRequest(queue: $0, afterNumber: 0, countMaximum: 100_000, byteMaximum: 1 << 30)
        }
        var result = StoreResult()
        try store.carryOut(batch, into: &result)
        return result.blocks.withUnsafeBytes { blocks in
            result.loads.flatMap(\.entries).map { entry in
                // The first byte is the type of the text.
                String(
                    decoding: MessageBlock(entry.block.bytes(in: blocks)).payload.dropFirst(),
                    as: UTF8.self)
            }
        }
    }
}

/// Takes the queues of a store and nothing else.
private struct QueueList: StoreVisitor {
    var queues: [QueueID] = []

    mutating func visitRecord(
        table: RecordTable, key: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer
    ) {}

    mutating func visitQueue(_ outline: QueueOutline) { queues.append(outline.tally.queue) }
}

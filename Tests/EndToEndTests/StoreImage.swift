// What the real store finds on a disk. It knows no client and no broker.

import BrokerCore
import Foundation
import Primitives
import QueueStore

/// What a disk holds of a store, in a directory that is gone with it.
final class StoreImage {
    private let directory: String

    init(_ content: DiskContent) throws {
        var template = Array("/tmp/martlet-image-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw TestFailure("mkdtemp: \(errno)") }
        directory = template.withUnsafeBufferPointer { String(cString: $0.baseAddress!) }
        try content.write(to: directory)
    }

    deinit { try? FileManager.default.removeItem(atPath: directory) }

    /// The texts of all entries of all queues.
    func texts() throws -> [String] {
        var store = try LMDBQueueStore(
            directory: directory,
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

// The fixture of the store's tests: a directory, short forms of batches, and the contents of a
// store at start as one comparable value.

import BrokerCore
import Glibc
import Primitives

@testable import QueueStore

/// A directory that is gone when the test is.
final class TemporaryDirectory {
    let path: String

    /// Below /tmp, or in memory where syncs would only be waited for.
    init(inMemory: Bool = false) {
        let parent = inMemory && access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp"
        var template = Array("\(parent)/martlet-store-XXXXXX".utf8CString)
        path = String(cString: mkdtemp(&template))
    }

    var dataFile: String { path + "/data.mdb" }

    deinit {
        for name in ["data.mdb", "lock.mdb", "martlet.lock"] { unlink(path + "/" + name) }
        rmdir(path)
    }
}

/// What a restore told.
struct Restored: StoreVisitor, Equatable {
    struct Record: Equatable {
        var table: RecordTable
        var key: [UInt8]
        var value: [UInt8]
    }

    var records: [Record] = []
    var queues: [QueueOutline] = []

    mutating func visitRecord(
        table: RecordTable, key: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer
    ) {
        records.append(Record(table: table, key: [UInt8](key), value: [UInt8](value)))
    }

    mutating func visitQueue(_ outline: QueueOutline) {
        queues.append(outline)
    }
}

extension StoreOptions {
    /// Small enough for a test, and not as slow to map.
    static let small = StoreOptions(mapByteCount: 1 << 30, softLimitByteCount: 256 << 20)
}

extension LMDBQueueStore {
    mutating func carryOut(_ batch: StoreBatch) throws -> StoreResult {
        var result = StoreResult()
        try carryOut(batch, into: &result)
        return result
    }

    /// The payloads of a queue's entries, as text.
    mutating func texts(of queue: UInt64, after: UInt64 = 0, at now: UInt64 = 0) throws -> [String]
    {
        var batch = StoreBatch(at: now)
        batch.load(queue, after: after)
        return try carryOut(batch).texts
    }
}

extension StoreResult {
    /// The payloads of all loaded entries, as text.
    var texts: [String] {
        loads.flatMap(\.entries).map { entry in
            blocks.withUnsafeBytes { blocks in
                String(
                    decoding: MessageBlock(entry.block.bytes(in: blocks)).payload, as: UTF8.self)
            }
        }
    }
}

extension StoreBatch {
    init(at milliseconds: UInt64) {
        self.init()
        moment = Moment(
            instant: Instant(milliseconds: milliseconds), unixMilliseconds: 1_700_000_000_000)
    }

    /// Stores a text for some queues, all under one number.
    mutating func send(
        _ id: UInt64, _ text: String, to queues: [UInt64], number: UInt64,
        deadline: Instant = .never
    ) {
        let block = messageBlock(text)
        messages.append(
            MessagePut(
                id: StoredMessageID(raw: id), receiverCount: UInt32(queues.count),
                block: ByteRange(offset: blocks.count, count: block.count)))
        blocks += block
        for queue in queues {
            entries.append(
                EntryPut(
                    queue: QueueID(raw: queue), number: number, message: StoredMessageID(raw: id),
                    deadline: deadline, byteCount: UInt32(block.count),
                    state: EntryState(grade: .durable)))
        }
    }

    /// Gives a stored message another text.
    mutating func replace(_ id: UInt64, _ text: String) {
        let block = messageBlock(text)
        replacements.append(
            BodyReplacement(
                message: StoredMessageID(raw: id),
                block: ByteRange(offset: blocks.count, count: block.count)))
        blocks += block
    }

    mutating func acknowledge(_ queue: UInt64, through number: UInt64, wantsTally: Bool = false) {
        acknowledgements.append(
            QueueAcknowledgement(
                queue: QueueID(raw: queue), throughNumber: number, wantsTally: wantsTally))
    }

    mutating func load(
        _ queue: UInt64, after number: UInt64 = 0, sentThrough: UInt64 = 0,
        countMaximum: Int = 1_000_000, byteMaximum: Int = 1 << 30
    ) {
        loads.append(
            LoadRequest(
                queue: QueueID(raw: queue), afterNumber: number, sentThrough: sentThrough,
                countMaximum: countMaximum, byteMaximum: byteMaximum))
    }

    mutating func put(_ table: RecordTable, _ key: String, _ value: String?) {
        records.append(
            RecordChange(table: table, key: Array(key.utf8), value: value.map { Array($0.utf8) }))
    }
}

/// A message block with a text as its payload.
func messageBlock(_ text: String) -> [UInt8] {
    let sender = Array("sender".utf8)
    let payload = Array(text.utf8)
    return sender.withUnsafeBytes { sender in
        payload.withUnsafeBytes { payload in
            let none = UnsafeRawBufferPointer(start: nil, count: 0)
            let parts = MessageParts(
                kind: .unicast, marks: .raw, grade: .durable, time: 7, sender: sender,
                address: none, properties: none, payload: payload)
            var block = [UInt8](repeating: 0, count: parts.blockByteCount)
            block.withUnsafeMutableBytes { parts.write(to: $0) }
            return block
        }
    }
}

/// The bytes of a file.
func readFile(_ path: String) -> [UInt8] {
    let descriptor = open(path, O_RDONLY)
    precondition(descriptor >= 0, "cannot open \(path)")
    defer { close(descriptor) }
    let byteCount = Int(lseek(descriptor, 0, SEEK_END))
    var bytes = [UInt8](repeating: 0, count: byteCount)
    precondition(pread(descriptor, &bytes, byteCount, 0) == byteCount)
    return bytes
}

/// Writes bytes over those of a file.
func overwrite(_ path: String, at offset: Int, _ bytes: [UInt8], flags: Int32 = 0) {
    let descriptor = open(path, O_WRONLY | flags, 0o600)
    precondition(descriptor >= 0, "cannot open \(path)")
    defer { close(descriptor) }
    precondition(pwrite(descriptor, bytes, bytes.count, off_t(offset)) == bytes.count)
}

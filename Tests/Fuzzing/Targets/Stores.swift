// The data that a broker reads at its start: invalid rows, and files that changed on disk.

import BrokerCore
import Glibc
import Primitives
import QueueStore

private let start = Moment(
    instant: Instant(milliseconds: 1_000_000), unixMilliseconds: 1_790_000_000_000)

/// A row is a table, the lengths of key and value, and both. Tables come in order and each key
/// once, as stores give them. Rows are refused, or make a broker whose invariants hold.
func fuzzRecords(_ bytes: UnsafeRawBufferPointer) {
    var input = InputReader(bytes)
    var broker = Broker(at: start)
    var lastTable: UInt8 = 0
    var keys: Set<[UInt8]> = []
    while !input.isAtEnd {
        let table = max(input.readByte(), lastTable)
        let (keyByteCount, valueByteCount) = (Int(input.readByte()), Int(input.readUInt16()))
        let (key, value) = (input.read(keyByteCount), input.read(valueByteCount))
        guard let table = RecordTable(rawValue: table) else { continue }
        lastTable = table.rawValue
        guard keys.insert([table.rawValue] + key).inserted else { continue }
        broker.visitRecord(table: table, key: key, value: value)
    }
    let state = RestoredState(
        identity: StoreIdentity(high: 0, low: 1), nextMessage: StoredMessageID(raw: 1), stamp: nil,
        damaged: [])
    do throws(RestoreError) {
        try broker.finishRestoring(state, newEpochSeed: 1, at: start)
    } catch {
        _ = "\(error)"
        return
    }
    broker.checkInvariants()
}

/// Changes of the file: offset and what its byte is turned by. Whatever a store hands out after
/// that is what was put in.
func fuzzStore(_ bytes: UnsafeRawBufferPointer) {
    var input = InputReader(bytes)
    var changed = small.sound
    for _ in 0..<32 where !input.isAtEnd {
        let offset = Int(input.readUInt16()) % changed.count
        changed[offset] ^= input.readByte()
    }
    small.write(changed)
    var found = Rows()
    do throws(StoreError) {
        var store = try LMDBQueueStore(directory: small.directory, options: SmallStore.options)
        _ = try store.restore(into: &found)
    } catch {
        _ = "\(error)"
    }
    precondition(
        found.rows.allSatisfy { small.rows.contains($0) }, "a row that nobody has written")
}

/// A backup that was cut off and changed: it is refused, and nothing is left of the copy, or what
/// is restored from it starts, with nothing but rows that were put in.
func fuzzBackup(_ bytes: UnsafeRawBufferPointer) {
    var input = InputReader(bytes)
    var changed = backup.sound
    // Cut off every other time: what lies behind the cut is not tried then.
    let cut = Int(input.readUInt16())
    if cut & 1 == 1 { changed.removeLast(cut % changed.count) }
    for _ in 0..<32 where !input.isAtEnd {
        let offset = Int(input.readUInt16()) % changed.count
        changed[offset] ^= input.readByte()
    }
    backup.write(changed)
    let target = backup.directory + "/copy"
    var found = Rows()
    do throws(StoreError) {
        try LMDBQueueStore.copy(
            directory: backup.directory, to: target, options: SmallStore.options)
    } catch {
        _ = "\(error)"
        precondition(access(target, F_OK) != 0, "a copy that failed left something")
        return
    }
    do throws(StoreError) {
        var store = try LMDBQueueStore(directory: target, options: SmallStore.options)
        _ = try store.restore(into: &found)
    } catch {
        preconditionFailure("no broker starts with a copy that was made: \(error)")
    }
    precondition(
        found.rows.allSatisfy { backup.rows.contains($0) }, "a row that nobody has written")
    for name in SmallStore.fileNames { unlink(target + "/" + name) }
    rmdir(target)
}

private struct Row: Hashable {
    var table: RecordTable
    var key: [UInt8]
    var value: [UInt8]
}

/// Keeps the rows that a store hands out.
private struct Rows: StoreVisitor {
    var rows: [Row] = []

    mutating func visitRecord(
        table: RecordTable, key: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer
    ) {
        rows.append(Row(table: table, key: [UInt8](key), value: [UInt8](value)))
    }

    mutating func visitQueue(_ outline: QueueOutline) {}
}

/// A small store on a file system in memory, made once, and its bytes as they were.
private struct SmallStore {
    let directory: String
    let sound: [UInt8]
    let rows: Set<Row>

    static let options = StoreOptions(mapByteCount: 1 << 20, softLimitByteCount: 1 << 19)

    init() {
        let parent = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp"
        var template = Array("\(parent)/martlet-fuzz-XXXXXX".utf8CString)
        directory = String(cString: mkdtemp(&template))
        rows = Set(
            (1...8 as ClosedRange<UInt8>).map { number in
                Row(table: .tokens, key: [number], value: [UInt8](repeating: number, count: 40))
            })
        var batch = StoreBatch()
        batch.sequence = 1
        batch.moment = start
        batch.records = rows.map { RecordChange(table: $0.table, key: $0.key, value: $0.value) }
        do throws(StoreError) {
            var store = try LMDBQueueStore(directory: directory, options: Self.options)
            var result = StoreResult()
            try store.carryOut(batch, into: &result)
        } catch {
            fatalError("the store of the fuzzing cannot be made: \(error)")
        }
        let descriptor = open(directory + "/data.mdb", O_RDONLY)
        defer { close(descriptor) }
        let count = Int(lseek(descriptor, 0, SEEK_END))
        sound = [UInt8](unsafeUninitializedCapacity: count) { buffer, read in
            read = max(pread(descriptor, buffer.baseAddress, count, 0), 0)
        }
    }

    static let fileNames = ["data.mdb", "lock.mdb", "martlet.lock"]

    func remove() {
        for name in Self.fileNames { unlink(directory + "/" + name) }
        rmdir(directory)
    }

    func write(_ bytes: [UInt8]) {
        let descriptor = open(directory + "/data.mdb", O_WRONLY | O_TRUNC)
        defer { close(descriptor) }
        let written = bytes.withUnsafeBytes { pwrite(descriptor, $0.baseAddress, $0.count, 0) }
        precondition(written == bytes.count, "the store of the fuzzing cannot be written")
    }
}

private let small: SmallStore = {
    let store = SmallStore()
    atexit { small.remove() }
    return store
}()

/// Another one, for copies.
private let backup: SmallStore = {
    let store = SmallStore()
    atexit { backup.remove() }
    return store
}()

// The store's own few values: its format, its identity, and its last commit. They are in LMDB's
// unnamed database, each after a checksum.

import BrokerCore
import CLMDB
import Glibc
import Primitives
import Replication

/// Names of the store's own values. On disk.
enum MetaKey: String, CaseIterable {
    /// u32, see ``StoreFormats``.
    case format = "martlet.format"
    /// 16 random bytes.
    case identity = "martlet.identity"
    /// Empty; present if this is a backup that has not been opened yet.
    case backup = "martlet.backup"
    /// ``MetaStamp``.
    case stamp = "martlet.stamp"
    /// The record of the cluster's log that the rows contain; absent in a store of no cluster.
    case position = "martlet.position"
}

/// The stamp that each commit writes.
///
/// 48 bytes: instant u64 | Unix milliseconds u64 | boot u64, u64 | boot milliseconds u64 | next
/// message u64, little-endian.
struct MetaStamp {
    static let byteCount = 48

    var stamp: StoreStamp
    /// Above every message id that was ever stored, even if the message was deleted.
    var nextMessage: UInt64

    init(stamp: StoreStamp, nextMessage: UInt64) {
        self.stamp = stamp
        self.nextMessage = nextMessage
    }

    init?(_ bytes: UnsafeRawBufferPointer) {
        guard bytes.count == MetaStamp.byteCount else { return nil }
        stamp = StoreStamp(
            moment: Moment(
                instant: Instant(milliseconds: bytes.littleEndian(at: 0)),
                unixMilliseconds: bytes.littleEndian(at: 8)),
            boot: StoreIdentity(
                high: bytes.littleEndian(at: 16), low: bytes.littleEndian(at: 24)),
            bootMilliseconds: bytes.littleEndian(at: 32))
        nextMessage = bytes.littleEndian(at: 40)
    }

    /// Whether the key of a message is not below the next id.
    func isReached(by key: UnsafeRawBufferPointer) -> Bool {
        withUnsafeBytes(of: nextMessage.bigEndian) { !key.lexicographicallyPrecedes($0) }
    }

    /// The bytes to write.
    var bytes: [UInt8] {
        littleEndianBytes([
            stamp.moment.instant.milliseconds, stamp.moment.unixMilliseconds, stamp.boot.high,
            stamp.boot.low, stamp.bootMilliseconds, nextMessage,
        ])
    }
}

extension ReplicaPosition {
    /// 40 bytes: cluster u64, u64 | sequence u64 | term u64 | number u64, little-endian.
    static let wordCount = 5

    init(words: [UInt64]) {
        self.init(
            cluster: StoreIdentity(high: words[0], low: words[1]),
            sequence: LogSequence(raw: words[2]), term: Term(raw: words[3]), number: words[4])
    }

    /// The bytes to write.
    var bytes: [UInt8] {
        littleEndianBytes([cluster.high, cluster.low, sequence.raw, term.raw, number])
    }
}

extension StoreIdentity {
    /// A new one, from the kernel.
    static func random() -> StoreIdentity {
        var generator = SystemRandomNumberGenerator()
        return StoreIdentity(high: generator.next(), low: generator.next())
    }

    /// The identity of this boot of the machine, or zeros if the kernel does not provide one: then
    /// no stamp is of the same boot, because a stamp of zeros is not trusted either.
    public static func currentBoot() -> StoreIdentity {
        let descriptor = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return StoreIdentity(high: 0, low: 0) }
        defer { Glibc.close(descriptor) }
        var text = [UInt8](repeating: 0, count: 36)
        let count = read(descriptor, &text, text.count)
        let digits = text.prefix(max(count, 0)).filter { $0 != UInt8(ascii: "-") }
        let halves = [digits.prefix(16), digits.dropFirst(16)].map { half in
            UInt64(String(decoding: half, as: UTF8.self), radix: 16) ?? 0
        }
        return StoreIdentity(high: halves[0], low: halves[1])
    }
}

extension StoreStamp {
    /// The stamp of a commit in a cluster: that of the record, and of no machine's boot, so that
    /// all nodes have the same one. Another node's clock goes on from it, so the wall clock tells
    /// the time since then.
    static func replicated(_ moment: Moment) -> StoreStamp {
        StoreStamp(moment: moment, boot: StoreIdentity(high: 0, low: 0), bootMilliseconds: 0)
    }

    /// The stamp of a commit that is made now.
    static func now(_ moment: Moment, boot: StoreIdentity) -> StoreStamp {
        var time = timespec()
        clock_gettime(CLOCK_BOOTTIME, &time)
        return StoreStamp(
            moment: moment, boot: boot,
            bootMilliseconds: UInt64(time.tv_sec) * 1000 + UInt64(time.tv_nsec) / 1_000_000)
    }
}

/// Reads one of the store's own values; nil if there is none.
func metaValue<Value>(
    _ key: MetaKey, transaction: OpaquePointer, table: MDB_dbi,
    decode: (UnsafeRawBufferPointer) -> Value?
) throws(StoreError) -> Value? {
    let name = [UInt8](key.rawValue.utf8)
    return try name.withBytes { (name) throws(StoreError) in
        var keyValue = MDB_val(name)
        var value = MDB_val()
        guard try found(mdb_get(transaction, table, &keyValue, &value), "mdb_get") else {
            return nil
        }
        guard
            let bytes = SealedValue.open(UnsafeRawBufferPointer(value), seed: .meta, key: name),
            let decoded = decode(bytes)
        else { throw .damagedMeta(name: key.rawValue) }
        return decoded
    }
}

/// What is wrong with the store's own values as a whole, in words: a name in the unnamed table that
/// is no table and no value, as a damaged name is; rows without a stamp.
///
/// - Parameter hasStamp: whether there is a stamp, readable or not.
func metaFaults(
    transaction: OpaquePointer, tables: Tables, scratch: UnsafeMutableRawPointer, hasStamp: Bool
) throws(StoreError) -> [String] {
    var faults: [String] = []
    let names = Tables.names.union(MetaKey.allCases.map(\.rawValue))
    var values = try Cursor(transaction: transaction, table: tables.meta, scratch: scratch)
    defer { mdb_cursor_close(values.handle) }
    while try values.next() {
        guard !names.contains(String(decoding: values.key, as: UTF8.self)) else { continue }
        faults.append("its own value \(readable(values.key)) is unknown")
    }
    if !hasStamp, tables.rowCount(transaction: transaction) > 0 {
        faults.append("\(MetaKey.stamp.rawValue) is missing, and there are rows")
    }
    return faults
}

/// Numbers in sequence.
func littleEndianBytes(_ numbers: [UInt64]) -> [UInt8] {
    numbers.flatMap { number in withUnsafeBytes(of: number.littleEndian) { [UInt8]($0) } }
}

extension WriteTransaction {
    func putMeta(_ key: MetaKey, _ value: [UInt8]) throws(StoreError) {
        let name = [UInt8](key.rawValue.utf8)
        try name.withBytes { (name) throws(StoreError) in
            try value.withBytes { (value) throws(StoreError) in
                try putSealed(value, key: name, table: tables.meta, seed: .meta)
            }
        }
    }

    func deleteMeta(_ key: MetaKey) throws(StoreError) {
        let name = [UInt8](key.rawValue.utf8)
        try name.withBytes { (name) throws(StoreError) in
            try deleteSealed(key: name, table: tables.meta)
        }
    }
}

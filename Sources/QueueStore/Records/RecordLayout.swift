// The layout of keys and values on disk. Keys are big-endian, so that the order of their bytes is
// the order of their numbers; values are little-endian. Each value begins with a checksum of its
// key and the rest of itself. This code knows no transactions.
//
//   messages   key: message u64
//              checksum u64 | receiver count u32 | count check u32 | block
//   releases   key: message u64        checksum u64 | released count u32
//   entries    key: queue u64 | number u64
//              checksum u64 | message u64 | deadline u64 | byte count u32 | subscription id u32
//              | share u16 | grade u8 | options u8
//   records    key: table u8 | key     checksum u64 | value
//   doomed     key: queue u64          checksum u64
//   damaged    key: queue u64 | number u64
//              checksum u64 | cause u8 | value of the entry as it was found
//
// A body's count of receivers has its own check: a release reads the count and need not compute the
// checksum of a body that it is about to delete.

import BrokerCore
import CLMDB
import Primitives

/// The position of an entry: its queue and its number in it.
struct EntryKey: Hashable, Comparable {
    static let byteCount = 16

    var queue: UInt64
    var number: UInt64

    @inline(__always)
    init(queue: UInt64, number: UInt64) {
        self.queue = queue
        self.number = number
    }

    /// Nil if the bytes are no such key.
    @inline(__always)
    init?(_ bytes: UnsafeRawBufferPointer) {
        guard bytes.count == EntryKey.byteCount else { return nil }
        queue = bytes.bigEndian(at: 0)
        number = bytes.bigEndian(at: 8)
    }

    @inline(__always)
    func write(to bytes: UnsafeMutableRawPointer) {
        bytes.storeBytes(of: queue.bigEndian, as: UInt64.self)
        bytes.storeBytes(of: number.bigEndian, toByteOffset: 8, as: UInt64.self)
    }

    @inline(__always)
    static func < (left: EntryKey, right: EntryKey) -> Bool {
        left.queue != right.queue ? left.queue < right.queue : left.number < right.number
    }
}

/// The value of an entry.
struct StoredEntry {
    static let byteCount = 36

    var message: UInt64
    var deadline: UInt64
    var byteCount: UInt32
    var state: EntryState

    @inline(__always)
    init(_ put: EntryPut) {
        message = put.message.raw
        deadline = put.deadline.milliseconds
        byteCount = put.byteCount
        state = put.state
    }

    @inline(__always)
    func isExpired(at now: Instant) -> Bool {
        state.isExpired(Instant(milliseconds: deadline), at: now)
    }

    /// Nil if the bytes are not what was written under this key.
    @inline(__always)
    init?(_ bytes: UnsafeRawBufferPointer, key: EntryKey) {
        guard bytes.count == StoredEntry.byteCount, let grade = Grade(rawValue: bytes[34])
        else { return nil }
        message = bytes.littleEndian(at: 8)
        deadline = bytes.littleEndian(at: 16)
        byteCount = bytes.littleEndian(at: 24)
        state = EntryState(
            grade: grade, options: EntryOptions(rawValue: bytes[35]),
            share: bytes.littleEndian(at: 32),
            subscriptionIdentifier: bytes.littleEndian(at: 28))
        guard bytes.littleEndian(at: 0) == checksum(key) else { return nil }
    }

    @inline(__always)
    func write(to bytes: UnsafeMutableRawPointer, key: EntryKey) {
        bytes.storeBytes(of: checksum(key).littleEndian, as: UInt64.self)
        bytes.storeBytes(of: message.littleEndian, toByteOffset: 8, as: UInt64.self)
        bytes.storeBytes(of: deadline.littleEndian, toByteOffset: 16, as: UInt64.self)
        bytes.storeBytes(of: byteCount.littleEndian, toByteOffset: 24, as: UInt32.self)
        bytes.storeBytes(
            of: state.subscriptionIdentifier.littleEndian, toByteOffset: 28, as: UInt32.self)
        bytes.storeBytes(of: state.share.littleEndian, toByteOffset: 32, as: UInt16.self)
        bytes.storeBytes(of: state.grade.rawValue, toByteOffset: 34, as: UInt8.self)
        bytes.storeBytes(of: state.options.rawValue, toByteOffset: 35, as: UInt8.self)
    }

    @inline(__always)
    private func checksum(_ key: EntryKey) -> UInt64 {
        var checksum = Checksum(.entry)
        checksum.mix(key.queue)
        checksum.mix(key.number)
        checksum.mix(message)
        checksum.mix(deadline)
        checksum.mix(UInt64(byteCount) | UInt64(state.subscriptionIdentifier) << 32)
        checksum.mix(
            UInt64(state.share) | UInt64(state.grade.rawValue) << 16
                | UInt64(state.options.rawValue) << 24)
        return checksum.value
    }
}

/// The value of a message: its head, and the block behind it.
enum StoredMessage {
    static let headByteCount = 16

    /// Writes head and block; `bytes` must have room for exactly both.
    @inline(__always)
    static func write(
        to bytes: UnsafeMutableRawPointer, id: UInt64, receiverCount: UInt32,
        block: UnsafeRawBufferPointer
    ) {
        let sum = checksum(id: id, receiverCount: receiverCount, block: block)
        bytes.storeBytes(of: sum.littleEndian, as: UInt64.self)
        bytes.storeBytes(of: receiverCount.littleEndian, toByteOffset: 8, as: UInt32.self)
        bytes.storeBytes(
            of: countCheck(id: id, receiverCount: receiverCount).littleEndian, toByteOffset: 12,
            as: UInt32.self)
        if let source = block.baseAddress {
            (bytes + headByteCount).copyMemory(from: source, byteCount: block.count)
        }
    }

    /// The receiver count, or nil if its check fails.
    @inline(__always)
    static func receiverCount(_ bytes: UnsafeRawBufferPointer, id: UInt64) -> UInt32? {
        guard bytes.count >= headByteCount else { return nil }
        let count: UInt32 = bytes.littleEndian(at: 8)
        return bytes.littleEndian(at: 12) == countCheck(id: id, receiverCount: count) ? count : nil
    }

    /// The block, or nil if the checksum of head or block fails.
    @inline(__always)
    static func block(_ bytes: UnsafeRawBufferPointer, id: UInt64) -> UnsafeRawBufferPointer? {
        guard let count = receiverCount(bytes, id: id) else { return nil }
        let block = UnsafeRawBufferPointer(rebasing: bytes[headByteCount...])
        let sum = checksum(id: id, receiverCount: count, block: block)
        guard bytes.littleEndian(at: 0) == sum, MessageBlock.isValid(block) else { return nil }
        return block
    }

    @inline(__always)
    private static func countCheck(id: UInt64, receiverCount: UInt32) -> UInt32 {
        var checksum = Checksum(.messageHead)
        checksum.mix(id)
        checksum.mix(UInt64(receiverCount))
        return UInt32(truncatingIfNeeded: checksum.value)
    }

    @inline(__always)
    private static func checksum(
        id: UInt64, receiverCount: UInt32, block: UnsafeRawBufferPointer
    ) -> UInt64 {
        var checksum = Checksum(.message)
        checksum.mix(id)
        checksum.mix(UInt64(receiverCount))
        checksum.mix(block)
        return checksum.value
    }
}

/// The value of a release record: how many receivers of a message have released it.
enum StoredRelease {
    static let byteCount = 12

    static func write(to bytes: UnsafeMutableRawPointer, id: UInt64, count: UInt32) {
        bytes.storeBytes(of: checksum(id: id, count: count).littleEndian, as: UInt64.self)
        bytes.storeBytes(of: count.littleEndian, toByteOffset: 8, as: UInt32.self)
    }

    /// Nil if the bytes are not what was written under this key.
    static func count(_ bytes: UnsafeRawBufferPointer, id: UInt64) -> UInt32? {
        guard bytes.count == byteCount else { return nil }
        let count: UInt32 = bytes.littleEndian(at: 8)
        return bytes.littleEndian(at: 0) == checksum(id: id, count: count) ? count : nil
    }

    private static func checksum(id: UInt64, count: UInt32) -> UInt64 {
        var checksum = Checksum(.release)
        checksum.mix(id)
        checksum.mix(UInt64(count))
        return checksum.value
    }
}

/// A value of any bytes after its checksum: records, the store's own values, and entries that were
/// set aside.
enum SealedValue {
    static let headByteCount = 8

    static func write(
        to bytes: UnsafeMutableRawPointer, seed: ChecksumSeed, key: UnsafeRawBufferPointer,
        value: UnsafeRawBufferPointer
    ) {
        let sum = checksum(seed: seed, key: key, value: value)
        bytes.storeBytes(of: sum.littleEndian, as: UInt64.self)
        if let source = value.baseAddress {
            (bytes + headByteCount).copyMemory(from: source, byteCount: value.count)
        }
    }

    /// The value, or nil if the bytes are not what was written under this key.
    static func open(
        _ bytes: UnsafeRawBufferPointer, seed: ChecksumSeed, key: UnsafeRawBufferPointer
    ) -> UnsafeRawBufferPointer? {
        guard bytes.count >= headByteCount else { return nil }
        let value = UnsafeRawBufferPointer(rebasing: bytes[headByteCount...])
        return bytes.littleEndian(at: 0) == checksum(seed: seed, key: key, value: value)
            ? value : nil
    }

    private static func checksum(
        seed: ChecksumSeed, key: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer
    ) -> UInt64 {
        var checksum = Checksum(seed)
        checksum.mix(key)
        checksum.mix(value)
        return checksum.value
    }
}

extension UnsafeRawBufferPointer {
    /// LMDB's value as bytes.
    @inline(__always)
    init(_ value: MDB_val) {
        self.init(start: value.mv_data, count: value.mv_size)
    }

    @inline(__always)
    func littleEndian<Number: FixedWidthInteger>(at offset: Int) -> Number {
        Number(littleEndian: loadUnaligned(fromByteOffset: offset, as: Number.self))
    }

    @inline(__always)
    func bigEndian<Number: FixedWidthInteger>(at offset: Int) -> Number {
        Number(bigEndian: loadUnaligned(fromByteOffset: offset, as: Number.self))
    }
}

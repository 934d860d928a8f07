// The layout of rows: a version byte, then fixed fields in little-endian order, and byte strings
// with a length of two bytes. Keys that sort by number are big-endian. The store adds the checksum.

import BrokerTerms

/// Appends fields to a row.
struct RecordWriter {
    private(set) var bytes: [UInt8]

    /// Bytes of the rows that are written most often: those of sends and identifiers.
    private static let usualByteCount = 32

    init(version: UInt8, byteCount: Int = usualByteCount) {
        bytes = []
        bytes.reserveCapacity(byteCount)
        bytes.append(version)
    }

    mutating func write<Number: FixedWidthInteger>(_ number: Number) {
        withUnsafeBytes(of: number.littleEndian) { bytes.append(contentsOf: $0) }
    }

    mutating func write(_ string: [UInt8]) {
        write(UInt16(string.count))
        bytes.append(contentsOf: string)
    }

    /// Appends bytes whose length has been written before.
    mutating func append(_ bytes: [UInt8]) {
        self.bytes.append(contentsOf: bytes)
    }
}

/// A stored row with a valid checksum that this program cannot have written: it is of a newer
/// version, or the store was edited.
public enum RestoreError: Error, Equatable, Sendable {
    case unreadableRecord(RecordTable, key: [UInt8])
    /// A row refers to one that does not exist.
    case danglingRecord(RecordTable, key: [UInt8])
}

/// Reads the fields of a row in order.
struct RecordReader {
    private let bytes: [UInt8]
    private var offset = 0
    private let failure: RestoreError

    /// Begins after the version byte, which must be `version`.
    init(
        _ bytes: [UInt8], version: UInt8, table: RecordTable, key: [UInt8]
    ) throws(RestoreError) {
        self.bytes = bytes
        failure = .unreadableRecord(table, key: key)
        guard try read(UInt8.self) == version else { throw failure }
    }

    /// Whether all fields have been read.
    var isAtEnd: Bool { offset == bytes.count }

    mutating func read<Number: FixedWidthInteger>(
        _ type: Number.Type
    ) throws(RestoreError) -> Number {
        let count = MemoryLayout<Number>.size
        guard offset + count <= bytes.count else { throw failure }
        defer { offset += count }
        return bytes.withUnsafeBytes {
            Number(littleEndian: $0.loadUnaligned(fromByteOffset: offset, as: type))
        }
    }

    /// Reads a number from which others are counted. It must be less than half of the maximum, so
    /// that enough numbers remain.
    mutating func readCounter() throws(RestoreError) -> UInt64 {
        let number = try read(UInt64.self)
        guard number <= UInt64.max / 2 else { throw failure }
        return number
    }

    mutating func readReason() throws(RestoreError) -> ReasonCode {
        guard let reason = ReasonCode(rawValue: try read(UInt8.self)) else { throw failure }
        return reason
    }

    mutating func readString() throws(RestoreError) -> [UInt8] {
        try readBytes(count: Int(try read(UInt16.self)))
    }

    mutating func readBytes(count: Int) throws(RestoreError) -> [UInt8] {
        guard offset + count <= bytes.count else { throw failure }
        defer { offset += count }
        return Array(bytes[offset..<offset + count])
    }
}

/// Keys of rows.
enum RecordKey {
    /// Sorts by number.
    static func number(_ number: UInt64) -> [UInt8] {
        withUnsafeBytes(of: number.bigEndian) { Array($0) }
    }

    /// Sorts by owner, then by number.
    static func numbers(_ owner: UInt64, _ number: UInt64) -> [UInt8] {
        withUnsafeBytes(of: (owner.bigEndian, number.bigEndian)) { Array($0) }
    }

    /// An id within an app. Ids have at most 64 bytes.
    static func name(app: [UInt8], _ name: [UInt8]) -> [UInt8] {
        [UInt8(app.count)] + app + name
    }

    static func readNumber(_ key: [UInt8], at offset: Int = 0) -> UInt64 {
        key.withUnsafeBytes {
            UInt64(bigEndian: $0.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
        }
    }
}

/// Single values of the whole broker. Raw values are keys on disk.
enum CounterName: UInt8 {
    /// The highest identifier that may be in use.
    case identifiers = 1
    /// The identity of the store when the rows were written.
    case storeIdentity = 2
}

/// The rows of each table.
enum Records {
    static func counter(_ name: CounterName, value: UInt64) -> RecordChange {
        var row = RecordWriter(version: 1)
        row.write(value)
        return RecordChange(table: .counters, key: [name.rawValue], value: row.bytes)
    }

    static func identity(_ identity: StoreIdentity) -> RecordChange {
        var row = RecordWriter(version: 1)
        row.write(identity.high)
        row.write(identity.low)
        return RecordChange(
            table: .counters, key: [CounterName.storeIdentity.rawValue], value: row.bytes)
    }

    /// - Parameter keyDigest: of the default key, if it has no row of its own; see
    ///   ``App/rowContainsKey``.
    static func app(_ name: [UInt8], keyDigest: Digest?, rights: Rights) -> RecordChange {
        var row = RecordWriter(version: 2)
        row.write(UInt8(keyDigest == nil ? 0 : 1))
        row.write(keyDigest ?? Digest(words: (0, 0, 0, 0)))
        row.write(rights)
        return RecordChange(table: .apps, key: name, value: row.bytes)
    }

    /// - Parameter sentThrough: the last number of the offline queue that devices may have been
    ///   sent; 0 for none.
    static func user(
        app: [UInt8], _ name: [UInt8], offlineQueue: QueueID?, sentThrough: UInt64 = 0
    ) -> RecordChange {
        var row = RecordWriter(version: 1)
        row.write(offlineQueue?.raw ?? 0)
        if sentThrough > 0 { row.write(sentThrough) }
        return RecordChange(
            table: .users, key: RecordKey.name(app: app, name), value: row.bytes)
    }

    static func subscription(
        session: UInt64, identifier: UInt64, filter: [UInt8], share: UInt16,
        _ subscriber: Subscriber
    ) -> RecordChange {
        // Version 2 appends the number of the share, if it is not the preferred one.
        let preferred = filter.withUnsafeBytes { SharedFilter($0)?.preferredNumber ?? 0 }
        var row = RecordWriter(version: share == preferred ? 1 : 2)
        row.write(filter)
        row.write(subscriber.grade.rawValue)
        row.write(subscriber.options.stored.rawValue)
        row.write(subscriber.subscriptionIdentifier)
        if share != preferred { row.write(share) }
        return RecordChange(
            table: .subscriptions, key: RecordKey.numbers(session, identifier), value: row.bytes)
    }

    static func deletion(_ table: RecordTable, key: [UInt8]) -> RecordChange {
        RecordChange(table: table, key: key, value: nil)
    }
}

extension RecordWriter {
    mutating func write(_ rights: Rights) {
        let texts = rights.texts
        write(UInt8(texts.count))
        for text in texts { write(text) }
    }

    mutating func write(_ digest: Digest) {
        write(digest.words.0)
        write(digest.words.1)
        write(digest.words.2)
        write(digest.words.3)
    }
}

extension RecordReader {
    /// Rights were parsed before they were written. If they cannot be parsed now, another version
    /// wrote them.
    mutating func readRights() throws(RestoreError) -> Rights {
        var texts: [[UInt8]] = []
        for _ in 0..<(try read(UInt8.self)) { texts.append(try readString()) }
        guard let rights = try? Rights(texts) else { throw failure }
        return rights
    }

    mutating func readDigest() throws(RestoreError) -> Digest {
        Digest(
            words: (
                try read(UInt64.self), try read(UInt64.self), try read(UInt64.self),
                try read(UInt64.self)
            ))
    }
}

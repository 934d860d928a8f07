// The encoded form of a record.
//
//     magic u32 | version u16 | kind u16 | checksum u64        the same in every version
//     cluster u64, u64 | term u64 | number u64 | instant u64 | Unix milliseconds u64 | content
//
// The checksum is of all other bytes, so that a newer version and a damaged record can be told
// apart.

import BrokerCore
import Primitives

/// Why bytes are not a record of this cluster.
public enum LogRecordError: Error, Hashable, Sendable {
    /// Shorter than a record, longer than one may be, or with a wrong checksum.
    case damaged
    /// It has no record's first bytes: something else is in the log.
    case foreign
    /// A newer program has written it.
    case newerVersion(UInt16)
    /// It belongs to another cluster.
    case otherCluster(StoreIdentity)
    /// Its checksum is right and its fields are not.
    case malformed
}

extension LogRecord {
    /// "MLOG", little-endian.
    private static let magic: UInt32 = 0x474F_4C4D
    /// The version that this program writes.
    static let version: UInt16 = 1
    private static let prefixByteCount = 16
    static let headByteCount = prefixByteCount + 48
    private static let checksumOffset = 8
    /// Seeds of checksums, apart from those of the store's tables.
    private static let recordSeed: UInt64 = 101
    static let outcomeSeed: UInt64 = 102

    private enum Kind: UInt16 {
        case takeover = 1
        case heartbeat = 2
        case batch = 3
    }

    /// The record's bytes.
    public var encoded: [UInt8] {
        var fields = FieldWriter()
        fields.write(LogRecord.magic)
        fields.write(LogRecord.version)
        fields.write(kind.rawValue)
        fields.write(0 as UInt64)
        fields.write(cluster.high)
        fields.write(cluster.low)
        fields.write(term.raw)
        fields.write(number)
        fields.write(moment.instant.milliseconds)
        fields.write(moment.unixMilliseconds)
        switch content {
        case .takeover(let node):
            fields.write(node.life)
            fields.write(node.beginsEmpty)
            fields.write(node.name)
        case .heartbeat: break
        case .batch(let bytes): fields.append(bytes)
        }
        var bytes = fields.bytes
        LogRecord.seal(&bytes)
        return bytes
    }

    /// Writes the checksum of a record's bytes.
    static func seal(_ bytes: inout [UInt8]) {
        let sum = checksum(of: bytes)
        for index in 0..<8 {
            bytes[checksumOffset + index] = UInt8(truncatingIfNeeded: sum >> (8 * UInt64(index)))
        }
    }

    private var kind: Kind {
        switch content {
        case .takeover: .takeover
        case .heartbeat: .heartbeat
        case .batch: .batch
        }
    }

    /// The sum of all bytes with zeros in place of the checksum.
    private static func checksum(of bytes: [UInt8]) -> UInt64 {
        var sum = Checksum(seed: recordSeed)
        bytes[..<checksumOffset].withUnsafeBytes { sum.mix($0) }
        bytes[(checksumOffset + 8)...].withUnsafeBytes { sum.mix($0) }
        return sum.value
    }

    /// Reads a record, of any cluster if `cluster` is nil.
    public init(
        decoding bytes: [UInt8], cluster expected: StoreIdentity?
    ) throws(LogRecordError) {
        guard bytes.count >= LogRecord.prefixByteCount,
            bytes.count <= ReplicationLimits.recordByteCountMaximum
        else { throw .damaged }
        var fields = FieldReader(bytes)
        let prefix: (magic: UInt32, version: UInt16, kind: UInt16, checksum: UInt64)
        do throws(MalformedRecord) {
            prefix = (
                try fields.read(UInt32.self), try fields.read(UInt16.self),
                try fields.read(UInt16.self), try fields.read(UInt64.self)
            )
        } catch {
            throw .damaged
        }
        guard prefix.magic == LogRecord.magic else { throw .foreign }
        guard prefix.checksum == LogRecord.checksum(of: bytes) else { throw .damaged }
        guard prefix.version <= LogRecord.version else { throw .newerVersion(prefix.version) }
        do throws(MalformedRecord) {
            try self.init(&fields, version: prefix.version, kind: prefix.kind)
        } catch {
            throw .malformed
        }
        if let expected, cluster != expected { throw .otherCluster(cluster) }
    }

    private init(
        _ fields: inout FieldReader, version: UInt16, kind: UInt16
    ) throws(MalformedRecord) {
        guard version >= 1, let kind = Kind(rawValue: kind) else { throw MalformedRecord() }
        cluster = StoreIdentity(
            high: try fields.read(UInt64.self), low: try fields.read(UInt64.self))
        term = Term(raw: try fields.read(UInt64.self))
        number = try fields.read(UInt64.self)
        moment = try fields.readMoment()
        switch kind {
        case .takeover:
            let life = try fields.read(UInt64.self)
            let beginsEmpty = try fields.readFlag()
            let name = try fields.readString(countMaximum: ReplicationLimits.nameByteCountMaximum)
            content = .takeover(NodeLife(name: name, life: life, beginsEmpty: beginsEmpty))
        case .heartbeat: content = .heartbeat
        case .batch: content = .batch(fields.readRest())
        }
        guard fields.isAtEnd else { throw MalformedRecord() }
    }
}

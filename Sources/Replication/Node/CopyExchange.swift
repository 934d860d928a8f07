// What two nodes say to each other while one gets a copy of the other's store. The node that needs
// it asks one question at a time; questions and answers may be lost, and are asked again. The copy
// comes in parts, which keeps the memory of both small.

import BrokerCore
import Primitives

/// A question of a node that needs a store.
public enum CopyQuestion: Hashable, Sendable {
    /// Whether the other node has a copy. If it has none, it begins to make one.
    case begin
    /// The part of a copy that begins at an offset, in bytes.
    case part(copy: UInt64, offset: UInt64)
}

/// A copy of a store that a node has for others.
public struct StoreCopy: Hashable, Sendable {
    /// Random: another copy of the node has another number.
    public var number: UInt64
    public var cluster: StoreIdentity
    /// The record through which it has applied the log.
    public var sequence: LogSequence
    public var byteCount: UInt64
    /// Of its parts in their order.
    public var checksum: UInt64

    public init(
        number: UInt64, cluster: StoreIdentity, sequence: LogSequence, byteCount: UInt64,
        checksum: UInt64
    ) {
        self.number = number
        self.cluster = cluster
        self.sequence = sequence
        self.byteCount = byteCount
        self.checksum = checksum
    }

    /// The checksum of no parts.
    public static let emptyChecksum = Checksum(seed: 0x4D43_5059_0000_0001)
}

/// The answer of the node that is asked.
public enum CopyAnswer: Hashable, Sendable {
    /// The copy is being made.
    case pending
    case ready(StoreCopy)
    /// The bytes at an offset: a whole part, or the last one.
    case part(copy: UInt64, offset: UInt64, [UInt8])
    /// The node has no copy of this number, or none with this offset.
    case unknown
    /// It cannot make a copy, in words.
    case refused([UInt8])
}

extension Checksum {
    /// Mixes a part of a copy.
    public mutating func mix(part: [UInt8]) {
        part.withUnsafeBytes { mix($0) }
    }
}

// MARK: Bytes

/// What begins each message.
private enum CopyMessage {
    /// "MCPY", little-endian.
    static let magic: UInt32 = 0x5950_434D
    static let version: UInt16 = 1

    static func begin(_ kind: UInt8) -> FieldWriter {
        var fields = FieldWriter()
        fields.write(magic)
        fields.write(version)
        fields.write(kind)
        return fields
    }

    static func read(_ fields: inout FieldReader) throws(MalformedRecord) -> UInt8 {
        guard try fields.read(UInt32.self) == magic, try fields.read(UInt16.self) == version
        else { throw MalformedRecord() }
        return try fields.read(UInt8.self)
    }
}

extension CopyQuestion {
    /// The question's bytes.
    public var encoded: [UInt8] {
        switch self {
        case .begin: return CopyMessage.begin(0).bytes
        case .part(let copy, let offset):
            var fields = CopyMessage.begin(1)
            fields.write(copy)
            fields.write(offset)
            return fields.bytes
        }
    }

    /// Nil if the bytes are not a question of this version.
    public init?(decoding bytes: [UInt8]) {
        var fields = FieldReader(bytes)
        do throws(MalformedRecord) {
            switch try CopyMessage.read(&fields) {
            case 0: self = .begin
            case 1:
                self = .part(
                    copy: try fields.read(UInt64.self), offset: try fields.read(UInt64.self))
            default: return nil
            }
        } catch {
            return nil
        }
        guard fields.isAtEnd else { return nil }
    }
}

extension CopyAnswer {
    /// The answer's bytes.
    public var encoded: [UInt8] {
        switch self {
        case .pending: return CopyMessage.begin(0).bytes
        case .ready(let copy):
            var fields = CopyMessage.begin(1)
            fields.write(copy.number)
            fields.write(copy.cluster.high)
            fields.write(copy.cluster.low)
            fields.write(copy.sequence.raw)
            fields.write(copy.byteCount)
            fields.write(copy.checksum)
            return fields.bytes
        case .part(let copy, let offset, let bytes):
            var fields = CopyMessage.begin(2)
            fields.write(copy)
            fields.write(offset)
            fields.write(bytes)
            return fields.bytes
        case .unknown: return CopyMessage.begin(3).bytes
        case .refused(let text):
            var fields = CopyMessage.begin(4)
            fields.write(Array(text.prefix(ReplicationLimits.copyTextByteCountMaximum)))
            return fields.bytes
        }
    }

    /// Nil if the bytes are not an answer of this version.
    public init?(decoding bytes: [UInt8]) {
        var fields = FieldReader(bytes)
        do throws(MalformedRecord) {
            switch try CopyMessage.read(&fields) {
            case 0: self = .pending
            case 1:
                self = .ready(
                    StoreCopy(
                        number: try fields.read(UInt64.self),
                        cluster: StoreIdentity(
                            high: try fields.read(UInt64.self), low: try fields.read(UInt64.self)),
                        sequence: LogSequence(raw: try fields.read(UInt64.self)),
                        byteCount: try fields.read(UInt64.self),
                        checksum: try fields.read(UInt64.self)))
            case 2:
                self = .part(
                    copy: try fields.read(UInt64.self), offset: try fields.read(UInt64.self),
                    try fields.readString(countMaximum: ReplicationLimits.copyPartByteCount))
            case 3: self = .unknown
            case 4:
                self = .refused(
                    try fields.readString(
                        countMaximum: ReplicationLimits.copyTextByteCountMaximum))
            default: return nil
            }
        } catch {
            return nil
        }
        guard fields.isAtEnd else { return nil }
    }
}

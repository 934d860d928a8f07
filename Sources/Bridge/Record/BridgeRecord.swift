// The state that a bridge needs after a crash: the positions in both sessions, and each message of
// grade *once* that is between them. It contains no messages: the sender keeps a message until it
// is acknowledged. The record is on disk before anything is sent that depends on it.
//
//     | magic | u64 sequence | u32 byte count | body | u64 digest of all before |
//     integers big-endian; lists with a count of four bytes

import Primitives
import WireFormat

/// A QoS 2 publication from the MQTT broker whose exchange is not complete.
struct InwardNote: Hashable, Sendable {
    /// The MQTT broker's packet identifier.
    var packetIdentifier: UInt16
    /// A hash of topic and payload: a broker that lost its state reuses identifiers.
    var digest: UInt64
    /// Its number in the outbox.
    var number: UInt64
    /// Whether Martlet has answered.
    var isSettled: Bool
}

/// A message of grade *once* to the MQTT broker whose exchange is not complete.
struct OutwardNote: Hashable, Sendable {
    /// The state of its exchange.
    enum Step: UInt8, Hashable, Sendable {
        /// PUBLISH may have been sent.
        case published = 0
        /// PUBREC has arrived, so PUBLISH must not be sent again.
        case released = 1
        /// PUBCOMP has arrived.
        case completed = 2
    }

    /// Its number in the inbox; 0 if Martlet has forgotten it.
    var number: UInt64
    /// The bridge's packet identifier.
    var packetIdentifier: UInt16
    var step: Step
}

package struct BridgeRecord: Hashable, Sendable {
    /// The session that the positions belong to.
    var clientIdentifier: String
    /// The outbox epoch of sends to Martlet.
    var outboxEpoch: UInt64
    /// Numbers up to this one may have been used.
    var reservedThrough: UInt64 = 0
    /// Martlet's session and the acknowledged number in it; nil before the first login.
    var inbox: MRT.Resume?
    var cookie: UInt64?
    var inward: [InwardNote] = []
    var outward: [OutwardNote] = []
    /// The possible subscriptions of both sessions, each with its highest QoS; for the MQTT broker
    /// also ``unconfirmed``.
    var foreignFilters: [String: UInt8] = [:]
    var martletFilters: [String: UInt8] = [:]

    /// In place of a QoS: the broker was asked, and its answer is unknown.
    static let unconfirmed = UInt8.max

    init(clientIdentifier: String, outboxEpoch: UInt64) {
        self.clientIdentifier = clientIdentifier
        self.outboxEpoch = outboxEpoch
    }
}

// MARK: - Bytes

extension BridgeRecord {
    static let magic = Array("MLBRIDG1".utf8)

    package func encoded(sequence: UInt64) -> [UInt8] {
        var body = RecordWriter()
        body.write(clientIdentifier)
        body.write(outboxEpoch)
        body.write(reservedThrough)
        body.write(inbox?.epoch ?? 0)
        body.write(inbox?.lastNumber ?? 0)
        body.write(cookie == nil ? UInt8(0) : 1)
        body.write(cookie ?? 0)
        body.write(UInt32(inward.count))
        for note in inward {
            body.write(note.packetIdentifier)
            body.write(note.digest)
            body.write(note.number)
            body.write(note.isSettled ? UInt8(1) : 0)
        }
        body.write(UInt32(outward.count))
        for note in outward {
            body.write(note.number)
            body.write(note.packetIdentifier)
            body.write(note.step.rawValue)
        }
        for filters in [foreignFilters, martletFilters] {
            body.write(UInt32(filters.count))
            for (filter, qos) in filters.sorted(by: { $0.key < $1.key }) {
                body.write(filter)
                body.write(qos)
            }
        }
        var record = RecordWriter(bytes: Self.magic)
        record.write(sequence)
        record.write(UInt32(body.bytes.count))
        record.bytes += body.bytes
        record.write(Digest.of(record.bytes))
        return record.bytes
    }

    /// Nil if the bytes do not begin with a complete record.
    package static func decode(_ bytes: [UInt8]) -> (record: BridgeRecord, sequence: UInt64)? {
        var reader = RecordReader(bytes[...])
        guard bytes.starts(with: magic), reader.skip(magic.count), let sequence = reader.uint64(),
            sequence < .max, let count = reader.uint32(), reader.skip(Int(count)),
            let digest = reader.uint64(),
            digest == Digest.of(bytes[..<(magic.count + 12 + Int(count))])
        else { return nil }
        var body = RecordReader(bytes[(magic.count + 12)..<(magic.count + 12 + Int(count))])
        return read(&body).map { ($0, sequence) }
    }

    private static func read(_ reader: inout RecordReader) -> BridgeRecord? {
        guard let client = reader.text(), let outboxEpoch = reader.uint64(), outboxEpoch != 0,
            let reserved = reader.number(), let inboxEpoch = reader.uint64(),
            let last = reader.number(), let hasCookie = reader.byte(),
            let cookie = reader.uint64()
        else { return nil }
        var record = BridgeRecord(clientIdentifier: client, outboxEpoch: outboxEpoch)
        record.reservedThrough = reserved
        record.inbox = inboxEpoch == 0 ? nil : MRT.Resume(epoch: inboxEpoch, lastNumber: last)
        record.cookie = hasCookie == 1 ? cookie : nil
        guard let inwardCount = reader.uint32() else { return nil }
        for _ in 0..<inwardCount {
            guard let identifier = reader.uint16(), let digest = reader.uint64(),
                let number = reader.number(), let settled = reader.byte(), settled <= 1,
                identifier != 0, number > 0 || settled == 1
            else { return nil }
            record.inward.append(
                InwardNote(
                    packetIdentifier: identifier, digest: digest, number: number,
                    isSettled: settled == 1))
        }
        guard let outwardCount = reader.uint32() else { return nil }
        for _ in 0..<outwardCount {
            guard let number = reader.number(), let identifier = reader.uint16(),
                let step = reader.byte().flatMap(OutwardNote.Step.init(rawValue:)),
                identifier != 0 || step == .completed
            else { return nil }
            record.outward.append(
                OutwardNote(number: number, packetIdentifier: identifier, step: step))
        }
        guard let foreign = reader.filters(), let martlet = reader.filters(), reader.isAtEnd else {
            return nil
        }
        record.foreignFilters = foreign
        record.martletFilters = martlet
        return record
    }
}

/// FNV-1a with 64 bits (Fowler, Noll, Vo): distinguishes messages, and complete records from
/// incomplete ones. An attacker gains nothing by forging either.
enum Digest {
    private static let start: UInt64 = 0xCBF2_9CE4_8422_2325

    static func of(_ bytes: some Sequence<UInt8>) -> UInt64 { fold(bytes, start) }

    /// A byte that moves from the topic to the payload gives another hash.
    static func of(topic: [UInt8], payload: [UInt8]) -> UInt64 {
        fold(payload, fold([0xFF], fold(topic, start)))
    }

    private static func fold(_ bytes: some Sequence<UInt8>, _ value: UInt64) -> UInt64 {
        bytes.reduce(value) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 }
    }
}

private struct RecordWriter {
    var bytes: [UInt8] = []

    mutating func write<Value: FixedWidthInteger>(_ value: Value) {
        withUnsafeBytes(of: value.bigEndian) { bytes += $0 }
    }

    mutating func write(_ text: String) {
        write(UInt32(text.utf8.count))
        bytes += text.utf8
    }
}

private struct RecordReader {
    private var rest: ArraySlice<UInt8>

    init(_ bytes: ArraySlice<UInt8>) { rest = bytes }

    var isAtEnd: Bool { rest.isEmpty }

    mutating func skip(_ count: Int) -> Bool {
        guard rest.count >= count else { return false }
        rest = rest.dropFirst(count)
        return true
    }

    private mutating func integer<Value: FixedWidthInteger>(_ type: Value.Type) -> Value? {
        let count = Value.bitWidth / 8
        guard rest.count >= count else { return nil }
        defer { rest = rest.dropFirst(count) }
        return rest.prefix(count).reduce(0) { $0 << 8 | Value($1) }
    }

    mutating func byte() -> UInt8? { rest.popFirst() }
    mutating func uint16() -> UInt16? { integer(UInt16.self) }
    mutating func uint32() -> UInt32? { integer(UInt32.self) }
    mutating func uint64() -> UInt64? { integer(UInt64.self) }

    /// A number of an inbox or an outbox; the wire's range has room for as many more as needed.
    mutating func number() -> UInt64? {
        uint64().flatMap { $0 <= BridgeLimits.numberMaximum ? $0 : nil }
    }

    mutating func text() -> String? {
        guard let count = uint32(), rest.count >= Int(count) else { return nil }
        defer { rest = rest.dropFirst(Int(count)) }
        return String(decoding: rest.prefix(Int(count)), as: UTF8.self)
    }

    mutating func filters() -> [String: UInt8]? {
        guard let count = uint32() else { return nil }
        var filters: [String: UInt8] = [:]
        for _ in 0..<count {
            guard let filter = text(), let qos = byte() else { return nil }
            filters[filter] = qos
        }
        return filters
    }
}

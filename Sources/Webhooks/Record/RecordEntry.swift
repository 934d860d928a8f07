// The entries of the record, as bytes. The record is a list of changes; replaying them gives the
// state. An incomplete entry at the end was never confirmed to anybody.
//
//     | magic | entry …
//     entry: | 4 bytes mark | u32 byte count of the body | body | u64 digest of count and body |
//     body: | u8 kind | fields, integers big-endian, texts with a count of four bytes |

import MartletClient

package enum RecordEntry: Hashable, Sendable {
    /// The position in the inbox: every event before it is delivered, or in the record.
    case position(InboxRecord)
    /// The subscriptions that the session may have.
    case filters([String])
    /// An event that is not delivered yet.
    case event(Delivery)
    /// An event is delivered, or a dead letter was removed.
    case done(sequence: UInt64)
    /// An event became a dead letter.
    case dead(sequence: UInt64, cause: DeathCause, status: UInt16, time: UInt64)
    /// A dead letter became an event again, with a new number and validity.
    case resent(sequence: UInt64, newSequence: UInt64, expiry: UInt64)
}

// MARK: - Bytes

extension RecordEntry {
    static let magic = Array("MLHOOKS1".utf8)
    /// Begins each entry, so that what follows a damaged one can be found.
    static let mark: [UInt8] = [0xE5, 0x9B, 0x1D, 0x0A]

    /// Bytes of an entry beside its body.
    static let frameByteCount = 16

    var encoded: [UInt8] {
        var body = EntryWriter()
        switch self {
        case .position(let record):
            body.write(UInt8(1))
            body.write(record.epoch)
            body.write(record.number)
        case .filters(let filters):
            body.write(UInt8(2))
            body.write(UInt32(filters.count))
            for filter in filters { body.write(Array(filter.utf8)) }
        case .event(let delivery):
            body.write(UInt8(3))
            body.write(delivery.sequence)
            body.write(delivery.expiry)
            body.write(Array(delivery.hook.utf8))
            body.write(Array(delivery.identifier.utf8))
            body.write(Array(delivery.key.utf8))
            body.write(delivery.body)
        case .done(let sequence):
            body.write(UInt8(4))
            body.write(sequence)
        case .dead(let sequence, let cause, let status, let time):
            body.write(UInt8(5))
            body.write(sequence)
            body.write(cause.rawValue)
            body.write(status)
            body.write(time)
        case .resent(let sequence, let newSequence, let expiry):
            body.write(UInt8(6))
            body.write(sequence)
            body.write(newSequence)
            body.write(expiry)
        }
        var entry = EntryWriter(bytes: Self.mark)
        entry.write(UInt32(body.bytes.count))
        entry.bytes += body.bytes
        entry.write(EntryDigest.of(entry.bytes.dropFirst(Self.mark.count)))
        return entry.bytes
    }

    /// Reads the entry at `offset`.
    ///
    /// - Returns: nil if there is no complete one.
    static func decode(_ bytes: [UInt8], at offset: Int) -> (entry: RecordEntry, end: Int)? {
        var reader = EntryReader(bytes[offset...])
        guard reader.skip(mark), let count = reader.integer(UInt32.self),
            Int(count) <= WebhookLimits.recordEntryByteCountMaximum,
            bytes.count - offset >= frameByteCount + Int(count)
        else { return nil }
        let start = offset + mark.count
        let end = start + 4 + Int(count)
        var tail = EntryReader(bytes[end...])
        guard tail.integer(UInt64.self) == EntryDigest.of(bytes[start..<end]) else { return nil }
        var body = EntryReader(bytes[(start + 4)..<end])
        guard let entry = read(&body), body.isAtEnd else { return nil }
        return (entry, end + 8)
    }

    private static func read(_ body: inout EntryReader) -> RecordEntry? {
        switch body.integer(UInt8.self) {
        case 1:
            guard let epoch = body.integer(UInt64.self), let number = body.integer(UInt64.self)
            else { return nil }
            let record = InboxRecord(epoch: epoch, number: number)
            return record.isPossible ? .position(record) : nil
        case 2:
            guard let count = body.integer(UInt32.self) else { return nil }
            var filters: [String] = []
            for _ in 0..<count {
                guard let filter = body.text() else { return nil }
                filters.append(filter)
            }
            return .filters(filters)
        case 3:
            guard let sequence = body.number(), let expiry = body.integer(UInt64.self),
                let hook = body.text(), let identifier = body.text(), let key = body.text(),
                let content = body.bytes()
            else { return nil }
            return .event(
                Delivery(
                    sequence: sequence, hook: hook, identifier: identifier, key: key,
                    expiry: expiry, body: content))
        case 4: return body.number().map { .done(sequence: $0) }
        case 5:
            guard let sequence = body.number(),
                let cause = body.integer(UInt8.self).flatMap(DeathCause.init(rawValue:)),
                let status = body.integer(UInt16.self), let time = body.integer(UInt64.self)
            else { return nil }
            return .dead(sequence: sequence, cause: cause, status: status, time: time)
        case 6:
            guard let sequence = body.number(), let newSequence = body.number(),
                let expiry = body.integer(UInt64.self)
            else { return nil }
            return .resent(sequence: sequence, newSequence: newSequence, expiry: expiry)
        default: return nil
        }
    }
}

/// FNV-1a with 64 bits (Fowler, Noll, Vo), which tells complete entries from incomplete ones. An
/// attacker gains nothing by forging one.
enum EntryDigest {
    static func of(_ bytes: some Sequence<UInt8>) -> UInt64 {
        bytes.reduce(0xCBF2_9CE4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 }
    }
}

private struct EntryWriter {
    var bytes: [UInt8] = []

    mutating func write<Value: FixedWidthInteger>(_ value: Value) {
        withUnsafeBytes(of: value.bigEndian) { bytes += $0 }
    }

    mutating func write(_ content: [UInt8]) {
        write(UInt32(content.count))
        bytes += content
    }
}

private struct EntryReader {
    private var rest: ArraySlice<UInt8>

    init(_ bytes: ArraySlice<UInt8>) { rest = bytes }

    var isAtEnd: Bool { rest.isEmpty }

    mutating func skip(_ prefix: [UInt8]) -> Bool {
        guard rest.starts(with: prefix) else { return false }
        rest = rest.dropFirst(prefix.count)
        return true
    }

    mutating func integer<Value: FixedWidthInteger>(_ type: Value.Type) -> Value? {
        let count = Value.bitWidth / 8
        guard rest.count >= count else { return nil }
        defer { rest = rest.dropFirst(count) }
        return rest.prefix(count).reduce(0) { $0 << 8 | Value($1) }
    }

    /// A number of an event: half of the range, so that counting on from it never overflows.
    mutating func number() -> UInt64? {
        integer(UInt64.self).flatMap { $0 < 1 << 63 ? $0 : nil }
    }

    mutating func bytes() -> [UInt8]? {
        guard let count = integer(UInt32.self), rest.count >= Int(count) else { return nil }
        defer { rest = rest.dropFirst(Int(count)) }
        return Array(rest.prefix(Int(count)))
    }

    mutating func text() -> String? { bytes().map { String(decoding: $0, as: UTF8.self) } }
}

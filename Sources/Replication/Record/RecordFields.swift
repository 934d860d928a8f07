// The fields of an encoded record: numbers in little-endian order, and byte strings and lists after
// their counts.

import BrokerCore
import Primitives

/// Appends fields to a record.
struct FieldWriter {
    private(set) var bytes: [UInt8] = []

    mutating func write<Number: FixedWidthInteger>(_ number: Number) {
        withUnsafeBytes(of: number.littleEndian) { bytes.append(contentsOf: $0) }
    }

    mutating func write(_ flag: Bool) { write(flag ? 1 : 0 as UInt8) }

    mutating func write(_ string: [UInt8]) {
        write(UInt32(string.count))
        bytes.append(contentsOf: string)
    }

    mutating func append(_ string: [UInt8]) { bytes.append(contentsOf: string) }

    mutating func write<Element>(
        list: [Element], _ body: (Element, inout FieldWriter) -> Void
    ) {
        write(UInt32(list.count))
        for element in list { body(element, &self) }
    }
}

/// A record that does not have the fields that it should have.
struct MalformedRecord: Error {}

/// Reads the fields of a record in order. Each read checks the bytes that are left, so a list ends
/// with them, whatever its count says.
struct FieldReader {
    private let bytes: [UInt8]
    private(set) var offset: Int

    init(_ bytes: [UInt8], from offset: Int = 0) {
        self.bytes = bytes
        self.offset = offset
    }

    var isAtEnd: Bool { offset >= bytes.count }

    mutating func read<Number: FixedWidthInteger>(
        _ type: Number.Type
    ) throws(MalformedRecord) -> Number {
        let count = MemoryLayout<Number>.size
        guard count <= bytes.count - offset else { throw MalformedRecord() }
        defer { offset += count }
        return bytes.withUnsafeBytes {
            Number(littleEndian: $0.loadUnaligned(fromByteOffset: offset, as: type))
        }
    }

    mutating func readFlag() throws(MalformedRecord) -> Bool {
        switch try read(UInt8.self) {
        case 0: return false
        case 1: return true
        default: throw MalformedRecord()
        }
    }

    /// A number of this program, which is never negative.
    mutating func readCount() throws(MalformedRecord) -> Int {
        guard let count = Int(exactly: try read(UInt64.self)) else { throw MalformedRecord() }
        return count
    }

    mutating func readMoment() throws(MalformedRecord) -> Moment {
        let moment = Moment(
            instant: Instant(milliseconds: try read(UInt64.self)),
            unixMilliseconds: try read(UInt64.self))
        guard moment.instant.milliseconds <= ReplicationLimits.momentMillisecondsMaximum,
            moment.unixMilliseconds <= ReplicationLimits.momentMillisecondsMaximum
        else { throw MalformedRecord() }
        return moment
    }

    mutating func readString(
        countMaximum: Int = ReplicationLimits.recordByteCountMaximum
    ) throws(MalformedRecord) -> [UInt8] {
        let count = Int(try read(UInt32.self))
        guard count <= countMaximum, count <= bytes.count - offset else { throw MalformedRecord() }
        defer { offset += count }
        return Array(bytes[offset..<offset + count])
    }

    mutating func readRest() -> [UInt8] {
        defer { offset = bytes.count }
        return Array(bytes[offset...])
    }

    mutating func readList<Element>(
        _ body: (inout FieldReader) throws(MalformedRecord) -> Element
    ) throws(MalformedRecord) -> [Element] {
        var list: [Element] = []
        for _ in 0..<(try read(UInt32.self)) { list.append(try body(&self)) }
        return list
    }
}

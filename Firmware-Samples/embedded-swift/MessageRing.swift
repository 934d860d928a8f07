// The ring of readings in flash: written before they are sent, gone when their results are known.
// Sectors are used in turn; each begins with what has to be known without those before it.
//
//     sector   | header | entry | entry | ... | erased |
//     header   | u32 lap | u32 check | u64 epoch | u64 highest number | u64 results seen |
//     entry    | u32 check | u32 length | u64 number | payload, padded to the unit |
//
// An entry without payload says that results are seen up to its number. An entry that a power cut
// left half done is passed over, with the blank that it would have taken: what the next entry began
// with could otherwise be its missing end.
//
// A sector is erased when all its messages are settled. Where a power cut then takes the header
// that says so, the sector is missing at the next start, whole or in part, and so what it held
// before the messages that are there was settled.

import Board

struct MessageRing {
    private static let firstSector: UInt32 = 3
    private static let sectorCount: UInt32 = 8
    private static let unit = UInt32(BOARD_FLASH_UNIT)
    /// Bytes of a message at most.
    static let payloadMaximum = 64

    private struct Header {
        var lap: UInt32 = 0
        var check: UInt32 = 0
        var epoch: UInt64 = 0
        var highest: UInt64 = 0
        var seen: UInt64 = 0
    }

    private struct Entry {
        var check: UInt32 = 0
        var length: UInt32 = 0
        var number: UInt64 = 0
    }

    private static let headerByteCount = UInt32(MemoryLayout<Header>.size)
    private static let entryByteCount = UInt32(MemoryLayout<Entry>.size)

    /// The numbering of what is here; 0 before the first.
    private(set) var epoch: UInt64 = 0
    /// The highest number that was given.
    private(set) var highest: UInt64 = 0
    /// Results are seen up to here, also after a loss of power.
    private(set) var seen: UInt64 = 0
    private var lap: UInt32 = 0
    /// Where the next entry goes, within the sector of the lap.
    private var end: UInt32 = Flash.sectorByteCount
    /// The highest number of a message in each sector.
    private var highestIn = InlineArray<8, UInt64>(repeating: 0)
    // The message that is to be read next.
    private var readLap: UInt32 = 0
    private var readOffset: UInt32 = 0

    // MARK: At the start

    /// - Parameter newEpoch: where there is nothing yet.
    init(newEpoch: UInt64) {
        var oldest = UInt32.max
        for sector in 0..<Self.sectorCount {
            let header = Self.header(of: sector)
            guard header.lap > 0 else { continue }
            lap = max(lap, header.lap)
            oldest = min(oldest, header.lap)
        }
        guard lap > 0 else {
            epoch = newEpoch
            beginSector()
            return
        }
        // A sector that was being erased leaves a gap; what is before it is older than all others.
        oldest = max(oldest, lap >= Self.sectorCount ? lap - Self.sectorCount + 1 : 1)
        var last = LoadedRun()
        for each in oldest...lap { load(each, &last) }
        // Numbers are given without gaps: what stands before one is gone because it was settled.
        seen = max(seen, last.end == highest ? last.start - 1 : highest)
        readLap = oldest
        readOffset = Self.headerByteCount
    }

    /// The last messages whose numbers follow each other.
    private struct LoadedRun {
        var start: UInt64 = 1
        var end: UInt64 = 0
    }

    private mutating func load(_ each: UInt32, _ last: inout LoadedRun) {
        let header = Self.header(of: each % Self.sectorCount)
        guard header.lap == each else { return }
        epoch = header.epoch
        highest = max(highest, header.highest)
        seen = max(seen, header.seen)
        var offset = Self.headerByteCount
        var used = offset
        while offset + Self.unit <= Flash.sectorByteCount {
            if let entry = entry(each, offset) {
                offset += Self.span(of: entry.length)
                used = offset
                if entry.length == 0 {
                    seen = max(seen, entry.number)
                } else {
                    highest = max(highest, entry.number)
                    highestIn[Int(each % Self.sectorCount)] = entry.number
                    if entry.number != last.end + 1 { last.start = entry.number }
                    last.end = entry.number
                }
            } else {
                let isBlank = Flash.isErased(Self.base(each) + offset, Self.unit)
                offset += brokenSpan(each, offset)
                if !isBlank { used = offset }
            }
        }
        end = used
    }

    /// What is passed over where no whole entry begins: one that was cut short, or a unit.
    private func brokenSpan(_ lap: UInt32, _ offset: UInt32) -> UInt32 {
        guard offset + Self.entryByteCount <= Flash.sectorByteCount else { return Self.unit }
        let span = Self.span(of: head(lap, offset).length)
        return offset + span <= Flash.sectorByteCount ? span : Self.unit
    }

    private static func base(_ lap: UInt32) -> UInt32 {
        (firstSector + lap % sectorCount) * Flash.sectorByteCount
    }

    /// A unit, where the length is none of an entry.
    private static func span(of length: UInt32) -> UInt32 {
        guard length <= UInt32(payloadMaximum) else { return unit }
        return entryByteCount + (length + unit - 1) / unit * unit
    }

    /// The header of a sector; its lap is 0 where it is none.
    private static func header(of sector: UInt32) -> Header {
        var header = Header()
        withUnsafeMutableBytes(of: &header) { Flash.read(base(sector), into: $0) }
        return header.check == check(header) ? header : Header()
    }

    private static func check(_ header: Header) -> UInt32 {
        var copy = header
        copy.check = 0
        return withUnsafeBytes(of: &copy) { Flash.check($0) }
    }

    private func head(_ lap: UInt32, _ offset: UInt32) -> Entry {
        var entry = Entry()
        withUnsafeMutableBytes(of: &entry) { Flash.read(Self.base(lap) + offset, into: $0) }
        return entry
    }

    /// A whole entry; nil where there is none.
    private func entry(_ lap: UInt32, _ offset: UInt32) -> Entry? {
        guard offset + Self.entryByteCount <= Flash.sectorByteCount else { return nil }
        let entry = head(lap, offset)
        guard entry.length <= UInt32(Self.payloadMaximum),
            offset + Self.span(of: entry.length) <= Flash.sectorByteCount
        else { return nil }
        var payload = InlineArray<64, UInt8>(repeating: 0)
        read(lap, offset, entry, into: &payload)
        return entry.check == Self.check(entry, payload) ? entry : nil
    }

    private func read(
        _ lap: UInt32, _ offset: UInt32, _ entry: Entry, into payload: inout InlineArray<64, UInt8>
    ) {
        var span = payload.mutableSpan
        span.withUnsafeMutableBytes { bytes in
            Flash.read(
                Self.base(lap) + offset + Self.entryByteCount,
                into: UnsafeMutableRawBufferPointer(rebasing: bytes[..<Int(entry.length)]))
        }
    }

    private static func check(_ entry: Entry, _ payload: InlineArray<64, UInt8>) -> UInt32 {
        var copy = entry
        copy.check = 0
        let head = withUnsafeBytes(of: &copy) { Flash.check($0) }
        return payload.span.withUnsafeBytes {
            Flash.check(
                UnsafeRawBufferPointer(rebasing: $0[..<Int(entry.length)]), continuing: head)
        }
    }

    // MARK: Writing

    /// Stores a message under the next number; false where the ring is full.
    mutating func append(_ message: UnsafeRawBufferPointer) -> Bool {
        precondition(!message.isEmpty && message.count <= Self.payloadMaximum)
        if end + Self.span(of: UInt32(message.count)) > Flash.sectorByteCount {
            // One more sector stays free for what is seen: else nothing could be settled any more.
            guard isFree(lap + 1), isFree(lap + 2) else { return false }
            beginSector()
        }
        highest += 1
        highestIn[Int(lap % Self.sectorCount)] = highest
        write(highest, message)
        return true
    }

    /// Results are seen up to this number: nothing up to it is sent again. To be called before the
    /// broker is told.
    mutating func settle(through number: UInt64) {
        guard number > seen else { return }
        seen = number
        if end + Self.entryByteCount <= Flash.sectorByteCount {
            write(number, UnsafeRawBufferPointer(start: nil, count: 0))
        } else if isFree(lap + 1) {
            // Its header says it.
            beginSector()
        }
        // Many power cuts in the middle of writes can eat up the free sector of a full ring. Then
        // the broker is told what one more may take back: else no sector would ever be free again.
    }

    private func isFree(_ lap: UInt32) -> Bool {
        highestIn[Int(lap % Self.sectorCount)] <= seen
    }

    private mutating func beginSector() {
        precondition(isFree(lap + 1), "a sector of messages that were not sent")
        lap += 1
        board_flash_erase(Self.base(lap))
        highestIn[Int(lap % Self.sectorCount)] = 0
        var header = Header(lap: lap, epoch: epoch, highest: highest, seen: seen)
        header.check = Self.check(header)
        withUnsafeBytes(of: &header) { Flash.program(Self.base(lap), $0) }
        end = Self.headerByteCount
        if readLap == 0 || readLap + Self.sectorCount <= lap {
            readLap = lap
            readOffset = end
        }
    }

    private mutating func write(_ number: UInt64, _ message: UnsafeRawBufferPointer) {
        var room = InlineArray<64, UInt8>(repeating: 0)
        for index in message.indices { room[index] = message[index] }
        var entry = Entry(length: UInt32(message.count), number: number)
        entry.check = Self.check(entry, room)
        let payload = Self.span(of: entry.length) - Self.entryByteCount
        withUnsafeBytes(of: &entry) { Flash.program(Self.base(lap) + end, $0) }
        room.span.withUnsafeBytes {
            Flash.program(
                Self.base(lap) + end + Self.entryByteCount,
                UnsafeRawBufferPointer(rebasing: $0[..<Int(payload)]))
        }
        end += Self.span(of: entry.length)
    }

    // MARK: Reading

    /// The next message that was not read since the start and has no result: its number and length.
    /// The bytes are copied into `payload`. It is read again until it is taken.
    mutating func next(into payload: inout InlineArray<64, UInt8>) -> (number: UInt64, Int)? {
        while true {
            if readOffset >= (readLap < lap ? Flash.sectorByteCount : end) {
                guard readLap < lap else { return nil }
                readLap += 1
                readOffset = Self.headerByteCount
                if Self.header(of: readLap % Self.sectorCount).lap != readLap {
                    // Nothing of this lap is left there.
                    readOffset = Flash.sectorByteCount
                }
            } else if let entry = entry(readLap, readOffset) {
                if entry.length > 0, entry.number > seen {
                    read(readLap, readOffset, entry, into: &payload)
                    return (entry.number, Int(entry.length))
                }
                readOffset += Self.span(of: entry.length)
            } else {
                readOffset += brokenSpan(readLap, readOffset)
            }
        }
    }

    /// The message that was read last is on its way.
    mutating func take(length: Int) { readOffset += Self.span(of: UInt32(length)) }
}

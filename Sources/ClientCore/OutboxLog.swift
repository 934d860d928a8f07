// The client's sends and requests that are unsent or unanswered: whole packets, encoded once, in
// the order of the calls, in memory that the caller supplied. It knows no time and no connection.
//
//     | entry | entry | entry | free                       |
//     entry:  | u32 packet bytes | u8 kind | u8 state | 2: 0 | u64 number or request id | packet |
//
// Resolved entries are removed when room is needed, at any position: one late answer does not hold
// the memory of later entries.

import WireFormat

struct OutboxLog {
    enum Kind: UInt8 {
        /// Kept until its RESULT.
        case numbered = 0
        /// Removed after its transmission, or when the connection is lost.
        case transient = 1
        /// Kept until its RESPONSE.
        case request = 2
    }

    private enum State: UInt8 {
        case waiting = 0
        case transmitted = 1
        case resolved = 2
    }

    private let memory: UnsafeMutableRawBufferPointer
    /// One past the last entry.
    private var end = 0
    /// No unresolved entry precedes this one.
    private var head = 0
    /// The entry that is transmitted next, and how many of its bytes were already.
    private var cursor = 0
    private var cursorByteCount = 0

    /// The highest number that the broker may have received.
    private(set) var highestSent: UInt64

    init(_ memory: UnsafeMutableRawBufferPointer, highestSent: UInt64) {
        self.memory = memory
        self.highestSent = highestSent
    }

    /// Whether a packet is incomplete and nothing else may be sent before its rest.
    var isWithinPacket: Bool { cursorByteCount > 0 }

    // MARK: Entries

    private func packetByteCount(_ entry: Int) -> Int {
        Int(memory.loadUnaligned(fromByteOffset: entry, as: UInt32.self))
    }
    private func kind(_ entry: Int) -> Kind { Kind(rawValue: memory[entry + 4])! }
    private func state(_ entry: Int) -> State { State(rawValue: memory[entry + 5])! }
    private func setState(_ state: State, _ entry: Int) { memory[entry + 5] = state.rawValue }
    private func number(_ entry: Int) -> UInt64 {
        memory.loadUnaligned(fromByteOffset: entry + 8, as: UInt64.self)
    }
    private func entryByteCount(_ entry: Int) -> Int {
        ClientLimits.entryHeaderByteCount + packetByteCount(entry)
    }

    /// Room for a packet of `byteCount` bytes, to be written immediately; nil if there is none.
    mutating func append(
        _ kind: Kind, number: UInt64, byteCount: Int
    ) -> UnsafeMutableRawBufferPointer? {
        let needed = ClientLimits.entryHeaderByteCount + byteCount
        if memory.count - end < needed { squeeze() }
        guard memory.count - end >= needed else { return nil }
        memory.storeBytes(of: UInt32(byteCount), toByteOffset: end, as: UInt32.self)
        memory.storeBytes(of: UInt32(kind.rawValue), toByteOffset: end + 4, as: UInt32.self)
        memory.storeBytes(of: number, toByteOffset: end + 8, as: UInt64.self)
        let packet = end + ClientLimits.entryHeaderByteCount
        end += needed
        return UnsafeMutableRawBufferPointer(rebasing: memory[packet..<end])
    }

    /// Moves unresolved entries to the front.
    private mutating func squeeze() {
        var source = 0
        var destination = 0
        var newCursor = cursor
        while source < end {
            let count = entryByteCount(source)
            let isCut = source == cursor && cursorByteCount > 0
            if source == cursor { newCursor = destination }
            if state(source) != .resolved || isCut {
                UnsafeMutableRawBufferPointer(rebasing: memory[destination..<destination + count])
                    .copyMemory(
                        from: UnsafeRawBufferPointer(rebasing: memory[source..<source + count]))
                destination += count
            }
            source += count
        }
        cursor = cursor == end ? destination : newCursor
        end = destination
        head = 0
    }

    /// Marks the entry as answered. False if no entry waits for that answer.
    mutating func resolve(_ kind: Kind, _ wanted: UInt64) -> Bool {
        var entry = head
        while entry < end {
            if self.kind(entry) == kind, number(entry) == wanted, state(entry) != .resolved {
                setState(.resolved, entry)
                advanceHead()
                return true
            }
            entry += entryByteCount(entry)
        }
        return false
    }

    private mutating func advanceHead() {
        while head < end, state(head) == .resolved { head += entryByteCount(head) }
    }

    /// The lowest number that has no result; nil if all have.
    var lowestUnresolved: UInt64? {
        var entry = head
        while entry < end {
            if kind(entry) == .numbered, state(entry) != .resolved { return number(entry) }
            entry += entryByteCount(entry)
        }
        return nil
    }

    /// Removes an entry whose packet is larger than `packetMaximum`, and returns it.
    mutating func removeOversized(_ packetMaximum: Int) -> (kind: Kind, number: UInt64)? {
        var entry = head
        while entry < end {
            if packetByteCount(entry) > packetMaximum, state(entry) != .resolved {
                setState(.resolved, entry)
                defer { advanceHead() }
                return (kind(entry), number(entry))
            }
            entry += entryByteCount(entry)
        }
        return nil
    }

    // MARK: Transmission

    /// A new connection: every unanswered packet is sent again, in order. Transient ones are lost.
    mutating func rewind() {
        var entry = head
        while entry < end {
            if state(entry) != .resolved {
                setState(kind(entry) == .transient ? .resolved : .waiting, entry)
            }
            entry += entryByteCount(entry)
        }
        cursorByteCount = 0
        squeeze()
        cursor = 0
    }

    /// Copies as much as fits of an incomplete packet; nothing if there is none.
    mutating func transmitRestOfPacket(_ buffer: UnsafeMutableRawBufferPointer) -> Int {
        isWithinPacket ? copyPart(buffer) : 0
    }

    /// Copies as much as fits, whole packets or parts, while numbers are at most `last`. Returns
    /// the number of bytes.
    mutating func transmit(
        _ buffer: UnsafeMutableRawBufferPointer, through last: UInt64
    ) -> Int {
        var written = 0
        while cursor < end, written < buffer.count {
            if !isWithinPacket {
                if state(cursor) != .waiting {
                    cursor += entryByteCount(cursor)
                    continue
                }
                if kind(cursor) == .numbered, number(cursor) > last { break }
            }
            written += copyPart(
                UnsafeMutableRawBufferPointer(rebasing: buffer[written...]))
        }
        return written
    }

    /// Copies as much as fits of the packet at the cursor, and advances if it is complete.
    private mutating func copyPart(_ buffer: UnsafeMutableRawBufferPointer) -> Int {
        if kind(cursor) == .numbered { highestSent = max(highestSent, number(cursor)) }
        let total = packetByteCount(cursor)
        let count = min(buffer.count, total - cursorByteCount)
        let start = cursor + ClientLimits.entryHeaderByteCount + cursorByteCount
        UnsafeMutableRawBufferPointer(rebasing: buffer[..<count]).copyMemory(
            from: UnsafeRawBufferPointer(rebasing: memory[start..<start + count]))
        cursorByteCount += count
        if cursorByteCount == total {
            if state(cursor) == .waiting {
                setState(kind(cursor) == .transient ? .resolved : .transmitted, cursor)
            }
            cursor += entryByteCount(cursor)
            cursorByteCount = 0
            advanceHead()
        }
        return count
    }
}

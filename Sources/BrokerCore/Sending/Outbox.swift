// The sends of a session in the order of their numbers, until their results have been sent and, in
// MRT, seen. No operation takes longer than the logarithm of their number, except that entries are
// moved by operations out of order.

import BrokerTerms

/// One send and its result, which is kept until the sender says that it has seen it.
struct OutboxEntry: BitwiseCopyable {
    var number: UInt64
    /// The stamp of the message, which identifies the send of a result; 0 after a restore.
    var stamp: UInt64
    /// For a repeat in MQTT: the number of the send that it repeats, whose result it shares.
    /// Otherwise 0.
    var original: UInt64 = 0
    var refusedCount: UInt32 = 0
    /// The packet identifier in MQTT; 0 in MRT.
    var packetIdentifier: UInt16 = 0
    var grade: Grade
    var reason = ReasonCode.sent
    /// What the reason of a refusal does not tell (MQTT).
    var cause = LimitName.none
    /// Whether `reason` is final. Before that, the commit of the send is under way.
    var isComplete = false
    /// Whether the result is sent only when the send is repeated, because its connection has ended
    /// (MRT; for MQTT see ``SenderState/interrupted``).
    var isToldOnRepeat = false
    /// Whether it is, or will be, in the store. In MRT a send of grade *once* is stored with its
    /// message, any other only when the broker stops.
    var isStored: Bool
    /// For a repeat: its own row is not committed.
    var awaitsRow = false
    /// Whether ``SenderState`` has the names of its refused receivers.
    var namesRefusals = false
    /// Whether it has a reference, which ``TrackedSends`` knows.
    var isTracked = false

    init(number: UInt64, stamp: UInt64, grade: Grade) {
        self.number = number
        self.stamp = stamp
        self.grade = grade
        isStored = grade == .once
    }
}

/// Entries in the order of their numbers, in one block of memory that is used as a ring. An empty
/// outbox has no block, because most sessions never send; its own size is one word.
struct Outbox: ~Copyable, @unchecked Sendable {
    private struct Head {
        var start = 0
        var count = 0
        /// The capacity, which is a power of two, less one.
        var mask: Int
    }

    private static let capacityMinimum = 4
    /// An empty outbox keeps its block only up to this capacity.
    private static let spareCountMaximum = 64

    /// The header, followed by the entries.
    private var block: UnsafeMutableRawPointer?

    init() {}

    deinit { block?.deallocate() }

    private static func entries(
        _ block: UnsafeMutableRawPointer
    ) -> UnsafeMutablePointer<OutboxEntry> {
        (block + MemoryLayout<Head>.stride).assumingMemoryBound(to: OutboxEntry.self)
    }

    private static func head(_ block: UnsafeMutableRawPointer) -> UnsafeMutablePointer<Head> {
        block.assumingMemoryBound(to: Head.self)
    }

    @inline(__always)
    var count: Int {
        guard let block else { return 0 }
        return Self.head(block).pointee.count
    }

    var isEmpty: Bool { count == 0 }

    @inline(__always)
    private func address(_ position: Int) -> UnsafeMutablePointer<OutboxEntry> {
        guard let block, position >= 0, position < Self.head(block).pointee.count else {
            preconditionFailure("position \(position) of an outbox of \(count)")
        }
        let head = Self.head(block)
        return Self.entries(block) + ((head.pointee.start &+ position) & head.pointee.mask)
    }

    /// The entry at `position`, counted from the lowest number.
    @inline(__always)
    subscript(position: Int) -> OutboxEntry {
        unsafeAddress { UnsafePointer(address(position)) }
        unsafeMutableAddress { address(position) }
    }

    /// The position of a number. The last one is requested most often.
    func position(of number: UInt64) -> Int? {
        let count = count
        guard count > 0 else { return nil }
        if self[count - 1].number == number { return count - 1 }
        let position = lowerBound(of: number)
        return position < count && self[position].number == number ? position : nil
    }

    /// The entries that repeat a send.
    func repeats(of number: UInt64) -> [OutboxEntry] {
        (0..<count).compactMap { self[$0].original == number ? self[$0] : nil }
    }

    /// The number of entries with lower numbers.
    private func lowerBound(of number: UInt64) -> Int {
        var low = 0
        var high = count
        while low < high {
            let middle = (low + high) / 2
            if self[middle].number < number { low = middle + 1 } else { high = middle }
        }
        return low
    }

    /// Inserts an entry in the order of the numbers: nearly always at the end.
    mutating func insert(_ entry: OutboxEntry) {
        let block = room()
        let head = Self.head(block)
        let count = head.pointee.count
        head.pointee.count = count + 1
        if count == 0 || self[count - 1].number < entry.number {
            self[count] = entry
            return
        }
        head.pointee.count = count
        let position = lowerBound(of: entry.number)
        precondition(
            self[position].number != entry.number, "number \(entry.number) is in the outbox")
        head.pointee.count = count + 1
        if position < count / 2 {
            head.pointee.start = (head.pointee.start - 1) & head.pointee.mask
            for index in 0..<position { self[index] = self[index + 1] }
        } else {
            for index in stride(from: count, to: position, by: -1) { self[index] = self[index - 1] }
        }
        self[position] = entry
    }

    /// Removes the entry at `position`. The entries on the shorter side move up.
    @discardableResult
    mutating func remove(at position: Int) -> OutboxEntry {
        let entry = self[position]
        if position < count / 2 {
            for index in stride(from: position, to: 0, by: -1) { self[index] = self[index - 1] }
            removeFirst(1)
        } else {
            for index in position..<count - 1 { self[index] = self[index + 1] }
            removeLast()
        }
        return entry
    }

    /// Removes the entries with the lowest numbers.
    mutating func removeFirst(_ removedCount: Int) {
        precondition(removedCount <= count, "\(removedCount) entries of \(count)")
        guard removedCount > 0, let block else { return }
        let head = Self.head(block)
        head.pointee.start = (head.pointee.start &+ removedCount) & head.pointee.mask
        head.pointee.count -= removedCount
        giveBackSpare(head.pointee)
    }

    private mutating func removeLast() {
        guard let block else { return }
        Self.head(block).pointee.count -= 1
        giveBackSpare(Self.head(block).pointee)
    }

    @inline(__always)
    private mutating func giveBackSpare(_ head: Head) {
        if head.count == 0 && head.mask >= Self.spareCountMaximum { removeAll() }
    }

    /// Removes all entries and releases the memory.
    mutating func removeAll() {
        block?.deallocate()
        block = nil
    }

    /// The block, with room for one more entry.
    private mutating func room() -> UnsafeMutableRawPointer {
        if let block, Self.head(block).pointee.count <= Self.head(block).pointee.mask {
            return block
        }
        let count = count
        let capacity = max(count * 2, Self.capacityMinimum)
        let grown = UnsafeMutableRawPointer.allocate(
            byteCount: MemoryLayout<Head>.stride + capacity * MemoryLayout<OutboxEntry>.stride,
            alignment: MemoryLayout<OutboxEntry>.alignment)
        (grown + MemoryLayout<Head>.stride).bindMemory(to: OutboxEntry.self, capacity: capacity)
        grown.bindMemory(to: Head.self, capacity: 1)
            .initialize(to: Head(count: count, mask: capacity - 1))
        for position in 0..<count { Self.entries(grown)[position] = self[position] }
        block?.deallocate()
        block = grown
        return grown
    }
}

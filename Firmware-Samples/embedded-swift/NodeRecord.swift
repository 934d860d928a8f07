// The node's one record: how far its inbox is processed and what its commands have done, programmed
// at once. That is what makes a command's execution happen exactly once, and not only its delivery.

import Board

/// What the node knows after a power cut.
struct NodeRecord {
    // The resume record: docs/PROTOCOL.md section 8. An epoch of 0 is none.
    var inboxEpoch: UInt64 = 0
    var inboxNumber: UInt64 = 0
    /// How often the record was written: the highest that is whole is the last.
    var sequence: UInt32 = 0
    var starts: UInt32 = 0
    // The effect of the commands: how many there were, and their sum.
    var executed: UInt32 = 0
    var sum: UInt32 = 0
    var unused: UInt32 = 0
    private var check: UInt32 = 0

    fileprivate var isWhole: Bool { check == calculated }

    fileprivate mutating func seal() { check = calculated }

    /// Over all but the check itself, which stands last.
    private var calculated: UInt32 {
        var copy = self
        return withUnsafeBytes(of: &copy) {
            Flash.check(UnsafeRawBufferPointer(rebasing: $0[..<($0.count - 4)]))
        }
    }
}

/// Two sectors that take turns: one holds the last record while the other is erased.
struct RecordStore {
    private static let firstSector: UInt32 = 1
    private static let byteCount = UInt32(MemoryLayout<NodeRecord>.size)
    private static let perSector = Flash.sectorByteCount / byteCount

    /// What was stored last.
    var record = NodeRecord()
    /// Where the next one goes, in records, counted over both sectors.
    private var place: UInt32 = 0

    init() {
        for index in 0..<2 * Self.perSector {
            var found = NodeRecord()
            withUnsafeMutableBytes(of: &found) { Flash.read(Self.offset(index), into: $0) }
            if found.isWhole, found.sequence > record.sequence {
                record = found
                place = index + 1
            }
        }
        // What a power cut left behind it is passed over.
        while place % Self.perSector != 0, !Flash.isErased(Self.offset(place), Self.byteCount) {
            place += 1
        }
    }

    mutating func store() {
        place %= 2 * Self.perSector
        if place % Self.perSector == 0 { board_flash_erase(Self.offset(place)) }
        record.sequence += 1
        record.seal()
        withUnsafeBytes(of: &record) { Flash.program(Self.offset(place), $0) }
        place += 1
    }

    private static func offset(_ place: UInt32) -> UInt32 {
        (firstSector + place / perSector) * Flash.sectorByteCount + place % perSector * byteCount
    }
}

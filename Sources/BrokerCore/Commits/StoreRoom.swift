// Room in the store for new and longer rows. Writing such a row takes a permit, and only this file
// creates permits: a request that does not check the room does not compile.
//
// It owns the last result of the store about room, and the sum admitted since. It sees the sizes of
// rows and not the rows.
//
// Invariants: the sum admitted between two results of the store does not exceed the room of the
// first, so that no commit of rows fails because the disk is full; what a full store admits besides
// does not exceed a part of its reserve.

import Primitives

/// Admits the rows of one request.
struct GrowthPermit: ~Copyable {
    fileprivate init() {}
}

/// The purpose of rows.
enum GrowthPurpose {
    /// Something that a client or an operator adds.
    case request
    /// What a client needs to log in and drain its queue, or an operator to revoke rights. A full
    /// store admits it from a limited part of the reserve.
    case upkeep
}

/// There is no room for an operator's request.
public struct NoRoom: Error, Equatable {
    /// The store, or a limit on users.
    public let limit: LimitName

    public init(limit: LimitName = .store) {
        self.limit = limit
    }
}

/// The room of the store after its last result, and the sum admitted since.
struct StoreRoom {
    /// Bytes of pages that the rows of one batch may need.
    private struct Admitted {
        /// Bytes of rows that are new or longer.
        var growthByteCount = 0
        /// Bytes of rows of a full store that replace longer ones.
        var replacedByteCount = 0
    }

    /// Whether the store has no room for sends.
    private(set) var isFull = false
    /// Whether the disk has no free space.
    private var lacksDiskSpace = false
    private(set) var usedByteCount: UInt64 = 0
    private(set) var limitByteCount: UInt64 = 0
    /// Bytes that rows may grow until the next result of the store.
    private(set) var rowRoomByteCount = Int.max
    /// Bytes that rows have grown since the store was full.
    private(set) var growthWhileFull = 0
    private var pending = Admitted()
    /// 0 while no batch is in flight.
    private var inFlight = Admitted()

    // MARK: - Results of the store

    /// Notes that the pending batch has become the in-flight one.
    mutating func handOver() {
        inFlight = pending
        pending = Admitted()
    }

    /// Takes the room from the result of the in-flight batch.
    mutating func take(_ result: borrowing StoreResult) {
        inFlight = Admitted()
        usedByteCount = result.usedBytes
        limitByteCount = result.softLimitBytes
        rowRoomByteCount = result.rowRoomByteCount
        lacksDiskSpace = result.lacksDiskSpace
        // Sends are admitted again 1/32 below the limit, so that the state does not alternate with
        // every batch.
        let resume = result.softLimitBytes - result.softLimitBytes / 32
        if result.isFull || result.refusal != nil || result.usedBytes >= result.softLimitBytes {
            isFull = true
        } else if result.usedBytes < resume {
            isFull = false
            growthWhileFull = 0
        }
    }

    /// Takes the room from the restore.
    mutating func restore(_ state: RestoredState) {
        usedByteCount = state.usedBytes
        limitByteCount = state.softLimitBytes
        isFull = state.isFull
        lacksDiskSpace = state.lacksDiskSpace
        rowRoomByteCount = state.rowRoomByteCount
    }

    /// The cause of a refusal for lack of room.
    var limit: LimitName { lacksDiskSpace ? .diskSpace : .store }

    // MARK: - Permits

    /// Whether ``admit(_:replacing:for:)`` would give a permit.
    func admits(_ byteCount: Int, replacing old: Int, for purpose: GrowthPurpose) -> Bool {
        if byteCount == 0 || fits(byteCount) { return true }
        guard byteCount <= old || purpose == .upkeep else { return false }
        // A shorter row also takes new pages before the old ones are free.
        let replaced = pending.replacedByteCount + inFlight.replacedByteCount
        return growthWhileFull + replaced + byteCount <= upkeepByteCountMaximum
    }

    /// Admits rows for which the store needs up to `byteCount` bytes of pages; nil if there is no
    /// room.
    mutating func admit(
        _ byteCount: Int, replacing old: Int, for purpose: GrowthPurpose
    ) -> GrowthPermit? {
        guard admits(byteCount, replacing: old, for: purpose) else { return nil }
        if fits(byteCount) {
            pending.growthByteCount += byteCount
        } else {
            growthWhileFull += max(0, byteCount - old)
            pending.replacedByteCount += min(byteCount, old)
        }
        return GrowthPermit()
    }

    /// Admits rows that ``admits(_:replacing:for:)`` allowed within the same event.
    mutating func admitAuthorized(_ byteCount: Int) -> GrowthPermit {
        pending.growthByteCount += byteCount
        return GrowthPermit()
    }

    /// Admits rows that replace others removed with the same batch: a session with a clean start
    /// must not be locked out of a full store.
    func admitReplacement() -> GrowthPermit { GrowthPermit() }

    /// Returns the bytes of a deleted row to the reserve.
    mutating func giveBack(_ byteCount: Int) {
        growthWhileFull = max(0, growthWhileFull - byteCount)
    }

    /// A small store, whose map may be only twice its limit, has a smaller part.
    private var upkeepByteCountMaximum: Int {
        limitByteCount == 0
            ? CoreLimits.upkeepBytesMaximum
            : min(CoreLimits.upkeepBytesMaximum, Int(clamping: limitByteCount / 8))
    }

    private func fits(_ byteCount: Int) -> Bool {
        // Admitted bytes that the last result does not contain.
        let underWay = pending.growthByteCount + inFlight.growthByteCount
        return !isFull && underWay + byteCount <= rowRoomByteCount
    }
}

extension Broker {
    /// Whether ``admitGrowth(of:replacing:for:)`` would give a permit.
    func hasRoom(
        for byteCount: Int, replacing old: Int = 0, _ purpose: GrowthPurpose = .request
    ) -> Bool {
        commits.room.admits(byteCount, replacing: old, for: purpose)
    }

    /// Admits rows for which the store needs up to `byteCount` bytes of pages; nil if there is no
    /// room. Then it also asks the store for its room.
    ///
    /// - Parameters:
    ///   - byteCount: the sum of ``RecordChange/pageByteCount(key:value:)``.
    ///   - old: the same sum for the rows that they replace.
    mutating func admitGrowth(
        of byteCount: Int, replacing old: Int = 0, for purpose: GrowthPurpose = .request
    ) -> GrowthPermit? {
        let permit = commits.room.admit(byteCount, replacing: old, for: purpose)
        // Only a commit can tell whether there is more room now. In a full store, housekeeping
        // makes one.
        if permit == nil, !commits.room.isFull, !commits.pendingBatch.isDue {
            writeIdentifierReservation()
        }
        return permit
    }
}

// Room in the store for rows that are new or get longer. To write such a row takes a permit, and
// only this file makes one: a request that does not ask for room does not compile.
//
// It owns what the store's last result said, and what has been admitted since. It knows nothing of
// the rows, only their sizes.
//
// Invariants: what is admitted between two results of the store is no more than the last one said
// there is room for, so that no commit of rows reaches a full disk; what a full store admits
// beside that stays within a part of its reserve.

import Primitives

/// Admits the rows of one request.
struct GrowthPermit: ~Copyable {
    fileprivate init() {}
}

/// What rows are written for.
enum GrowthPurpose {
    /// Something that a client or an operator wants to have from now on.
    case request
    /// What a client needs to be let in and drain its queue, or an operator to take rights back. In
    /// a full store it takes a bounded part of the reserve.
    case upkeep
}

/// There is no room in the store for what an operator asks for.
public struct NoRoom: Error, Equatable {
    public init() {}
}

/// The room of the store as of its last result, and what has been admitted since.
struct StoreRoom {
    /// Bytes of pages that the rows of one batch may need.
    private struct Admitted {
        /// For rows that are new or have grown.
        var growthByteCount = 0
        /// For rows of a full store that take the place of longer ones.
        var replacedByteCount = 0
    }

    /// Whether the store has no room for sends.
    private(set) var isFull = false
    private(set) var usedByteCount: UInt64 = 0
    private(set) var limitByteCount: UInt64 = 0
    /// Bytes by which rows may grow until the store's next result.
    private(set) var rowRoomByteCount = Int.max
    /// Bytes by which rows have grown since the store had no room.
    private var growthWhileFull = 0
    private var pending = Admitted()
    /// 0 while no batch is in flight.
    private var inFlight = Admitted()

    // MARK: - The store's word

    /// The pending batch has become the in-flight one.
    mutating func handOver() {
        inFlight = pending
        pending = Admitted()
    }

    /// The in-flight batch is committed, and its result says what room there is.
    mutating func take(_ result: borrowing StoreResult) {
        inFlight = Admitted()
        usedByteCount = result.usedBytes
        limitByteCount = result.softLimitBytes
        rowRoomByteCount = result.rowRoomByteCount
        // Sends are admitted again a little below the limit, so that it does not flap.
        let resume = result.softLimitBytes - result.softLimitBytes / 32
        if result.isFull || result.refusal != nil || result.usedBytes >= result.softLimitBytes {
            isFull = true
        } else if result.usedBytes < resume {
            isFull = false
            growthWhileFull = 0
        }
    }

    /// What the store said when it was read.
    mutating func restore(isFull: Bool, rowRoomByteCount: Int) {
        self.isFull = isFull
        self.rowRoomByteCount = rowRoomByteCount
    }

    // MARK: - Permits

    /// Whether ``admit(_:replacing:for:)`` would give a permit.
    func admits(_ byteCount: Int, replacing old: Int, for purpose: GrowthPurpose) -> Bool {
        if byteCount == 0 || fits(byteCount) { return true }
        guard byteCount <= old || purpose == .upkeep else { return false }
        // Also a shorter row takes pages before it gives the old ones back.
        let replaced = pending.replacedByteCount + inFlight.replacedByteCount
        return growthWhileFull + replaced + byteCount <= upkeepByteCountMaximum
    }

    /// Admits rows that the store needs up to so many bytes of pages for; nil where there is no
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

    /// Admits rows that ``admits(_:replacing:for:)`` was asked about within the same event.
    mutating func admitJudged(_ byteCount: Int) -> GrowthPermit {
        pending.growthByteCount += byteCount
        return GrowthPermit()
    }

    /// Admits rows in place of others that are removed with the same batch: a session that begins
    /// anew must not be locked out of a full store.
    func admitReplacement() -> GrowthPermit { GrowthPermit() }

    /// A row that took a part of the reserve is gone.
    mutating func giveBack(_ byteCount: Int) {
        growthWhileFull = max(0, growthWhileFull - byteCount)
    }

    /// In a small store, whose map may be twice its limit, no more than a part of that.
    private var upkeepByteCountMaximum: Int {
        limitByteCount == 0
            ? CoreLimits.upkeepBytesMaximum
            : min(CoreLimits.upkeepBytesMaximum, Int(clamping: limitByteCount / 8))
    }

    private func fits(_ byteCount: Int) -> Bool {
        // What was admitted and is not yet in what the store told last.
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

    /// Admits rows that the store needs up to so many bytes of pages for; nil where there is no
    /// room. Then the store is asked for its room.
    ///
    /// - Parameters:
    ///   - byteCount: the sum of ``RecordChange/pageByteCount(key:value:)``.
    ///   - old: the same of the rows that they replace.
    mutating func admitGrowth(
        of byteCount: Int, replacing old: Int = 0, for purpose: GrowthPurpose = .request
    ) -> GrowthPermit? {
        let permit = commits.room.admit(byteCount, replacing: old, for: purpose)
        // Only a commit can tell whether there is more room by now. Housekeeping asks a full store.
        if permit == nil, !commits.room.isFull, !commits.pendingBatch.isDue {
            writeIdentifierReservation()
        }
        return permit
    }
}

// Room in the store for rows that are new or get longer. Whoever writes such a row shows a permit,
// and only this file makes one: a request that forgets to ask does not compile. What is admitted
// between two results of the store is no more than the last one said there is room for, so that no
// commit of rows comes up against a full disk.

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

extension Broker {
    /// Whether ``admitGrowth(of:replacing:for:)`` would give a permit.
    func hasRoom(
        for byteCount: Int, replacing old: Int = 0, _ purpose: GrowthPurpose = .request
    ) -> Bool {
        if byteCount == 0 || fitsRoom(byteCount) { return true }
        guard byteCount <= old || purpose == .upkeep else { return false }
        // Also a shorter row takes pages before it gives the old ones back.
        let replaced =
            commits.pendingBatch.replacedByteCount
            + (commits.isCommitting ? commits.inFlightBatch.replacedByteCount : 0)
        return commits.growthWhileFull + replaced + byteCount <= upkeepBytesMaximum
    }

    /// Admits rows that the store needs up to so many bytes of pages for; nil where there is no
    /// room.
    ///
    /// - Parameters:
    ///   - byteCount: the sum of ``RecordChange/pageByteCount(key:value:)``.
    ///   - old: the same of the rows that they replace.
    mutating func admitGrowth(
        of byteCount: Int, replacing old: Int = 0, for purpose: GrowthPurpose = .request
    ) -> GrowthPermit? {
        guard hasRoom(for: byteCount, replacing: old, purpose) else {
            askForRoom()
            return nil
        }
        if fitsRoom(byteCount) {
            commits.pendingBatch.growthByteCount += byteCount
        } else {
            commits.growthWhileFull += max(0, byteCount - old)
            commits.pendingBatch.replacedByteCount += min(byteCount, old)
        }
        return GrowthPermit()
    }

    /// Admits rows that ``hasRoom(for:replacing:_:)`` was asked about within the same event.
    mutating func admitJudgedGrowth(of byteCount: Int) -> GrowthPermit {
        commits.pendingBatch.growthByteCount += byteCount
        return GrowthPermit()
    }

    /// Admits rows in place of others that are removed with the same batch: a session that begins
    /// anew must not be locked out of a full store.
    func admitReplacement() -> GrowthPermit { GrowthPermit() }

    /// A row that took a part of the reserve is gone.
    mutating func returnGrowth(of byteCount: Int) {
        commits.growthWhileFull = max(0, commits.growthWhileFull - byteCount)
    }

    /// In a small store, whose map may be twice its limit, no more than a part of that.
    private var upkeepBytesMaximum: Int {
        commits.storeLimitBytes == 0
            ? CoreLimits.upkeepBytesMaximum
            : min(CoreLimits.upkeepBytesMaximum, Int(clamping: commits.storeLimitBytes / 8))
    }

    private func fitsRoom(_ byteCount: Int) -> Bool {
        // What was admitted and is not yet in what the store told last.
        let underWay =
            commits.pendingBatch.growthByteCount
            + (commits.isCommitting ? commits.inFlightBatch.growthByteCount : 0)
        return !commits.isStoreFull && underWay + byteCount <= commits.rowRoomByteCount
    }

    /// Only a commit can tell whether there is more room by now. Housekeeping asks a full store.
    private mutating func askForRoom() {
        guard !commits.isStoreFull, !commits.pendingBatch.isDue else { return }
        writeIdentifierReservation()
    }
}

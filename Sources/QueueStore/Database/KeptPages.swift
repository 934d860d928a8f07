// Memory that LMDB keeps. A write transaction allocates a block for each page that it changes. LMDB
// reuses the blocks for later transactions and frees them only when the environment is closed.

import Primitives

/// An estimate of the blocks that LMDB keeps.
struct KeptPages {
    /// Pages of 4 KiB from which closing and opening the environment is worth its cost (8 MiB).
    static let countMinimum = 2_048
    /// The age of the last transaction that needed as many, from which they count as unused.
    static let unusedMilliseconds: UInt64 = 3_000

    private var lastNeeded: Instant?

    /// Records a transaction that changes at most `countMaximum` scattered pages.
    mutating func note(countMaximum: Int, at moment: Moment) {
        if countMaximum >= Self.countMinimum { lastNeeded = moment.instant }
    }

    /// The blocks cannot be released now.
    mutating func postpone(at now: Instant) { lastNeeded = now }

    /// Whether many blocks are kept and no transaction has needed them for a while.
    func areUnused(at now: Instant) -> Bool {
        guard let lastNeeded else { return false }
        return now >= lastNeeded.advanced(byMilliseconds: Self.unusedMilliseconds)
    }
}

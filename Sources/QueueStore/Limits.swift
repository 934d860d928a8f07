// The limits of the store, each with its reason.

/// Limits that an operator cannot set.
enum StoreLimits {
    /// Entries of deleted queues that one transaction removes while every other commit waits: 2 ms
    /// of work on the machine of docs/PERFORMANCE.md, for any length of the queue.
    static let deletedEntryMaximum = 4_096

    /// The step in which disk space is claimed: one call of fallocate for several hundred thousand
    /// small messages.
    static let claimStepByteCount = 16 << 20
    /// The smallest step, for a disk that is nearly full.
    static let claimStepByteCountMinimum = 1 << 20

    /// Space that sends and growing rows must leave claimed, for operations that free space:
    /// copy-on-write needs new pages before it frees the old ones. It covers 4,096 deletes that
    /// each change a page of their own, twice, because LMDB reuses a page two transactions after it
    /// was freed; and the rows that the core may add to a full store so that clients can log in and
    /// drain it (8 MiB).
    static let reserveByteCount = 40 << 20

    /// Free space that a copy leaves on the disk: as much as a store claims at once for its rows.
    static let copyReserveByteCount = 64 << 20

    /// Space beyond the reserve that is claimed for rows before the core accepts them, if the disk
    /// has it: 100,000 sessions with a subscription each, in two commits. The core refuses further
    /// growth between two results.
    static let rowRoomByteCountMaximum = 64 << 20

    /// A result is told before its commit only if at least this is left of that space after the
    /// most that the commit may use: a quarter of the maximum, because the core admits growth up to
    /// it until the next result.
    static let earlyRowRoomByteCountMinimum = rowRoomByteCountMaximum / 4
}

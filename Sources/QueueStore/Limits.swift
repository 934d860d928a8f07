// The bounds of the store, each with its reason.

/// Bounds that are not the operator's to set.
enum StoreLimits {
    /// Entries of deleted queues that one transaction removes, while every other commit waits: 2 ms
    /// of work on the machine of docs/PERFORMANCE.md, whatever the length a queue was allowed.
    static let deletedEntryMaximum = 4_096

    /// The smallest step in which disk space is claimed: one call to fallocate for some
    /// hundred thousand small messages.
    static let claimStepByteCount = 16 << 20
    /// The smallest that is worth a call where the disk is nearly full.
    static let claimStepByteCountMinimum = 1 << 20

    /// Space that sends and growing rows must leave claimed, for acknowledgements and drains:
    /// copy-on-write needs new pages before it gives the old ones back. It covers 4,096 deletes
    /// that each dirty a page of their own, twice, as LMDB reuses a page two transactions after it
    /// was freed; and what the core may add to a full store to let clients in that drain it
    /// (8 MiB).
    static let reserveByteCount = 40 << 20

    /// Space beyond the reserve that is claimed for rows before the core admits them, where the
    /// disk has it: 100,000 sessions with a subscription each, in two commits. The core refuses
    /// what goes beyond between two results.
    static let rowRoomByteCountMaximum = 64 << 20
}

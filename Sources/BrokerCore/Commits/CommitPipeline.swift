// The way to the store. One batch is pending: the core adds to it and may still take entries out.
// One batch at most is in flight: the writer commits it, and its result confirms what waits for it.
// The store's room is known from its last result.

import Primitives

/// The batches, and what the core knows of the store's room.
struct CommitPipeline: ~Copyable {
    var pendingBatch = PendingBatch()
    var inFlightBatch = PendingBatch()
    /// Whether a batch is in flight.
    var isCommitting = false
    /// Whether a batch that was full has been handed over, so that what waited for it may go on.
    var mayResume = false
    /// The number of the last batch that was begun.
    var batchSequence: UInt64 = 1
    /// Requests whose answers wait for a commit.
    var openRequests: Set<RequestName> = []
    /// Identifiers of QoS 2 of ended sessions, whose rows are still to be deleted.
    var doomedSends: [(session: UInt64, identifiers: PacketIdentifiers)] = []

    /// Connected sessions whose deliveries waited for a commit that has ended, in order.
    var waitingDeliveries = Ring<Handle<ConnectedSession>>()
    /// Whether these are among the deadlines.
    var areDeliveriesDue = false

    /// Set while the store has no room for sends.
    var isStoreFull = false
    /// Bytes by which rows may grow until the store's next result.
    var rowRoomByteCount = Int.max
    /// Bytes by which rows have grown since the store had no room.
    var growthWhileFull = 0
    /// As of the last commit, for the statistics.
    var storeUsedBytes: UInt64 = 0
    var storeLimitBytes: UInt64 = 0

    init() {
        pendingBatch.sequence = 1
    }
}

// The limits of a node, each with its reason.

/// Times and sizes of a node of a cluster.
enum ClusterLimits {
    /// Bytes of memory of one event loop's effects that wait for the lease or for a confirmation,
    /// above which no loop reads any more: the log may be unreachable for seconds or for a day.
    static let gatedByteCountMaximum = 16 << 20
    /// Turns whose effects wait in the memory in which they were written, which is kept for reuse:
    /// an append lasts for a few turns. Those of later turns are copied.
    static let spareEffectsMaximum = 4
    /// Bytes of the objects around the effects of a turn: an entry and four allocations.
    static let gatedEntryByteCount = 256
    /// Milliseconds that a stopping event loop waits for the confirmation of its last results. An
    /// append takes a few; whoever gets no result sends again.
    static let lastConfirmationMilliseconds: Int32 = 500
    /// Milliseconds between two reports of a node.
    static let reportMilliseconds: UInt64 = 1_000
    /// Milliseconds after which a report tells nothing any more.
    static let reportAgeMilliseconds: UInt64 = 10_000
    /// Nodes whose reports are kept: more than a cluster has.
    static let nodesMaximum = 64
    /// Milliseconds between two looks at the size of the log.
    static let logLookMilliseconds: UInt64 = 5_000
    /// Bytes at the end of the log that are kept for other records than sends, or a quarter of a
    /// smaller log: two records of the largest size, and heartbeats of two standbys that are away
    /// for half a day.
    static let logReserveByteCount: UInt64 = 16 << 20
    /// Bytes that the log adds to a record, about: a subject, a header and its own fields.
    static let recordOverheadByteCount = 128
    /// Milliseconds that the clocks of two nodes may differ without a warning. A takeover adds the
    /// difference to the broker's time.
    static let clockDifferenceMilliseconds: UInt64 = 5_000
    /// Milliseconds between two looks of a thread that waits for a commit at the metrics which
    /// somebody waits for.
    static let meanwhileMilliseconds: Int32 = 250
    /// Milliseconds between two attempts to open the log, and between two lines about them.
    static let openingMilliseconds: Int32 = 1_000
    static let openingLogMilliseconds: UInt64 = 60_000
    /// Milliseconds that the founding of a cluster waits for servers without a leader: they elect
    /// one within about five seconds of the start of the last one.
    static let foundingMilliseconds: UInt64 = 20_000
    /// Milliseconds that the hand-over of one shard waits for its last results and for its clients:
    /// an append takes a few. After that it goes on as after a crash.
    static let leaveMilliseconds: UInt64 = 5_000
    /// Milliseconds that a node which gives its place up waits for its last append.
    static let resignMilliseconds: UInt64 = 2_000
    /// Milliseconds without a lease after which a primary that is told to stop ends like one that
    /// is killed: what waits for its log would wait for ever, and nobody was told of it.
    static let cutOffMilliseconds: UInt64 = 5_000
    /// Bytes of changes in one batch of the core. Its record has to fit into that of the log.
    static let batchByteCountMaximum = 4 << 20
    /// Records that a standby applies in one commit: of small ones, so many cost little more than
    /// one. A commit of larger ones ends behind the record with which they have so many bytes.
    static let appliedRecordMaximum = 256
    static let appliedByteCountMaximum = 8 << 20
    /// Milliseconds that a standby collects records for one commit: each costs two syncs of the
    /// disk that the servers may share. A takeover waits for longer anyway.
    static let applyMilliseconds: UInt64 = 50
    /// Milliseconds until the store gets the position behind records without rows, such as
    /// heartbeats: a commit for each would sync thousands of times a second.
    static let positionMilliseconds: UInt64 = 1_000
    /// Records that the best standby may lack when an operator asks the primary to step down: it
    /// applies them in less than a second.
    static let stepDownLagMaximum: UInt64 = 1_000
    /// Milliseconds that a node which needs a copy listens for others: they report each second.
    static let copyListenMilliseconds: UInt64 = 2_500
    /// Questions without an answer until another node is asked.
    static let copyTriesMaximum = 5
    /// Milliseconds between two questions whether a copy is ready.
    static let copyPendingMilliseconds: Int32 = 200
    /// Milliseconds before a node is asked again whose copy has failed, doubled with each further
    /// failure up to the maximum: a disk that is full stays so until somebody comes.
    static let copyWaitMilliseconds: UInt64 = 2_000
    static let copyWaitMillisecondsMaximum: UInt64 = 60_000
    /// Milliseconds without a question after which a copy is forgotten and its space is free: more
    /// than the tries of one question.
    static let copyIdleMilliseconds: UInt64 = 60_000
    /// Concurrent connections of `martlet cluster`.
    static let administratorsMaximum = 16
    /// Bytes of a request's head to a standby.
    static let requestByteCountMaximum = 8_192
}

// The options for opening a store: the operator's choices, with their defaults and reasons.

/// Options of ``LMDBQueueStore``.
public struct StoreOptions: Hashable, Sendable {
    /// Address space for the store, in bytes, rounded up to whole pages. It uses neither memory nor
    /// disk, but LMDB cannot exceed it without stopping, so it is large from the start. 128 GiB
    /// fits into the 512 GiB of a 39-bit ARM kernel, the smallest of the 64-bit address spaces in
    /// use. At least twice the soft limit, so that sends leave room for deletes.
    public var mapByteCount: Int
    /// Bytes in use above which sends are refused, while acknowledgements, deliveries and changes
    /// of state continue. Sends are also refused when another process holds an old snapshot and the
    /// file has grown to halfway between this limit and the end of the map.
    public var softLimitByteCount: Int
    /// Whether opening checks the form of every page. LMDB trusts its pages: it would follow a
    /// damaged one out of the file and crash. The check reads the whole file once.
    public var checksPages: Bool

    public init(
        mapByteCount: Int = 128 << 30, softLimitByteCount: Int = 32 << 30, checksPages: Bool = true
    ) {
        precondition(
            softLimitByteCount > 0 && mapByteCount / 2 >= softLimitByteCount,
            "the map of \(mapByteCount) bytes is less than twice the limit \(softLimitByteCount)")
        self.mapByteCount = mapByteCount
        self.softLimitByteCount = softLimitByteCount
        self.checksPages = checksPages
    }
}

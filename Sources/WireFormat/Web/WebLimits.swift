// The limits of HTTP and WebSocket, each with the reason for its number. They are constants of the
// codec and not settings: clients of a broker need far less than each.

/// Limits of requests and frames.
public enum WebLimits {
    /// Maximum bytes of a request's head, including the empty line at its end. Browsers send 500 to
    /// 2,000; cookies or a long bearer token can add as many. Apache and nginx accept 8 KiB per
    /// line.
    public static let headByteCountMaximum = 8_192
    /// Maximum number of fields of a request's head. Browsers send fewer than 25, and proxies add
    /// some.
    public static let fieldCountMaximum = 64
    /// Maximum bytes of a request's content: a request for 900 tokens whose users have ids of 64
    /// bytes. The content is in memory until it is complete.
    public static let contentByteCountMaximum = 65_536
    /// Maximum bytes of a line of chunked content: a length of eight digits, and extensions.
    public static let chunkLineByteCountMaximum = 256
    /// Maximum bytes of all extensions of chunks and of the trailer, which are ignored. Clients
    /// send none.
    public static let chunkOverheadMaximum = 1_024
    /// Maximum bytes of a control frame's payload (RFC 6455, 5.5).
    public static let controlByteCountMaximum = 125
    /// Bytes of the longest header of a frame to a client, which has no mask.
    public static let serverHeaderByteCountMaximum = 10
    /// Maximum number of frames without data, control frames or empty ones, that are decoded at
    /// once. Clients ping every few seconds, and the header of an empty frame has 6 bytes: one read
    /// of 64 KiB could contain 10,900.
    public static let emptyFrameCountMaximum = 256
    /// Maximum number of requests of a connection that are answered in one turn of its event loop.
    /// A request costs a microsecond: the requests of 1,000 connections cost less than a turn may.
    public static let requestsPerTurnMaximum = 16

    /// Event streams that a turn opens. A request for one costs up to a hundred times as much as
    /// one for health, because of its filters; the others wait for the next turn, in their order.
    public static let streamsPerTurnMaximum = 16

    /// Filters that a turn subscribes to for event streams whose login was accepted, or those of
    /// one stream. Many are accepted at once, because logins share a commit.
    public static let streamFiltersPerTurnMaximum = 1_024
    /// Maximum bytes of pongs that wait for a client to read: 30 of the longest. The client needs
    /// the last one only (RFC 6455, 5.5.3).
    public static let waitingPongByteCountMaximum = 4_096
    /// Maximum bytes of an `Idempotency-Key`. A UUID has 36; the broker keeps a digest of it.
    public static let idempotencyKeyByteCountMaximum = 128
    /// Bytes of `Sec-WebSocket-Key`: 16 bytes in base64 (RFC 6455, 4.1).
    public static let keyByteCount = 24
}

// The limits of HTTP and WebSocket, each with the reason for its number. They are part of the codec
// and no setting: a client of a broker needs far less than any of them.

/// Limits of requests and frames.
public enum WebLimits {
    /// Bytes of a request's head, its last empty line included. Browsers send 500 to 2,000, and
    /// cookies or a long bearer token may add as many; Apache and nginx accept 8 KiB a line.
    public static let headByteCountMaximum = 8_192
    /// Fields of a request's head. Browsers send fewer than 25, and proxies add some.
    public static let fieldCountMaximum = 64
    /// Bytes of a request's content: a request for 900 tokens whose users have ids of 64 bytes. It
    /// is held in memory until it is complete.
    public static let contentByteCountMaximum = 65_536
    /// A line of chunked content: a length of eight digits, and what may follow it.
    public static let chunkLineByteCountMaximum = 256
    /// Bytes of all extensions of chunks and of the trailer, which are read and mean nothing here.
    /// Clients send none.
    public static let chunkOverheadMaximum = 1_024
    /// The payload of a control frame (RFC 6455, 5.5).
    public static let controlByteCountMaximum = 125
    /// The longest header of a frame from a client: two bytes, eight of length, four of mask.
    public static let clientHeaderByteCountMaximum = 14
    /// The longest header of a frame to a client, which has no mask.
    public static let serverHeaderByteCountMaximum = 10
    /// `Sec-WebSocket-Key`: 16 bytes in base64 (RFC 6455, 4.1).
    public static let keyByteCount = 24
    /// `Sec-WebSocket-Accept`: a SHA-1 digest in base64.
    public static let acceptByteCount = 28
}

// What a JSON message, a delivery and an event stream may be.

/// Limits of the JSON form.
public enum JSONLimits {
    /// Maximum frames of one message. Browsers divide a message of 256 KiB into fewer than ten.
    public static let fragmentCountMaximum = 64
    /// Bytes of the lengths of a message's frames, which the size of a packet includes.
    public static let framingByteCountMaximum = fragmentCountMaximum * FramedText.headerByteCount
    /// Maximum bytes of a delivery: less than waits for any connection
    /// (`TransportLimits.outgoingHardMaximum`). A larger one is dropped as a packet that a client
    /// cannot take.
    public static let deliveryByteCountMaximum = 6 << 20
    /// Bytes of attributes, with a byte of length for each text, that a packet may have to be
    /// refused alone: with the longest mentions they fit into the fields of a send.
    static let attributesByteCountMaximum = 900
    /// The window of a client that does not name one: what fits into a second of a slow network.
    public static let windowDefault: UInt16 = 256
    /// Milliseconds between two comments on an event stream: proxies end responses that are silent
    /// for 60 s.
    public static let heartbeatMilliseconds: UInt64 = 15_000
    /// Milliseconds that a client waits before it reads on when its window is full or the network
    /// failed.
    public static let retryMilliseconds: UInt64 = 200
}

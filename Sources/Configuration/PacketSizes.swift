// The sizes that packets and payloads may be set to, for the table of settings and for the import
// of other brokers' settings.

/// Bytes of packets and of their payloads.
public enum PacketSizes {
    /// The longest packet of MQTT [MQTT-5 1.5.5: 268,435,455, and a header of 5].
    public static let packetMaximum = 268_435_460
    /// The longest payload: a packet of ``packetMaximum`` has room for ``overhead`` beside it.
    public static let payloadMaximum = 268_000_000
    /// What a packet has room for beside its payload: the longest topic [65,535] and the fields.
    public static let overhead = 66_000
    /// `limits.packetMaximum` unless it is set: 512 KiB bound what an incomplete packet takes.
    public static let packetStandard = 524_288
}

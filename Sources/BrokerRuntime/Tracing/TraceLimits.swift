// The limits of traces. A trace is for a person who reads: it keeps what can be read, and nothing
// of it may slow the broker down or use its memory up.

enum TraceLimits {
    /// Traces at a time: several operators, and several users each.
    static let countMaximum = 8
    /// Packets that a trace keeps: half a second, the interval at which its reader asks, of
    /// ``packetsPerSecondMaximum``.
    static let packetCountMaximum = 1_024
    /// Bytes that a trace keeps, so that all traces use at most 8 MiB.
    static let byteCountMaximum = 1 << 20
    /// What a packet counts besides its texts: the size of the record.
    static let packetOverheadByteCount = 512
    /// Packets of a trace that an event loop decodes in a second. The others are only counted:
    /// decoding takes microseconds, and the reader could not read more.
    static let packetsPerSecondMaximum = 2_048
    /// Bytes of a text such as a topic that are shown, as in the log.
    static let textByteCountMaximum = 256
    /// Bytes of a payload that are shown.
    static let payloadByteCountMaximum = 256
    /// Bytes of a JSON message of the broker that is read for its members; of a longer one only the
    /// size is shown, because reading takes about ten nanoseconds for a byte.
    static let messageByteCountMaximum = 8_192
    /// Filters of a packet that are shown.
    static let listCountMaximum = 16
    /// Connections that the traces of an event loop follow: all devices of a user, and a client
    /// that connects again and again.
    static let connectionCountMaximum = 64
    /// Logins that an event loop keeps until it is known whose they are, and packets of each.
    static let undecidedCountMaximum = 256
    static let undecidedPacketCountMaximum = 8
    /// Open requests of a connection whose operation is shown with the answer.
    static let requestCountMaximum = 64
    /// Seconds after which a trace ends that nobody reads.
    static let silenceSecondsMaximum: UInt64 = 30
    /// Packets and bytes in an answer. In JSON a byte may become six, and an answer has 4 MiB.
    static let packetsPerAnswer = 256
    static let bytesPerAnswer = 256 << 10
}

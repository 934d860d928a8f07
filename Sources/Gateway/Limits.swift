// The limits of a gateway, each with the reason for its number. The broker has its own limits of
// packets, windows and channels; these keep one line from affecting the others.

/// Limits of a gateway.
public enum GatewayLimits {
    /// Lines of one gateway. The broker allows 1,024 channels on a connection (PROTOCOL.md section
    /// 7). Each line may hold a stale one, and 24 remain for devices that reconnect.
    public static let linesMaximum = 1_000
    /// Lines of one gateway, with those that were removed and whose channels the broker has not
    /// ended yet: a reload may replace all of them.
    static let linesWithRemovedMaximum = 2 * linesMaximum
    /// Requests of signals that wait for a turn. Each names all lines, so the last ones are enough.
    static let requestsMaximum = 16
    /// Channels open at the broker at a time, including those without a device.
    static let channelsMaximum = 1_024
    /// Channels without a device that one line may hold: its stale connection, and one that the
    /// broker has been told to end.
    static let formerChannelsMaximum = 2

    /// Size of the gateway's own will: the default maximum of a message to a user.
    static let willTextMaximum = 1_024

    /// Bytes of a line that wait for their turn. A line with more is not read: further bytes wait
    /// in the kernel and slow the device down. Two seconds at 19,200 baud.
    static let lineInputMaximum = 4 * 1024
    /// Bytes of whole frames that wait for CONNACK or for a free channel. A device may send without
    /// waiting for CONNACK.
    static let pendingMaximum = 8 * 1024
    /// Size of a device's largest packet, and of the gateway's largest from the broker. A device is
    /// told the smaller of this and the broker's own limit.
    static let devicePacketMaximum = 128 * 1024

    /// Bytes waiting for the broker above which no line has a turn. A megabit line sends this in
    /// half a second, which is the longest that a device waits for others.
    static let uplinkBacklogMaximum = 64 * 1024
    /// Frames, or packets of a frame, in one turn: about a millisecond. The broker's bytes are read
    /// between two turns.
    static let stepsPerTurnMaximum = 1_024

    /// Bytes that wait for a line, in frames: four packets of the largest size, which is the inbox
    /// window of a channel. Transient deliveries beyond it are dropped, and a connection that would
    /// need more is closed.
    static let lineBacklogMaximum = 640 * 1024
    /// Bytes that wait for all lines. Above it, each line may hold only the next number.
    static let backlogTotalMaximum = 64 * 1024 * 1024
    static let lineBacklogShare = 64 * 1024
    /// Bytes in a line's socket above which it gets no more: a frame or two keep the line busy.
    static let lineChunkMaximum = 16 * 1024

    /// Log lines about one line in one period. A line with noise has several events a second.
    static let logLinesMaximum = 10
    static let logPeriodMilliseconds: UInt64 = 60_000
    /// The time between two log lines about bytes of one line that are no frame: a line with a
    /// wrong baud rate has them all the time.
    static let noisePeriodMilliseconds: UInt64 = 60_000
}

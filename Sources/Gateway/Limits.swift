// The limits of a gateway, each with the reason for its number. What the broker limits (packets,
// windows, channels of a connection) is its own matter; here is what keeps one line from costing
// the others.

/// Limits of a gateway.
public enum GatewayLimits {
    /// Lines of one gateway. The broker lets a connection carry 1,024 channels (PROTOCOL.md section
    /// 7). Each line may hold a half-open one, and 24 are left for devices that come back.
    public static let linesMaximum = 1_000
    /// Channels open at the broker at a time, those without a device included.
    static let channelsMaximum = 1_024
    /// Channels without a device that one line may leave behind: its half-open connection, and one
    /// that the broker has been told to end.
    static let formerChannelsMaximum = 2

    /// Bytes of the gateway's own will: what a message to a user has at most in an app of the
    /// standard kind.
    static let willTextMaximum = 1_024

    /// Bytes of a line that wait to be looked at. A line with more is not read: what a device sends
    /// then waits in the kernel and holds the device back. Two seconds at 19,200 baud.
    static let lineInputMaximum = 4 * 1024
    /// Bytes of whole frames that wait for CONNACK or for a free channel. A device may send on
    /// without waiting for CONNACK.
    static let pendingMaximum = 8 * 1024
    /// Bytes of a device's largest packet: what the gateway takes from the broker, too. A device is
    /// told the smaller of this and the broker's own limit.
    static let devicePacketMaximum = 128 * 1024

    /// Bytes that wait for the broker, behind which no line is looked at. A megabit line sends
    /// this in half a second, which is what a device waits for others at worst.
    static let uplinkBacklogMaximum = 64 * 1024
    /// Frames, or packets of a frame, that one turn looks at: about a millisecond. The broker's
    /// bytes are read between two turns.
    static let stepsPerTurnMaximum = 1_024

    /// Bytes that wait for a line, in frames: four packets of the largest size, which is the inbox
    /// window of a channel. Transient deliveries beyond it are dropped, and a connection that would
    /// need more is ended.
    static let lineBacklogMaximum = 640 * 1024
    /// Bytes that wait for all lines. Where they hold more, each may hold only the next number.
    static let backlogTotalMaximum = 64 * 1024 * 1024
    static let lineBacklogShare = 64 * 1024
    /// Bytes that a line's socket holds before it is given more: a frame or two keep it busy.
    static let lineChunkMaximum = 16 * 1024

    /// Log lines about one line in one period. A line with noise has several events a second.
    static let logLinesMaximum = 10
    static let logPeriodMilliseconds: UInt64 = 60_000
}

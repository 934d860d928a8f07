// One line of a gateway: the state of its connection and of its device, and the channels at the
// broker that belong, or belonged, to the device.

import BrokerTerms
import MartletClient
import NetTransport
import Primitives

/// The state of one line.
struct Line {
    /// The time between two attempts to open it doubles until bytes are received.
    static let redialMillisecondsMinimum: UInt64 = 500
    /// The longest time until a device that is plugged in is detected.
    static let redialMillisecondsMaximum: UInt64 = 8_000

    enum Connection: Equatable {
        /// It is opened when its time comes.
        case closed
        case opening
        case open
    }

    /// A channel that no device uses any more.
    struct FormerChannel: Equatable {
        enum State {
            /// Its CONNECT has no answer yet; before CONNACK nothing may be sent on it.
            case abandoned
            /// The broker considers it connected. The device may reconnect soon and replace it,
            /// like a stale connection of its own.
            case ghost
            /// The broker has been told that the device is lost, and must still answer.
            case ending
        }

        let channel: UInt32
        var state: State
    }

    let settings: LineSettings
    let identity: LineIdentity
    /// It is no line of the gateway any more; its place is used again when its channels have ended.
    var isRemoved = false
    var connection = Connection.closed
    /// Whether the log has a line that it cannot be opened.
    var isReported = false
    /// The time of the next attempt to open it.
    var redialAt = Instant(milliseconds: 0)
    var redialMilliseconds = Line.redialMillisecondsMinimum
    var link = SerialLink()
    var conversation = NodeConversation()
    /// The device's channel; nil before the device's CONNECT.
    var channel: UInt32?
    /// At most ``GatewayLimits/formerChannelsMaximum``, and at most one of them stale.
    var formers: [FormerChannel] = []
    /// Silence after which the device is lost; 0 for no limit.
    var silenceMillisecondsMaximum: UInt64 = 0
    var lastHeard = Instant(milliseconds: 0)
    /// It is not read, because too many of its bytes wait.
    var isPaused = false
    /// It is in the gateway's queue of lines with input.
    var isReady = false
    /// Its part of the gateway's sum of backlogs.
    var backlogNoted = 0
    /// It is in the gateway's list of lines with outgoing bytes.
    var isSpeaking = false
    var log = LogLimiter()
    /// Bytes without a frame that no log line has counted.
    var noiseByteCount = 0
    /// Before this time no log line counts them.
    var noiseReportAt = Instant(milliseconds: 0)
    /// The reason of the broker's last refusal of a login, which the log has; nil after a login.
    var refusal: ReasonCode?

    init(_ settings: LineSettings) {
        self.settings = settings
        identity = LineIdentity(
            user: Array(settings.user.utf8), device: Array(settings.device.utf8))
    }

    /// It has ended, or could not be opened.
    mutating func closed(now: Instant) {
        connection = .closed
        isPaused = false
        link.reset()
        redialAt = now.advanced(byMilliseconds: redialMilliseconds)
        redialMilliseconds = min(redialMilliseconds * 2, Self.redialMillisecondsMaximum)
    }

    /// Bytes arrived: the line works, and the device is alive.
    mutating func heard(now: Instant) {
        lastHeard = now
        redialMilliseconds = Self.redialMillisecondsMinimum
    }

    /// Whether its place can be another line's.
    var isVacant: Bool {
        isRemoved && channel == nil && formers.isEmpty && !isReady && !isSpeaking
    }

    /// Whether its device has a connection to the broker.
    var isDeviceConnected: Bool { channel != nil && conversation.phase == .open }

    /// Whether the device's CONNECT must wait for the broker's answer to an earlier one. This
    /// bounds the channels of a device that reconnects as fast as it can.
    var isConnectHeld: Bool {
        formers.count >= GatewayLimits.formerChannelsMaximum
            || formers.contains { $0.state == .abandoned }
    }

    /// When the device is lost if no bytes arrive. A line that is not read cannot receive any.
    var silenceDeadline: Instant {
        let isAttached = channel != nil && conversation.phase == .open
        let isAwaited = isAttached || formers.contains { $0.state == .ghost }
        guard isAwaited, !isPaused, silenceMillisecondsMaximum > 0 else { return .never }
        return lastHeard.advanced(byMilliseconds: silenceMillisecondsMaximum)
    }

    /// When there is work without input.
    var nextDeadline: Instant {
        switch connection {
        case .closed: isRemoved ? .never : redialAt
        case .opening: .never
        case .open: silenceDeadline
        }
    }
}

// One line of a gateway: how far its connection is, what its device is doing, and the channels at
// the broker that are, or were, the device's.

import MartletClient
import NetTransport
import Primitives

/// What is known of one line.
struct Line {
    /// Between two attempts to open it: twice as long each time, until something is heard.
    static let redialMillisecondsMinimum: UInt64 = 500
    /// A device that is plugged in is found within these.
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
            /// The broker believes in it. The device may be back in a moment and replace it, as it
            /// would a half-open connection of its own.
            case ghost
            /// The broker has been told that the device is lost, and has the last word.
            case ending
        }

        let channel: UInt32
        var state: State
    }

    let settings: LineSettings
    let identity: LineIdentity
    var connection = Connection.closed
    /// Whether the log has been told that it cannot be opened.
    var isReported = false
    /// When opening it is tried again.
    var redialAt = Instant(milliseconds: 0)
    var redialMilliseconds = Line.redialMillisecondsMinimum
    var link = SerialLink()
    var conversation = NodeConversation()
    /// The channel of the conversation; nil before the device's CONNECT.
    var channel: UInt32?
    /// At most ``GatewayLimits/formerChannelsMaximum``, and one ghost among them.
    var formers: [FormerChannel] = []
    /// Silence after which the device is lost; 0 for any.
    var silenceMillisecondsMaximum: UInt64 = 0
    var lastHeard = Instant(milliseconds: 0)
    /// It is not read, because too much of it waits already.
    var isPaused = false
    /// It stands in the gateway's queue of lines that have something to look at.
    var isReady = false
    /// What the gateway's sum of backlogs holds of this line.
    var backlogNoted = 0
    /// It stands in the gateway's list of lines that have something to be written.
    var isSpeaking = false
    var log = LogLimiter()

    init(_ settings: LineSettings) {
        self.settings = settings
        identity = LineIdentity(
            user: Array(settings.user.utf8), device: Array(settings.device.utf8))
    }

    /// It is gone, or could not be opened.
    mutating func closed(now: Instant) {
        connection = .closed
        isPaused = false
        link.reset()
        redialAt = now.advanced(byMilliseconds: redialMilliseconds)
        redialMilliseconds = min(redialMilliseconds * 2, Self.redialMillisecondsMaximum)
    }

    /// Bytes arrived: it works, and the device lives.
    mutating func heard(now: Instant) {
        lastHeard = now
        redialMilliseconds = Self.redialMillisecondsMinimum
    }

    /// Whether the device's CONNECT has to wait for the broker's word on an earlier one. That
    /// bounds the channels of a device that begins anew as fast as it can.
    var isConnectHeld: Bool {
        formers.count >= GatewayLimits.formerChannelsMaximum
            || formers.contains { $0.state == .abandoned }
    }

    /// When the device is lost if nothing is heard of it. Of a line that is not read nothing can be
    /// heard.
    var silenceDeadline: Instant {
        let isAttached = channel != nil && conversation.phase == .open
        let isAwaited = isAttached || formers.contains { $0.state == .ghost }
        guard isAwaited, !isPaused, silenceMillisecondsMaximum > 0 else { return .never }
        return lastHeard.advanced(byMilliseconds: silenceMillisecondsMaximum)
    }

    /// When there is something to do without anything being heard.
    var nextDeadline: Instant {
        switch connection {
        case .closed: redialAt
        case .opening: .never
        case .open: silenceDeadline
        }
    }
}
